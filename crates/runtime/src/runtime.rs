//! A runtime: made by the builder, ended by drop.

use std::fmt;
use std::future::Future;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::builder::Builder;
use crate::context::{self, EnterGuard};
use crate::error::Error;
use crate::handle::Handle;
use crate::task::JoinHandle;

/// How long dropping a [`Runtime`] waits for polls that go on.
pub(crate) const DROP_TIMEOUT: Duration = Duration::from_secs(5);
/// How long shutdown leaves the dropping of tasks to the workers before it helps.
const GRACE: Duration = Duration::from_millis(20);

/// An executor with its workers, groups and I/O driver.
///
/// # Shutdown
///
/// Dropping it shuts it down in bounded time: no new tasks are taken; every task that has not
/// returned is dropped, at once or when its current poll ends; workers end. It waits for that at
/// most 5 s (or the time given to [`Runtime::shutdown_timeout`]); polls that go on after that keep
/// their thread, are dropped when they end, and are nobody's hindrance.
pub struct Runtime {
    handle: Handle,
    is_over: bool,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("handle", &self.handle)
            .finish()
    }
}

impl Runtime {
    /// Builds a runtime with the defaults of [`Builder`].
    ///
    /// # Errors
    ///
    /// As [`Builder::build`].
    pub fn new() -> Result<Self, Error> {
        Builder::new().build()
    }

    pub(crate) fn from_handle(handle: Handle) -> Self {
        Self {
            handle,
            is_over: false,
        }
    }

    /// Returns a handle, which can be cloned and sent to other threads.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Makes this runtime the current one of this thread until the guard is dropped.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }

    /// Spawns a task into the root group, or into the group of the task that calls this.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.spawn(future)
    }

    /// Runs `work` on a thread of the blocking pool.
    pub fn spawn_blocking<F, T>(&self, work: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.handle.spawn_blocking(work)
    }

    /// Runs a future on this thread until it returns; tasks run on the workers meanwhile.
    ///
    /// # Panics
    ///
    /// As [`Handle::block_on`].
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.handle.block_on(future)
    }

    /// Shuts the runtime down, waiting at most `timeout` for polls and blocking work that go on.
    pub fn shutdown_timeout(mut self, timeout: Duration) {
        self.shutdown(timeout);
    }

    /// Shuts the runtime down without waiting for anything.
    pub fn shutdown_background(mut self) {
        self.shutdown(Duration::ZERO);
    }

    fn shutdown(&mut self, timeout: Duration) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let shared = &self.handle.shared;
        let may_wait = context::may_wait_here();
        let deadline = Instant::now() + if may_wait { timeout } else { Duration::ZERO };
        shared.life.is_shutdown.store(true, Ordering::SeqCst);
        shared.owned.close_and_abort();
        shared.lift_quotas();
        for worker in shared.idle.take_all() {
            shared.unpark(worker);
        }
        shared.driver.wake();
        let all_left = shared
            .life
            .wait_workers(deadline.min(Instant::now() + GRACE));
        if !all_left {
            shared.drop_queued_tasks();
            shared.life.wait_workers(deadline);
        }
        // Whoever queues a task after this drops it, see `worker::schedule`.
        shared.life.is_abandoned.store(true, Ordering::SeqCst);
        shared.drop_queued_tasks();
        shared.preempt.close();
        shared.outlive_tasks();
        shared
            .driver
            .shutdown(deadline, may_wait && !timeout.is_zero());
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.shutdown(DROP_TIMEOUT);
    }
}
