//! `evenkeel run` as a user sees it: results, their JSON shape, exit codes, signals, files.

mod support;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use support::{Workload, group, number, parse, program, text, wait_until_caught};

/// Two workers, one group of each kind, and a nested pair.
const EVERY_KIND: &str = r#"
    duration = "400ms"
    warm_up = "100ms"
    threads = 2
    [groups.tenants]
    weight = 300
    [groups.tenants.groups.web]
    weight = 200
    tasks = [{ kind = "http", connections = 4, think = "1ms" }]
    [groups.tenants.groups.batch]
    tasks = [{ kind = "compress", files = ["input.txt"], chunk = "4KiB", count = 2 }]
    [groups.hash]
    order = "fair"
    tasks = [{ kind = "hash", files = ["*.txt"], chunk = "4KiB" }]
    [groups.heart]
    tasks = [{ kind = "tick", every = "10ms" }]
    [groups.spin]
    tasks = [{ kind = "spin", poll = "50us" }]
    [groups.lock]
    class = "idle"
    tasks = [{ kind = "lock", count = 3 }, { kind = "lock", count = 2, mutex = "std" }]
"#;

/// One group that spins; runs for a minute unless something ends it.
const LONG: &str = "duration = \"60s\"\nthreads = 2\ngroups.g.tasks = [{ kind = \"spin\" }]";

/// One group that spins for an instant.
const SHORT: &str = "duration = \"20ms\"\nthreads = 1\ngroups.g.tasks = [{ kind = \"spin\" }]";

/// The names of an object's fields.
fn fields(value: &Value) -> BTreeSet<&str> {
    value
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect()
}

fn assert_has(value: &Value, expected: &[&str]) {
    let missing: Vec<_> = expected
        .iter()
        .filter(|name| !fields(value).contains(*name))
        .collect();
    assert!(missing.is_empty(), "{missing:?} are missing from {value}");
}

#[test]
fn json_has_the_documented_shape() {
    let report = Workload::new(EVERY_KIND).json(&[]);
    assert_has(&report, &["duration_s", "cpus", "groups"]);
    assert_eq!(report["cpus"], 2);
    assert!(
        number(&report["duration_s"]) >= 0.4,
        "{}",
        report["duration_s"]
    );
    let groups = report["groups"].as_array().expect("an array");
    let paths: Vec<&str> = groups
        .iter()
        .filter_map(|group| group["path"].as_str())
        .collect();
    let expected = [
        "/tenants",
        "/tenants/web",
        "/tenants/batch",
        "/hash",
        "/heart",
        "/spin",
        "/lock",
    ];
    assert_eq!(paths, expected);
    for group in groups {
        let names = [
            "path",
            "weight",
            "cpu_share",
            "expected_share",
            "usage_usec",
            "wait_us",
            "run_us",
            "throughput",
            "ticks",
        ];
        assert_has(group, &names);
        assert_eq!(
            fields(&group["wait_us"]),
            BTreeSet::from(["p50", "p99", "max"])
        );
        assert_eq!(fields(&group["run_us"]), BTreeSet::from(["p99", "max"]));
        assert_eq!(
            fields(&group["throughput"]),
            BTreeSet::from(["value", "unit"])
        );
        assert_eq!(
            fields(&group["ticks"]),
            BTreeSet::from(["due", "late", "max_late_us"])
        );
        assert!(
            group["usage_usec"].is_u64() && group["ticks"]["due"].is_u64(),
            "{group}"
        );
        for share in ["cpu_share", "expected_share"] {
            assert!(
                (0.0..=1.0 + 1e-9).contains(&number(&group[share])),
                "{group}"
            );
        }
    }
    assert_eq!(group(&report, "/tenants")["weight"], 300);
}

#[test]
fn every_kind_does_work() {
    let report = Workload::new(EVERY_KIND).json(&["--duration", "1s"]);
    let units = [
        ("/tenants", "requests/s"),
        ("/tenants/web", "requests/s"),
        ("/tenants/batch", "MB/s"),
        ("/hash", "MB/s"),
        ("/heart", "ticks/s"),
        ("/spin", "polls/s"),
    ];
    for (path, unit) in units {
        let group = group(&report, path);
        assert_eq!(group["throughput"]["unit"], unit, "{path}");
        assert!(
            number(&group["throughput"]["value"]) > 0.0,
            "{path} did nothing: {group}"
        );
        assert!(
            number(&group["usage_usec"]) > 0.0,
            "{path} used nothing: {group}"
        );
        assert!(
            number(&group["run_us"]["max"]) > 0.0,
            "{path} never ran: {group}"
        );
    }
    // In an idle group beside groups that are always ready nothing need happen.
    assert_eq!(group(&report, "/lock")["throughput"]["unit"], "acquires/s");
    let request = &group(&report, "/tenants/web")["request_us"];
    assert!(number(&request["p50"]) > 0.0 && number(&request["p99"]) >= number(&request["p50"]));
}

