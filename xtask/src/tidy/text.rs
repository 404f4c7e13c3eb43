//! Rules about any text file.

use super::allow::REQUIRED_FILES;
use super::{File, Repo, Report};

/// Longest line, in characters.
const MAX_COLUMNS: usize = 100;

/// Longest Rust or shell file, in lines.
const MAX_FILE_LINES: usize = 800;

/// Words that mark unfinished work. In pieces, so that this file does not contain them.
const MARKERS: &[&str] = &[
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("TO", "DO"),
];

/// Macros that must not stay in Rust code. In pieces, for the same reason.
const MACROS: &[&str] = &[
    concat!("dbg", "!"),
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
];

/// Beginnings of paths that exist on one machine only. In pieces, for the same reason.
const MACHINE_PATHS: &[&str] = &[
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/Us", "ers/"),
    concat!("/tmp/", "target"),
];

/// Ends of host names that mean something inside one network only. In pieces, as above.
const PRIVATE_DOMAINS: &[&str] = &[
    concat!(".inte", "rnal"),
    concat!(".cor", "p"),
    concat!(".lo", "cal"),
    concat!(".la", "n"),
];

/// The only package source that Cargo.lock may name.
const INDEX: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Finds lines that are too long. Tables and lines with an address in Markdown, and a package's
/// description, may be longer.
pub(crate) fn line_length(repo: &Repo, report: &mut Report) {
    let is_checked = |file: &&File| {
        let suffixes = [".rs", ".toml", ".md", ".yml", ".yaml"];
        file.is_shell() || suffixes.iter().any(|suffix| file.path.ends_with(suffix))
    };
    for file in repo.files().iter().filter(is_checked) {
        let is_markdown = file.path.ends_with(".md");
        let is_manifest = file.path.ends_with("Cargo.toml");
        for (number, line) in file.lines() {
            let columns = line.chars().count();
            let may_be_long = (is_markdown && (line.starts_with('|') || line.contains("://")))
                || (is_manifest && line.starts_with("description"));
            if columns > MAX_COLUMNS && !may_be_long {
                let message = format!("{columns} columns, more than {MAX_COLUMNS}");
                report.add(&file.path, number, message);
            }
        }
    }
}

/// Finds code files that are too long.
pub(crate) fn file_length(repo: &Repo, report: &mut Report) {
    for file in repo
        .files()
        .iter()
        .filter(|file| file.path.ends_with(".rs") || file.is_shell())
    {
        let lines = file.text.lines().count();
        if lines > MAX_FILE_LINES {
            let message = format!("{lines} lines, more than {MAX_FILE_LINES}");
            report.add(&file.path, lines, message);
        }
    }
}

/// Finds markers of unfinished work everywhere, and debugging macros in Rust code.
pub(crate) fn leftovers(repo: &Repo, report: &mut Report) {
    for file in repo
        .files()
        .iter()
        .filter(|file| file.name() != "Cargo.lock")
    {
        let is_rust = file.path.ends_with(".rs");
        let words = MARKERS.iter().chain(if is_rust { MACROS } else { &[] });
        for word in words {
            for (number, line) in file.lines().filter(|(_, line)| has_word(line, word)) {
                let column = line.find(word).unwrap_or(0) + 1;
                report.add(
                    &file.path,
                    number,
                    format!("leftover `{word}` in column {column}"),
                );
            }
        }
    }
}

/// Finds names of places that mean nothing to anybody else.
pub(crate) fn places(repo: &Repo, report: &mut Report) {
    for file in repo.files() {
        for (number, line) in file.lines() {
            for path in MACHINE_PATHS.iter().filter(|path| has_path(line, path)) {
                report.add(&file.path, number, format!("path of one machine: `{path}`"));
            }
            for host in hosts(line).filter(|host| is_private(host)) {
                report.add(&file.path, number, format!("host of one network: `{host}`"));
            }
        }
    }
}

