//! `evenkeel bench` as a user sees it: the JSON that all benchmarks share, bad flags, signals.

mod support;

use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use support::{number, parse, program, text, wait_until_caught};

/// The smallest lock benchmark.
const LOCK: [&str; 6] = [
    "lock",
    "--seconds",
    "0.01",
    "--section",
    "1",
    "--mode=threads",
];

/// The smallest tick benchmark that needs no other program.
const TICK: [&str; 7] = [
    "tick",
    "--iterations",
    "100",
    "--no-builds",
    "--no-counts",
    "--key",
    "realtime",
];

/// The smallest latency benchmark.
const LATENCY: [&str; 7] = [
    "latency",
    "--seconds",
    "0.02",
    "--poll",
    "100",
    "--only",
    "park",
];

fn command(arguments: &[&str]) -> Command {
    let mut command = program();
    command.arg("bench").args(arguments);
    command
}

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the program starts")
}

/// Runs it to its good end, with nothing on standard error.
fn good(arguments: &[&str]) -> Vec<u8> {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(text(&output.stderr), "");
    output.stdout
}

fn json(arguments: &[&str], more: &[&str]) -> Value {
    let report = parse(&good(&[arguments, more, &["--json"]].concat()));
    check_shape(&report);
    report
}

fn fields(value: &Value) -> BTreeSet<&str> {
    let object = value.as_object().expect("an object");
    object.keys().map(String::as_str).collect()
}

/// The form is the same for every benchmark.
fn check_shape(report: &Value) {
    let expected = ["bench", "comparisons", "machine", "params", "subjects"];
    assert_eq!(fields(report), BTreeSet::from(expected));
    for subject in subjects(report) {
        let expected = [
            "better", "count", "max", "mean", "metric", "min", "name", "p50", "p99", "std", "unit",
        ];
        assert_eq!(fields(subject), BTreeSet::from(expected));
        let better = subject["better"].as_str();
        assert!(matches!(better, Some("lower" | "higher")), "{subject}");
        let [min, p50, max] = ["min", "p50", "max"].map(|name| number(&subject[name]));
        assert!(min <= p50 && p50 <= max, "{subject}");
    }
    for comparison in report["comparisons"].as_array().expect("an array") {
        let expected = [
            "a",
            "b",
            "ci95",
            "diff_percent",
            "metric",
            "ratio",
            "significant",
        ];
        assert_eq!(fields(comparison), BTreeSet::from(expected));
        let interval = comparison["ci95"].as_array().expect("an array");
        assert!(number(&interval[0]) <= number(&interval[1]), "{comparison}");
    }
}

fn subjects(report: &Value) -> &Vec<Value> {
    report["subjects"].as_array().expect("an array")
}

/// The subjects with a metric, by name.
fn of_metric<'a>(report: &'a Value, metric: &str) -> Vec<&'a Value> {
    let subjects = subjects(report).iter();
    subjects.filter(|one| one["metric"] == metric).collect()
}

#[test]
fn lock_counts_every_run() {
    let report = json(&LOCK, &["--runs", "2"]);
    assert_eq!(report["bench"], "lock");
    assert_eq!(report["params"]["runs"], 2);
    assert_eq!(report["params"]["section_us"], 1.0);
    assert_eq!(report["params"]["is_partial"], false);
    let acquisitions = of_metric(&report, "acquisitions");
    let missing = report["params"]["not_measured"].as_array();
    let missing = missing.expect("an array");
    assert_eq!(
        acquisitions.len() + missing.len(),
        2,
        "without and with extension"
    );
    for subject in acquisitions {
        assert_eq!(subject["count"], 2, "{subject}");
        assert!(number(&subject["min"]) > 0.0, "{subject}");
    }
    for one in missing {
        let reason = one["reason"].as_str().expect("text");
        assert!(reason.contains("no slice extension"), "{reason}");
    }
}

#[test]
fn lock_compares_tasks_without_and_with_sections() {
    let arguments: Vec<&str> = LOCK
        .iter()
        .copied()
        .filter(|one| !one.contains("mode"))
        .collect();
    let report = json(&arguments, &["--runs", "1", "--mode", "tasks"]);
    let acquisitions = of_metric(&report, "acquisitions");
    let names: Vec<&str> = acquisitions
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    let [plain, sections] = names[..] else {
        panic!("two subjects expected: {names:?}");
    };
    assert!(
        names.iter().all(|name| name.starts_with("tasks")),
        "{names:?}"
    );
    assert!(number(&acquisitions[0]["min"]) > 0.0, "{report}");
    assert!(number(&acquisitions[1]["min"]) > 0.0, "{report}");
    let comparisons = report["comparisons"].as_array().expect("an array");
    assert_eq!(comparisons.len(), 4, "one for each metric");
    for comparison in comparisons {
        assert_eq!(comparison["a"], sections);
        assert_eq!(comparison["b"], plain);
        assert_eq!(comparison["significant"], false, "one run tells nothing");
    }
}

