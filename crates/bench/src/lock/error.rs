//! Why an experiment could not be run.

use std::fmt;
use std::io;

use evenkeel_slice::kernel::Status;

/// Tells why an experiment could not be run.
#[derive(Debug)]
pub struct Error(Kind);

#[derive(Debug)]
enum Kind {
    Config(String),
    NoExtension(Status),
    Spawn(io::Error),
    Start(Box<dyn std::error::Error + Send + Sync>),
    Panic,
}

impl Error {
    /// Names a setting, what was given, and what is allowed.
    pub(crate) fn config(knob: &str, given: impl fmt::Display, allowed: &str) -> Error {
        Error(Kind::Config(format!(
            "{knob} is {given}; allowed: {allowed}"
        )))
    }

    pub(crate) fn no_extension(status: Status) -> Error {
        Error(Kind::NoExtension(status))
    }

    /// Says that a contender could not be started. For subjects outside this crate as well.
    pub fn spawn(error: io::Error) -> Error {
        Error(Kind::Spawn(error))
    }

    /// Says that what runs the contenders could not be started.
    pub fn start(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error(Kind::Start(error.into()))
    }

    /// Says that a contender panicked. For subjects outside this crate as well.
    pub fn panicked() -> Error {
        Error(Kind::Panic)
    }

    /// Returns whether the kernel does not extend slices here.
    pub fn is_no_extension(&self) -> bool {
        matches!(self.0, Kind::NoExtension(_))
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
            Kind::NoExtension(status) => write!(f, "no slice extension: {status}"),
            Kind::Spawn(error) => write!(f, "a contender could not be started: {error}"),
            Kind::Start(error) => write!(f, "the runtime could not be started: {error}"),
            Kind::Panic => f.write_str("a contender panicked"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            Kind::Spawn(error) => Some(error),
            Kind::Start(error) => Some(&**error),
            Kind::Config(_) | Kind::NoExtension(_) | Kind::Panic => None,
        }
    }
}
