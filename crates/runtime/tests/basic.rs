//! Spawning, joining, aborting, panicking: what every executor does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel::{Builder, Io, Runtime};

fn runtime(workers: usize) -> Runtime {
    Builder::new().worker_threads(workers).build().unwrap()
}

#[test]
fn a_task_returns_its_output() {
    let rt = runtime(2);
    assert_eq!(rt.block_on(rt.spawn(async { 42 })).unwrap(), 42);
}

#[test]
fn tasks_spawn_tasks() {
    let rt = runtime(2);
    let sum = rt.block_on(async {
        let mut sum = 0;
        let parents: Vec<_> = (0..100_u64)
            .map(|i| {
                evenkeel::spawn(async move {
                    let child = evenkeel::spawn(async move { i });
                    evenkeel::yield_now().await;
                    child.await.unwrap()
                })
            })
            .collect();
        for parent in parents {
            sum += parent.await.unwrap();
        }
        sum
    });
    assert_eq!(sum, 4950);
}

#[test]
fn a_panic_reaches_the_handle_and_nobody_else() {
    let rt = runtime(1);
    let error = rt.block_on(rt.spawn(async { panic!("boom") })).unwrap_err();
    assert!(error.is_panic());
    assert_eq!(error.to_string(), "task panicked with message \"boom\"");
    assert_eq!(rt.block_on(rt.spawn(async { 1 })).unwrap(), 1);
}

#[test]
fn abort_drops_the_future() {
    let rt = runtime(2);
    let held = Arc::new(());
    let in_task = held.clone();
    let handle = rt.spawn(async move {
        std::future::pending::<()>().await;
        drop(in_task);
    });
    handle.abort();
    assert!(rt.block_on(handle).unwrap_err().is_cancelled());
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn shutdown_drops_every_task() {
    let dropped = Arc::new(AtomicUsize::new(0));
    struct Count(Arc<AtomicUsize>);
    impl Drop for Count {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let rt = runtime(2);
    for _ in 0..1000 {
        let count = Count(dropped.clone());
        drop(rt.spawn(async move {
            std::future::pending::<()>().await;
            drop(count);
        }));
    }
    drop(rt);
    assert_eq!(dropped.load(Ordering::SeqCst), 1000);
}

#[test]
fn sleep_and_blocking_work() {
    for io in [Io::Shared, Io::Dedicated] {
        let rt = Builder::new().worker_threads(2).io(io).build().unwrap();
        let answer = rt.block_on(rt.spawn(async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let a = evenkeel::spawn_blocking(|| 40).await.unwrap();
            let b = evenkeel::block_in_place(|| 2);
            a + b
        }));
        assert_eq!(answer.unwrap(), 42);
    }
}

#[test]
fn many_tasks_finish() {
    let rt = runtime(2);
    let done = Arc::new(AtomicUsize::new(0));
    rt.block_on(async {
        let handles: Vec<_> = (0..10_000)
            .map(|_| {
                let done = done.clone();
                evenkeel::spawn(async move {
                    for _ in 0..10 {
                        evenkeel::yield_now().await;
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                })
            })
            .collect();
        for handle in handles {
            handle.await.unwrap();
        }
    });
    assert_eq!(done.load(Ordering::Relaxed), 10_000);
}
