//! Input files: paths, directories and patterns of a workload, read into memory once.
//!
//! The files are read before the run begins, so that the run measures computing and not the disk.
//! Relative names start at the directory of the workload file. A directory stands for all files
//! under it; a pattern (`*`, `?`, `[…]`, `**`) for the files that it matches. In both, names that
//! begin with a dot are left out, and links to directories are not followed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::Diagnostics;
use super::model::Files;
use super::{Document, WorkloadError};

/// The most bytes that the files of one task may hold together.
const MOST_BYTES: u64 = 256 * 1024 * 1024;

/// The content of the files of one task, in the order of their paths; shared between replicas.
pub(crate) type Inputs = Arc<[Arc<[u8]>]>;

/// What stands wrong with one entry of `files`.
struct Problem {
    message: String,
    help: &'static str,
}

/// The input files of every task: by group in depth-first order, then by task.
#[derive(Debug)]
pub(crate) struct Loaded {
    by_group: Vec<Vec<Option<Inputs>>>,
}

impl Loaded {
    /// The input files of a task; `None` for a kind that has none.
    pub(crate) fn inputs(&self, group: usize, task: usize) -> Option<Inputs> {
        self.by_group[group][task].clone()
    }
}

impl Document {
    /// Reads all files that the tasks of the workload name.
    ///
    /// # Errors
    ///
    /// Entries that match no file, files that cannot be read, tasks whose files are empty or hold
    /// more than 256 MiB; all of them, each with its place in the workload file.
    pub(crate) fn load_files(&self) -> Result<Loaded, WorkloadError> {
        let base = self.path.parent().unwrap_or(Path::new(""));
        let mut loader = Loader {
            base,
            cache: BTreeMap::new(),
            diagnostics: Diagnostics::default(),
        };
        let by_group = self
            .workload
            .flatten()
            .iter()
            .map(|group| {
                let tasks = group.tasks.iter();
                tasks
                    .map(|task| task.kind.files().map(|files| loader.load(files)))
                    .collect()
            })
            .collect();
        if loader.diagnostics.is_empty() {
            Ok(Loaded { by_group })
        } else {
            Err(loader.diagnostics.into_error(&self.path, &self.text))
        }
    }
}

/// Reads files, each path once however many tasks name it.
struct Loader<'a> {
    base: &'a Path,
    cache: BTreeMap<PathBuf, Arc<[u8]>>,
    diagnostics: Diagnostics,
}

impl Loader<'_> {
    /// The content of a task's files, in the order of their paths, each once.
    fn load(&mut self, files: &Files) -> Inputs {
        let mut paths = BTreeSet::new();
        let mut is_whole = true;
        for (entry, span) in &files.entries {
            match expand(self.base, entry) {
                Ok(found) => paths.extend(found),
                Err(problem) => {
                    is_whole = false;
                    self.report(span, problem);
                }
            }
        }
        if !is_whole {
            return Arc::new([]);
        }
        self.read_all(&paths).unwrap_or_else(|problem| {
            self.report(&files.span, problem);
            Arc::new([])
        })
    }

    /// Reads a set of files.
    fn read_all(&mut self, paths: &BTreeSet<PathBuf>) -> Result<Inputs, Problem> {
        let mut total = 0;
        let mut inputs = Vec::new();
        for path in paths {
            let size = std::fs::metadata(path)
                .map_err(|error| unreadable(path, &error))?
                .len();
            total += size;
            if total > MOST_BYTES {
                let message = format!("the files hold more than {MOST_BYTES} bytes");
                return Err(Problem {
                    message,
                    help: "name fewer files",
                });
            }
            if size > 0 {
                inputs.push(self.read(path)?);
            }
        }
        if inputs.is_empty() {
            let message = "the files are all empty".to_owned();
            return Err(Problem {
                message,
                help: "name files with content",
            });
        }
        Ok(inputs.into())
    }

    /// Reads one file, or takes it from an earlier reading.
    fn read(&mut self, path: &Path) -> Result<Arc<[u8]>, Problem> {
        if let Some(bytes) = self.cache.get(path) {
            return Ok(Arc::clone(bytes));
        }
        let bytes: Arc<[u8]> = std::fs::read(path)
            .map_err(|error| unreadable(path, &error))?
            .into();
        self.cache.insert(path.to_owned(), Arc::clone(&bytes));
        Ok(bytes)
    }

    fn report(&mut self, span: &Range<usize>, problem: Problem) {
        self.diagnostics
            .push(span.clone(), problem.message, problem.help.to_owned());
    }
}

/// The files that one entry stands for.
fn expand(base: &Path, entry: &str) -> Result<Vec<PathBuf>, Problem> {
    let path = base.join(entry);
    if path.is_dir() {
        let mut found = Vec::new();
        walk(&path, &mut found).map_err(|error| unreadable(&path, &error))?;
        return not_empty(found, format!("no files under `{entry}`"));
    }
    if path.exists() {
        return Ok(vec![path]);
    }
    if !entry.contains(['*', '?', '[']) {
        let message = format!("there is no file `{}`", path.display());
        let help = "relative names start at the directory of the workload file";
        return Err(Problem { message, help });
    }
    let base = glob::Pattern::escape(&base.to_string_lossy());
    let pattern = Path::new(&base).join(entry);
    let options = glob::MatchOptions {
        require_literal_leading_dot: true,
        ..Default::default()
    };
    let matches =
        glob::glob_with(&pattern.to_string_lossy(), options).map_err(|error| Problem {
            message: format!("`{entry}` is not a pattern: {}", error.msg),
            help: "allowed: `*`, `?`, `[…]`, and `**` as a whole component",
        })?;
    let found = matches.flatten().filter(|path| path.is_file()).collect();
    not_empty(found, format!("no file matches `{entry}`"))
}

/// Collects the files under a directory.
fn walk(directory: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        if kind.is_dir() {
            walk(&entry.path(), found)?;
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
    Ok(())
}

fn not_empty(found: Vec<PathBuf>, message: String) -> Result<Vec<PathBuf>, Problem> {
    let help = "relative names start at the directory of the workload file";
    if found.is_empty() {
        Err(Problem { message, help })
    } else {
        Ok(found)
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Problem {
    Problem {
        message: format!("cannot read `{}`: {error}", path.display()),
        help: "",
    }
}
