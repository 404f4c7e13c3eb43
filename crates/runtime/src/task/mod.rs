//! Tasks: the cell (`async-task`), what the scheduler keeps in it, and the handles to it.
//!
//! One allocation holds a task: `async-task`'s header and state word, our [`Meta`], and the future or its output.
//!
//! # Who may touch what
//!
//! - `aborted` is an atomic flag: anybody who keeps the cell alive may set it; the wrapper future reads it before a poll.
//! - `owned` (list links) belongs to the shard of the owned-task list and is touched under that shard's lock only.
//! - `shared`, `group` and `raw` are written before the task is published and read-only after that, `group` excepted: it is
//!   re-pointed by whoever holds the `Runnable` when the group was removed.
//! - `entity` belongs to whoever holds the `Runnable`; while the task is queued, to the holder of that queue's lock.

mod future;
mod join;
pub(crate) mod outcome;
pub(crate) mod owned;

pub(crate) use future::TaskFuture;
pub use join::{AbortHandle, JoinError, JoinHandle};

use std::cell::Cell;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use async_task::{Builder, ScheduleInfo, WithInfo};

use crate::group::GroupInner;
use crate::shared::Shared;

/// The right to poll a task once.
pub(crate) type Runnable = async_task::Runnable<Meta>;

/// What the scheduler keeps in a task's cell.
pub(crate) struct Meta {
    /// The runtime; null for tasks of the blocking pool, which no worker runs.
    ///
    /// A plain pointer, since a counted one would make every spawn write the same cache line. It is read only while the task's
    /// future has not been dropped, and `Shared` outlives all such tasks: shutdown frees it last.
    shared: *const Shared,
    /// The group the task belongs to; kept alive by the runtime's table of groups while it has tasks.
    pub(crate) group: Cell<*const GroupInner>,
    /// `async-task`'s pointer to the cell.
    raw: Cell<*mut ()>,
    pub(crate) owned: owned::Links,
    /// Which shard of the owned list the task is in.
    pub(crate) shard: u32,
    /// Set once, by abort or shutdown.
    pub(crate) aborted: AtomicBool,
}

// SAFETY: see the access rules in the module's documentation: every non-atomic field is either read-only after publication, or guarded
// by a lock, or owned by the holder of the `Runnable`.
#[allow(unsafe_code)]
unsafe impl Send for Meta {}
// SAFETY: as for `Send`.
#[allow(unsafe_code)]
unsafe impl Sync for Meta {}

impl Meta {
    /// Returns the runtime of a task that workers run.
    #[allow(unsafe_code)]
    #[inline]
    pub(crate) fn shared_ref(&self) -> &Shared {
        debug_assert!(!self.shared.is_null());
        // SAFETY: as for `shared`; only tasks made by `create` get here, whose pointer is not null.
        unsafe { &*self.shared }
    }

    /// Returns a counted reference to the runtime of a task that workers run.
    #[allow(unsafe_code)]
    pub(crate) fn shared_arc(&self) -> Arc<Shared> {
        // SAFETY: `shared` points into the `Arc` that the runtime's handles and workers hold, which outlives this task.
        unsafe {
            Arc::increment_strong_count(self.shared);
            Arc::from_raw(self.shared)
        }
    }

    /// Returns `async-task`'s pointer to the cell.
    #[inline]
    pub(crate) fn cell(&self) -> *const () {
        self.raw.get()
    }

    /// Returns the runtime, unless this is a task of the blocking pool.
    #[allow(unsafe_code)]
    pub(crate) fn shared(&self) -> Option<&Shared> {
        // SAFETY: callers act for a task whose future has not been dropped; `Shared` outlives those.
        unsafe { self.shared.as_ref() }
    }
}

/// A pointer to a task's metadata, valid as long as somebody keeps the cell alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TaskRef(NonNull<Meta>);

impl TaskRef {
    pub(crate) fn new(meta: &Meta) -> Self {
        Self(NonNull::from(meta))
    }

    #[allow(unsafe_code)]
    fn meta(&self) -> &Meta {
        // SAFETY: whoever holds a `TaskRef` keeps the cell alive (a handle, a waker, the owned list's lock, or a queue).
        unsafe { self.0.as_ref() }
    }

    /// Makes a waker, and with it a counted reference, for the task.
    #[allow(unsafe_code)]
    pub(crate) fn waker(&self) -> Waker {
        let raw = NonNull::new(self.meta().raw.get()).expect("a published task has its pointer");
        // SAFETY: `raw` came from `Runnable::into_raw` of this very cell, which is alive. The runnable made here is a borrowed view:
        // it is never run and never dropped; `waker` only counts one more reference.
        let view = ManuallyDrop::new(unsafe { Runnable::from_raw(raw) });
        view.waker()
    }

    pub(crate) fn mark_aborted(&self) {
        self.meta().aborted.store(true, Ordering::Release);
    }

    pub(crate) fn abort(&self) {
        self.mark_aborted();
        self.waker().wake();
    }
}

/// Builds the cell of a task that workers run, without scheduling it.
#[allow(unsafe_code)]
pub(crate) fn create<F>(
    future: F,
    shared: &Shared,
    group: *const GroupInner,
    shard: u32,
) -> (Runnable, JoinHandle<F::Output>)
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let meta = Meta::new(shared, group, shard);
    // SAFETY: future and output are `Send + 'static`; `schedule` is a function without captures, hence `Send + Sync + 'static`. The
    // metadata borrowed by the wrapper lies in the same cell.
    let (runnable, task) = unsafe {
        Builder::new()
            .propagate_panic(false)
            .metadata(meta)
            .spawn_unchecked(
                |meta| TaskFuture::new(future, meta),
                WithInfo(|runnable: Runnable, info: ScheduleInfo| {
                    crate::worker::schedule(runnable, info.woken_while_running);
                }),
            )
    };
    (publish(runnable), JoinHandle::new(task))
}

/// Builds the cell of a closure that the blocking pool runs.
#[allow(unsafe_code)]
pub(crate) fn create_blocking<F, T>(
    work: F,
    group: *const GroupInner,
) -> (Runnable, JoinHandle<T>)
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let meta = Meta::new(ptr::null(), group, 0);
    let mut work = Some(work);
    let future = std::future::poll_fn(move |_| {
        let work = work.take().expect("a blocking task is polled once");
        std::task::Poll::Ready(work())
    });
    // SAFETY: as in `create`. The schedule function is reached only by an abort of a task whose runnable is already with the pool, in which
    // state `async-task` does not call it; were it called, the runnable is dropped, which cancels the task.
    let (runnable, task) = unsafe {
        Builder::new()
            .propagate_panic(false)
            .metadata(meta)
            .spawn_unchecked(|meta| TaskFuture::new(future, meta), drop::<Runnable>)
    };
    (publish(runnable), JoinHandle::new(task))
}

impl Meta {
    fn new(shared: *const Shared, group: *const GroupInner, shard: u32) -> Self {
        Self {
            shared,
            group: Cell::new(group),
            raw: Cell::new(ptr::null_mut()),
            owned: owned::Links::new(),
            shard,
            aborted: AtomicBool::new(false),
        }
    }
}

/// Records the cell's own pointer in its metadata.
#[allow(unsafe_code)]
fn publish(runnable: Runnable) -> Runnable {
    let raw = runnable.into_raw();
    // SAFETY: `raw` was just made by `into_raw` and is turned back once.
    let runnable = unsafe { Runnable::from_raw(raw) };
    runnable.metadata().raw.set(raw.as_ptr());
    runnable
}