/// Finds packages in Cargo.lock that do not come from the public index, and other sources in
/// Cargo's configuration.
pub(crate) fn lock_sources(repo: &Repo, report: &mut Report) {
    for (number, line) in repo
        .file("Cargo.lock")
        .map_or("", |f| &f.text)
        .lines()
        .enumerate()
    {
        let source = line
            .strip_prefix("source = \"")
            .and_then(|rest| rest.strip_suffix('"'));
        if let Some(source) = source.filter(|source| *source != INDEX) {
            report.add(
                "Cargo.lock",
                number + 1,
                format!("package source `{source}`"),
            );
        }
    }
    for file in repo
        .files()
        .iter()
        .filter(|file| file.path.ends_with(".cargo/config.toml"))
    {
        let is_source = |line: &str| ["[source", "[registr"].iter().any(|s| line.starts_with(s));
        for (number, line) in file.lines().filter(|(_, line)| is_source(line.trim())) {
            report.add(
                &file.path,
                number,
                format!("replaces the package source: `{line}`"),
            );
        }
    }
}

/// Finds files that are missing, and a change log without a current section.
pub(crate) fn required(repo: &Repo, report: &mut Report) {
    for path in REQUIRED_FILES
        .iter()
        .filter(|path| repo.file(path).is_none())
    {
        report.add(path, 1, "missing");
    }
    let Some(log) = repo.file("CHANGELOG.md") else {
        return;
    };
    let version = repo
        .file("Cargo.toml")
        .and_then(|manifest| workspace_version(&manifest.text));
    let is_current = |line: &str| {
        line.starts_with("## ")
            && (line.contains("Unreleased") || version.is_some_and(|v| line.contains(v)))
    };
    let mut sections = log
        .lines()
        .skip_while(|(_, line)| !is_current(line))
        .skip(1);
    let has_entry = sections
        .by_ref()
        .take_while(|(_, line)| !line.starts_with("## "))
        .any(|(_, line)| line.starts_with("- "));
    if !has_entry {
        report.add(
            "CHANGELOG.md",
            1,
            "no entry under Unreleased or the current version",
        );
    }
}

/// Returns the value of `version = "…"` in `[workspace.package]`.
fn workspace_version(manifest: &str) -> Option<&str> {
    let (_, section) = manifest.split_once("[workspace.package]")?;
    let line = section.lines().find(|line| line.starts_with("version"))?;
    line.split('"').nth(1)
}

/// Tells whether `word` stands in `line` with no letter, digit or `_` beside it.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let is_joined_after = !word.ends_with('!') && line[at + word.len()..].starts_with(is_part);
        !is_joined_after && !line[..at].ends_with(is_part)
    })
}

/// Tells whether `line` holds an absolute path that begins with `path`.
fn has_path(line: &str, path: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "_-./~}".contains(c);
    line.match_indices(path)
        .any(|(at, _)| !line[..at].ends_with(is_part))
}

/// Returns the host part of every address in `line`.
fn hosts(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("://").map(|(at, separator)| {
        let rest = &line[at + separator.len()..];
        let end = rest.find(|c: char| !(c.is_alphanumeric() || "-.@_".contains(c)));
        let host = &rest[..end.unwrap_or(rest.len())];
        host.rsplit('@')
            .next()
            .unwrap_or(host)
            .trim_end_matches('.')
    })
}

/// Tells whether a host name means something inside one network only: a private suffix, or an
/// address in numbers other than the loopback's and the documentation's.
fn is_private(host: &str) -> bool {
    let is_number =
        host.split('.').count() == 4 && host.split('.').all(|n| n.parse::<u8>().is_ok());
    let is_public_knowledge = ["127.", "0.0.0.0", "192.0.2."]
        .iter()
        .any(|prefix| host.starts_with(prefix));
    PRIVATE_DOMAINS.iter().any(|domain| host.ends_with(domain))
        || (is_number && !is_public_knowledge)
}

#[cfg(test)]
mod tests {
    //! Each rule, on a text that breaks it and on one that does not.
    use super::*;
    use crate::tidy::testing::{check_lines, found};

    #[test]
    fn line_length_counts_characters() {
        let line = |columns: usize| format!("// {}\n", "µ".repeat(columns - 3));
        check_lines("line-length", "a.rs", &line(100), &[]);
        for path in ["a.rs", "a/b.toml", "README.md"] {
            check_lines("line-length", path, &line(101), &[1]);
        }
        check_lines(
            "line-length",
            "run",
            &format!("#!/bin/sh\n{}", line(101)),
            &[2],
        );
    }

