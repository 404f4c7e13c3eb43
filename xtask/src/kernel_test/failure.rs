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

    /// Adds where the guest's serial line can be read, if the guest may have run.
    pub(crate) fn with_log(self, log: &Path) -> Failure {
        match self {
            Failure::Failed(why) => Failure::Failed(format!(
                "{why}; the guest's serial line is in {}",
                log.display()
            )),
            cannot_run @ Failure::CannotRun(_) => cannot_run,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_named_where_the_guest_may_have_run() {
        let log = Path::new("serial.log");
        let failed = Failure::Failed("it hung".to_owned()).with_log(log);
        let text = "it hung; the guest's serial line is in serial.log";
        assert_eq!(failed.to_string(), text);
        let cannot_run = Failure::CannotRun("no emulator".to_owned()).with_log(log);
        assert_eq!(cannot_run.to_string(), "cannot run here: no emulator");
    }
}
