//! The kernel's source package, from the machine's own Debian source with another suite.
//!
//! The machine's package lists, sources and preferences are neither read nor written by the
//! download: it has a configuration of its own in the cache. Nothing is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cache::{Cache, hash_file, remove};
use super::failure::Failure;
use super::{Step, command};

/// The Debian package with the kernel's source.
const PACKAGE: &str = "linux-source-7.2";

/// The suite that has it.
const SUITE: &str = "sid";

/// A file for apt's folder of sources.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// `kernel.sources` or `kernel.list`: the name tells apt the format.
    name: &'static str,
    text: String,
}

/// The downloaded package file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) path: PathBuf,
    /// SHA-256 in hexadecimal.
    pub(crate) hash: String,
}

impl Package {
    /// Returns the package that the cache has, when it is whole: its hash is the recorded one.
    pub(crate) fn in_cache(cache: &Cache) -> Option<Package> {
        let record = fs::read_to_string(cache.path("deb/record")).ok()?;
        let (hash, name) = record.trim_end().split_once("  ")?;
        let path = cache.path("deb").join(name);
        let is_whole = hash_file(&path).is_ok_and(|found| found == hash);
        is_whole.then(|| Package {
            path,
            hash: hash.to_owned(),
        })
    }

    /// Downloads the package. apt checks it against the archive's signed lists; its hash is
    /// recorded beside it.
    pub(crate) fn download(cache: &Cache) -> Result<Package, Failure> {
        let source = machine_source()?;
        let apt = cache.empty_folder("apt")?;
        for folder in ["sources.d", "lists/partial", "cache/archives/partial"] {
            let path = apt.join(folder);
            fs::create_dir_all(&path).map_err(|e| Failure::io("make", &path, &e))?;
        }
        let path = apt.join("sources.d").join(source.name);
        fs::write(&path, &source.text).map_err(|e| Failure::io("write", &path, &e))?;
        let log = cache.path("apt.log");
        let folder = cache.empty_folder("deb.new")?;
        let cannot = |failure| Failure::CannotRun(format!("{PACKAGE} was not fetched: {failure}"));
        command::run(apt_get(&apt).arg("update"), &log).map_err(cannot)?;
        let mut download = apt_get(&apt);
        download.args(["download", PACKAGE]).current_dir(&folder);
        command::run(&mut download, &log).map_err(cannot)?;
        let file = only_file(&folder)?;
        let hash = hash_file(&folder.join(&file))?;
        let record = folder.join("record");
        fs::write(&record, format!("{hash}  {file}\n"))
            .map_err(|e| Failure::io("write", &record, &e))?;
        cache.replace("deb.new", "deb")?;
        remove(&apt)?;
        cache.record(Step::Package, PACKAGE)?;
        let path = cache.path("deb").join(file);
        Ok(Package { path, hash })
    }
}

/// Returns apt-get set up to read and write inside `apt` only.
fn apt_get(apt: &Path) -> Command {
    let mut command = Command::new("apt-get");
    let folders = [
        ("Dir::Etc::sourcelist", "/dev/null".into()),
        ("Dir::Etc::sourceparts", apt.join("sources.d")),
        ("Dir::Etc::preferences", "/dev/null".into()),
        ("Dir::Etc::preferencesparts", "/dev/null".into()),
        ("Dir::State::lists", apt.join("lists")),
        ("Dir::Cache", apt.join("cache")),
    ];
    for (setting, path) in folders {
        command.arg(format!("-o{setting}={}", path.display()));
    }
    // A list that cannot be fetched is an error, not a warning; descriptions are not needed; the
    // user that apt would otherwise become cannot write into somebody's cache folder.
    command.args([
        "-oAPT::Update::Error-Mode=any",
        "-oAcquire::Languages=none",
        "-oAcquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
        "-oAPT::Sandbox::User=",
    ]);
    command
}

/// Returns the name of the only file in a folder.
fn only_file(folder: &Path) -> Result<String, Failure> {
    let entries = fs::read_dir(folder).map_err(|e| Failure::io("read", folder, &e))?;
    let names: Vec<String> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    match &names[..] {
        [name] => Ok(name.clone()),
        _ => Err(Failure::Failed(format!(
            "{} should have one file and has {}",
            folder.display(),
            names.len()
        ))),
    }
}

