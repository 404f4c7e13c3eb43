//! Rules about Rust code.

use super::allow::{SLEEPING_TESTS, SleepingTest, UNSAFE_MODULES, UnsafeModule};
use super::facts::Unsafe;
use super::{File, Repo, Report};

/// Longest function, in lines from its signature to its closing brace.
const MAX_FUNCTION_LINES: usize = 70;

/// Directories of programs that a test compiles in order to see the compiler's message.
const COMPILER_INPUT_DIRS: &[&str] = &["ui", "compile-fail", "compile_fail"];

/// Finds Rust files that the parser refuses, which every other check would pass over.
pub(crate) fn parses(repo: &Repo, report: &mut Report) {
    for file in repo.files().iter().filter(|file| !is_compiler_input(file)) {
        if let Some(Err(error)) = &file.facts {
            report.add(
                &file.path,
                error.span().start().line,
                format!("does not parse: {error}"),
            );
        }
    }
}

/// Finds functions that are too long.
pub(crate) fn function_length(repo: &Repo, report: &mut Report) {
    for file in repo.files() {
        for function in file.facts().map_or(&[][..], |facts| &facts.functions) {
            let count = function.lines.count();
            if count > MAX_FUNCTION_LINES {
                let name = &function.name;
                let message = format!("`{name}` has {count} lines, more than {MAX_FUNCTION_LINES}");
                report.add(&file.path, function.lines.first, message);
            }
        }
    }
}

/// Finds files that do not say what they are for.
pub(crate) fn module_docs(repo: &Repo, report: &mut Report) {
    for file in repo.files().iter().filter(|file| !is_compiler_input(file)) {
        if file.facts().is_some_and(|facts| !facts.has_module_docs) {
            report.add(
                &file.path,
                1,
                "no `//!` documentation at the top of the file",
            );
        }
    }
}

/// Finds `unsafe` outside the listed modules, and listed modules without any.
pub(crate) fn unsafe_modules(repo: &Repo, report: &mut Report) {
    check_unsafe_modules(repo, UNSAFE_MODULES, report);
}

fn check_unsafe_modules(repo: &Repo, allowed: &[UnsafeModule], report: &mut Report) {
    let is_allowed = |file: &File| allowed.iter().any(|module| covers(module.path, &file.path));
    for file in repo.files().iter().filter(|file| !is_allowed(file)) {
        for (line, _) in file.facts().map_or(&[][..], |facts| &facts.unsafes) {
            report.add(
                &file.path,
                *line,
                "`unsafe` in a module that is not listed for it",
            );
        }
    }
    for module in allowed {
        let is_needed = |file: &File| {
            covers(module.path, &file.path) && file.facts().is_some_and(|f| !f.unsafes.is_empty())
        };
        if !repo.files().iter().any(is_needed) {
            let reason = module.reason;
            report.add(
                module.path,
                1,
                format!("listed for `unsafe` ({reason}), but has none"),
            );
        }
    }
}

/// Finds crates without a listed module whose root does not forbid `unsafe`.
pub(crate) fn forbid_unsafe(repo: &Repo, report: &mut Report) {
    check_forbid_unsafe(repo, UNSAFE_MODULES, report);
}

fn check_forbid_unsafe(repo: &Repo, allowed: &[UnsafeModule], report: &mut Report) {
    for file in repo.files() {
        let Some(package) = package_of_root(&file.path) else {
            continue;
        };
        let is_listed = allowed
            .iter()
            .any(|module| module.path.starts_with(package));
        if !is_listed && file.facts().is_some_and(|facts| !facts.forbids_unsafe) {
            report.add(
                &file.path,
                1,
                "a crate without `unsafe` says `#![forbid(unsafe_code)]`",
            );
        }
    }
}

