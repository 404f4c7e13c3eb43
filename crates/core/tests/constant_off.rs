//! A feature that is off by constant leaves nothing in the object file; with the cargo feature
//! `sched-debug` the same source has its code and a branch.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::fs;
use std::path::Path;
use std::process::Command;

/// Two functions, one guarded by a feature that is off, one by a feature that is on.
const SOURCE: &str = r#"
//! What a user of the list of features compiles.
#[unsafe(no_mangle)]
pub fn work(x: u64) -> u64 {
    let mut sum = x;
    if evenkeel_core::feat!(NEXT_BUDDY) {
        sum = code_of_next_buddy(sum);
    }
    if evenkeel_core::feat!(PLACE_LAG) {
        sum = code_of_place_lag(sum);
    }
    sum
}

#[inline(never)]
fn code_of_next_buddy(x: u64) -> u64 {
    std::hint::black_box(x) * 3
}

#[inline(never)]
fn code_of_place_lag(x: u64) -> u64 {
    std::hint::black_box(x) * 5
}
"#;

/// Compiles the functions against the core with `feature`, and returns the object file.
fn compile(feature: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("features-{feature}"));
    let manifest = format!(
        "[workspace]\n[package]\nname = \"uses_features\"\nversion = \"0.0.0\"\n\
         edition = \"2024\"\n[dependencies]\n\
         evenkeel-core = {{ path = {:?}, features = [{feature:?}] }}\n",
        env!("CARGO_MANIFEST_DIR")
    );
    fs::create_dir_all(root.join("src")).expect("a directory");
    fs::write(root.join("Cargo.toml"), manifest).expect("a file");
    fs::write(root.join("src/lib.rs"), SOURCE).expect("a file");
    let object = root.join("work.o");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .current_dir(&root)
        .env("CARGO_TARGET_DIR", root.join("target"));
    cargo
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo.args(["rustc", "--quiet", "--offline", "--release", "--"]);
    cargo
        .args(["-Ccodegen-units=1"])
        .arg(format!("--emit=obj={}", object.display()));
    let output = cargo.output().expect("cargo starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // Not one warning, either.
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    fs::read(object).expect("an object file")
}

fn contains(object: &[u8], text: &str) -> bool {
    object
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

#[test]
fn nothing_is_left_of_a_feature_that_is_off_by_constant() {
    let sites = "evenkeel_static_key_";
    let constant = compile("realtime");
    assert!(!contains(&constant, "code_of_next_buddy"));
    assert!(contains(&constant, "code_of_place_lag"));
    assert!(!contains(&constant, sites));
    let switched = compile("sched-debug");
    for text in ["code_of_next_buddy", "code_of_place_lag", sites] {
        assert!(contains(&switched, text), "{text}");
    }
}
