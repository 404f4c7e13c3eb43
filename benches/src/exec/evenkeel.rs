//! Evenkeel, with its root group only and with two groups in use.

use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use evenkeel::{Builder, Group, JoinHandle, Level, Runtime};

use super::Executor;

/// Evenkeel with its default settings; every task is in the root group.
#[derive(Clone)]
pub struct Evenkeel(Arc<Runtime>);

impl Evenkeel {
    /// Starts it at [`Level::Park`], and has polls preempted before it returns: so all that
    /// preemption needs was in use.
    pub fn start_preempted(threads: usize) -> Evenkeel {
        let builder = Builder::new().worker_threads(threads);
        let runtime = builder.preempt(Level::Park).build();
        let runtime = runtime.expect("a runtime can be started");
        let root = runtime.handle().root();
        let hogs: Vec<_> = (0..3 * threads)
            .map(|_| {
                let root = root.clone();
                runtime.spawn(async move {
                    while root.stat().nr_preempted < PREEMPTED_POLLS {
                        std::hint::spin_loop();
                    }
                })
            })
            .collect();
        for hog in hogs {
            runtime.block_on(result(hog));
        }
        Evenkeel(Arc::new(runtime))
    }
}

/// Polls that [`Evenkeel::start_preempted`] waits for.
const PREEMPTED_POLLS: u64 = 50;

/// Returns the task's result, or panics as the task did.
async fn result<T>(task: JoinHandle<T>) -> T {
    task.await.expect("the task does not panic")
}

impl Executor for Evenkeel {
    fn start(threads: usize) -> Evenkeel {
        let runtime = Builder::new().worker_threads(threads).build();
        Evenkeel(Arc::new(runtime.expect("a runtime can be started")))
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.block_on(future)
    }

    fn spawn<F>(&self, _: usize, future: F) -> impl Future<Output = F::Output> + Send + 'static
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        result(self.0.spawn(future))
    }

    fn spawn_inside<F>(
        &self,
        _: usize,
        future: F,
    ) -> impl Future<Output = F::Output> + Send + 'static
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        result(evenkeel::spawn(future))
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        evenkeel::yield_now()
    }

    fn stop(self) {
        if let Some(runtime) = Arc::into_inner(self.0) {
            runtime.shutdown_timeout(Duration::from_secs(10));
        }
    }
}

/// Evenkeel with two groups of equal weight, each of which also holds a task that never ends.
///
/// With `SPREAD` the tasks of a workload are spread over both, so that they talk across groups;
/// without it they are all in the first one, as the tasks of one tenant are.
#[derive(Clone)]
pub struct EvenkeelGroups<const SPREAD: bool> {
    runtime: Evenkeel,
    groups: [Group; 2],
}

impl<const SPREAD: bool> EvenkeelGroups<SPREAD> {
    fn group(&self, place: usize) -> &Group {
        &self.groups[if SPREAD { place % 2 } else { 0 }]
    }
}

impl<const SPREAD: bool> Executor for EvenkeelGroups<SPREAD> {
    fn start(threads: usize) -> Self {
        let runtime = Evenkeel::start(threads);
        let group = |name| {
            let group = runtime
                .0
                .handle()
                .root()
                .child(name)
                .build()
                .expect("the name is free");
            drop(group.spawn(pending::<()>()));
            group
        };
        let groups = [group("a"), group("b")];
        EvenkeelGroups { runtime, groups }
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    fn spawn<F>(&self, place: usize, future: F) -> impl Future<Output = F::Output> + Send + 'static
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        result(self.group(place).spawn(future))
    }

    fn spawn_inside<F>(
        &self,
        place: usize,
        future: F,
    ) -> impl Future<Output = F::Output> + Send + 'static
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        result(self.group(place).spawn(future))
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        evenkeel::yield_now()
    }

    fn stop(self) {
        drop(self.groups);
        self.runtime.stop();
    }
}
