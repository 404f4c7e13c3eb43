//! The word of a spin lock: test, then test-and-set. `tests/loom.rs` compiles it a second time.

use crate::sync::{AtomicBool, Ordering, spin, yield_now};

/// The exponent at which waiting turns from spinning to yielding: 2^6 hints are about 1 to 3 µs.
const SPIN_LIMIT: u32 = 6;

/// Whether somebody has the lock.
#[derive(Debug)]
pub(crate) struct SpinWord {
    locked: AtomicBool,
}

impl SpinWord {
    pub(crate) const fn from_atomic(locked: AtomicBool) -> Self {
        Self { locked }
    }

    /// Takes the lock if nobody has it. What the last holder wrote is seen (`Acquire`, which pairs
    /// with [`SpinWord::release`]).
    #[inline]
    #[must_use]
    pub(crate) fn try_acquire(&self) -> bool {
        !self.is_locked() && !self.locked.swap(true, Ordering::Acquire)
    }

    /// Gives the lock back. Only for its holder.
    #[inline]
    pub(crate) fn release(&self) {
        self.locked.store(false, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_locked(&self) -> bool {
        self.locked.load(Ordering::Relaxed)
    }

    /// Waits until the lock looks free: only loads, at growing intervals, so that the holder keeps
    /// the cache line; after [`SPIN_LIMIT`] rounds the CPU is offered to others, who may have it.
    pub(crate) fn wait(&self) {
        let mut round = 0;
        while self.is_locked() {
            if round < SPIN_LIMIT {
                spin(1 << round);
                round += 1;
            } else {
                yield_now();
            }
        }
    }
}
