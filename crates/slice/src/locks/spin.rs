//! The spin lock.
#![allow(unsafe_code)]

use lock_api::{GuardNoSend, RawMutex};

use super::spin_word::SpinWord;
use crate::section::Kind;
use crate::state;
use crate::sync::AtomicBool;

/// The raw lock of [`SpinLock`](crate::SpinLock).
///
/// It tests before it sets, and waits with exponential backoff, from some spin hints to
/// `sched_yield`. Each attempt is a section of its own, so that a thread that has the lock is in
/// one from before it has it, and a thread that waits is in none.
#[derive(Debug)]
pub struct RawSpinLock(SpinWord);

// SAFETY: exclusion: `SpinWord::try_acquire` is true for one caller until `release`, and orders
// what they do; `tests/loom.rs` checks both.
unsafe impl RawMutex for RawSpinLock {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "the trait's way to make a lock"
    )]
    const INIT: Self = Self(SpinWord::from_atomic(AtomicBool::new(false)));

    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        while !self.try_lock() {
            self.0.wait();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        state::begin(Kind::Lock);
        let acquired = self.0.try_acquire();
        if !acquired {
            state::end(Kind::Lock);
        }
        acquired
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.0.release();
        state::end(Kind::Lock);
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}
