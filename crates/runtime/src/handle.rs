//! A counted reference to a runtime, from which tasks are spawned.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::context::{self, EnterGuard, Section};
use crate::error::{Error, Kind};
use crate::group::{Group, GroupInner};
use crate::io::Io;
use crate::shared::Shared;
use crate::task::{self, JoinHandle, Runnable, TaskRef};

/// A reference to a runtime; cheap to clone, and usable from any thread.
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("worker_threads", &self.worker_threads())
            .finish_non_exhaustive()
    }
}

impl Handle {
    pub(crate) fn from_shared(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Returns the runtime that this thread is in.
    ///
    /// # Panics
    ///
    /// Panics when this thread is in none.
    #[must_use]
    #[track_caller]
    pub fn current() -> Self {
        Self::try_current().unwrap_or_else(|_| {
            panic!("there is no evenkeel runtime here: be in a task, in `block_on`, or `enter` one")
        })
    }

    /// Returns the runtime that this thread is in.
    ///
    /// # Errors
    ///
    /// Gives an error for which [`Error::is_no_runtime`] holds when this thread is in none.
    pub fn try_current() -> Result<Self, Error> {
        context::current_handle().ok_or_else(|| Error::new(Kind::NoRuntime))
    }

    /// Makes this runtime the current one of this thread, and its Tokio runtime Tokio's, until the
    /// guard is dropped.
    pub fn enter(&self) -> EnterGuard<'_> {
        context::enter(self)
    }

    /// Returns the number of workers, that is of CPUs that tasks run on at once.
    #[must_use]
    pub fn worker_threads(&self) -> usize {
        self.shared.remotes.len()
    }

    /// Returns the number of tasks that were spawned and have not finished. While tasks spawn
    /// others it may miss some: it is summed up part by part.
    #[must_use]
    pub fn nr_tasks(&self) -> usize {
        self.shared.owned.len()
    }

    /// Returns the root group.
    #[must_use]
    pub fn root(&self) -> Group {
        Group::new(self.shared.clone(), self.shared.groups.root().clone())
    }

    /// Returns the group at `path`, such as `/tenants/a`; `/` is the root.
    #[must_use]
    pub fn group(&self, path: &str) -> Option<Group> {
        let inner = self.shared.groups.lookup(path)?;
        Some(Group::new(self.shared.clone(), inner))
    }

    /// Returns the group of the task that calls this; the root group where no task of this runtime
    /// does.
    #[must_use]
    pub fn current_group(&self) -> Group {
        Group::new(self.shared.clone(), self.shared.current_group_arc())
    }

    /// Spawns a task into the group of the task that calls this, or into the root group.
    ///
    /// After shutdown the future is dropped, and the handle says that it was cancelled.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        spawn_on(&self.shared, future, None)
    }

    /// Runs `work` on a thread of the blocking pool.
    ///
    /// Abort has an effect only until it starts.
    pub fn spawn_blocking<F, T>(&self, work: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let _section = context::section();
        let shared = &self.shared;
        let (runnable, handle) = task::create_blocking(work, shared, shared.current_group());
        if shared.owned.insert(runnable.metadata()) {
            let job = Blocking {
                runnable,
                handle: self.clone(),
            };
            drop(shared.driver.handle().spawn_blocking(move || job.run()));
        }
        handle
    }

    /// Runs a future on this thread until it returns; tasks run on the workers meanwhile.
    ///
    /// # Panics
    ///
    /// Panics inside a task or another `block_on`, where it would hold up a worker; and when the
    /// future panics.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let _guard = context::enter_only(self.clone());
        if self.shared.driver.mode() == Io::Off {
            return context::block_on_without_io(future);
        }
        self.shared.driver.handle().block_on(future)
    }
}

/// A closure on its way to the blocking pool. The fields are dropped in this order: the task refers
/// to the runtime.
struct Blocking {
    runnable: Runnable,
    handle: Handle,
}

impl Blocking {
    fn run(self) {
        let Self { runnable, handle } = self;
        let _guard = context::enter(&handle);
        let before = context::set_task(&runnable);
        runnable.run();
        context::restore_task(before);
    }
}

/// Spawns a task into `group`, or where the current task is.
#[inline]
pub(crate) fn spawn_on<F>(
    shared: &Shared,
    future: F,
    group: Option<*const GroupInner>,
) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let (_section, shard, is_plain) = match context::plain_worker() {
        Some(worker) if worker.is_of(shared) => (Section::outer(), worker.index as u32, true),
        _ => {
            let (section, shard) = enter_from_elsewhere(shared);
            (section, shard, false)
        }
    };
    let group = group.unwrap_or_else(|| shared.current_group());
    let (runnable, handle) = task::create(future, shared, group, shard);
    if !is_plain {
        TaskRef::new(runnable.metadata()).learn_group();
    }
    if shared.owned.insert(runnable.metadata()) {
        runnable.schedule();
    }
    handle
}

/// Enters a section and chooses the shard of the owned list for a task that this thread spawns.
#[inline(never)]
fn enter_from_elsewhere(shared: &Shared) -> (Section, u32) {
    let section = context::section();
    let shard = context::with_raw_worker(|worker| match worker {
        Some(worker) if worker.is_of(shared) => worker.index as u32,
        _ => shared.outside_shard(),
    });
    (section, shard)
}
