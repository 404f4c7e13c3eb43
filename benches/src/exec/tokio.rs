//! Tokio's multi-threaded runtime.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;

use super::Executor;

/// Tokio's multi-threaded runtime with its default settings, I/O and timers on.
#[derive(Clone)]
pub struct Tokio(Arc<Runtime>);

impl Executor for Tokio {
    fn start(threads: usize) -> Tokio {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build()
            .expect("a Tokio runtime can be started");
        Tokio(Arc::new(runtime))
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.block_on(future)
    }

    fn spawn<F>(&self, _: usize, future: F) -> impl Future<Output = F::Output> + Send + 'static
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let task = self.0.spawn(future);
        async move { task.await.expect("the task does not panic") }
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
        let task = tokio::spawn(future);
        async move { task.await.expect("the task does not panic") }
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        tokio::task::yield_now()
    }

    fn stop(self) {
        if let Some(runtime) = Arc::into_inner(self.0) {
            runtime.shutdown_timeout(Duration::from_secs(10));
        }
    }
}
