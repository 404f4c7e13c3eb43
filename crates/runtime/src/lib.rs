//! A CPU scheduler for the tasks inside one process.

#![deny(unsafe_code)]

mod bell;
mod builder;
mod clock;
mod context;
mod cpus;
mod error;
mod group;
mod handle;
mod idle;
mod io;
mod runtime;
mod shared;
mod sync;
mod task;
mod worker;
mod yield_now;

pub use builder::Builder;
pub use context::EnterGuard;
pub use error::Error;
pub use evenkeel_macros::{main, test};
pub use group::{Class, Group, GroupBuilder, GroupStat, Histogram, Order, RtPolicy};
pub use handle::Handle;
pub use io::Io;
pub use runtime::Runtime;
pub use task::{AbortHandle, JoinError, JoinHandle};
pub use yield_now::yield_now;

use std::future::Future;

/// Spawns a task onto the current runtime, into the group of the task that calls this (outside of a
/// task, into the root group).
///
/// # Panics
///
/// Panics outside of a runtime.
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    if let Some(shared) = context::worker_shared() {
        return handle::spawn_on(shared, future, None);
    }
    Handle::current().spawn(future)
}

/// Runs `work` on a thread of the current runtime's blocking pool.
///
/// # Panics
///
/// Panics outside of a runtime.
#[track_caller]
pub fn spawn_blocking<F, T>(work: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Handle::current().spawn_blocking(work)
}

/// Returns the group of the task that calls this; the root group where no task does.
///
/// # Panics
///
/// Panics outside of a runtime.
#[must_use]
#[track_caller]
pub fn current_group() -> Group {
    Handle::current().current_group()
}

/// Runs `work`, which may block this thread, in the middle of a task: the worker moves to another
/// thread first, so that the other tasks go on.
///
/// Outside of a task it simply runs `work`. Inside, `work` may call `block_on`.
pub fn block_in_place<R>(work: impl FnOnce() -> R) -> R {
    worker::block_in_place(work)
}