/// Finds unsafe blocks and implementations without a `SAFETY:` comment.
pub(crate) fn safety(repo: &Repo, report: &mut Report) {
    for file in repo.files() {
        let lines: Vec<&str> = file.text.lines().collect();
        for &(line, kind) in file.facts().map_or(&[][..], |facts| &facts.unsafes) {
            if kind != Unsafe::Other && !has_safety_comment(&lines, line - 1) {
                report.add(
                    &file.path,
                    line,
                    "no `// SAFETY:` comment above this `unsafe`",
                );
            }
        }
    }
}

/// Looks for the comment on the line at `index` and above it, as far as the statement's beginning.
fn has_safety_comment(lines: &[&str], index: usize) -> bool {
    let is_comment = |line: &str| line.starts_with("//") || line.starts_with("/*");
    let says_why = |line: &str| {
        line.find("//")
            .or_else(|| line.find("/*"))
            .is_some_and(|at| line[at..].contains("SAFETY:"))
    };
    if says_why(lines[index]) {
        return true;
    }
    for line in lines[..index].iter().rev().map(|line| line.trim()) {
        if says_why(line) {
            return true;
        }
        let is_statement_end = line.is_empty() || line.ends_with([';', '{', '}', ',', '(']);
        if is_statement_end && !is_comment(line) && !line.starts_with("#[") {
            return false;
        }
    }
    false
}

/// Finds tests that sleep and are not listed, and listed ones that do not.
pub(crate) fn test_sleep(repo: &Repo, report: &mut Report) {
    check_test_sleep(repo, SLEEPING_TESTS, report);
}

fn check_test_sleep(repo: &Repo, allowed: &[SleepingTest], report: &mut Report) {
    let mut is_needed = vec![false; allowed.len()];
    for file in repo.files() {
        let Some(facts) = file.facts() else { continue };
        let is_test_file = repo.is_test_file(file);
        for &line in &facts.sleeps {
            if !is_test_file && !facts.test_items.iter().any(|item| item.contain(line)) {
                continue;
            }
            let function = facts
                .function_at(line)
                .map_or("", |function| function.name.as_str());
            match allowed
                .iter()
                .position(|a| a.path == file.path && a.function == function)
            {
                Some(index) => is_needed[index] = true,
                None => report.add(
                    &file.path,
                    line,
                    format!("test code sleeps in `{function}`"),
                ),
            }
        }
    }
    for (test, _) in allowed
        .iter()
        .zip(is_needed)
        .filter(|(_, is_needed)| !is_needed)
    {
        let SleepingTest {
            path,
            function,
            reason,
        } = test;
        report.add(
            path,
            1,
            format!("`{function}` is listed as sleeping ({reason}), does not"),
        );
    }
}

/// Tells whether the listed path covers the file.
fn covers(listed: &str, path: &str) -> bool {
    listed == path || (listed.ends_with('/') && path.starts_with(listed))
}

/// Returns the package's directory, with its final `/`, when `path` is the root of a library or
/// of a program.
fn package_of_root(path: &str) -> Option<&str> {
    let package = path
        .strip_suffix("src/lib.rs")
        .or_else(|| path.strip_suffix("src/main.rs"))
        .or_else(|| path.split_once("src/bin/").map(|(package, _)| package))?;
    (package.is_empty() || package.ends_with('/')).then_some(package)
}

fn is_compiler_input(file: &File) -> bool {
    file.path
        .split('/')
        .any(|dir| COMPILER_INPUT_DIRS.contains(&dir))
}

#[cfg(test)]
mod tests {
    //! Each rule, on a text that breaks it and on one that does not.
    use super::*;
    use crate::tidy::testing::{check_lines, found};

    fn body(lines: usize) -> String {
        "    let _ = 1;\n".repeat(lines)
    }

    fn report() -> Report {
        Report {
            check: "test",
            findings: Vec::new(),
        }
    }

    fn lines_of(report: &Report) -> Vec<String> {
        report
            .findings
            .iter()
            .map(|f| format!("{}:{}", f.path, f.line))
            .collect()
    }

