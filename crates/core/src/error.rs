//! The error of the control plane.

use core::fmt;

use alloc::string::String;
use alloc::vec::Vec;

use crate::features;
use crate::keys::FlipError;

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
    /// A text that is not of the form of a knob: the knob, the text, and the form.
    Text(&'static str, String, &'static str),
    NoSuchGroup,
    Busy(&'static str),
    TooMany,
    /// A part that this build does not have: the cargo feature that it needs.
    NotCompiled(&'static str),
    /// A feature that is a constant here, and its value.
    ConstantFeature(&'static str, bool),
    /// A word that names no feature, its number in the text, and similar names.
    UnknownFeature {
        word: String,
        number: usize,
        near: Vec<&'static str>,
    },
    /// A static key could not be flipped.
    Key(FlipError),
}

impl Error {
    pub(crate) fn invalid(knob: &'static str, given: i64, allowed: &'static str) -> Self {
        Error(Kind::Invalid {
            knob,
            given,
            allowed,
        })
    }

    /// Returns whether a value was out of range, or a text not of the form of a value.
    pub fn is_invalid_value(&self) -> bool {
        matches!(self.0, Kind::Invalid { .. } | Kind::Text(..))
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

    /// Returns whether something was asked for that this build does not have.
    pub fn is_not_compiled(&self) -> bool {
        matches!(self.0, Kind::NotCompiled(_) | Kind::ConstantFeature(..))
    }

    /// Returns whether a text named a scheduler [feature](crate::features) that does not exist.
    pub fn is_unknown_feature(&self) -> bool {
        matches!(self.0, Kind::UnknownFeature { .. })
    }

    /// Returns whether a [key](crate::keys) could not be flipped, because the system refuses to
    /// have code changed.
    pub fn is_key(&self) -> bool {
        matches!(self.0, Kind::Key(_))
    }
}

impl From<Kind> for Error {
    fn from(kind: Kind) -> Self {
        Error(kind)
    }
}

impl From<FlipError> for Error {
    fn from(error: FlipError) -> Self {
        Error(Kind::Key(error))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Invalid {
                knob,
                given,
                allowed,
            } => {
                write!(f, "{knob} is {given}; allowed: {allowed}")
            }
            Kind::Text(knob, given, allowed) => {
                write!(f, "{knob} is {given:?}; allowed: {allowed}")
            }
            Kind::NoSuchGroup => f.write_str("the group does not exist"),
            Kind::Busy(why) => write!(f, "the group is in use: {why}"),
            Kind::TooMany => f.write_str("too many groups"),
            Kind::NotCompiled(part) => {
                write!(f, "not in this build: it needs the cargo feature `{part}`")
            }
            Kind::ConstantFeature(name, on) => {
                let value = if *on { "on" } else { "off" };
                write!(
                    f,
                    "feature {name} is {value}, a constant of this build; with the cargo feature \
                     `sched-debug` features can be switched"
                )
            }
            Kind::UnknownFeature { word, number, near } => {
                features::write_unknown(f, word, *number, near)
            }
            Kind::Key(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Error {}