#[test]
fn the_table_has_a_row_for_each_subject_and_metric() {
    let table = text(&good(&[&LOCK[..], &["--runs", "1"]].concat()));
    for metric in [
        "acquisitions",
        "total wait",
        "longest wait",
        "preempted while holding",
    ] {
        let is_row = |line: &&str| line.starts_with("threads") && line.contains(metric);
        assert!(
            table.lines().any(|line| is_row(&line)),
            "{metric} in\n{table}"
        );
    }
    for line in ["machine: ", "noise: "] {
        assert!(
            table.lines().any(|found| found.starts_with(line)),
            "{line} in\n{table}"
        );
    }
}

#[test]
fn latency_counts_every_round_and_compares_with_no_preemption() {
    let report = json(&LATENCY, &["--runs", "2", "--only", "off", "--hogs", "2"]);
    assert_eq!(report["bench"], "latency");
    assert_eq!(report["params"]["runs"], 2);
    assert_eq!(report["params"]["hogs"], 2);
    assert_eq!(report["params"]["poll_us"], 100.0);
    assert_eq!(report["params"]["is_partial"], false);
    for metric in ["wait p50", "wait p99", "wait p99.9", "hogs' work"] {
        let found = of_metric(&report, metric);
        let names: Vec<_> = found
            .iter()
            .filter_map(|one| one["name"].as_str())
            .collect();
        assert_eq!(names, ["off", "park"], "{metric}");
        for one in found {
            assert_eq!(one["count"], 2, "{one}");
            assert!(number(&one["min"]) > 0.0, "{one}");
        }
    }
    let comparisons = report["comparisons"].as_array().expect("an array");
    let is_pair = |one: &Value| one["a"] == "park" && one["b"] == "off";
    assert!(
        !comparisons.is_empty() && comparisons.iter().all(is_pair),
        "{report}"
    );
}

#[test]
fn latency_runs_every_subject_unless_told_otherwise() {
    let table = text(&good(&[&LATENCY[..5], &["--runs", "1"]].concat()));
    for name in ["off", "lazy", "handoff", "park", "tokio"] {
        let is_row = |line: &&str| line.starts_with(name) && line.contains("wait p99.9");
        assert!(
            table.lines().any(|line| is_row(&line)),
            "{name} in\n{table}"
        );
    }
}

#[test]
fn latency_shows_the_shares_of_long_and_short_polls() {
    let shares = parse(&good(&[
        "latency",
        "--shares",
        "--seconds",
        "0.1",
        "--json",
    ]));
    assert_eq!(shares["experiment"], "shares");
    let tasks = shares["tasks"].as_array().expect("an array");
    assert_eq!(tasks.len(), 8);
    let due: f64 = tasks.iter().map(|task| number(&task["of_due"])).sum();
    assert!((due - 8.0).abs() < 1e-6, "parts of the mean: {shares}");
}

#[test]
fn tick_measures_keys_off_and_on_in_this_program() {
    let report = json(&TICK, &["--runs", "2"]);
    assert_eq!(report["bench"], "tick");
    let times = of_metric(&report, "time");
    let names: BTreeSet<&str> = times
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    for state in ["off", "realtime on"] {
        for place in ["core-wake", "core-yield", "runtime", "runtime-group"] {
            let is_there = |name: &&str| name.contains(place) && name.ends_with(state);
            assert!(names.iter().any(is_there), "{place} {state}: {names:?}");
        }
    }
    for subject in times {
        assert_eq!(subject["count"], 2, "{subject}");
        assert!(number(&subject["min"]) > 0.0, "{subject}");
    }
    let missing = report["params"]["not_measured"].as_array();
    let is_build = |one: &Value| {
        let name = one["name"].as_str().expect("text");
        name.contains("compiled out") && one["reason"] == "needs the source tree"
    };
    assert!(missing.expect("an array").iter().any(is_build), "{report}");
    assert!(
        !report["comparisons"]
            .as_array()
            .expect("an array")
            .is_empty()
    );
}

