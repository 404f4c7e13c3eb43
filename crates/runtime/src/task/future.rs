//! The future that `async-task` sees: the user's future, kept from unwinding, and the end of its
//! membership in the owned list.

use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

use super::Meta;
use crate::keys;

use super::outcome::{NoUnwind, Outcome, Panic, forget_payload};

/// The user's future inside a task.
///
/// States: *live* (`inner` holds the future) → *spent* (it was dropped: it returned, panicked, or
/// was cancelled). The change is made in `retire`, once. A task leaves the list of owned tasks when
/// this wrapper is dropped, which `async-task` does while it still holds a reference to the cell;
/// so a task in the list is always alive.
pub(crate) struct TaskFuture<F> {
    inner: ManuallyDrop<F>,
    live: bool,
    meta: NonNull<Meta>,
}

// SAFETY: `meta` points into the task's own cell; `Meta` is `Sync`, and the future itself decides
// about `F`.
#[allow(unsafe_code)]
unsafe impl<F: Send> Send for TaskFuture<F> {}

impl<F> TaskFuture<F> {
    pub(crate) fn new(future: F, meta: &Meta) -> Self {
        Self {
            inner: ManuallyDrop::new(future),
            live: true,
            meta: NonNull::from(meta),
        }
    }

    #[allow(unsafe_code)]
    fn meta(&self) -> &Meta {
        // SAFETY: the metadata lies in the same cell as this future and outlives it.
        unsafe { self.meta.as_ref() }
    }

    /// Drops the user's future and returns the panic of its destructor, if there was one.
    #[allow(unsafe_code)]
    fn retire(&mut self) -> Option<Panic> {
        if !self.live {
            return None;
        }
        self.live = false;
        let dropped = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: `live` was true, so this is the first drop, and nothing reads `inner` once
            // `live` is false. The future is dropped where it was pinned.
            unsafe { ManuallyDrop::drop(&mut self.inner) }
        }));
        dropped.err()
    }

    /// Ends a poll that returned a value.
    #[inline(always)]
    fn finish<T>(&mut self, value: T) -> Poll<NoUnwind<Outcome<T>>> {
        match self.retire() {
            None => Poll::Ready(NoUnwind::new(Outcome::Done(value))),
            Some(payload) => fail(payload, Outcome::Done(value)),
        }
    }

    /// Ends a poll that panicked, or did not begin because the task was aborted.
    #[cold]
    #[inline(never)]
    fn finish_early<T>(&mut self, outcome: Outcome<T>) -> Poll<NoUnwind<Outcome<T>>> {
        let retired = self.retire();
        if keys::any_on() {
            self.meta().end_watched(true);
        }
        match retired {
            None => Poll::Ready(NoUnwind::new(outcome)),
            Some(payload) => fail(payload, outcome),
        }
    }

    /// As [`TaskFuture::finish`] while optional parts are in use: the window stays open for the
    /// destructor of the future.
    #[cold]
    #[inline(never)]
    fn finish_watched<T>(&mut self, value: T) -> Poll<NoUnwind<Outcome<T>>> {
        let ended = self.finish(value);
        self.meta().end_watched(true);
        ended
    }
}

/// Ends a task whose future's destructor panicked: unless it had panicked before, this is its
/// outcome.
#[cold]
#[inline(never)]
fn fail<T>(payload: Panic, outcome: Outcome<T>) -> Poll<NoUnwind<Outcome<T>>> {
    let outcome = match outcome {
        Outcome::Panicked(first) => {
            forget_payload(payload);
            Outcome::Panicked(first)
        }
        other => {
            drop(NoUnwind::new(other));
            Outcome::Panicked(payload)
        }
    };
    Poll::Ready(NoUnwind::new(outcome))
}

impl<F: Future> Future for TaskFuture<F> {
    type Output = NoUnwind<Outcome<F::Output>>;

    #[allow(unsafe_code)]
    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: nothing is moved out of `self`; `inner` is only pinned again, or dropped in place
        // by `retire`.
        let this = unsafe { self.get_unchecked_mut() };
        // From here to `end_watched` this thread runs the task's own code, and can be preempted
        // where there is a window; before and after that the task is not in a state to be queued.
        if this.meta().is_unusual() && this.meta().begin_unusual() {
            return this.finish_early(Outcome::Cancelled);
        }
        debug_assert!(this.live, "a task was polled after it had returned");
        // SAFETY: `inner` is pinned because `self` is.
        let inner = unsafe { Pin::new_unchecked(&mut *this.inner) };
        match catch_unwind(AssertUnwindSafe(|| inner.poll(cx))) {
            Ok(Poll::Pending) => {
                if keys::any_on() {
                    this.meta().end_watched(false);
                }
                Poll::Pending
            }
            Ok(Poll::Ready(value)) => {
                if keys::any_on() {
                    return this.finish_watched(value);
                }
                this.finish(value)
            }
            Err(payload) => this.finish_early(Outcome::Panicked(payload)),
        }
    }
}

impl<F> Drop for TaskFuture<F> {
    fn drop(&mut self) {
        if let Some(payload) = self.retire() {
            forget_payload(payload);
        }
        crate::context::forget_task(self.meta());
        super::owned::remove(self.meta());
        self.meta().release_itself();
    }
}
