//! The slot for the task that was woken last.
//!
//! Two tasks that talk to each other run in turn on one worker through this slot, without a look at the queue and without
//! waking anybody. Only the owner puts; the owner and a watching sleeper (see [`super::park`]) take, so a task cannot be stuck behind a long poll.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::task::Runnable;

/// A slot for one ready task.
#[derive(Default)]
pub(crate) struct LifoSlot(AtomicPtr<()>);

impl LifoSlot {
    /// Returns whether the slot is empty; may be out of date at once, unless the owner asks and it is.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_null()
    }

    /// Puts a task in and returns the one that was there. For the owner alone.
    #[inline]
    #[must_use]
    pub(crate) fn put(&self, runnable: Runnable) -> Option<Runnable> {
        let new = runnable.into_raw().as_ptr();
        if self.is_empty() {
            // Nobody else puts, so it stays empty until this store.
            self.0.store(new, Ordering::Release);
            return None;
        }
        from_raw(self.0.swap(new, Ordering::AcqRel))
    }

    /// Takes the task out.
    #[inline]
    pub(crate) fn take(&self) -> Option<Runnable> {
        if self.is_empty() {
            return None;
        }
        from_raw(self.0.swap(ptr::null_mut(), Ordering::AcqRel))
    }
}

impl Drop for LifoSlot {
    fn drop(&mut self) {
        drop(self.take());
    }
}

#[allow(unsafe_code)]
fn from_raw(raw: *mut ()) -> Option<Runnable> {
    // SAFETY: every non-null value in the slot came from `Runnable::into_raw`, and the swap that took it out made this the only taker.
    NonNull::new(raw).map(|raw| unsafe { Runnable::from_raw(raw) })
}
