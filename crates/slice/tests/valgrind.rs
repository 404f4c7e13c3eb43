//! The number of instructions that a section costs, counted by Valgrind's callgrind. Skipped with a
//! message where there is no Valgrind.
#![cfg(all(target_os = "linux", target_arch = "x86_64", not(loom)))]
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the example `count` with optimisation; returns its path.
fn build_count() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("count");
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "--example", "count"]);
    cargo.args(["--manifest-path", manifest, "--target-dir"]);
    let status = cargo.arg(&target).status().expect("cargo starts");
    assert!(status.success());
    target.join("release/examples/count")
}

/// Returns the number of instructions that `count` executes for `calls` calls of `form`.
fn instructions(program: &Path, form: &str, calls: u64) -> u64 {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    let output = valgrind
        .arg(program)
        .arg(form)
        .arg(calls.to_string())
        .output();
    let output = output.expect("valgrind starts");
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.contains("Collected :"));
    line.and_then(|line| line.split_whitespace().last())
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("no count in {text}"))
}

#[test]
fn a_section_costs_few_instructions() {
    const FEW: u64 = 1_000;
    const MANY: u64 = 101_000;
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("a_section_costs_few_instructions: skipped: there is no valgrind here");
        return;
    }
    let program = build_count();
    let per_call = |form: &str| {
        let more = instructions(&program, form, MANY) - instructions(&program, form, FEW);
        // Rounded: printing a longer number takes some instructions too.
        (more + (MANY - FEW) / 2) / (MANY - FEW)
    };
    let none = per_call("none");
    let [section, nested] = ["section", "nested"].map(|form| per_call(form) - none);
    println!("instructions added to {none}: a section {section}, two nested ones {nested}");
    // As counted; a change is to be seen, and written into the README.
    assert_eq!([section, nested], [SECTION, NESTED]);
}

/// Enter and leave: what the README says.
const SECTION: u64 = 19;
const NESTED: u64 = 29;
