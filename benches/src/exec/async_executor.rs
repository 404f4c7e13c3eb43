//! smol's async-executor on worker threads, as smol itself runs it.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use futures_lite::future;

use super::Executor;

/// An `async_executor::Executor` and the threads that run it.
#[derive(Clone)]
pub struct AsyncExecutor {
    executor: Arc<async_executor::Executor<'static>>,
    stop: async_channel::Sender<()>,
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl Executor for AsyncExecutor {
    fn start(threads: usize) -> AsyncExecutor {
        let executor = Arc::new(async_executor::Executor::new());
        let (stop, stopped) = async_channel::bounded::<()>(1);
        let run = |_| {
            let (executor, stopped) = (executor.clone(), stopped.clone());
            std::thread::spawn(move || {
                // The channel never carries a message: it ends when the sender closes it.
                let _ = future::block_on(executor.run(stopped.recv()));
            })
        };
        let threads = Arc::new(Mutex::new((0..threads).map(run).collect()));
        AsyncExecutor {
            executor,
            stop,
            threads,
        }
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        future::block_on(future)
    }

    fn spawn<F>(&self, _: usize, future: F) -> impl Future<Output = F::Output> + Send + 'static
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.executor.spawn(future)
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
        self.spawn(place, future)
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        future::yield_now()
    }

    fn stop(self) {
        self.stop.close();
        let threads = std::mem::take(&mut *self.threads.lock().expect("no thread panics with it"));
        for thread in threads {
            thread.join().expect("a worker thread does not panic");
        }
    }
}
