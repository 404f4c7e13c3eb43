//! Runs programs with their output in a file.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use super::failure::Failure;

/// How many lines of a failed program's output are shown.
const LINES_SHOWN: usize = 15;

/// Runs `command` with its output in the file `log`.
///
/// # Errors
///
/// It does not start, or ends with a status other than 0: with the last lines of its output.
pub(crate) fn run(command: &mut Command, log: &Path) -> Result<(), Failure> {
    let file = File::create(log).map_err(|e| Failure::io("write", log, &e))?;
    let errors = file
        .try_clone()
        .map_err(|e| Failure::io("write", log, &e))?;
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let line = line.join(" ");
    let status = command
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(errors)
        .status()
        .map_err(|error| Failure::Failed(format!("`{line}` does not start: {error}")))?;
    if status.success() {
        return Ok(());
    }
    let text = std::fs::read(log).unwrap_or_default();
    Err(Failure::Failed(format!(
        "`{line}` ended with {status}. Its output is in {}; the end of it:\n{}",
        log.display(),
        last_lines(&String::from_utf8_lossy(&text), LINES_SHOWN)
    )))
}

/// Returns the last `count` lines, indented.
fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let shown = &lines[lines.len().saturating_sub(count)..];
    let shown: Vec<String> = shown.iter().map(|line| format!("    {line}")).collect();
    shown.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_shown() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "    b\n    c");
        assert_eq!(last_lines("a\n", 2), "    a");
        assert_eq!(last_lines("", 2), "");
    }

    #[test]
    fn a_failed_program_is_reported_with_its_output() {
        let log = std::env::temp_dir().join(format!("evenkeel-log-{}", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        let failure = run(&mut command, &log).unwrap_err().to_string();
        assert!(failure.starts_with("`sh -c echo out"), "{failure}");
        assert!(failure.contains("status: 3"), "{failure}");
        assert!(failure.ends_with("    out\n    err"), "{failure}");
        run(&mut Command::new("true"), &log).unwrap();
        std::fs::remove_file(&log).unwrap();
    }
}
