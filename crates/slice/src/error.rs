//! The one error type of the crate.

use std::time::Duration;

/// Tells why a setting was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct Error(#[from] Kind);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Kind {
    /// A deadline below the smallest or above the largest.
    #[error("the deadline of {what} sections is {given:?}; it must be from {min:?} to {max:?}")]
    Range {
        what: &'static str,
        given: Duration,
        min: Duration,
        max: Duration,
    },
    /// Lock sections would be forced earlier than short ones.
    #[error("the deadline of lock sections, {lock:?}, is below that of slice sections, {slice:?}")]
    Order { slice: Duration, lock: Duration },
}

impl Error {
    /// Tells whether a deadline was outside [`DEADLINE_MIN`](crate::DEADLINE_MIN) to
    /// [`DEADLINE_MAX`](crate::DEADLINE_MAX).
    pub fn is_out_of_range(&self) -> bool {
        matches!(self.0, Kind::Range { .. })
    }

    /// Tells whether the deadline of lock sections was below that of slice sections.
    pub fn is_out_of_order(&self) -> bool {
        matches!(self.0, Kind::Order { .. })
    }
}
