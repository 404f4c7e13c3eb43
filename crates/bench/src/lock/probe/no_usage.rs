//! Systems that do not count a thread's switches.

/// Says what the numbers are worth.
pub(super) const METHOD: &str = "not counted on this system";

/// The same of voluntary switches.
#[cfg(feature = "runtime")]
pub(super) const PARKED_METHOD: &str = METHOD;

/// Returns 0.
pub(super) fn involuntary_switches() -> i64 {
    0
}

/// Returns 0.
#[cfg(feature = "runtime")]
pub(super) fn voluntary_switches() -> i64 {
    0
}