/// Reads this machine's sources and returns the private one.
fn machine_source() -> Result<Source, Failure> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let codename = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .map(|name| name.trim_matches('"'));
    let mut paths = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(entries) = fs::read_dir("/etc/apt/sources.list.d") {
        paths.extend(entries.filter_map(Result::ok).map(|entry| entry.path()));
    }
    paths.sort();
    let files: Vec<(bool, String)> = paths
        .iter()
        .filter_map(|path| {
            let is_deb822 = match path.extension()?.to_str()? {
                "sources" => true,
                "list" => false,
                _ => return None,
            };
            Some((is_deb822, fs::read_to_string(path).ok()?))
        })
        .collect();
    let source = codename.and_then(|codename| kernel_source(codename, &files));
    source.ok_or_else(|| {
        let why = "apt's configuration names no Debian source of this machine's own release";
        Failure::CannotRun(why.to_owned())
    })
}

/// Returns the machine's own Debian source with the suite replaced. `files` are apt's, each with
/// whether it is in the deb822 format. A source signed by Debian's keyring comes before others.
pub(crate) fn kernel_source(codename: &str, files: &[(bool, String)]) -> Option<Source> {
    let mut found: Vec<Source> = files
        .iter()
        .flat_map(|(is_deb822, text)| match is_deb822 {
            true => rewrite_stanzas(codename, text),
            false => rewrite_lines(codename, text),
        })
        .collect();
    found.sort_by_key(|source| !source.text.contains("debian-archive"));
    found.into_iter().next()
}

/// Rewrites those stanzas of a deb822 file that have the suite `codename` and the component main.
fn rewrite_stanzas(codename: &str, text: &str) -> Vec<Source> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let text: String = lines.map(|line| format!("{}\n", line.trim_end())).collect();
    text.split("\n\n")
        .filter_map(|stanza| rewrite_stanza(codename, stanza.trim_matches('\n')))
        .map(|text| Source {
            name: "kernel.sources",
            text,
        })
        .collect()
}

fn rewrite_stanza(codename: &str, stanza: &str) -> Option<String> {
    let has = |field: &str, word: &str| {
        let value = field_of(stanza, field).unwrap_or_default();
        value.split_whitespace().any(|w| w == word)
    };
    let is_off = has("Enabled", "no");
    if is_off || !has("Types", "deb") || !has("Suites", codename) || !has("Components", "main") {
        return None;
    }
    let mut text = String::new();
    let mut is_replaced = false;
    for line in stanza.lines() {
        let is_continuation = line.starts_with([' ', '\t']);
        if is_continuation && is_replaced {
            continue;
        }
        let replacement = line.split_once(':').and_then(|(name, _)| match name {
            _ if is_continuation => None,
            "Types" => Some("deb"),
            "Suites" => Some(SUITE),
            "Components" => Some("main"),
            _ => None,
        });
        is_replaced = replacement.is_some();
        match (replacement, line.split_once(':')) {
            (Some(value), Some((name, _))) => text.push_str(&format!("{name}: {value}\n")),
            _ => text.push_str(&format!("{line}\n")),
        }
    }
    Some(text)
}

/// Returns the value of a field with its continuation lines.
fn field_of(stanza: &str, field: &str) -> Option<String> {
    let mut lines = stanza.lines().skip_while(|line| {
        let name = line.split_once(':').map(|(name, _)| name);
        name != Some(field)
    });
    let (_, first) = lines.next()?.split_once(':')?;
    let rest = lines.take_while(|line| line.starts_with([' ', '\t']));
    Some(rest.fold(first.to_owned(), |value, line| value + line))
}

/// Rewrites those lines of a one-line-style file that have the suite `codename` and the component
/// main.
fn rewrite_lines(codename: &str, text: &str) -> Vec<Source> {
    text.lines()
        .filter_map(|line| rewrite_line(codename, line))
        .map(|text| Source {
            name: "kernel.list",
            text,
        })
        .collect()
}

fn rewrite_line(codename: &str, line: &str) -> Option<String> {
    let line = line.split('#').next()?.trim();
    let rest = line.strip_prefix("deb")?;
    if !rest.starts_with([' ', '\t']) {
        return None;
    }
    let rest = rest.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(rest) => {
            let (options, rest) = rest.split_once(']')?;
            (format!("[{}] ", options.trim()), rest)
        }
        None => (String::new(), rest),
    };
    let words: Vec<&str> = rest.split_whitespace().collect();
    match &words[..] {
        [uri, suite, components @ ..] if *suite == codename && components.contains(&"main") => {
            Some(format!("deb {options}{uri} {SUITE} main\n"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
