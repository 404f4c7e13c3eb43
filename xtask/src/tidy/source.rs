//! The files of the repository, as git sees them.

use std::path::Path;
use std::process::Command;

use super::facts::Facts;

/// One text file.
pub(crate) struct File {
    /// Path from the repository's root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
    /// What the parser found; `None` for files that are not Rust.
    pub(crate) facts: Option<Result<Facts, syn::Error>>,
}

impl File {
    fn new(path: &str, text: String) -> File {
        let facts = path.ends_with(".rs").then(|| Facts::parse(&text));
        File {
            path: path.to_owned(),
            text,
            facts,
        }
    }

    /// Returns the last component of the path.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Returns what the parser found, when this is a Rust file that parses.
    pub(crate) fn facts(&self) -> Option<&Facts> {
        self.facts.as_ref()?.as_ref().ok()
    }

    /// Returns the lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }

    /// Tells whether this is a shell script: by its suffix or its first line.
    pub(crate) fn is_shell(&self) -> bool {
        self.path.ends_with(".sh")
            || self
                .text
                .lines()
                .next()
                .is_some_and(|l| l.starts_with("#!") && l.contains("sh"))
    }
}

/// Every text file of the repository.
pub(crate) struct Repo {
    files: Vec<File>,
}

impl Repo {
    /// Reads every file that git tracks and every one that is neither tracked nor ignored.
    ///
    /// Binary files (not UTF-8) are left out, as are files deleted in the work tree.
    ///
    /// # Errors
    ///
    /// Says so when git cannot be run, or lists no file at all.
    pub(crate) fn load(root: &Path) -> Result<Repo, String> {
        let output = Command::new("git")
            .arg("-C")
            .arg(root)
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .output()
            .map_err(|error| format!("cannot run git: {error}"))?;
        if !output.status.success() {
            return Err(format!(
                "git: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            ));
        }
        let names = String::from_utf8_lossy(&output.stdout);
        let files: Vec<File> = names
            .split('\0')
            .filter(|name| !name.is_empty())
            .filter_map(|name| {
                Some(File::new(
                    name,
                    std::fs::read_to_string(root.join(name)).ok()?,
                ))
            })
            .collect();
        if files.is_empty() {
            return Err("git lists no file here".to_owned());
        }
        Ok(Repo { files })
    }

    /// Makes a repository of `(path, text)` pairs.
    #[cfg(test)]
    pub(crate) fn from_texts(files: &[(&str, &str)]) -> Repo {
        let file = |&(path, text): &(&str, &str)| File::new(path, text.to_owned());
        Repo {
            files: files.iter().map(file).collect(),
        }
    }

    /// Returns every text file.
    pub(crate) fn files(&self) -> &[File] {
        &self.files
    }

    /// Returns the file at `path`.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Tells whether the whole file is test code: it lies under `tests/`, or some file declares it
    /// as `#[cfg(test)] mod name;`.
    pub(crate) fn is_test_file(&self, file: &File) -> bool {
        let below = |dir: &str| file.path.starts_with(&format!("{dir}/"));
        file.path.split('/').rev().skip(1).any(|dir| dir == "tests")
            || self.files.iter().any(|parent| {
                let base = module_dir(&parent.path);
                parent.facts().is_some_and(|facts| {
                    facts.test_file_modules.iter().any(|name| {
                        let stem = format!("{base}{name}");
                        file.path == format!("{stem}.rs") || below(&stem)
                    })
                })
            })
    }
}

/// Returns the directory, with its final `/`, that holds the child modules of the file at `path`.
fn module_dir(path: &str) -> String {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    let (dir, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    let dir = if dir.is_empty() {
        String::new()
    } else {
        format!("{dir}/")
    };
    match name {
        "lib" | "main" | "mod" => dir,
        _ => format!("{dir}{name}/"),
    }
}

#[cfg(test)]
mod tests {
    //! What counts as test code and as a script.
    use super::*;

    #[test]
    fn module_dir_follows_the_language() {
        assert_eq!(module_dir("a/src/lib.rs"), "a/src/");
        assert_eq!(module_dir("a/src/b/mod.rs"), "a/src/b/");
        assert_eq!(module_dir("a/src/b.rs"), "a/src/b/");
        assert_eq!(module_dir("main.rs"), "");
    }

    #[test]
    fn test_files_are_recognised() {
        let repo = Repo::from_texts(&[
            ("c/src/lib.rs", "#[cfg(test)]\nmod checks;\nmod real;\n"),
            ("c/src/checks.rs", ""),
            ("c/src/checks/deep.rs", ""),
            ("c/src/real.rs", ""),
            ("c/tests/all.rs", ""),
        ]);
        let verdicts: Vec<bool> = repo.files().iter().map(|f| repo.is_test_file(f)).collect();
        assert_eq!(verdicts, [false, true, true, false, true]);
    }

    #[test]
    fn scripts_are_recognised_by_their_first_line() {
        let repo = Repo::from_texts(&[("run", "#!/bin/bash\n"), ("x.md", "bash\n")]);
        assert!(repo.files()[0].is_shell());
        assert!(!repo.files()[1].is_shell());
    }

    #[test]
    fn load_reads_this_repository() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let repo = Repo::load(&root).expect("git lists the files");
        assert!(repo.file("Cargo.toml").is_some());
        assert!(
            repo.files()
                .iter()
                .all(|file| !file.path.starts_with("target/"))
        );
    }
}
