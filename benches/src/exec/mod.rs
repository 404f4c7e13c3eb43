//! The executors that are compared, behind one trait.

mod async_executor;
mod evenkeel;
mod tokio;

pub use async_executor::AsyncExecutor;
pub use evenkeel::{Evenkeel, EvenkeelGroups};
pub use tokio::Tokio;

use std::future::Future;

use clap::ValueEnum;

/// A multi-threaded executor with a fixed number of worker threads.
///
/// `spawn` and `spawn_inside` take a place number: an executor with several groups in use puts the
/// task into group `place` modulo their number, others ignore it.
pub trait Executor: Clone + Send + Sync + 'static {
    /// Starts the executor with `threads` worker threads.
    fn start(threads: usize) -> Self;

    /// Drives `future` on the calling thread, which is no worker.
    fn block_on<F: Future>(&self, future: F) -> F::Output;

    /// Spawns a task from any thread. The returned future is its result, or panics when it did;
    /// dropping it need not keep the task.
    fn spawn<F>(&self, place: usize, future: F) -> impl Future<Output = F::Output> + Send + 'static
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static;

    /// Spawns a task from inside another one, in the way this executor's users do.
    fn spawn_inside<F>(
        &self,
        place: usize,
        future: F,
    ) -> impl Future<Output = F::Output> + Send + 'static
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static;

    /// Lets other tasks run.
    fn yield_now() -> impl Future<Output = ()> + Send;

    /// Stops the worker threads and waits for them. Other clones must not be used afterwards.
    fn stop(self);
}

/// The candidates by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Evenkeel, every task in the root group.
    Evenkeel,
    /// Evenkeel, every task in one of two groups.
    #[value(name = "evenkeel-in-group")]
    EvenkeelInGroup,
    /// Evenkeel, tasks spread over two groups.
    #[value(name = "evenkeel-2-groups")]
    EvenkeelTwoGroups,
    /// Tokio's multi-threaded runtime.
    Tokio,
    /// smol's async-executor, with worker threads that run it.
    AsyncExecutor,
}

impl Kind {
    /// Every candidate, ours first.
    pub const ALL: &[Kind] = &[
        Kind::Evenkeel,
        Kind::EvenkeelInGroup,
        Kind::EvenkeelTwoGroups,
        Kind::Tokio,
        Kind::AsyncExecutor,
    ];

    /// Returns the name used in tables, in JSON and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Evenkeel => "evenkeel",
            Kind::EvenkeelInGroup => "evenkeel-in-group",
            Kind::EvenkeelTwoGroups => "evenkeel-2-groups",
            Kind::Tokio => "tokio",
            Kind::AsyncExecutor => "async-executor",
        }
    }
}
