//! The sites of small programs, linked by several linkers in several ways: right, armed, and gone
//! when their function is dead.
//!
//! By default a few combinations are tried. `EVENKEEL_LINK_MATRIX=full` tries all: linkers ×
//! profiles, folding of identical code, C and Rust shared libraries, static position-independent
//! programs. A linker that is not there is skipped with a message.
#![cfg(all(
    target_os = "linux",
    target_arch = "x86_64",
    not(any(loom, feature = "portable"))
))]
#![forbid(unsafe_code)]

mod common;
#[path = "common/workspace.rs"]
mod workspace;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{has_program, run};
use workspace::{Package, write_workspace};

/// How a linker is chosen.
#[derive(Clone, Copy)]
struct Linker {
    name: &'static str,
    /// The program that must be there, if it does not come with the compiler.
    program: Option<&'static str>,
    flags: &'static str,
    /// Whether it drops dead functions that have sites, if that is known.
    drops_dead: Option<bool>,
}

const LLD: Linker = Linker {
    name: "rust-lld",
    program: None,
    flags: "",
    drops_dead: Some(true),
};
const BFD: Linker = Linker {
    name: "bfd",
    program: Some("ld.bfd"),
    flags: "-Clinker-features=-lld -Clink-arg=-fuse-ld=bfd -Clink-arg=-Wl,-z,start-stop-gc",
    drops_dead: Some(true),
};
const BFD_PLAIN: Linker = Linker {
    name: "bfd without start-stop-gc",
    program: Some("ld.bfd"),
    flags: "-Clinker-features=-lld -Clink-arg=-fuse-ld=bfd",
    drops_dead: Some(false),
};
const MOLD: Linker = Linker {
    name: "mold",
    program: Some("mold"),
    flags: "-Clinker-features=-lld -Clink-arg=-fuse-ld=mold",
    drops_dead: None,
};
const GOLD: Linker = Linker {
    name: "gold",
    program: Some("ld.gold"),
    flags: "-Clinker-features=-lld -Clink-arg=-fuse-ld=gold",
    drops_dead: None,
};
const SYSTEM_LLD: Linker = Linker {
    name: "the system's lld",
    program: Some("ld.lld"),
    flags: "-Clinker-features=-lld -Clink-arg=-fuse-ld=lld",
    drops_dead: Some(true),
};
const FOLDING_LLD: Linker = Linker {
    name: "rust-lld --icf=all",
    program: None,
    flags: "-Clink-arg=-Wl,--icf=all",
    drops_dead: Some(true),
};
const STATIC: Linker = Linker {
    name: "rust-lld, static-pie",
    program: None,
    flags: "-Ctarget-feature=+crt-static",
    drops_dead: Some(true),
};

/// How the compiler optimises: name, cargo's argument, and cargo's settings.
#[derive(Clone, Copy)]
struct Profile(
    &'static str,
    Option<&'static str>,
    &'static [(&'static str, &'static str)],
);

const LTO: &str = "CARGO_PROFILE_RELEASE_LTO";
const UNITS: &str = "CARGO_PROFILE_RELEASE_CODEGEN_UNITS";
const DEV: Profile = Profile("dev", None, &[]);
const RELEASE: Profile = Profile("release", Some("--release"), &[(LTO, "off"), (UNITS, "16")]);
const ONE_UNIT: Profile = Profile("one unit", Some("--release"), &[(LTO, "off"), (UNITS, "1")]);
const THIN: Profile = Profile(
    "thin LTO",
    Some("--release"),
    &[(LTO, "thin"), (UNITS, "16")],
);
const FAT: Profile = Profile("fat LTO", Some("--release"), &[(LTO, "fat"), (UNITS, "1")]);

/// The packages of the workspace that is built.
const PACKAGES: [Package; 6] = [
    ("fixture_lib", "lib", include_str!("fixture/lib.rs"), &[]),
    (
        "fixture_main",
        "bin",
        include_str!("fixture/plain.rs"),
        &["fixture_lib"],
    ),
    (
        "fixture_plugin",
        "cdylib",
        include_str!("fixture/plugin.rs"),
        &["fixture_lib"],
    ),
    (
        "fixture_loads",
        "bin",
        include_str!("fixture/loads_plugin.rs"),
        &["fixture_lib"],
    ),
    (
        "fixture_dynamic",
        "dylib",
        include_str!("fixture/dynamic.rs"),
        &["fixture_lib"],
    ),
    (
        "fixture_uses",
        "bin",
        include_str!("fixture/uses_dynamic.rs"),
        &["fixture_dynamic"],
    ),
];