#[test]
fn shares_add_up() {
    let report = Workload::new(EVERY_KIND).json(&[]);
    for share in ["cpu_share", "expected_share"] {
        let at = |path: &str| number(&group(&report, path)[share]);
        let top = ["/tenants", "/hash", "/heart", "/spin", "/lock"]
            .map(at)
            .iter()
            .sum::<f64>();
        assert!((top - 1.0).abs() < 1e-6, "{share}: {top}");
        let below = at("/tenants/web") + at("/tenants/batch");
        assert!((at("/tenants") - below).abs() < 1e-6, "{share}: {below}");
    }
}

#[test]
fn expected_shares_follow_from_weights_and_tasks() {
    let workload = Workload::new(
        "duration = \"50ms\"\nthreads = 2\n\
         [groups.a]\nweight = 300\ntasks = [{ kind = \"spin\", count = 4 }]\n\
         [groups.b]\nweight = 100\ntasks = [{ kind = \"spin\", count = 4 }]\n",
    );
    let report = workload.json(&[]);
    assert!((number(&group(&report, "/a")["expected_share"]) - 0.75).abs() < 1e-9);
    assert!((number(&group(&report, "/b")["expected_share"]) - 0.25).abs() < 1e-9);
    assert_eq!(group(&report, "/a")["is_demand_limited"], false);
}

#[test]
fn the_warm_up_is_not_counted() {
    let workload =
        Workload::new("groups.heart.tasks = [{ kind = \"tick\", every = \"10ms\" }]\nthreads = 1");
    let report = workload.json(&["--duration", "300ms", "--warm-up", "500ms"]);
    let duration = number(&report["duration_s"]);
    let due = number(&group(&report, "/heart")["ticks"]["due"]);
    assert!(number(&report["warm_up_s"]) >= 0.5);
    // Beats become due by the clock, whatever the machine's speed: 1 in 10 ms, ± 1 at the ends.
    assert!(
        (due - duration / 0.01).abs() <= 1.0 + 1e-6,
        "{due} due in {duration} s"
    );
}

#[test]
fn the_table_has_a_line_for_each_group() {
    let output = Workload::new(EVERY_KIND).run(&["--duration", "50ms", "--seed", "9"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        text(&output.stderr),
        "",
        "no progress bar without a terminal"
    );
    let table = text(&output.stdout);
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[0].contains("on 2 CPUs") && lines[0].contains("seed 9"),
        "{table}"
    );
    assert!(
        lines[2].starts_with("group") && lines[2].contains("expected"),
        "{table}"
    );
    let names: Vec<&str> = lines[3..10]
        .iter()
        .map(|line| line.split_once("  ").map_or(*line, |(a, _)| a))
        .collect();
    assert_eq!(names[0], "/tenants");
    assert!(
        lines[4].starts_with("  web ") && lines[4].contains("requests/s"),
        "{table}"
    );
    assert!(
        lines[5].starts_with("  batch ") && lines[5].contains("MB/s"),
        "{table}"
    );
    assert_eq!(names[3..], ["/hash", "/heart", "/spin", "/lock"], "{table}");
}

#[test]
fn settings_of_the_command_line_come_first() {
    let report = Workload::new(LONG).json(&["--duration", "30ms", "--threads", "1", "--seed", "5"]);
    assert_eq!(
        (&report["cpus"], &report["seed"]),
        (&Value::from(1), &Value::from(5))
    );
    assert!(number(&report["duration_s"]) < 60.0);
}

#[test]
fn a_load_runs_in_the_group_that_is_named() {
    let workload = Workload::new(
        "duration = \"1s\"\nthreads = 2\n\
         [groups.server]\n\
         tasks = [{ kind = \"http\", connections = 3, think = \"0s\", load_group = \"/load\" }]\n\
         [groups.load]\n",
    );
    let report = workload.json(&[]);
    let (server, load) = (group(&report, "/server"), group(&report, "/load"));
    assert!(number(&server["throughput"]["value"]) > 0.0, "{server}");
    assert_eq!(
        load["throughput"]["unit"], "none",
        "requests count where they are served"
    );
    assert!(number(&load["usage_usec"]) > 0.0, "{load}");
}

#[test]
fn files_that_are_wrong_exit_with_2() {
    let cases = [
        (
            "groups.g.tasks = [{ kind = \"spin\" }]\nquota = 1",
            "w.toml:2:1",
        ),
        (
            "groups.g.tasks = [{ kind = \"hash\", files = [\"nowhere\"] }]",
            "there is no file",
        ),
        ("this is not TOML", "not valid TOML"),
    ];
    for (workload, message) in cases {
        let output = Workload::new(workload).run(&["--json"]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert_eq!(
            text(&output.stdout),
            "",
            "errors do not go to standard output"
        );
        assert!(text(&output.stderr).contains(message), "{output:?}");
    }
    let output = program()
        .args(["run", "/nowhere/w.toml"])
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        text(&output.stderr).contains("cannot read /nowhere/w.toml"),
        "{output:?}"
    );
}

