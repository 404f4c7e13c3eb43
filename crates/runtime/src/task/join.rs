//! Handles to a spawned task.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use async_task::{FallibleTask, Task};

use super::outcome::{NoUnwind, Outcome, Panic, forget_payload};
use super::{Meta, TaskRef};
use crate::context;

/// Waits for a spawned task and returns what it returned.
///
/// Dropping the handle detaches the task: it goes on, and its output is dropped.
///
/// # Errors
///
/// Awaiting it gives a [`JoinError`] when the task panicked or was cancelled.
///
/// # Panics
///
/// Polling it again after it was ready panics.
pub struct JoinHandle<T> {
    task: Option<FallibleTask<NoUnwind<Outcome<T>>, Meta>>,
    /// The task's metadata; valid while `task` is there.
    meta: TaskRef,
    guard: Option<Arc<GuardedWaker>>,
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(task: Task<NoUnwind<Outcome<T>>, Meta>) -> Self {
        Self {
            meta: TaskRef::new(task.metadata()),
            task: Some(task.fallible()),
            guard: None,
        }
    }

    /// Asks the task to stop: its future is dropped on a worker before its next poll.
    ///
    /// A poll that runs goes on to its end. A task that has returned is not affected: the handle
    /// then still gives its output.
    pub fn abort(&self) {
        if self.task.is_some() {
            self.meta.abort();
        }
    }

    /// Returns a handle that can abort the task, and nothing else.
    ///
    /// # Panics
    ///
    /// Panics when this handle has already given its output.
    #[must_use]
    pub fn abort_handle(&self) -> AbortHandle {
        assert!(self.task.is_some(), "JoinHandle used after completion");
        AbortHandle {
            task: self.meta,
            waker: self.meta.waker(),
        }
    }

    /// Returns whether the task has returned, panicked, or was dropped.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.task.as_ref().is_none_or(FallibleTask::is_finished)
    }
}

impl<T> Unpin for JoinHandle<T> {}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let task = this
            .task
            .as_mut()
            .expect("JoinHandle polled after completion");
        let polled = if context::is_waker_of_current_task(cx.waker()) {
            Pin::new(task).poll(cx)
        } else {
            let waker = Waker::from(GuardedWaker::reuse(&mut this.guard, cx.waker()));
            Pin::new(task).poll(&mut Context::from_waker(&waker))
        };
        let Poll::Ready(output) = polled else {
            return Poll::Pending;
        };
        this.task = None;
        this.guard = None;
        Poll::Ready(match output.map(NoUnwind::into_inner) {
            Some(Outcome::Done(value)) => Ok(value),
            Some(Outcome::Panicked(payload)) => Err(JoinError::panicked(payload)),
            Some(Outcome::Cancelled) | None => Err(JoinError::cancelled()),
        })
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.detach();
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("finished", &self.is_finished())
            .finish()
    }
}

/// Aborts a task; made by [`JoinHandle::abort_handle`].
#[derive(Clone)]
pub struct AbortHandle {
    task: TaskRef,
    /// The reference that keeps `task` valid.
    waker: Waker,
}

impl AbortHandle {
    /// Asks the task to stop, as [`JoinHandle::abort`] does.
    pub fn abort(&self) {
        self.task.mark_aborted();
        self.waker.wake_by_ref();
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortHandle").finish_non_exhaustive()
    }
}

/// A waker whose panics end here.
///
/// `async-task` aborts the process when the waker of whoever awaits a task panics; such a waker is
/// somebody else's code, so all but the wakers of our own tasks are wrapped.
struct GuardedWaker(NoUnwind<Waker>);

impl GuardedWaker {
    fn reuse(slot: &mut Option<Arc<Self>>, waker: &Waker) -> Arc<Self> {
        match slot {
            Some(guard) if guard.0.get().will_wake(waker) => guard.clone(),
            _ => slot
                .insert(Arc::new(Self(NoUnwind::new(waker.clone()))))
                .clone(),
        }
    }
}

impl Wake for GuardedWaker {
    fn wake(self: Arc<Self>) {
        Self::wake_by_ref(&self);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.0.get().wake_by_ref())) {
            forget_payload(payload);
        }
    }
}

/// Why a task gave no output: it panicked, or it was cancelled.
pub struct JoinError(Option<Panic>);

impl JoinError {
    pub(crate) fn cancelled() -> Self {
        Self(None)
    }

    pub(crate) fn panicked(payload: Panic) -> Self {
        Self(Some(payload))
    }

    /// Returns whether the task was aborted, or dropped because its runtime shut down.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.is_none()
    }

    /// Returns whether the task panicked.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the panic's payload, fit for [`std::panic::resume_unwind`].
    ///
    /// # Panics
    ///
    /// Panics when the task was cancelled.
    #[must_use]
    pub fn into_panic(self) -> Box<dyn Any + Send + 'static> {
        self.try_into_panic()
            .expect("`JoinError` reason is not a panic")
    }

    /// Returns the panic's payload.
    ///
    /// # Errors
    ///
    /// Gives the error back when the task was cancelled.
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send + 'static>, Self> {
        self.0.ok_or(Self(None))
    }

    fn message(&self) -> Option<&str> {
        let payload = self.0.as_ref()?;
        payload
            .downcast_ref::<&'static str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
    }
}

// SAFETY: the payload is only reachable by value or, in `message`, read as `&str` or `String`,
// which are `Sync`.
#[allow(unsafe_code)]
unsafe impl Sync for JoinError {}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.0, self.message()) {
            (None, _) => f.write_str("JoinError::Cancelled"),
            (Some(_), Some(message)) => write!(f, "JoinError::Panic({message:?})"),
            (Some(_), None) => f.write_str("JoinError::Panic(..)"),
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.0, self.message()) {
            (None, _) => f.write_str("task was cancelled"),
            (Some(_), Some(message)) => write!(f, "task panicked with message {message:?}"),
            (Some(_), None) => f.write_str("task panicked"),
        }
    }
}

impl std::error::Error for JoinError {}