    #[test]
    fn a_file_that_does_not_parse_is_found() {
        check_lines("parse", "a.rs", "//! x\nfn (", &[2]);
        check_lines("parse", "a.rs", "//! x\nfn f() {}\n", &[]);
    }

    #[test]
    fn functions_of_71_lines_are_too_long() {
        let function = |lines: usize| format!("/// Doc.\nfn f() {{\n{}}}\n", body(lines - 2));
        check_lines("function-length", "a.rs", &function(70), &[]);
        check_lines("function-length", "a.rs", &function(71), &[2]);
    }

    #[test]
    fn long_functions_hide_nowhere() {
        let long = format!("fn f() {{\n{}}}\n", body(70));
        let wraps = [
            "impl X {\n@}\n",
            "trait X {\n@}\n",
            "mod x {\n@}\n",
            "proptest! {\n@}\n",
        ];
        for wrap in wraps
            .iter()
            .chain(&["macro_rules! m { () => {\n@} }\n", "fn g() {\n@}\n"])
        {
            let text = wrap.replace('@', &long);
            let found = found("function-length", &[("a.rs", &text)]);
            assert!(found.contains(&"a.rs:2".to_owned()), "{wrap}: {found:?}");
        }
    }

    #[test]
    fn module_docs_are_demanded() {
        check_lines("module-docs", "a.rs", "// A comment.\nfn f() {}\n", &[1]);
        check_lines("module-docs", "a.rs", "//! Docs.\nfn f() {}\n", &[]);
        check_lines("module-docs", "x/tests/ui/a.rs", "fn f() {}\n", &[]);
    }

    fn unsafe_lines(files: &[(&str, &str)], listed: &[UnsafeModule]) -> Vec<String> {
        let mut report = report();
        check_unsafe_modules(&Repo::from_texts(files), listed, &mut report);
        lines_of(&report)
    }

    #[test]
    fn every_form_of_unsafe_is_seen() {
        let forms = [
            "fn f() { unsafe { g() } }",
            "unsafe fn f() {}",
            "unsafe impl Send for X {}",
            "unsafe trait T {}",
            "unsafe extern \"C\" {}",
            "#[unsafe(no_mangle)] fn f() {}",
            "macro_rules! m { () => { unsafe { g() } } }",
        ];
        for form in forms {
            let text = format!("//! x\n{form}\n");
            assert_eq!(unsafe_lines(&[("a.rs", &text)], &[]), ["a.rs:2"], "{form}");
        }
        let text = "//! unsafe\n// unsafe\nfn f() { g(\"unsafe\") }\n#![deny(unsafe_code)]\n";
        assert_eq!(unsafe_lines(&[("a.rs", text)], &[]), [""; 0]);
    }

    #[test]
    fn listed_modules_may_be_unsafe_and_must_need_it() {
        let block = "fn f() { unsafe { g() } }\n";
        let files = [("c/src/raw/a.rs", block), ("c/src/b.rs", block)];
        let listed = [
            UnsafeModule {
                path: "c/src/raw/",
                reason: "calls the kernel",
            },
            UnsafeModule {
                path: "c/src/gone.rs",
                reason: "was here once",
            },
        ];
        assert_eq!(
            unsafe_lines(&files, &listed),
            ["c/src/b.rs:1", "c/src/gone.rs:1"]
        );
    }

    #[test]
    fn crate_roots_forbid_unsafe() {
        let repo = Repo::from_texts(&[
            ("crates/a/src/lib.rs", "#![deny(unsafe_code)]\n"),
            ("crates/b/src/lib.rs", "#![forbid(unsafe_code)]\n"),
            ("crates/c/src/lib.rs", "mod raw;\n"),
            ("crates/d/src/bin/d.rs", "fn main() {}\n"),
            ("crates/d/src/other.rs", "fn f() {}\n"),
        ]);
        let listed = [UnsafeModule {
            path: "crates/c/src/raw.rs",
            reason: "x",
        }];
        let mut report = report();
        check_forbid_unsafe(&repo, &listed, &mut report);
        assert_eq!(
            lines_of(&report),
            ["crates/a/src/lib.rs:1", "crates/d/src/bin/d.rs:1"]
        );
    }

