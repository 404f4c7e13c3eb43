//! House rules, checked on every file that git tracks or would track.
//!
//! A rule is one function from a [`Repo`] to a list of [`Finding`]s, named in [`CHECKS`]. Each has
//! unit tests with a text that breaks it and one that does not, because a check that cannot fail
//! is worse than none.

mod allow;
mod facts;
mod numbers;
mod rust;
mod source;
mod text;

use std::fmt;

pub(crate) use source::{File, Repo};

/// One violation of one rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    message: String,
    check: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding {
            path,
            line,
            message,
            check,
        } = self;
        write!(f, "{path}:{line}: {message} [{check}]")
    }
}

/// Collects the findings of one check.
pub(crate) struct Report {
    check: &'static str,
    findings: Vec<Finding>,
}

impl Report {
    /// Records a violation at `line` (from 1) of `path`.
    fn add(&mut self, path: &str, line: usize, message: impl Into<String>) {
        self.findings.push(Finding {
            path: path.to_owned(),
            line,
            message: message.into(),
            check: self.check,
        });
    }
}

/// A named rule.
struct Check {
    name: &'static str,
    demands: &'static str,
    run: fn(&Repo, &mut Report),
}

const fn check(name: &'static str, demands: &'static str, run: fn(&Repo, &mut Report)) -> Check {
    Check { name, demands, run }
}

/// Every rule, in the order in which `--list` prints them.
const CHECKS: &[Check] = &[
    check("parse", "every Rust file parses", rust::parses),
    check(
        "function-length",
        "a function has at most 70 lines",
        rust::function_length,
    ),
    check(
        "line-length",
        "a line has at most 100 columns",
        text::line_length,
    ),
    check(
        "file-length",
        "a Rust or shell file has at most 800 lines",
        text::file_length,
    ),
    check(
        "module-docs",
        "a Rust file starts with `//!` documentation",
        rust::module_docs,
    ),
    check(
        "unsafe-module",
        "`unsafe` appears in the listed modules only",
        rust::unsafe_modules,
    ),
    check(
        "forbid-unsafe",
        "a crate without a listed module forbids it",
        rust::forbid_unsafe,
    ),
    check(
        "safety-comment",
        "`unsafe {` and `unsafe impl` say why they are sound",
        rust::safety,
    ),
    check(
        "test-sleep",
        "no test sleeps, except the listed ones",
        rust::test_sleep,
    ),
    check(
        "leftover",
        "no marker of unfinished work, no debugging macro",
        text::leftovers,
    ),
    check(
        "place",
        "no path or host name of somebody's machine",
        text::places,
    ),
    check(
        "lock-source",
        "Cargo.lock names the public crate index only",
        text::lock_sources,
    ),
    check(
        "required-file",
        "licences, README, CHANGELOG and the like are there",
        text::required,
    ),
    check(
        "doc-number",
        "a number beside a constant's name is its value",
        numbers::doc_numbers,
    ),
];

/// Returns the list of checks for `--list`, one a line.
pub(crate) fn list() -> String {
    CHECKS
        .iter()
        .map(|c| format!("{:16} {}\n", c.name, c.demands))
        .collect()
}

/// Runs every check and returns what they found, ordered by file and line.
pub(crate) fn run(repo: &Repo) -> Vec<Finding> {
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|c| run_one(c, repo)).collect();
    findings.sort();
    findings
}

fn run_one(check: &Check, repo: &Repo) -> Vec<Finding> {
    let mut report = Report {
        check: check.name,
        findings: Vec::new(),
    };
    (check.run)(repo, &mut report);
    report.findings
}

#[cfg(test)]
mod testing {
    //! Helpers of the checks' unit tests.
    use super::{CHECKS, Repo, run_one};

    /// Runs the check called `name` over `files` and returns `path:line` of each finding.
    pub(super) fn found(name: &str, files: &[(&str, &str)]) -> Vec<String> {
        let check = CHECKS
            .iter()
            .find(|c| c.name == name)
            .expect("no such check");
        run_one(check, &Repo::from_texts(files))
            .iter()
            .map(|f| format!("{}:{}", f.path, f.line))
            .collect()
    }

    /// Asserts that the check called `name` finds exactly `expected` in one file.
    pub(super) fn check_lines(name: &str, path: &str, text: &str, expected: &[usize]) {
        let want: Vec<String> = expected
            .iter()
            .map(|line| format!("{path}:{line}"))
            .collect();
        assert_eq!(found(name, &[(path, text)]), want, "{name} on:\n{text}");
    }
}

#[cfg(test)]
mod tests {
    //! The driver itself.
    use super::*;

    #[test]
    fn finding_prints_as_file_line_message() {
        let finding = Finding {
            path: "a/b.rs".to_owned(),
            line: 7,
            message: "too long".to_owned(),
            check: "line-length",
        };
        assert_eq!(finding.to_string(), "a/b.rs:7: too long [line-length]");
    }

    #[test]
    fn names_of_checks_are_distinct_and_listed() {
        let list = list();
        for check in CHECKS {
            assert_eq!(CHECKS.iter().filter(|c| c.name == check.name).count(), 1);
            assert!(list.contains(check.name));
        }
    }

    #[test]
    fn run_merges_and_orders_findings() {
        let long = format!("//! x\n// {}\n", "y".repeat(120));
        let repo = Repo::from_texts(&[("z.rs", &long), ("a.rs", "fn f() {}\n")]);
        let found = run(&repo);
        let at = |path: &str| found.iter().position(|f| f.path == path).expect("found");
        assert!(at("a.rs") < at("z.rs"));
    }
}
