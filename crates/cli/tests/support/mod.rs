//! Runs the program on a workload in a temporary directory.

#![allow(dead_code, reason = "each test program uses a part of this")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A directory with a workload file in it, and input files for `hash` and `compress`.
pub(crate) struct Workload {
    directory: TempDir,
}

impl Workload {
    /// Writes the workload file and an input file `input.txt` of some kilobytes.
    pub(crate) fn new(text: &str) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let input: String = (0..2000)
            .map(|line| format!("line {line} of the input\n"))
            .collect();
        std::fs::write(directory.path().join("input.txt"), input).expect("written");
        std::fs::write(directory.path().join("w.toml"), text).expect("written");
        Self { directory }
    }

    /// A path in the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The command `evenkeel run w.toml` with more arguments, in the directory.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program();
        command
            .arg("run")
            .arg("w.toml")
            .args(arguments)
            .current_dir(self.directory.path());
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments)
            .output()
            .expect("the program starts")
    }

    /// Runs it to its good end with `--json` and reads the object.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let output = self
            .command(arguments)
            .arg("--json")
            .output()
            .expect("the program starts");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(text(&output.stderr), "", "nothing to say beside the object");
        parse(&output.stdout)
    }
}

/// The program itself.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.stdin(Stdio::null());
    command
}

/// Reads exactly one JSON object.
pub(crate) fn parse(bytes: &[u8]) -> Value {
    let value: Value = serde_json::from_slice(bytes).unwrap_or_else(|error| {
        panic!(
            "standard output is not one JSON value: {error}\n{}",
            text(bytes)
        )
    });
    assert!(value.is_object(), "{value}");
    value
}

/// Output as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the program writes UTF-8")
}

/// A group of a report.
pub(crate) fn group<'a>(report: &'a Value, path: &str) -> &'a Value {
    let groups = report["groups"].as_array().expect("an array of groups");
    groups
        .iter()
        .find(|group| group["path"] == path)
        .expect("the group is reported")
}

/// A number of a report.
pub(crate) fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is not a number"))
}

/// Waits until a process catches a signal (1 to 64): until then the signal would kill it.
pub(crate) fn wait_until_caught(process: u32, signal: u32) {
    let status = Path::new("/proc").join(process.to_string()).join("status");
    loop {
        let status = std::fs::read_to_string(&status).expect("the process lives");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.expect("Linux shows the caught signals").trim();
        let caught = u64::from_str_radix(caught, 16).expect("a mask in hexadecimal");
        if caught & (1 << (signal - 1)) != 0 {
            return;
        }
        std::thread::yield_now();
    }
}