/// Builds `packages` and returns the directory with what was built.
fn build(root: &Path, linker: Linker, profile: Profile, packages: &[&str]) -> PathBuf {
    let Profile(name, argument, settings) = profile;
    println!("{} / {name}: {}", linker.name, packages.join(" "));
    let mut cargo = workspace::cargo(root, "build", linker.flags);
    cargo.args(argument).envs(settings.iter().copied());
    for package in packages {
        cargo.args(["-p", package]);
    }
    run(&mut cargo);
    root.join("target").join(if argument.is_some() {
        "release"
    } else {
        "debug"
    })
}

fn is_there(linker: Linker, test: &str) -> bool {
    linker
        .program
        .is_none_or(|program| has_program(program, test))
}

/// Links and runs the plain program.
fn check_main(root: &Path, linker: Linker, profile: Profile) {
    let built = build(root, linker, profile, &["fixture_main"]);
    let (out, _) = run(&mut Command::new(built.join("fixture_main")));
    let names: Vec<&str> = out.split_whitespace().skip(3).collect();
    let has = |name: &str| names.contains(&name);
    let all = ["first", "second", "library", "likely"];
    assert!(all.iter().all(|name| has(name)), "{}: {out}", linker.name);
    match linker.drops_dead {
        Some(true) => assert!(!has("dead"), "{}: {out}", linker.name),
        // The control: where the linker keeps the dead function, its record is found. With
        // link-time optimisation it may be gone before the linker sees it.
        Some(false) if profile.0 == RELEASE.0 => assert!(has("dead"), "{}: {out}", linker.name),
        _ => {}
    }
}

fn check_shared_libraries(root: &Path, linker: Linker, profile: Profile) {
    let built = build(root, linker, profile, &["fixture_plugin", "fixture_loads"]);
    let plugin = built.join("libfixture_plugin.so");
    let (out, _) = run(Command::new(built.join("fixture_loads")).arg(plugin));
    assert!(out.contains("plugin checked"));
}

fn check_rust_dylib(root: &Path, linker: Linker, profile: Profile) {
    const PREFER_DYNAMIC: &str = "-Cprefer-dynamic";
    let flags: &'static str = format!("{} {PREFER_DYNAMIC}", linker.flags).leak();
    let linker = Linker { flags, ..linker };
    let built = build(root, linker, profile, &["fixture_uses"]);
    let (sysroot, _) = run(Command::new("rustc").args(["--print", "target-libdir"]));
    let path = format!("{}:{}", built.join("deps").display(), sysroot.trim());
    let (out, _) = run(Command::new(built.join("fixture_uses")).env("LD_LIBRARY_PATH", path));
    assert!(out.contains("dylib checked"));
}

#[test]
fn programs_link_and_run() {
    const NAME: &str = "programs_link_and_run";
    let root = write_workspace("link-matrix", &PACKAGES);
    let is_full = std::env::var("EVENKEEL_LINK_MATRIX").is_ok_and(|value| value == "full");
    if !is_full {
        check_main(&root, FOLDING_LLD, RELEASE);
        check_shared_libraries(&root, FOLDING_LLD, RELEASE);
        if is_there(BFD, NAME) {
            check_main(&root, BFD, DEV);
            check_main(&root, BFD_PLAIN, RELEASE);
        }
        return;
    }
    let profiles = [DEV, RELEASE, ONE_UNIT, THIN, FAT];
    for linker in [LLD, FOLDING_LLD, BFD, BFD_PLAIN, GOLD, MOLD, SYSTEM_LLD] {
        if !is_there(linker, NAME) {
            continue;
        }
        for profile in profiles {
            check_main(&root, linker, profile);
            check_shared_libraries(&root, linker, profile);
        }
        // Rust's own dylib of the standard library does not go together with LTO.
        check_rust_dylib(&root, linker, DEV);
        check_rust_dylib(&root, linker, RELEASE);
    }
    for profile in profiles {
        check_main(&root, STATIC, profile);
    }
}
