//! Under Valgrind: flips are seen although it executes translations of the code, and the number of
//! instructions that a branch adds. Skipped with a message where there is no Valgrind.
#![cfg(all(target_os = "linux", target_arch = "x86_64", not(loom)))]
#![forbid(unsafe_code)]

mod common;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use common::{PATCHES, has_program, in_child_under, run};
use evenkeel_static_key::{StaticKey, static_branch_unlikely};

static KEY: StaticKey = StaticKey::new_false("under Valgrind");

/// `test eax, imm32`: the first byte of an armed site.
const FALL_THROUGH: u8 = 0xa9;
/// `jmp rel32`: the first byte of an unarmed site.
const JUMP: u8 = 0xe9;

#[inline(never)]
fn branch() -> bool {
    static_branch_unlikely!(KEY)
}

/// Executes the site always in the same code: Valgrind translates a caller and what it calls in one
/// piece, so a second caller would have a fresh translation.
#[inline(never)]
fn all_give(value: bool) -> bool {
    (0..100).all(|_| branch() == value)
}

/// Writes to the site without telling Valgrind.
fn poke(byte: u8) {
    let memory = OpenOptions::new().write(true).open("/proc/self/mem");
    let address = KEY.sites()[0].address as u64;
    let memory = memory.expect("the memory file opens");
    memory
        .write_all_at(&[byte], address)
        .expect("code can be written");
}

#[test]
fn flips_are_seen() {
    const NAME: &str = "flips_are_seen";
    if !has_program("valgrind", NAME) || !PATCHES {
        return;
    }
    in_child_under(&["valgrind", "--tool=none"], NAME, || {
        assert!(all_give(false));
        for _ in 0..3 {
            assert_eq!(KEY.arm(), Ok(1));
            assert!(KEY.is_patched() && all_give(false));
            KEY.enable().expect("nothing denies patching");
            assert!(all_give(true) && thread::spawn(|| all_give(true)).join().expect("no panic"));
            KEY.disable().expect("nothing denies patching");
            assert!(all_give(false));
        }
        // The control: a write that Valgrind is not told of must go unseen, or this test would pass
        // whatever the crate does.
        KEY.enable().expect("nothing denies patching");
        assert!(all_give(true));
        poke(FALL_THROUGH);
        assert!(
            all_give(true),
            "the translation of the jump is still in use"
        );
        poke(JUMP);
    });
}

/// Builds the example `count` with optimisation; returns its path.
fn build_count() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("count");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "--example", "count"]);
    cargo.args([
        "--manifest-path",
        concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
    ]);
    run(cargo.arg("--target-dir").arg(&target));
    target.join("release/examples/count")
}

/// Returns the number of instructions that `count` executes for `calls` calls of `form`.
fn instructions(program: &Path, form: &str, calls: u64) -> u64 {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    let (out, err) = run(valgrind.arg(program).arg(form).arg(calls.to_string()));
    assert!(out.contains("armed: 1"), "{out}");
    let line = err.lines().find(|line| line.contains("Collected :"));
    let number = line.and_then(|line| line.split_whitespace().last());
    number
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("no count in {err}"))
}

#[test]
fn a_disabled_site_costs_one_instruction() {
    const NAME: &str = "a_disabled_site_costs_one_instruction";
    const FEW: u64 = 1_000;
    const MANY: u64 = 101_000;
    if !has_program("valgrind", NAME) || !PATCHES {
        return;
    }
    let program = build_count();
    let per_call = |form: &str| {
        let more = instructions(&program, form, MANY) - instructions(&program, form, FEW);
        // Rounded: printing a longer number takes some instructions too.
        (more + (MANY - FEW) / 2) / (MANY - FEW)
    };
    let none = per_call("none");
    let added = ["site", "flag", "unarmed"].map(|form| per_call(form) - none);
    println!("instructions added to {none}: site, relaxed flag load, unarmed site: {added:?}");
    assert_eq!(added, [1, 3, 4]);
}
