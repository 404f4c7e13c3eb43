//! The error of the control plane.

use core::fmt;

/// Reports why a request of the control plane was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Invalid {
        knob: &'static str,
        given: i64,
        allowed: &'static str,
    },
    NoSuchGroup,
    Busy(&'static str),
    TooMany,
}

impl Error {
    pub(crate) fn invalid(knob: &'static str, given: i64, allowed: &'static str) -> Self {
        Error(Kind::Invalid {
            knob,
            given,
            allowed,
        })
    }

    /// Returns whether a value was out of range.
    pub fn is_invalid_value(&self) -> bool {
        matches!(self.0, Kind::Invalid { .. })
    }

    /// Returns whether the group does not exist (any more).
    pub fn is_removed(&self) -> bool {
        self.0 == Kind::NoSuchGroup
    }

    /// Returns whether the group still has tasks or children.
    pub fn is_busy(&self) -> bool {
        matches!(self.0, Kind::Busy(_))
    }

    /// Returns whether a limit on the number of groups was reached.
    pub fn is_limit(&self) -> bool {
        self.0 == Kind::TooMany
    }
}

impl From<Kind> for Error {
    fn from(kind: Kind) -> Self {
        Error(kind)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::Invalid {
                knob,
                given,
                allowed,
            } => {
                write!(f, "{knob} is {given}; allowed: {allowed}")
            }
            Kind::NoSuchGroup => f.write_str("the group does not exist"),
            Kind::Busy(why) => write!(f, "the group is in use: {why}"),
            Kind::TooMany => f.write_str("too many groups"),
        }
    }
}

impl core::error::Error for Error {}
