//! How a task notices that the runtime parked it: its thread blocked.

use super::usage;

/// Says what the numbers are worth.
pub(in crate::lock) const METHOD: &str = usage::PARKED_METHOD;

/// Returns how often this thread has blocked. A system call.
pub(in crate::lock) fn count() -> i64 {
    usage::voluntary_switches()
}
