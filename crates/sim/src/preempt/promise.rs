//! What a run can break.

use std::fmt;

/// Names a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// A CPU that is asked for changes its task within the bound.
    Delay,
    /// An outermost section gets one grant at most, and the word is not misused.
    OneGrant,
    /// A grant ends in time, and at the end of its section.
    GrantEnds,
    /// A request is served.
    NoRequestLost,
    /// A request is served once, and only if somebody made it.
    NoRequestTwice,
    /// What was begun is ended.
    Balance,
    /// A CPU has one carrier, a thread one role.
    OneCarrier,
    /// A task has one poll.
    OnePoll,
    /// There are not more threads than allowed.
    Threads,
    /// Sections of the runtime are not forced.
    NeverForced,
    /// A new turn begins without the mark of the last one.
    NeedResched,
    /// Whoever is runnable is in a queue, and gets its turn.
    NothingLost,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which one.
    pub promise: Promise,
    /// When, in ns of virtual time.
    pub at_ns: u64,
    /// What was seen.
    pub text: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            promise,
            at_ns,
            text,
        } = self;
        write!(f, "{promise:?} at {at_ns} ns: {text}")
    }
}

impl std::error::Error for Broken {}