    #[test]
    fn tables_addresses_and_descriptions_may_be_long() {
        let long = "x".repeat(101);
        let text = format!("| {long} |\n<https://example.org/{long}>\n{long}\n");
        check_lines("line-length", "a.md", &text, &[3]);
        let text = format!("description = \"{long}\"\nname = \"{long}\"\n");
        check_lines("line-length", "a/Cargo.toml", &text, &[2]);
    }

    #[test]
    fn file_length_is_limited() {
        check_lines("file-length", "a.rs", &"//! x\n".repeat(800), &[]);
        check_lines("file-length", "a.rs", &"//! x\n".repeat(801), &[801]);
        check_lines("file-length", "Cargo.lock", &"x\n".repeat(801), &[]);
    }

    #[test]
    fn leftovers_are_found_as_whole_words() {
        for marker in MARKERS {
            for path in ["a.rs", "a.md", "a.toml", ".ci/run"] {
                check_lines("leftover", path, &format!("\n# {marker}: later\n"), &[2]);
            }
            check_lines(
                "leftover",
                "a.rs",
                &format!("// A{marker}S {marker}_y\n"),
                &[],
            );
        }
        for name in MACROS {
            check_lines(
                "leftover",
                "a.rs",
                &format!("fn f() {{ {name}(1); }}\n"),
                &[1],
            );
            check_lines("leftover", "a.md", &format!("{name} is refused\n"), &[]);
        }
        check_lines("leftover", "a.rs", &format!("{}x\n", MACROS[0]), &[1]);
    }

    #[test]
    fn machine_paths_are_found() {
        for path in MACHINE_PATHS {
            check_lines("place", "a.md", &format!("see {path}x\n"), &[1]);
            check_lines("place", "a.rs", &format!("f(\"{path}x\")\n"), &[1]);
            check_lines(
                "place",
                "a.md",
                &format!("https://example.org{path}x\n"),
                &[],
            );
        }
    }

    #[test]
    fn private_hosts_are_found() {
        for domain in PRIVATE_DOMAINS {
            check_lines(
                "place",
                "a.toml",
                &format!("u = \"https://me@x{domain}/y\"\n"),
                &[1],
            );
        }
        check_lines("place", "a.md", concat!("http:/", "/10.1.2.3:80/\n"), &[1]);
        for host in [
            "crates.io",
            "127.0.0.1:80",
            "192.0.2.7",
            "localhost:1",
            "{address}",
        ] {
            check_lines("place", "a.md", &format!("http://{host}/\n"), &[]);
        }
    }

    #[test]
    fn lock_file_names_the_public_index() {
        let lock = |source: &str| format!("[[package]]\nname = \"x\"\nsource = \"{source}\"\n");
        check_lines("lock-source", "Cargo.lock", &lock(INDEX), &[]);
        check_lines(
            "lock-source",
            "Cargo.lock",
            &lock("registry+https://example.org/i"),
            &[3],
        );
        check_lines(
            "lock-source",
            ".cargo/config.toml",
            "[source.crates-io]\n",
            &[1],
        );
        check_lines("lock-source", ".cargo/config.toml", "[alias]\n", &[]);
    }

    fn with_log(log: &str) -> Vec<String> {
        let manifest = "[workspace.package]\nversion = \"0.3.0\"\n";
        let mut files: Vec<(&str, &str)> = REQUIRED_FILES.iter().map(|path| (*path, "")).collect();
        files.retain(|(path, _)| *path != "CHANGELOG.md");
        files.extend([("Cargo.toml", manifest), ("CHANGELOG.md", log)]);
        found("required-file", &files)
    }

    #[test]
    fn required_files_are_demanded() {
        let found = found("required-file", &[("README.md", "")]);
        assert_eq!(found.len(), REQUIRED_FILES.len() - 1);
        assert!(found.contains(&"CHANGELOG.md:1".to_owned()));
    }

    #[test]
    fn change_log_has_a_current_entry() {
        for log in [
            "## Unreleased\n### Added\n- x\n",
            "# Log\n\n## 0.3.0\n\n### Fixed\n- y\n",
        ] {
            assert_eq!(with_log(log), [""; 0], "{log}");
        }
        for log in [
            "",
            "## Unreleased\n",
            "## 0.3.0\n## 0.2.0\n- old\n",
            "## 0.2.0\n- old\n",
        ] {
            assert_eq!(with_log(log), ["CHANGELOG.md:1"], "{log}");
        }
    }
}
