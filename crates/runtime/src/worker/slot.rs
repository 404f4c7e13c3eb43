//! The slot for the task that was woken last.
//!
//! Two tasks that talk to each other run in turn on one worker through this slot, without a look at
//! the queue and without waking anybody. Only the owner puts; the owner and the sentry (see
//! `worker::park`) take, so a task cannot be stuck behind a long poll.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use crate::sync::{AtomicPtr, Ordering};

/// What the slot holds: something that can be turned into a pointer and back, once.
pub(crate) trait Item {
    fn into_raw(self) -> NonNull<()>;

    /// Turns back what [`Item::into_raw`] gave. The slot does this once for each.
    fn from_raw(raw: NonNull<()>) -> Self;
}

/// A slot for one item.
pub(crate) struct LifoSlot<T: Item> {
    item: AtomicPtr<()>,
    _owns: PhantomData<T>,
}

impl<T: Item> LifoSlot<T> {
    pub(crate) fn new() -> Self {
        Self {
            item: AtomicPtr::new(ptr::null_mut()),
            _owns: PhantomData,
        }
    }

    /// Returns whether the slot is empty. Exact when the owner asks and it is; otherwise it may be
    /// out of date at once.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.item.load(Ordering::Relaxed).is_null()
    }

    /// Puts an item in and returns the one that was there. For the owner alone.
    #[inline]
    #[must_use]
    pub(crate) fn put(&self, item: T) -> Option<T> {
        let new = item.into_raw().as_ptr();
        if self.is_empty() {
            // Nobody else puts, so it stays empty until this store.
            self.item.store(new, Ordering::Release);
            return None;
        }
        NonNull::new(self.item.swap(new, Ordering::AcqRel)).map(T::from_raw)
    }

    /// Takes the item out.
    #[inline]
    pub(crate) fn take(&self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        NonNull::new(self.item.swap(ptr::null_mut(), Ordering::AcqRel)).map(T::from_raw)
    }
}

impl<T: Item> Drop for LifoSlot<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
