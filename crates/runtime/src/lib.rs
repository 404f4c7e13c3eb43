//! A CPU scheduler for the tasks inside one process: an async executor in Tokio's shape whose tasks
//! live in nested, weighted groups.
//!
//! # Guarantees
//!
//! *Assuming that the kernel gives this process its CPUs, and that no poll takes longer than p:*
//!
//! - **Shares.** Over a second, CPU-bound groups get what hierarchical weighted max-min fairness
//!   over all workers together gives them, within a percent of a CPU, whatever their numbers of
//!   tasks; a group cannot use more CPUs than it has runnable tasks, and what it leaves goes to the
//!   others by weight. CPU is charged by the time used, also to tasks that yield after
//!   microseconds.
//! - **Work conservation.** No worker sleeps for more than about a millisecond while a task that it
//!   may run waits, and then only in the rare case that the task sits in the slot of a worker that
//!   is in a long poll; otherwise it is woken at once.
//! - **I/O and timers** are looked at every 200 µs or so by busy workers, and at once by idle ones;
//!   with one worker, or with every worker in a poll, after p at the latest.
//! - **Nothing is lost.** A task that was spawned returns, or is dropped by abort or shutdown and
//!   says so through its handle. Shutdown takes bounded time. A panic in a future, in a destructor,
//!   or in the waker of whoever awaits a task ends that task and nothing else.
//! - **Idle costs nothing.** A process without work has no timer and no wake-up.
//!
//! # What it does now, which may change
//!
//! There is a worker for each CPU. As long as only the root group exists and nobody asked for
//! statistics, workers keep plain FIFO queues with stealing, and no clock is read per poll. The
//! first child group, or the first [`Group::stat`], moves the runtime to the scheduling core
//! (`evenkeel-core`) for good. There is no preemption yet: a poll runs to its end.
//!
//! # Cargo features
//!
//! All on by default: `groups`, `fair-order` (groups of [`Order::Fair`]), `statistics`
//! (histograms), `trace` ([`trace`]), `realtime` ([`Class::RealTime`]), `bandwidth` (quotas:
//! [`Quota`]), `preempt` (levels above [`Level::Off`]). Without one its code is left out, and
//! asking for it is an error for which [`Error::is_not_compiled`] holds. What is in and not used
//! costs next to nothing: see [`keys`].
//!
//! # Tokio inside tasks
//!
//! `tokio::net`, `time`, `sync`, `fs`, `process` and `signal` work in tasks, and so do libraries
//! that call `tokio::spawn`. [`Io`] says who drives them. As in Tokio, a nested `block_on` panics,
//! and tasks that never pend are made to yield by Tokio's cooperative budget.
//! `tokio::task::block_in_place` blocks the worker; [`block_in_place`] passes it on.

#![deny(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

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
pub mod keys;
mod preempt;
mod runtime;
mod shared;
mod sync;
mod task;
pub mod trace;
mod worker;
mod yield_now;

pub use builder::Builder;
pub use context::EnterGuard;
pub use error::Error;
pub use evenkeel_macros::{main, test};
pub use group::{Class, Group, GroupBuilder, GroupStat, Histogram, Order, Quota, RtPolicy};
pub use handle::Handle;
pub use io::Io;
pub use preempt::Level;
pub use runtime::Runtime;
pub use task::{AbortHandle, JoinError, JoinHandle};
pub use yield_now::{need_resched, yield_if_needed, yield_now};

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
