//! Builds the program with and without the optional parts, in one layout of the code or another.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Failure;

const PACKAGE: &str = "evenkeel-off-cost";

/// Where the two programs are.
pub(crate) struct Programs {
    /// Every optional part is compiled in.
    pub(crate) with: PathBuf,
    /// None is.
    pub(crate) without: PathBuf,
}

/// Builds both, with their functions in an order that `layout` decides, or in the linker's for
/// `None`. Cargo gives them the same name, so each is copied away.
pub(crate) fn build(layout: Option<u32>) -> Result<Programs, Failure> {
    Ok(Programs {
        without: build_as("without", &["--no-default-features"], layout)?,
        with: build_as("with", &[], layout)?,
    })
}

fn build_as(suffix: &str, options: &[&str], layout: Option<u32>) -> Result<PathBuf, Failure> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .args(["rustc", "--quiet", "--release", "--package", PACKAGE])
        .args(["--message-format", "json-render-diagnostics"])
        .args(options);
    if let Some(seed) = layout {
        // An option of lld, which rustc brings along.
        let option = format!("link-arg=-Wl,--shuffle-sections=.text*={seed}");
        cargo.args(["--", "-C", &option]);
    }
    let built = cargo
        .stderr(Stdio::inherit())
        .output()
        .map_err(Failure::new)?;
    if !built.status.success() {
        return Err(Failure::new("the program could not be built"));
    }
    let program = executable(&String::from_utf8_lossy(&built.stdout))
        .ok_or_else(|| Failure::new("cargo named no program"))?;
    let copy = program.with_file_name(format!("{PACKAGE}-{suffix}"));
    std::fs::copy(&program, &copy).map_err(Failure::new)?;
    Ok(copy)
}

/// Finds the program's path among cargo's messages.
fn executable(messages: &str) -> Option<PathBuf> {
    let mut messages = messages.lines().rev().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let path = message.get("executable")?.as_str()?;
        Some(PathBuf::from(path))
    });
    messages.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_among_other_messages() {
        let messages = r#"{"reason":"compiler-artifact","executable":null}
not json
{"reason":"compiler-artifact","executable":"/somewhere/program"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(
            executable(messages),
            Some(PathBuf::from("/somewhere/program"))
        );
        assert_eq!(executable(""), None);
    }
}
