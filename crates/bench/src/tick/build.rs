//! Builds of the probe, with parts of the scheduler in it and not in it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::children::Children;

/// What the source tree has and nothing else: the probe's source.
const PROBE_SOURCE: &str = "crates/bench/examples/tick.rs";

/// Finds the source tree that a directory lies in.
pub fn source_tree(directory: &Path) -> Option<PathBuf> {
    let mut above = directory.ancestors();
    above
        .find(|path| path.join(PROBE_SOURCE).is_file() && path.join("Cargo.toml").is_file())
        .map(Path::to_path_buf)
}

/// Makes builds in a source tree.
#[derive(Clone, Debug)]
pub(super) struct Builds {
    tree: PathBuf,
    cargo: OsString,
    target: PathBuf,
}

impl Builds {
    /// Looks for cargo. The error says why there can be no builds.
    pub(super) fn new(tree: &Path, children: &Children) -> Result<Self, String> {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let tried = children.run(Command::new(&cargo).arg("--version"));
        match tried {
            Ok(ended) if ended.status.success() => {}
            Ok(ended) => return Err(format!("cargo does not work: {ended}")),
            Err(error) => return Err(format!("needs cargo: {error}")),
        }
        let target = env::var_os("CARGO_TARGET_DIR");
        let target = target.map_or_else(|| tree.join("target"), PathBuf::from);
        Ok(Builds {
            tree: tree.to_path_buf(),
            cargo,
            target: target.join("bench-tick"),
        })
    }

    /// Builds the probe with these cargo features and no others, and returns the program. The error
    /// says why there is none.
    pub(super) fn build(&self, features: &[&str], children: &Children) -> Result<PathBuf, String> {
        let mut cargo = Command::new(&self.cargo);
        cargo.current_dir(&self.tree);
        cargo.args([
            "build",
            "--quiet",
            "--release",
            "--package",
            "evenkeel-bench",
        ]);
        cargo.args(["--example", "tick", "--no-default-features"]);
        cargo.args(["--features", &features.join(",")]);
        let ended = children.run(cargo.arg("--target-dir").arg(&self.target));
        let ended = ended.map_err(|error| format!("cargo does not start: {error}"))?;
        if !ended.status.success() {
            let error = ended.err.lines().find(|line| line.starts_with("error"));
            let error = error.map_or_else(|| ended.to_string(), str::to_owned);
            return Err(format!("it does not build: {error}"));
        }
        // The next build has its program in the same place.
        let built = self.target.join("release/examples/tick");
        let programs = self.target.join("programs");
        let kept = programs.join(features.join("+"));
        let keep = || {
            fs::create_dir_all(&programs)?;
            fs::copy(&built, &kept)
        };
        keep().map_err(|error| format!("cannot keep {}: {error}", built.display()))?;
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_found_from_inside() {
        let inside = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tick");
        let tree = source_tree(&inside).expect("this is the tree");
        assert!(tree.join("crates/bench").is_dir());
        assert_eq!(source_tree(Path::new("/")), None);
    }
}
