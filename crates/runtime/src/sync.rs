//! The primitives of the lock-free protocols. The package `evenkeel-models` compiles those modules
//! against loom's instead.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

pub(crate) use parking_lot::Mutex;

use crate::preempt::sys;

/// The half of an asymmetric barrier that costs nothing: it orders what the compiler emits. The
/// other half, [`sys::barrier_everywhere`], makes it a full barrier.
#[inline]
pub(crate) fn light_barrier() {
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// Where one thread sleeps until it is woken; a wake-up is remembered. Usable in signal handlers.
pub(crate) struct Bed(AtomicU32);

impl Bed {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Sleeps unless it was woken since it last slept. May return without having been woken.
    pub(crate) fn sleep(&self) {
        if self.0.swap(0, Ordering::Acquire) == 0 {
            sys::futex_wait(&self.0, 0);
        }
    }

    /// Wakes the thread, now or when it is about to sleep.
    pub(crate) fn wake(&self) {
        self.0.store(1, Ordering::Release);
        sys::futex_wake(&self.0);
    }
}
