//! Why the experiment could not be run.

use std::fmt;

/// Tells why the experiment could not be run.
#[derive(Debug)]
pub struct Error(Kind);

#[derive(Debug)]
enum Kind {
    Config(String),
    Start(Box<dyn std::error::Error + Send + Sync>),
    Panic,
}

impl Error {
    /// Names a setting, what was given, and what is allowed.
    pub(super) fn config(knob: &str, given: impl fmt::Display, allowed: &str) -> Error {
        Error(Kind::Config(format!(
            "{knob} is {given}; allowed: {allowed}"
        )))
    }

    pub(super) fn start(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error(Kind::Start(error.into()))
    }

    pub(super) fn panicked() -> Error {
        Error(Kind::Panic)
    }

    /// Returns whether a setting was outside its limits.
    pub fn is_config(&self) -> bool {
        matches!(self.0, Kind::Config(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Config(text) => f.write_str(text),
            Kind::Start(error) => write!(f, "the runtime could not be started: {error}"),
            Kind::Panic => f.write_str("a task of the experiment panicked"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            Kind::Start(error) => Some(&**error),
            Kind::Config(_) | Kind::Panic => None,
        }
    }
}
