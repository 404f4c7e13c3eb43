//! A program whose polls are interrupted runs as usual under gdb, under Valgrind and under `perf
//! record`. Each part is skipped with a message where its tool is missing or may not be used.
//!
//! The program is the example `preempted`, compiled into this test.
#![forbid(unsafe_code)]

#[path = "../examples/preempted.rs"]
#[allow(dead_code, reason = "its `main` is called in a child process")]
mod preempted;

use std::path::Path;
use std::process::{Command, Output};

/// The environment variable that makes the first test the program.
const CHILD: &str = "EVENKEEL_TEST_PREEMPTED";

/// What the program prints: 1 + 2¹² + 3¹² + 4¹² + 5¹² + 6¹².
const EXPECTED: &str = "sum of 12th powers: 2438235715; polls were preempted: true";

/// Returns the arguments that make this test program the program.
fn program() -> Vec<String> {
    let this = std::env::current_exe().expect("the test program has a path");
    let this = this.to_str().expect("cargo's paths are text").to_owned();
    let more = ["--exact", "it_runs_by_itself", "--nocapture"];
    [this].into_iter().chain(more.map(str::to_owned)).collect()
}

/// Runs the program below a command; returns what both printed, and whether it went well.
fn run_under(wrapper: &[&str]) -> (bool, String) {
    let words: Vec<String> = wrapper.iter().map(|word| (*word).to_owned()).collect();
    let words = [words, program()].concat();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env(CHILD, "1");
    let output = command.output();
    texts(&output.unwrap_or_else(|error| panic!("{words:?}: {error}")))
}

fn texts(output: &Output) -> (bool, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let both = text(&output.stdout) + &text(&output.stderr);
    (output.status.success(), both)
}

/// Tells whether `probe` runs and prints `wanted`, and says that `test` is skipped if not.
fn can_run(test: &str, probe: &[&str], wanted: &str) -> bool {
    let output = Command::new(probe[0]).args(&probe[1..]).output();
    let works = output.is_ok_and(|output| {
        let (is_good, text) = texts(&output);
        is_good && text.contains(wanted)
    });
    if !works {
        println!("{test}: skipped: `{}` does not work here", probe.join(" "));
    }
    works
}

#[test]
fn it_runs_by_itself() {
    if std::env::var_os(CHILD).is_some() {
        preempted::main().expect("the program works");
        return;
    }
    let (is_good, text) = run_under(&["env"]);
    assert!(is_good && text.contains(EXPECTED), "{text}");
}

/// The commands for gdb that let the signal of preemption pass.
const PASS: &str = "handle SIGURG nostop noprint pass";

#[test]
fn it_runs_under_gdb() {
    let probe = ["gdb", "-nx", "-batch", "-ex", "run", "true"];
    if !can_run("it_runs_under_gdb", &probe, "exited normally") {
        return;
    }
    let run = ["gdb", "-nx", "-batch", "-ex", PASS, "-ex", "run", "--args"];
    let (is_good, text) = run_under(&run);
    assert!(is_good && text.contains(EXPECTED), "{text}");
    assert!(text.contains("exited normally"), "{text}");
    // The control: a debugger that stops at the signal shows that there are such signals.
    let stop = "handle SIGURG stop print pass";
    let (_, text) = run_under(&["gdb", "-nx", "-batch", "-ex", stop, "-ex", "run", "--args"]);
    assert!(text.contains("received signal SIGURG"), "{text}");
    assert!(!text.contains(EXPECTED), "{text}");
}

#[test]
fn it_runs_under_valgrind() {
    let probe = ["valgrind", "--tool=none", "true"];
    if !can_run("it_runs_under_valgrind", &probe, "") {
        return;
    }
    // Threads run one at a time there, and only with this option by turns.
    let run = [
        "valgrind",
        "--tool=memcheck",
        "--fair-sched=try",
        "--error-exitcode=9",
    ];
    let (is_good, text) = run_under(&run);
    assert!(is_good && text.contains(EXPECTED), "{text}");
    assert!(text.contains("ERROR SUMMARY: 0 errors"), "{text}");
}

#[test]
fn it_runs_under_perf() {
    let data = Path::new(env!("CARGO_TARGET_TMPDIR")).join("preempted.perf");
    let data = data.to_str().expect("cargo's paths are text");
    let record = ["perf", "record", "-e", "cpu-clock", "-g", "-o", data];
    let probe = [&record[..], &["true"]].concat();
    if !can_run("it_runs_under_perf", &probe, "") {
        return;
    }
    let (is_good, text) = run_under(&[&record[..], &["--"]].concat());
    assert!(is_good && text.contains(EXPECTED), "{text}");
    let script = ["perf", "report", "--stdio", "-i", data, "--sort", "symbol"];
    let mut report = Command::new(script[0]);
    let (is_good, text) = texts(&report.args(&script[1..]).output().expect("perf starts"));
    assert!(is_good && text.contains("compute"), "{text}");
}
