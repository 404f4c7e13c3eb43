//! Workload files: what a run consists of, and how it is read from TOML.
//!
//! | module | what it does |
//! |---|---|
//! | `model` | the types that the rest of the program works with |
//! | `parse` | walks the TOML document and builds the model |
//! | `tasks` | the same for the tasks of a group, kind by kind |
//! | `section` | reads the keys of one TOML table and reports unknown and bad ones |
//! | `units` | durations, byte sizes |
//! | `error` | collects diagnostics and renders them with line and source text |
//! | `files` | turns paths, directories and patterns into bytes in memory |

pub(crate) mod error;
pub(crate) mod files;
pub(crate) mod model;
mod parse;
#[cfg(test)]
mod parse_tests;
mod section;
mod tasks;
pub(crate) mod units;

use std::path::{Path, PathBuf};

pub(crate) use error::WorkloadError;
pub(crate) use model::Workload;
pub(crate) use parse::{LONGEST_RUN, MOST_THREADS, SHORTEST_RUN};

/// A workload file that has been read and checked.
#[derive(Debug)]
pub(crate) struct Document {
    /// Where it was read from.
    path: PathBuf,
    /// Its text, for messages about it.
    text: String,
    /// What it says.
    pub(crate) workload: Workload,
}

impl Document {
    /// Reads and checks a workload file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is not TOML, or does not describe a workload; in the last two
    /// cases the error holds everything that is wrong with it.
    pub(crate) fn read(path: &Path) -> Result<Self, WorkloadError> {
        let text = std::fs::read_to_string(path).map_err(|source| WorkloadError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        let workload = parse::workload(path, &text)?;
        Ok(Self {
            path: path.to_owned(),
            text,
            workload,
        })
    }

    /// Makes a document out of text that must be valid; for tests.
    #[cfg(test)]
    pub(crate) fn from_text(text: &str) -> Self {
        let path = PathBuf::from("test.toml");
        let workload = parse::workload(&path, text).unwrap_or_else(|error| panic!("{error}"));
        Self {
            path,
            text: text.to_owned(),
            workload,
        }
    }
}
