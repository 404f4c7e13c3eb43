//! The tick experiment from its settings to its findings, without and with a source tree. What was
//! measured is not looked at, only that it was.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use evenkeel_bench::children::Children;
use evenkeel_bench::tick::{Findings, Options, Place, run, source_tree};

/// Builds the probe, unoptimised, as cargo built this test; returns the program.
fn probe() -> &'static Path {
    static PROBE: OnceLock<PathBuf> = OnceLock::new();
    PROBE.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("probe");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        cargo.args([
            "build",
            "--quiet",
            "--example",
            "tick",
            "--no-default-features",
        ]);
        cargo.args([
            "--features",
            "static-keys,realtime,bandwidth",
            "--target-dir",
        ]);
        let status = cargo.arg(&target).status().expect("cargo starts");
        assert!(status.success(), "{status}");
        target.join("debug/examples/tick")
    })
}

/// Two short runs of each subject on the core, without counting.
fn options() -> Options {
    let mut options = Options::new(vec![OsString::from(probe())]);
    options.runs = 2;
    options.iterations = 100;
    options.places = vec![Place::Wake];
    options.counts = false;
    options
}

fn run_with(options: &Options) -> Findings {
    let mut lines = Vec::new();
    let findings = run(options, &Children::new(), &mut |line| {
        lines.push(line.to_owned())
    });
    let findings = findings.expect("nothing fails");
    assert!(!lines.is_empty() && !findings.is_partial, "{lines:?}");
    findings
}

fn time_of<'a>(findings: &'a Findings, name: &str) -> Option<&'a [f64]> {
    let series = findings.report.series(name, "time");
    series.map(|series| series.samples.as_slice())
}

#[test]
fn without_a_source_tree_builds_are_missing() {
    let findings = run_with(&options());
    for name in ["core-wake: off", "core-wake: realtime on"] {
        let samples = time_of(&findings, name).unwrap_or_else(|| panic!("{name} is missing"));
        assert!(
            samples.len() == 2 && samples.iter().all(|ns| *ns > 0.0),
            "{samples:?}"
        );
    }
    let out = "core-wake: realtime compiled out";
    let missing = findings.missing.iter().find(|missing| missing.name == out);
    assert_eq!(
        missing.expect("it needs a build").reason,
        "needs the source tree"
    );
    assert_eq!(time_of(&findings, out), None);
    let json = findings.to_json();
    assert_eq!(json["params"]["callgrind"], "not counted: not asked for");
    let table = findings.table();
    for line in findings.missing {
        assert!(table.contains(&line.reason), "{table}");
    }
}

#[test]
fn with_a_source_tree_everything_is_measured() {
    let mut options = options();
    options.tree = source_tree(Path::new(env!("CARGO_MANIFEST_DIR")));
    options.keys = vec!["realtime".to_owned()];
    let findings = run_with(&options);
    assert_eq!(findings.missing, []);
    for state in ["off", "realtime on", "realtime compiled out"] {
        let name = format!("core-wake: {state}");
        assert!(time_of(&findings, &name).is_some(), "{name} is missing");
    }
    assert_eq!(findings.report.comparisons.len(), 2);
}

#[test]
fn instructions_are_counted_where_valgrind_is_installed() {
    let mut options = options();
    options.counts = true;
    options.keys = vec!["realtime".to_owned()];
    let findings = run_with(&options);
    let json = findings.to_json();
    if json["params"]["callgrind"] != "counted" {
        println!(
            "instructions_are_counted…: skipped: {}",
            json["params"]["callgrind"]
        );
        return;
    }
    for metric in ["instructions", "branches"] {
        let series = findings.report.series("core-wake: off", metric);
        let samples = &series.expect("counted").samples;
        assert!(
            samples.len() == 1 && samples[0] > 1.0,
            "{metric}: {samples:?}"
        );
    }
}

#[test]
fn being_stopped_is_no_error() {
    let children = Children::new();
    let mut seen = 0;
    let findings = run(&options(), &children, &mut |_| {
        seen += 1;
        if seen == 4 {
            children.stop();
        }
    });
    let findings = findings.expect("it was stopped on purpose");
    assert!(findings.is_partial && seen == 4, "{seen}");
    assert_eq!(findings.to_json()["params"]["is_partial"], true);
}

#[test]
fn wrong_settings_are_refused() {
    let refused = |change: fn(&mut Options), message: &str| {
        let mut options = options();
        change(&mut options);
        let error = run(&options, &Children::new(), &mut |_| {}).expect_err(message);
        assert!(
            error.is_usage() && error.to_string().starts_with(message),
            "{error}"
        );
    };
    refused(|options| options.runs = 0, "runs is `0`; allowed: ");
    refused(
        |options| options.iterations = 0,
        "iterations is `0`; allowed: ",
    );
    refused(
        |options| options.keys = vec!["moon".to_owned()],
        "key is `moon`; allowed: optional, ",
    );
}
