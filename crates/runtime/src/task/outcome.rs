//! What a task leaves behind, and values whose destructor may panic.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The payload of a panic.
pub(crate) type Panic = Box<dyn Any + Send + 'static>;

/// How a task ended.
pub(crate) enum Outcome<T> {
    /// The future returned this.
    Done(T),
    /// A poll, or the future's destructor after it had returned, panicked.
    Panicked(Panic),
    /// The task was aborted, or the runtime was shut down, before the future returned.
    Cancelled,
}

/// A value whose destructor never unwinds.
///
/// `async-task` aborts the process when the destructor of a future or of an output panics; a task
/// of one tenant must not end the others, so what is handed to it is wrapped in this.
pub(crate) struct NoUnwind<T>(ManuallyDrop<T>);

impl<T> NoUnwind<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(ManuallyDrop::new(value))
    }

    pub(crate) fn get(&self) -> &T {
        &self.0
    }

    /// Takes the value out; from here on its destructor is the caller's.
    #[allow(unsafe_code)]
    pub(crate) fn into_inner(self) -> T {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, and this is the only take, since `self` was moved in.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }
}

impl<T> Drop for NoUnwind<T> {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: `drop` runs once, and `into_inner` forgets `self` before it takes the value.
        let dropped = catch_unwind(AssertUnwindSafe(|| unsafe {
            ManuallyDrop::drop(&mut self.0);
        }));
        if let Err(payload) = dropped {
            forget_payload(payload);
        }
    }
}

/// Drops a panic payload whose own destructor may panic in turn.
///
/// A payload that panics while being dropped is leaked with what it holds: there is nobody left to
/// report it to.
pub(crate) fn forget_payload(payload: Panic) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
}
