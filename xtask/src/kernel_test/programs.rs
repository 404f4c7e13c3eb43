//! The programs that run in the guest, and the guest's file system around them.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::cache::Cache;
use super::command;
use super::failure::Failure;
use super::initramfs::Archive;

/// The guest's first process.
const INIT: &[u8] = include_bytes!("../../kernel/init");

/// What runs beside the programs in the guest: a shell and its tools, statically linked.
const BUSYBOX: &str = "/bin/busybox";

/// The host's own target, named so that the flags for static linking do not reach build scripts and
/// macros.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// An example of one of our packages that runs in the guest.
pub(crate) struct Program {
    /// Its name in the guest and in the report.
    pub(crate) name: &'static str,
    package: &'static str,
    example: &'static str,
    /// Settings of its environment, apart by spaces.
    environment: &'static str,
    /// Its arguments, apart by spaces.
    arguments: &'static str,
}

/// The kernel's interface where the C library has registered each thread, in a form without the
/// extension; one line of `check NAME: RESULT` for each check.
pub(crate) const ABI: Program = Program {
    name: "abi",
    package: "evenkeel-slice",
    example: "abi",
    environment: "",
    arguments: "",
};

/// The same where the C library was told to register none.
pub(crate) const ABI_UNREGISTERED: Program = Program {
    name: "abi-unregistered",
    environment: "GLIBC_TUNABLES=glibc.pthread.rseq=0",
    ..ABI
};

/// The lock experiment.
pub(crate) const LOCK: Program = Program {
    name: "lock",
    package: "evenkeel-bench",
    example: "lock",
    environment: "",
    arguments: "--contenders 3 --section-us 20 --outside-us 0 --seconds 5 --rounds 1 --json",
};

/// Every program, in the order in which they run: by name.
pub(crate) const PROGRAMS: &[Program] = &[ABI, ABI_UNREGISTERED, LOCK];

/// Builds the programs with cargo, statically linked, in a target folder in the cache.
pub(crate) fn build(cache: &Cache, repository: &Path) -> Result<(), Failure> {
    for program in PROGRAMS {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.current_dir(repository);
        cargo.args(["build", "--release", "--target", TARGET]);
        cargo.args(["--package", program.package, "--example", program.example]);
        cargo.arg("--target-dir").arg(cache.path("target"));
        cargo.env("RUSTFLAGS", "-C target-feature=+crt-static");
        cargo.env_remove("CARGO_ENCODED_RUSTFLAGS");
        let log = format!("{}.log", program.name);
        command::run(&mut cargo, &cache.path(&log))?;
    }
    Ok(())
}

/// Writes the guest's file system.
pub(crate) fn pack(cache: &Cache) -> Result<(), Failure> {
    let mut archive = Archive::new();
    for folder in ["bin", "dev", "proc", "sys", "tests", "tmp"] {
        archive.folder(folder);
    }
    // The first process's input and output, before anything is mounted.
    archive.device("dev/console", 5, 1);
    archive.program("init", INIT);
    archive.program("bin/busybox", &read(Path::new(BUSYBOX))?);
    let folder = cache.path("target").join(TARGET).join("release/examples");
    for program in PROGRAMS {
        let name = format!("tests/{}", program.name);
        archive.program(&name, &read(&folder.join(program.example))?);
        archive.file(&format!("{name}.env"), program.environment.as_bytes());
        archive.file(&format!("{name}.args"), program.arguments.as_bytes());
    }
    let path = cache.path("initramfs.new");
    fs::write(&path, archive.finish()).map_err(|e| Failure::io("write", &path, &e))?;
    cache.replace("initramfs.new", "initramfs")
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|e| Failure::io("read", path, &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_listed_in_the_order_in_which_the_guest_runs_them() {
        assert!(PROGRAMS.is_sorted_by_key(|program| program.name));
    }
}
