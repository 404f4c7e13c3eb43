//! Whether somebody wants a CPU, and from whom.
//!
//! A request concerns a **turn**: what the run queue picked last. Every pick begins another one, so
//! a request that the scheduler has met by itself in the meantime is over without anybody's doing,
//! and one that arrives while a CPU is on its way to a parked poll is not lost.

use crate::sync::{AtomicU64, Ordering, fence};

/// The request for one CPU.
pub(crate) struct Request {
    turn: AtomicU64,
    /// The turn that is to end.
    wanted: AtomicU64,
}

impl Request {
    pub(crate) fn new() -> Self {
        Self {
            turn: AtomicU64::new(1),
            wanted: AtomicU64::new(0),
        }
    }

    /// Returns the number of the turn that goes on. Under the run queue's lock it is that of the
    /// task which the queue believes to be running.
    pub(crate) fn turn(&self) -> u64 {
        self.turn.load(Ordering::Acquire)
    }

    /// Begins another turn. For the CPU's carrier, under the run queue's lock, after a pick.
    #[inline]
    pub(crate) fn begin_turn(&self) {
        let turn = self.turn.load(Ordering::Relaxed) + 1;
        self.turn.store(turn, Ordering::Release);
    }

    /// Wants `turn` to end. Whoever calls this looks afterwards who carries the CPU.
    pub(crate) fn want(&self, turn: u64) {
        self.wanted.store(turn, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Returns the turn that goes on and is to end. A carrier that has passed the CPU on in the
    /// middle of a turn looks afterwards.
    pub(crate) fn wanted(&self) -> Option<u64> {
        fence(Ordering::SeqCst);
        let wanted = self.wanted.load(Ordering::SeqCst);
        Some(wanted).filter(|&wanted| wanted == self.turn())
    }
}
