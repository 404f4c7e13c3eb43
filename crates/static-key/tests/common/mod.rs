//! What several test programs share.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::process::{Command, Output};

/// Whether sites are patched in this build.
pub(crate) const PATCHES: bool = cfg!(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(miri, loom, feature = "portable")),
));

/// The environment variable that tells a test that it is the child of [`in_child`].
const CHILD: &str = "EVENKEEL_STATIC_KEY_TEST_CHILD";

/// Runs `body` in a process of its own: this test program started again with only the test `name`.
/// In that process this function runs `body` and does not return.
pub(crate) fn in_child(name: &str, body: impl FnOnce()) {
    in_child_under(&[], name, body);
}

/// As [`in_child`], with the program started by the command `wrapper`. Returns what was printed.
pub(crate) fn in_child_under(wrapper: &[&str], name: &str, body: impl FnOnce()) -> String {
    if std::env::var_os(CHILD).is_some() {
        body();
        println!("{name}: child done");
        std::process::exit(0);
    }
    let program = std::env::current_exe().expect("the test program has a path");
    let mut command = match wrapper {
        [] => Command::new(program),
        [first, more @ ..] => {
            let mut command = Command::new(first);
            command.args(more).arg(program);
            command
        }
    };
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    let output = command.env(CHILD, "1").output().expect("the child starts");
    let (out, err) = texts(&output);
    assert!(
        output.status.success() && out.contains(&format!("{name}: child done")),
        "child of {name}: {}\n{out}\n{err}",
        output.status
    );
    out
}

/// Tells whether `program` can be started, and says that `test` is skipped if not.
pub(crate) fn has_program(program: &str, test: &str) -> bool {
    let has = Command::new(program).arg("--version").output().is_ok();
    if !has {
        println!("{test}: skipped: there is no {program} here");
    }
    has
}

/// Runs `command` and returns what it printed, on standard output and on standard error.
pub(crate) fn run(command: &mut Command) -> (String, String) {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = texts(&output);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{out}\n{err}",
        output.status
    );
    (out, err)
}

/// Returns what a process printed, on standard output and on standard error.
pub(crate) fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}