#[test]
fn command_lines_that_are_wrong_exit_with_2() {
    let cases: [(&[&str], &str); 6] = [
        (&["--duration", "5"], "a number and a unit"),
        (&["--duration", "1ms"], "at least 10ms"),
        (&["--warm-up", "25h"], "at most 24h"),
        (&["--threads", "0"], "an integer from 1 to 1024"),
        (&["--seed=-1"], "--seed"),
        (&["--jsn"], "--json"),
    ];
    for (arguments, message) in cases {
        let output = Workload::new(SHORT).run(arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains(message), "{output:?}");
    }
}

#[test]
fn help_documents_the_exit_codes() {
    for arguments in [&["--help"][..], &["run", "--help"]] {
        let output = program().args(arguments).output().expect("it starts");
        let help = text(&output.stdout);
        for code in [
            "0  it went",
            "1  it failed",
            "2  the command",
            "130  ended",
            "143  ended",
        ] {
            assert!(help.contains(code), "{code} is missing: {help}");
        }
    }
}

#[test]
fn check_runs_nothing() {
    let output = Workload::new(LONG).run(&["--check"]);
    assert_eq!(
        (output.status.code(), output.stdout.len()),
        (Some(0), 0),
        "{output:?}"
    );
}

/// Sends a signal to a long run and checks its end.
fn check_signal(signal: Signal, arguments: &[&str], code: i32) {
    let workload = Workload::new(LONG);
    let mut command = workload.command(arguments);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    wait_until_caught(child.id(), signal.as_raw().unsigned_abs());
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a process");
    kill_process(pid, signal).expect("the process lives");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    if arguments.contains(&"--json") {
        let report = parse(&output.stdout);
        assert_eq!(report["is_partial"], true);
        assert!(number(&report["duration_s"]) < 60.0);
        assert_eq!(group(&report, "/g")["throughput"]["unit"], "polls/s");
    } else {
        assert!(text(&output.stdout).contains("(ended early)"), "{output:?}");
    }
}

#[test]
fn ctrl_c_prints_the_results_so_far() {
    check_signal(Signal::INT, &["--json"], 130);
    check_signal(Signal::INT, &[], 130);
}

#[test]
fn ctrl_c_ends_a_warm_up_too() {
    check_signal(Signal::INT, &["--json", "--warm-up", "1h"], 130);
}

#[test]
fn sigterm_prints_the_results_so_far() {
    check_signal(Signal::TERM, &["--json"], 143);
}

#[test]
fn a_task_that_fails_ends_the_run_with_1() {
    let text_of_workload = "duration = \"60s\"\nthreads = 2\n\
        groups.g.tasks = [{ kind = \"http\", connections = 500, think = \"1ms\" }]";
    let workload = Workload::new(text_of_workload);
    let program = env!("CARGO_BIN_EXE_evenkeel");
    let output = std::process::Command::new("sh")
        .args([
            "-c",
            "ulimit -n 100 && exec \"$0\" run w.toml --json",
            program,
        ])
        .current_dir(workload.path(""))
        .output()
        .expect("a shell starts");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("a `http` task of group `/g` ended: cannot"));
    assert_eq!(parse(&output.stdout)["is_partial"], true);
}

#[test]
fn results_that_cannot_be_printed_are_an_error() {
    let workload = Workload::new(SHORT);
    let full = File::options()
        .write(true)
        .open("/dev/full")
        .expect("Linux has it");
    let output = workload
        .command(&["--json"])
        .stdout(full)
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        text(&output.stderr).contains("cannot print the results"),
        "{output:?}"
    );
}

#[test]
fn the_output_file_is_replaced_as_a_whole_or_not_at_all() {
    let workload = Workload::new(SHORT);
    let target = workload.path("out.json");
    std::fs::write(&target, "old").expect("written");
    let report = workload.json(&["--output", "out.json"]);
    let written = std::fs::read(&target).expect("it is there");
    assert_eq!(parse(&written), report);

    let bad = workload.run(&["--output", "nowhere/out.json"]);
    assert_eq!(bad.status.code(), Some(1), "{bad:?}");
    assert!(
        text(&bad.stderr).contains("cannot write nowhere/out.json"),
        "{bad:?}"
    );
    let bad = workload.run(&["--output", "."]);
    assert_eq!(bad.status.code(), Some(1), "{bad:?}");

    std::fs::write(workload.path("w.toml"), "nonsense = 1").expect("written");
    assert_eq!(
        workload.run(&["--output", "out.json"]).status.code(),
        Some(2)
    );
    assert_eq!(
        std::fs::read(&target).expect("it is there"),
        written,
        "the old file stays"
    );
    let mut names: Vec<_> = std::fs::read_dir(workload.path(""))
        .expect("readable")
        .map(|entry| entry.expect("readable").file_name())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["input.txt", "out.json", "w.toml"],
        "no temporary file is left"
    );
}

#[test]
fn the_examples_run() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for name in ["tenants.toml", "reference.toml"] {
        let output = program()
            .arg("run")
            .arg(examples.join(name))
            .args(["--duration", "300ms", "--warm-up", "0s", "--json"])
            .output()
            .expect("it starts");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let report = parse(&output.stdout);
        let groups = report["groups"].as_array().expect("an array");
        assert!(
            groups
                .iter()
                .any(|group| number(&group["throughput"]["value"]) > 0.0),
            "{report}"
        );
    }
}
