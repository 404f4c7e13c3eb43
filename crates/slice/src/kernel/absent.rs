//! Where there is no kernel to ask: sections work, without it.

use super::{Options, Status};

/// The kernel's part of a thread's state: nothing.
#[derive(Debug)]
pub(crate) struct Thread;

impl Thread {
    pub(crate) const fn new() -> Self {
        Self
    }

    pub(crate) fn look(&self, options: Options) -> bool {
        let _ = (options.registers(), options.replaces());
        false
    }

    pub(crate) fn begin(&self) {}

    pub(crate) fn end(&self) {}

    pub(crate) fn status(&self) -> Status {
        Status::Unsupported
    }

    pub(crate) fn grants(&self) -> usize {
        0
    }
}

/// Finds out whether the thread lost its CPU between two points: never available here.
#[derive(Debug)]
pub struct PreemptProbe(std::convert::Infallible);

impl PreemptProbe {
    /// Returns `None`: there are no restartable sequences here.
    pub fn new() -> Option<Self> {
        None
    }

    /// Begins to watch.
    pub fn arm(&self) {
        match self.0 {}
    }

    /// Tells whether the thread lost its CPU since [`arm`](Self::arm), and goes on watching.
    pub fn has_lost_cpu(&self) -> bool {
        match self.0 {}
    }

    /// Returns the address of the registered area that the probe uses.
    pub fn area(&self) -> *mut u8 {
        match self.0 {}
    }

    /// Stops watching, and tells whether the thread lost its CPU since [`arm`](Self::arm).
    pub fn disarm(&self) -> bool {
        match self.0 {}
    }
}
