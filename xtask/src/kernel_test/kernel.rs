//! The kernel: its source, its configuration, its image.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::apt::Package;
use super::cache::{Cache, hash, remove};
use super::failure::Failure;
use super::{Step, command};

/// What the tests need, on top of the kernel's smallest configuration.
const FRAGMENT: &str = include_str!("../../kernel/rseqvm.fragment");

/// What the image says about its build. Fixed, so that the same source, configuration and compiler
/// give the same bytes.
const IDENTITY: &[(&str, &str)] = &[
    ("KBUILD_BUILD_TIMESTAMP", "2026-01-01 00:00:00 UTC"),
    ("KBUILD_BUILD_USER", "evenkeel"),
    ("KBUILD_BUILD_HOST", "evenkeel"),
    ("KBUILD_BUILD_VERSION", "1"),
];

/// Unpacks the kernel's source from the package into the cache.
pub(crate) fn unpack(cache: &Cache, package: &Package) -> Result<(), Failure> {
    let log = cache.path("source.log");
    let unpacked = cache.empty_folder("package")?;
    let mut dpkg = Command::new("dpkg");
    command::run(dpkg.arg("-x").arg(&package.path).arg(&unpacked), &log)?;
    let archive = archive(&unpacked.join("usr/src"))?;
    let folder = cache.empty_folder("source.new")?;
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(&folder);
    tar.args(["--strip-components=1", "-xf"]).arg(&archive);
    command::run(&mut tar, &log)?;
    cache.replace("source.new", "source")?;
    remove(&unpacked)?;
    cache.record(Step::Source, &package.hash)
}

/// Returns the path of the archive with the source.
fn archive(folder: &Path) -> Result<std::path::PathBuf, Failure> {
    let entries = fs::read_dir(folder).map_err(|e| Failure::io("read", folder, &e))?;
    entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().contains(".tar"))
        .ok_or_else(|| {
            let why = format!("no archive with a source in {}", folder.display());
            Failure::Failed(why)
        })
}

/// Returns the key of the image: everything that decides its bytes.
pub(crate) fn image_key(package: &Package) -> String {
    let compiler = Command::new("gcc").arg("--version").output();
    let compiler = compiler.map(|output| output.stdout).unwrap_or_default();
    let compiler = String::from_utf8_lossy(&compiler).into_owned();
    let identity: Vec<String> = IDENTITY
        .iter()
        .map(|(name, value)| format!("{name}={value}\n"))
        .collect();
    format!(
        "source {}\nconfiguration {}\ncompiler {}\n{}",
        package.hash,
        hash(FRAGMENT.as_bytes()),
        compiler.lines().next().unwrap_or("unknown"),
        identity.concat(),
    )
}

/// Configures and builds the kernel with `jobs` compilers at a time at the lowest priority, and
/// puts the image in place. A build that fails leaves the old image.
pub(crate) fn build(cache: &Cache, jobs: usize, key: &str) -> Result<(), Failure> {
    let build = cache.path("build");
    fs::create_dir_all(&build).map_err(|e| Failure::io("make", &build, &e))?;
    configure(cache, &build)?;
    let mut make = make(cache, &build);
    make.arg(format!("-j{jobs}")).arg("bzImage");
    command::run(&mut make, &cache.path("image.log"))?;
    let new = cache.path("bzImage.new");
    let image = build.join("arch/x86/boot/bzImage");
    fs::copy(&image, &new).map_err(|e| Failure::io("copy", &image, &e))?;
    cache.replace("bzImage.new", "bzImage")?;
    cache.record(Step::Image, key)
}

/// Writes the configuration: the smallest, with the fragment merged into it, and the rest by
/// default. make compares settings one by one, so what they do not concern is not compiled again.
fn configure(cache: &Cache, build: &Path) -> Result<(), Failure> {
    let log = cache.path("configuration.log");
    let fragment = cache.path("fragment");
    fs::write(&fragment, FRAGMENT).map_err(|e| Failure::io("write", &fragment, &e))?;
    command::run(make(cache, build).arg("tinyconfig"), &log)?;
    let mut merge = Command::new("scripts/kconfig/merge_config.sh");
    merge.current_dir(cache.path("source"));
    merge.arg("-m").arg("-O").arg(build);
    merge.arg(build.join(".config")).arg(&fragment);
    command::run(&mut merge, &log)?;
    command::run(make(cache, build).arg("olddefconfig"), &log)?;
    let path = build.join(".config");
    let config = fs::read_to_string(&path).map_err(|e| Failure::io("read", &path, &e))?;
    match lost_settings(FRAGMENT, &config)[..] {
        [] => Ok(()),
        ref lost => Err(Failure::Failed(format!(
            "the kernel's configuration dropped: {}",
            lost.join(", ")
        ))),
    }
}

fn make(cache: &Cache, build: &Path) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "19", "make", "ARCH=x86_64"]);
    command.arg("-C").arg(cache.path("source"));
    command.arg(format!("O={}", build.display()));
    command.envs(IDENTITY.iter().copied());
    // What the caller set for cargo's or its own make is not meant for this one.
    for name in ["MAKEFLAGS", "MFLAGS", "CARGO_MAKEFLAGS", "KCFLAGS"] {
        command.env_remove(name);
    }
    command
}

/// Returns the settings of `fragment` that `config` does not have: the kernel's tools drop a
/// setting silently when something it depends on is missing.
fn lost_settings<'a>(fragment: &'a str, config: &str) -> Vec<&'a str> {
    let is_there = |wanted: &str| {
        let name = wanted
            .strip_prefix("# ")
            .and_then(|text| text.strip_suffix(" is not set"));
        match name {
            Some(name) => {
                let on = format!("{name}=");
                !config.lines().any(|line| line.starts_with(&on))
            }
            None => config.lines().any(|line| line == wanted),
        }
    };
    fragment
        .lines()
        .filter(|line| line.starts_with("CONFIG_") || line.ends_with(" is not set"))
        .filter(|line| !is_there(line))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_setting_is_found() {
        let fragment = "# words\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=5\n";
        for (config, lost) in [
            ("CONFIG_A=y\nCONFIG_C=5\n", &[][..]),
            ("CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=5\n", &[]),
            (
                "CONFIG_A=y\nCONFIG_B=y\nCONFIG_C=5\n",
                &["# CONFIG_B is not set"],
            ),
            ("CONFIG_A=m\nCONFIG_C=50\n", &["CONFIG_A=y", "CONFIG_C=5"]),
        ] {
            assert_eq!(lost_settings(fragment, config), lost, "{config}");
        }
    }

    #[test]
    fn the_fragment_turns_on_what_the_tests_are_about() {
        let settings = ["CONFIG_RSEQ_SLICE_EXTENSION=y", "CONFIG_RSEQ_STATS=y"];
        for setting in settings {
            assert!(FRAGMENT.lines().any(|line| line == setting));
        }
    }

    #[test]
    fn the_key_changes_with_the_source() {
        let package = |hash: &str| Package {
            path: "package.deb".into(),
            hash: hash.to_owned(),
        };
        assert_ne!(image_key(&package("a")), image_key(&package("b")));
        assert_eq!(image_key(&package("a")), image_key(&package("a")));
    }
}