    #[test]
    fn safety_comments_are_demanded() {
        let bad = [
            "fn f() {\n    unsafe { g() }\n}\n",
            "// SAFETY: of something else.\nfn f() {\n    unsafe { g() }\n}\n",
            "fn f() {\n    // SAFETY: stale.\n    h();\n    unsafe { g() }\n}\n",
            "// Fine.\nunsafe impl Send for X {}\n",
        ];
        for (text, line) in bad.iter().zip([2, 3, 4, 2]) {
            check_lines("safety-comment", "a.rs", text, &[line]);
        }
    }

    #[test]
    fn safety_comments_are_found_where_people_write_them() {
        let good = [
            "fn f() {\n    // SAFETY: g needs nothing.\n    unsafe { g() }\n}\n",
            "fn f() {\n    // SAFETY: two\n    // lines.\n    let x =\n    unsafe { g() };\n}\n",
            "// SAFETY: X is plain data.\n#[cfg(a)]\nunsafe impl Send for X {}\n",
            "/// # Safety\n///\n/// Only once.\nunsafe fn f() {}\n",
        ];
        for text in good {
            check_lines("safety-comment", "a.rs", text, &[]);
        }
    }

    fn sleep_lines(files: &[(&str, &str)], listed: &[SleepingTest]) -> Vec<String> {
        let mut report = report();
        check_test_sleep(&Repo::from_texts(files), listed, &mut report);
        lines_of(&report)
    }

    #[test]
    fn tests_that_sleep_are_found() {
        let cases = [
            (
                "a/tests/t.rs",
                "fn helper() {\n    std::thread::sleep(D);\n}\n",
                2,
            ),
            (
                "a/src/a.rs",
                "#[cfg(test)]\nmod tests {\n    fn t() { sleep(D).await; }\n}\n",
                3,
            ),
            (
                "a/src/a.rs",
                "#[tokio::test]\nasync fn t() { tokio::time::sleep(D).await }\n",
                2,
            ),
            (
                "a/tests/t.rs",
                "fn t() {\n    select! { _ = sleep_until(D) => {} }\n}\n",
                2,
            ),
            (
                "a/src/a.rs",
                "#[cfg(all(test, not(loom)))]\nmod t { fn t() { sleep(D) } }\n",
                2,
            ),
        ];
        for (path, text, line) in cases {
            assert_eq!(
                sleep_lines(&[(path, text)], &[]),
                [format!("{path}:{line}")],
                "{text}"
            );
        }
    }

    #[test]
    fn code_that_is_not_a_test_may_sleep() {
        let texts = [
            "fn f() { std::thread::sleep(D); }\n",
            "#[cfg(not(test))]\nfn f() { sleep(D); }\n",
            "#[cfg(test)]\nmod t { use std::thread::sleep; fn sleep(d: D) {} }\n",
            "#[cfg(test)]\nmod t { fn t() { self.sleep(bed); } }\n",
        ];
        for text in texts {
            assert_eq!(sleep_lines(&[("a/src/a.rs", text)], &[]), [""; 0], "{text}");
        }
    }

    #[test]
    fn listed_tests_may_sleep_and_must() {
        let text = "fn timer() { sleep(D); }\nfn other() { sleep(D); }\nfn quiet() {}\n";
        let listed = ["timer", "quiet"].map(|function| SleepingTest {
            path: "a/tests/t.rs",
            function,
            reason: "subject",
        });
        let found = sleep_lines(&[("a/tests/t.rs", text)], &listed);
        assert_eq!(found, ["a/tests/t.rs:2", "a/tests/t.rs:1"]);
    }
}
