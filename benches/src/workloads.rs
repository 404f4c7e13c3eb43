//! The workloads of the `messaging` program. Each is one function over any [`Executor`], returns
//! the time that its measured part took, and is the same code for every executor.

use std::future::Future;
use std::time::{Duration, Instant};

use async_channel::{Receiver, Sender};

use crate::exec::Executor;

/// Number of tasks that yield in turn in `yield`.
const YIELDING_TASKS: usize = 16;

/// Senders, and receivers, of `messages`.
const PARTIES: usize = 20;

/// Messages that a receiver's channel holds in `messages`.
const CHANNEL_CAPACITY: usize = 16;

/// A workload by name.
#[derive(Clone, Copy)]
pub struct Workload {
    /// Name on the command line and in tables.
    pub name: &'static str,
    /// What one operation is.
    pub operation: &'static str,
    /// Number of operations of one repetition at scale 1.
    pub operations: usize,
}

/// Every workload.
pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "spawn-inside",
        operation: "a task spawns a task and awaits it",
        operations: 200_000,
    },
    Workload {
        name: "spawn-outside",
        operation: "a thread in block_on spawns a task and awaits it",
        operations: 20_000,
    },
    Workload {
        name: "yield-alone",
        operation: "the only task yields",
        operations: 500_000,
    },
    Workload {
        name: "yield",
        operation: "one of 16 tasks yields",
        operations: 500_000,
    },
    Workload {
        name: "ping-pong",
        operation: "two tasks exchange a message and its answer (capacity 1)",
        operations: 200_000,
    },
    Workload {
        name: "messages",
        operation: "a message of 20 senders to each of 20 receivers",
        operations: 400_000,
    },
    Workload {
        name: "spawn-1m",
        operation: "a task spawns 1 M tasks, then awaits them all; one spawn and join",
        operations: 1_000_000,
    },
];

impl Workload {
    /// Runs `operations` of this workload on a fresh executor of `threads` workers, after a tenth
    /// of it as a warm-up, and returns nanoseconds per operation.
    ///
    /// # Panics
    ///
    /// When the workload's name has no code, or a task lost a message.
    pub fn run<E: Executor>(&self, threads: usize, operations: usize) -> f64 {
        let executor = E::start(threads);
        self.run_on(&executor, (operations / 10).max(1));
        let elapsed = self.run_on(&executor, operations);
        executor.stop();
        elapsed.as_nanos() as f64 / operations as f64
    }

    fn run_on<E: Executor>(&self, executor: &E, operations: usize) -> Duration {
        match self.name {
            "spawn-inside" => in_task(executor, spawn_inside(executor.clone(), operations)),
            "spawn-outside" => executor.block_on(spawn_outside(executor.clone(), operations)),
            "yield-alone" => in_task(executor, yield_alone::<E>(operations)),
            "yield" => in_task(executor, yield_many(executor.clone(), operations)),
            "ping-pong" => in_task(executor, ping_pong(executor.clone(), operations)),
            "messages" => in_task(executor, messages(executor.clone(), operations)),
            "spawn-1m" => in_task(executor, spawn_then_join(executor.clone(), operations)),
            name => unreachable!("{name} is listed, but has no code"),
        }
    }
}

/// Runs `future` in a task and waits for it on this thread.
fn in_task<E: Executor>(
    executor: &E,
    future: impl Future<Output = Duration> + Send + 'static,
) -> Duration {
    executor.block_on(executor.spawn(0, future))
}

async fn spawn_inside<E: Executor>(executor: E, operations: usize) -> Duration {
    let start = Instant::now();
    for operation in 0..operations {
        let result = executor.spawn_inside(1, async move { operation }).await;
        assert_eq!(result, operation);
    }
    start.elapsed()
}

async fn spawn_outside<E: Executor>(executor: E, operations: usize) -> Duration {
    let start = Instant::now();
    for operation in 0..operations {
        let result = executor.spawn(operation, async move { operation }).await;
        assert_eq!(result, operation);
    }
    start.elapsed()
}

async fn yield_alone<E: Executor>(operations: usize) -> Duration {
    let start = Instant::now();
    for _ in 0..operations {
        E::yield_now().await;
    }
    start.elapsed()
}

async fn yield_many<E: Executor>(executor: E, operations: usize) -> Duration {
    let start = Instant::now();
    let spawn = |place| {
        executor.spawn_inside(place, async move {
            for _ in 0..operations / YIELDING_TASKS {
                E::yield_now().await;
            }
        })
    };
    let tasks: Vec<_> = (0..YIELDING_TASKS).map(spawn).collect();
    for task in tasks {
        task.await;
    }
    start.elapsed()
}

async fn ping_pong<E: Executor>(executor: E, operations: usize) -> Duration {
    let (to_peer, from_main) = async_channel::bounded::<usize>(1);
    let (to_main, from_peer) = async_channel::bounded::<usize>(1);
    let peer = executor.spawn_inside(1, async move {
        while let Ok(message) = from_main.recv().await {
            to_main
                .send(message + 1)
                .await
                .expect("the other side listens");
        }
    });
    let start = Instant::now();
    for operation in 0..operations {
        to_peer.send(operation).await.expect("the peer listens");
        assert_eq!(from_peer.recv().await, Ok(operation + 1));
    }
    let elapsed = start.elapsed();
    drop(to_peer);
    peer.await;
    elapsed
}

async fn messages<E: Executor>(executor: E, operations: usize) -> Duration {
    let each = (operations / (PARTIES * PARTIES)).max(1);
    let start = Instant::now();
    let channels: (Vec<Sender<usize>>, Vec<Receiver<usize>>) = (0..PARTIES)
        .map(|_| async_channel::bounded(CHANNEL_CAPACITY))
        .unzip();
    let (senders, receivers) = channels;
    let receive = |(place, receiver): (usize, Receiver<usize>)| {
        executor.spawn_inside(place, async move {
            let mut sum = 0;
            while let Ok(message) = receiver.recv().await {
                sum += message;
            }
            sum
        })
    };
    let receiving: Vec<_> = receivers.into_iter().enumerate().map(receive).collect();
    let send = |place: usize| {
        let senders = senders.clone();
        executor.spawn_inside(place, async move {
            for _ in 0..each {
                for sender in &senders {
                    sender.send(1).await.expect("the receiver listens");
                }
            }
        })
    };
    let sending: Vec<_> = (0..PARTIES).map(send).collect();
    drop(senders);
    for task in sending {
        task.await;
    }
    for task in receiving {
        assert_eq!(task.await, each * PARTIES, "messages were lost");
    }
    start.elapsed()
}

async fn spawn_then_join<E: Executor>(executor: E, operations: usize) -> Duration {
    let start = Instant::now();
    let spawn = |number: usize| executor.spawn_inside(number, async move { number });
    let tasks: Vec<_> = (0..operations).map(spawn).collect();
    for (number, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.await, number);
    }
    start.elapsed()
}

#[cfg(test)]
mod tests {
    //! Every workload runs, small, on every executor.
    use super::*;
    use crate::exec::{AsyncExecutor, Evenkeel, EvenkeelGroups, Tokio};

    #[test]
    fn every_workload_runs_on_every_executor() {
        for workload in WORKLOADS {
            assert!(workload.run::<Evenkeel>(2, 800) > 0.0);
            assert!(workload.run::<EvenkeelGroups<false>>(2, 800) > 0.0);
            assert!(workload.run::<EvenkeelGroups<true>>(2, 800) > 0.0);
            assert!(workload.run::<Tokio>(2, 800) > 0.0);
            assert!(workload.run::<AsyncExecutor>(2, 800) > 0.0);
        }
    }
}
