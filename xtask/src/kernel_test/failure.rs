//! How a run can end other than well.

use std::fmt;
use std::io;
use std::path::Path;

/// Why the kernel tests gave no good result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// This machine lacks something; nothing was found out about the code. Exit status 2.
    CannotRun(String),
    /// A step went wrong, or a test failed. Exit status 1.
    Failed(String),
}

impl Failure {
    /// Says what could not be done to which file.
    pub(crate) fn io(what: &str, path: &Path, error: &io::Error) -> Failure {
        Failure::Failed(format!("cannot {what} {}: {error}", path.display()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::CannotRun(why) => write!(f, "cannot run here: {why}"),
            Failure::Failed(why) => f.write_str(why),
        }
    }
}
