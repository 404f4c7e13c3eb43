//! Why the tick experiment could not be run.

use std::fmt;
use std::io;

/// Reports why the tick experiment could not be run.
#[derive(Debug)]
pub struct Error(Kind);

#[derive(Debug)]
enum Kind {
    /// What was given, and what is allowed.
    Usage {
        what: &'static str,
        given: String,
        allowed: String,
    },
    /// A key could not be turned on.
    Key(evenkeel_core::Error),
    /// The runtime did not start.
    Runtime(String),
    /// A program could not be started.
    Start(String, io::Error),
    /// A program ended, or said, what it should not have.
    Program(String, String),
}

impl Error {
    pub(super) fn usage(
        what: &'static str,
        given: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        Error(Kind::Usage {
            what,
            given: given.into(),
            allowed: allowed.into(),
        })
    }

    #[cfg_attr(
        not(feature = "runtime"),
        allow(dead_code, reason = "nothing to start")
    )]
    pub(super) fn runtime(error: impl fmt::Display) -> Self {
        Error(Kind::Runtime(error.to_string()))
    }

    pub(super) fn start(program: impl Into<String>, error: io::Error) -> Self {
        Error(Kind::Start(program.into(), error))
    }

    pub(super) fn program(program: impl Into<String>, what: impl fmt::Display) -> Self {
        Error(Kind::Program(program.into(), what.to_string()))
    }

    /// Returns whether a setting was not allowed.
    pub fn is_usage(&self) -> bool {
        matches!(self.0, Kind::Usage { .. })
    }
}

impl From<evenkeel_core::Error> for Error {
    fn from(error: evenkeel_core::Error) -> Self {
        Error(Kind::Key(error))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Usage {
                what,
                given,
                allowed,
            } => write!(f, "{what} is `{given}`; allowed: {allowed}"),
            Kind::Key(error) => error.fmt(f),
            Kind::Runtime(error) => write!(f, "the runtime did not start: {error}"),
            Kind::Start(program, error) => write!(f, "cannot start {program}: {error}"),
            Kind::Program(program, what) => write!(f, "{program}: {what}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            Kind::Start(_, error) => Some(error),
            Kind::Key(error) => Some(error),
            Kind::Usage { .. } | Kind::Runtime(_) | Kind::Program(..) => None,
        }
    }
}
