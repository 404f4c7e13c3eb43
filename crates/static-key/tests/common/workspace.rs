//! Small cargo workspaces that tests write, build and run.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A package: name, kind (`bin` or a crate type), source, dependencies in the same workspace.
pub(crate) type Package = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

/// Writes a workspace of `packages` for the test `name`; returns its directory.
pub(crate) fn write_workspace(name: &str, packages: &[Package]) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let names: Vec<String> = packages
        .iter()
        .map(|package| format!("{:?}", package.0))
        .collect();
    let members = names.join(", ");
    let workspace = format!("[workspace]\nresolver = \"3\"\nmembers = [{members}]\n");
    write(&root.join("Cargo.toml"), &workspace);
    for (package, kind, source, dependencies) in packages {
        let directory = root.join(package);
        let file = if *kind == "bin" {
            "src/main.rs"
        } else {
            "src/lib.rs"
        };
        write(&directory.join(file), source);
        write(
            &directory.join("Cargo.toml"),
            &manifest(package, kind, dependencies),
        );
    }
    root
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("has a parent")).expect("a directory");
    fs::write(path, text).expect("a file");
}

fn manifest(package: &str, kind: &str, dependencies: &[&str]) -> String {
    let own = env!("CARGO_MANIFEST_DIR");
    let mut text = format!("[package]\nname = {package:?}\nedition = \"2024\"\n");
    if kind != "bin" {
        text += &format!("[lib]\ncrate-type = [{kind:?}]\n");
    }
    text += "[features]\nbranch = []\non = [\"branch\"]\n";
    text += &format!("[dependencies]\nevenkeel-static-key = {{ path = {own:?} }}\n");
    for dependency in dependencies {
        text += &format!("{dependency} = {{ path = \"../{dependency}\" }}\n");
    }
    text
}

/// Returns cargo's command `subcommand` for the workspace at `root`, built with `flags`.
pub(crate) fn cargo(root: &Path, subcommand: &str, flags: &str) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .current_dir(root)
        .args([subcommand, "--quiet", "--offline"]);
    cargo
        .env("RUSTFLAGS", flags)
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo
        .env("CARGO_TARGET_DIR", root.join("target"))
        .env_remove("CARGO_BUILD_TARGET");
    cargo
}
