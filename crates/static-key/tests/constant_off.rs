//! A branch that a constant rules out: the function is byte for byte as if the branch were not in
//! the source, and the object file has no record of a site.
#![cfg(all(
    target_os = "linux",
    target_arch = "x86_64",
    not(any(loom, feature = "portable"))
))]
#![forbid(unsafe_code)]

mod common;
#[path = "common/workspace.rs"]
mod workspace;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use common::run;

/// The section with the records of sites.
const RECORDS: &str = "evenkeel_static_key_0_1";
/// The section with the function.
const FUNCTION: &str = ".text.work";

/// The sections of an object file: name to contents.
type Sections = BTreeMap<String, Vec<u8>>;

/// Compiles the function with the given features.
fn compile(root: &Path, features: &str, profile: &str) -> Sections {
    let object = root.join(format!("{profile}-{features}.o"));
    let mut cargo = workspace::cargo(root, "rustc", "");
    cargo.args([
        "-p",
        "fixture_constant",
        "--features",
        features,
        "--profile",
        profile,
    ]);
    cargo
        .args(["--", "-Ccodegen-units=1"])
        .arg(format!("--emit=obj={}", object.display()));
    run(&mut cargo);
    sections(&fs::read(object).expect("an object file"))
}

/// Reads the section table of a 64-bit little-endian ELF file (offsets as in `elf.h`).
fn sections(file: &[u8]) -> Sections {
    let number = |at: usize, bytes: usize| {
        let field = file[at..at + bytes].iter().rev();
        field.fold(0_usize, |number, byte| number << 8 | usize::from(*byte))
    };
    assert_eq!(&file[..6], b"\x7fELF\x02\x01");
    let (table, entry) = (number(0x28, 8), number(0x3a, 2));
    let (count, names) = (number(0x3c, 2), number(0x3e, 2));
    let header = |index: usize| table + index * entry;
    let place = |index: usize| {
        (
            number(header(index) + 0x18, 8),
            number(header(index) + 0x20, 8),
        )
    };
    let name = |index: usize| {
        let start = place(names).0 + number(header(index), 4);
        let bytes = file[start..].iter().take_while(|byte| **byte != 0);
        String::from_utf8(bytes.copied().collect()).expect("section names are ASCII")
    };
    let has_bytes = |index: &usize| {
        const NOBITS: usize = 8;
        number(header(*index) + 4, 4) != NOBITS
    };
    let contents = |index: usize| {
        let (start, size) = place(index);
        (name(index), file[start..start + size].to_vec())
    };
    (0..count).filter(has_bytes).map(contents).collect()
}

/// Two versions of this crate in one program must not read each other's records.
#[test]
fn the_section_has_the_version_in_its_name() {
    let (major, minor) = (
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
    );
    assert_eq!(RECORDS, format!("evenkeel_static_key_{major}_{minor}"));
}

#[test]
fn nothing_is_left_of_a_branch_that_is_off_by_constant() {
    let package = (
        "fixture_constant",
        "lib",
        include_str!("fixture/constant.rs"),
        &[][..],
    );
    let root = workspace::write_workspace("constant-off", &[package]);
    for profile in ["release", "dev"] {
        let [without, off, on] = ["", "branch", "on"].map(|with| compile(&root, with, profile));
        assert!(!without[FUNCTION].is_empty());
        assert_eq!(off[FUNCTION], without[FUNCTION], "{profile}");
        assert!(
            !off.keys().any(|name| name.contains(RECORDS)),
            "{profile}: {:?}",
            off.keys()
        );
        // The control: a branch that is there is seen.
        assert_ne!(on[FUNCTION], without[FUNCTION], "{profile}");
        assert!(on.contains_key(RECORDS), "{profile}: {:?}", on.keys());
    }
}
