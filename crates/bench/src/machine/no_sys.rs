//! The twin for systems that are not Linux: no answers.

use std::io;

/// Always `None`: not known here.
pub fn involuntary_switches() -> Option<u64> {
    None
}

/// Always `None`: not known here.
#[cfg(feature = "runtime")]
pub(crate) fn process_cpu_time() -> Option<std::time::Duration> {
    None
}

fn unsupported() -> io::Error {
    io::Error::from(io::ErrorKind::Unsupported)
}

/// Refuses: the child alone is killed.
pub(crate) fn kill_group(_: u32) -> io::Result<()> {
    Err(unsupported())
}

pub(super) fn membarrier_query() -> io::Result<u32> {
    Err(unsupported())
}

pub(super) fn sched_attr_size() -> io::Result<usize> {
    Err(unsupported())
}

#[cfg(test)]
pub(super) fn clamps() -> Option<(u32, u32)> {
    None
}

pub(super) fn set_impossible_clamps() -> io::Result<()> {
    Err(unsupported())
}

/// What a [`Counter`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// Instructions that were retired.
    Instructions,
    /// Branches that were retired, taken or not.
    Branches,
    /// Nanoseconds of CPU time.
    TaskClock,
}

/// Counts events; here there are none.
#[derive(Debug)]
pub enum Counter {}

impl Counter {
    /// Refuses.
    ///
    /// # Errors
    /// Always: there are no counters here.
    pub fn start(_: Counting) -> io::Result<Self> {
        Err(unsupported())
    }

    /// Returns how many events were counted so far.
    ///
    /// # Errors
    /// The kernel's.
    pub fn read(&mut self) -> io::Result<u64> {
        match *self {}
    }
}
