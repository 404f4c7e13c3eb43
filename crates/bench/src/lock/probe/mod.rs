//! How a contender notices that it lost its CPU.

#[cfg(feature = "runtime")]
pub(super) mod parked;
#[cfg(target_os = "linux")]
mod usage;

#[cfg(not(target_os = "linux"))]
#[path = "no_usage.rs"]
mod usage;

use evenkeel_slice::kernel::PreemptProbe;

/// Notices, on the thread that made it, that this thread lost its CPU.
///
/// The order of calls is `enter`, `arm`, `disarm`, `exit`; the middle ones are left out where the
/// lock was not obtained.
#[derive(Debug)]
pub(super) enum Probe {
    /// By the kernel's clearing of a pointer in the thread's rseq area. Costs no system call.
    Rseq {
        probe: PreemptProbe,
        is_preempted: bool,
    },
    /// By the number of involuntary switches before and after.
    Usage { at_start: i64 },
}

impl Probe {
    /// Returns the best probe that this thread can have.
    pub(super) fn of_this_thread() -> Probe {
        match PreemptProbe::new() {
            Some(probe) => Probe::Rseq {
                probe,
                is_preempted: false,
            },
            None => Probe::usage(),
        }
    }

    /// Returns the probe that counts switches.
    pub(super) fn usage() -> Probe {
        Probe::Usage { at_start: 0 }
    }

    /// Says how this probe works, for people who read its numbers.
    pub(super) fn method(&self) -> &'static str {
        match self {
            Probe::Rseq { .. } => "the kernel cleared rseq_cs between taking and releasing",
            Probe::Usage { .. } => usage::METHOD,
        }
    }

    /// Comes before the section begins. May make system calls.
    pub(super) fn enter(&mut self) {
        if let Probe::Usage { at_start } = self {
            *at_start = usage::involuntary_switches();
        }
    }

    /// Comes when the lock has been taken. Makes no system call.
    #[inline]
    pub(super) fn arm(&mut self) {
        if let Probe::Rseq { probe, .. } = self {
            probe.arm();
        }
    }

    /// Comes just before the lock is released. Makes no system call.
    #[inline]
    pub(super) fn disarm(&mut self) {
        if let Probe::Rseq {
            probe,
            is_preempted,
        } = self
        {
            *is_preempted = probe.disarm();
        }
    }

    /// Comes after the section's end; returns whether the CPU was lost. May make system calls.
    pub(super) fn exit(&mut self) -> bool {
        match self {
            Probe::Rseq { is_preempted, .. } => std::mem::take(is_preempted),
            Probe::Usage { at_start } => usage::involuntary_switches() > *at_start,
        }
    }
}