#[test]
fn tick_counts_the_instructions_of_a_key_that_is_on() {
    let valgrind = Command::new("valgrind").arg("--version").output();
    if !valgrind.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: valgrind is not installed");
        return;
    }
    let counted: Vec<&str> = TICK
        .into_iter()
        .filter(|flag| *flag != "--no-counts")
        .collect();
    let report = json(&counted, &["--place", "core-yield", "--runs", "1"]);
    let count = |metric, state| {
        let found = of_metric(&report, metric).into_iter();
        let mut found =
            found.filter(|one| one["name"].as_str().is_some_and(|n| n.ends_with(state)));
        number(&found.next().expect("counted")["mean"])
    };
    for metric in ["instructions", "branches"] {
        let (off, on) = (count(metric, "off"), count(metric, "realtime on"));
        assert!(off > 10.0 && on > off, "{metric}: {off} off, {on} on");
    }
}

#[test]
fn flags_that_are_wrong_exit_with_2_and_say_what_is_allowed() {
    for (arguments, parts) in [
        (
            &["lock", "--runs", "0"][..],
            &["--runs", "'0'", "1 to 10000"][..],
        ),
        (&["lock", "--threads", "1"], &["--threads", "2 to 1024"]),
        (&["lock", "--section", "-1"], &["-1"]),
        (&["lock", "--section", "20us"], &["'20us'", "0 to 1000000"]),
        (&["lock", "--seconds", "0"], &["--seconds", "0.001 to 3600"]),
        (&["lock", "--mode", "fibers"], &["fibers", "threads"]),
        (
            &["tick", "--place", "nowhere"],
            &["nowhere", "core-wake", "runtime"],
        ),
        (&["tick", "--key", "none"], &["none", "realtime", "groups"]),
        (
            &["tick", "--iterations", "0"],
            &["--iterations", "1 to 1000000000"],
        ),
        (&["tick", "--runs", "many"], &["many", "1 to 10000"]),
        (&["latency", "--hogs", "0"], &["--hogs", "1 to 10000"]),
        (&["latency", "--poll", "19"], &["--poll", "20 to 60000000"]),
        (
            &["latency", "--seconds", "61"],
            &["--seconds", "0.02 to 60"],
        ),
        (
            &["latency", "--only", "x"],
            &["--only", "'x'", "off, lazy, handoff, park, tokio"],
        ),
        (
            &["latency", "--shares", "--hogs", "2"],
            &["--shares", "--hogs"],
        ),
        (&["nonesuch"], &["nonesuch", "allowed: tick, lock, latency"]),
        (
            &["internal-probe", "core-wake", "x", "1"],
            &["iterations", "`x`"],
        ),
        (
            &["internal-probe", "nowhere", "1", "1"],
            &["nowhere", "core-wake"],
        ),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
        let message = text(&output.stderr);
        for part in parts {
            assert!(message.contains(part), "{arguments:?}: {part} in {message}");
        }
    }
}

#[test]
fn help_documents_the_exit_codes() {
    for arguments in [
        &["--help"][..],
        &["latency", "--help"],
        &["lock", "--help"],
        &["tick", "--help"],
    ] {
        let help = text(&good(arguments));
        assert!(help.contains("Exit codes:"), "{help}");
        assert!(!help.contains("internal-probe"), "{help}");
    }
}

/// Sends a signal to a benchmark that would take hours.
fn check_signal(arguments: &[&str], signal: Signal, code: i32) {
    let mut command = command(&[arguments, &["--runs", "10000", "--json"]].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("the program starts");
    wait_until_caught(child.id(), signal.as_raw().unsigned_abs());
    let process = i32::try_from(child.id()).expect("process numbers are small");
    let process = Pid::from_raw(process).expect("not 0");
    kill_process(process, signal).expect("the process lives");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    if output.stdout.is_empty() {
        assert!(text(&output.stderr).contains("no results"), "{output:?}");
    } else {
        let report = parse(&output.stdout);
        check_shape(&report);
        assert_eq!(report["params"]["is_partial"], true);
    }
}

#[test]
fn a_signal_ends_a_benchmark_with_what_there_is() {
    check_signal(&LOCK, Signal::INT, 130);
    check_signal(&LOCK, Signal::TERM, 143);
    check_signal(&LATENCY, Signal::INT, 130);
    check_signal(&LATENCY, Signal::TERM, 143);
    check_signal(&TICK, Signal::INT, 130);
    check_signal(&TICK, Signal::TERM, 143);
}
