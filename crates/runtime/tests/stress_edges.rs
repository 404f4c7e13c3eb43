//! Corners in which a runtime, a group or a handle is used late, from the wrong place, or while it
//! changes.

mod common;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use common::{PanicOnDrop, quiet_panics, runtimes};
use evenkeel::{Builder, Class, Handle, Io, JoinHandle, Order, Runtime, yield_now};

fn runtime(workers: usize) -> Runtime {
    Builder::new().worker_threads(workers).build().unwrap()
}

/// Spins until `is_done`.
fn until(is_done: impl Fn() -> bool) {
    while !is_done() {
        std::thread::yield_now();
    }
}

/// Sets a flag when it is dropped.
struct Flag(Arc<AtomicBool>);

impl Flag {
    fn new() -> (Self, Arc<AtomicBool>) {
        let flag = Arc::new(AtomicBool::new(false));
        (Self(flag.clone()), flag)
    }
}

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn the_rest_of_a_poll_after_block_in_place_is_still_in_the_runtime() {
    for rt in runtimes(2) {
        let group = rt.handle().root().child("g").build().unwrap();
        let task = group.spawn(async {
            let inner = evenkeel::block_in_place(|| {
                let path = evenkeel::current_group().path();
                (path, evenkeel::spawn(async { 1 }))
            });
            assert_eq!(inner.0, "/g");
            assert_eq!(evenkeel::current_group().path(), "/g");
            let blocking = evenkeel::spawn_blocking(|| 2);
            let outer = evenkeel::spawn(async { 3 });
            assert_eq!(Handle::current().worker_threads(), 2);
            inner.1.await.unwrap() + blocking.await.unwrap() + outer.await.unwrap()
        });
        assert_eq!(rt.block_on(task).unwrap(), 6);
    }
}

#[test]
fn block_in_place_in_a_task_of_tokio_keeps_the_worker() {
    quiet_panics();
    for rt in runtimes(1) {
        for _ in 0..20 {
            let from_tokio = rt.block_on(
                rt.spawn(async { tokio::spawn(async { evenkeel::block_in_place(|| 5) }).await }),
            );
            assert_eq!(from_tokio.unwrap().ok(), Some(5));
            let tasks: Vec<_> = (0..10).map(|i| rt.spawn(async move { i })).collect();
            for (i, task) in tasks.into_iter().enumerate() {
                assert_eq!(rt.block_on(task).unwrap(), i);
            }
        }
    }
}

#[test]
fn a_poll_with_block_in_place_outlives_its_runtime() {
    for rt in runtimes(2) {
        let (release, held) = mpsc::channel::<()>();
        let (started, is_started) = mpsc::channel();
        let (flag, is_dropped) = Flag::new();
        let other = rt.spawn(std::future::pending::<()>());
        let task = rt.spawn(async move {
            let _flag = flag;
            let _other = other;
            evenkeel::block_in_place(|| {
                started.send(()).unwrap();
                held.recv().unwrap();
            });
            std::future::pending::<()>().await;
        });
        is_started.recv().unwrap();
        rt.shutdown_timeout(Duration::from_millis(1));
        release.send(()).unwrap();
        until(|| is_dropped.load(Ordering::SeqCst));
        let other = runtime(1);
        assert!(other.block_on(task).unwrap_err().is_cancelled());
    }
}

#[test]
fn a_poll_with_block_in_place_is_dropped_at_its_end_while_a_handle_lives() {
    for rt in runtimes(1) {
        let handle = rt.handle().clone();
        let (release, held) = mpsc::channel::<()>();
        let (started, is_started) = mpsc::channel();
        let (flag, is_dropped) = Flag::new();
        drop(rt.spawn(async move {
            let _flag = flag;
            evenkeel::block_in_place(|| {
                started.send(()).unwrap();
                held.recv().unwrap();
            });
            std::future::pending::<()>().await;
        }));
        is_started.recv().unwrap();
        rt.shutdown_background();
        release.send(()).unwrap();
        until(|| is_dropped.load(Ordering::SeqCst));
        until(|| handle.nr_tasks() == 0);
    }
}

#[test]
fn an_output_that_looks_at_its_group_when_dropped_finds_none() {
    struct Look {
        go: mpsc::Receiver<()>,
        ready: mpsc::Sender<()>,
        found: mpsc::Sender<String>,
    }
    impl Drop for Look {
        fn drop(&mut self) {
            self.ready.send(()).unwrap();
            self.go.recv().unwrap();
            drop(evenkeel::spawn(async {}));
            self.found.send(evenkeel::current_group().path()).unwrap();
        }
    }
    for order in [Order::Fifo, Order::Fair] {
        let rt = runtime(1);
        let group = rt.handle().root().child("g").order(order).build().unwrap();
        let ((go, wait), (ready, is_ready), (found, path)) =
            (mpsc::channel(), mpsc::channel(), mpsc::channel());
        let look = Look {
            go: wait,
            ready,
            found,
        };
        // The output is dropped by the worker only if the handle is gone before.
        let (start, has_start) = mpsc::channel();
        drop(group.spawn(async move {
            has_start.recv().unwrap();
            look
        }));
        start.send(()).unwrap();
        is_ready.recv().unwrap();
        group.remove().unwrap();
        drop(group);
        // Changes of the hierarchy bury what was removed.
        let again = rt.handle().root().child("g").build().unwrap();
        again.remove().unwrap();
        go.send(()).unwrap();
        assert_eq!(path.recv().unwrap(), "/");
    }
}

#[test]
fn a_waker_that_drops_the_handle_and_spawns() {
    struct Last(Mutex<Option<JoinHandle<()>>>, Handle, AtomicUsize);
    impl Wake for Last {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
            drop(evenkeel::spawn(async {}));
            drop(self.1.spawn(async {}));
            self.2.fetch_add(1, Ordering::SeqCst);
        }
    }
    for rt in runtimes(1) {
        let (go, gone) = tokio::sync::oneshot::channel::<()>();
        let mut handle = rt.spawn(async move { drop(gone.await) });
        let last = Arc::new(Last(
            Mutex::new(None),
            rt.handle().clone(),
            AtomicUsize::new(0),
        ));
        let waker = Waker::from(last.clone());
        let polled = Pin::new(&mut handle).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        *last.0.lock().unwrap() = Some(handle);
        drop(waker);
        go.send(()).unwrap();
        until(|| last.2.load(Ordering::SeqCst) == 1);
    }
}

#[test]
fn remove_that_is_refused_moves_no_task() {
    let rt = runtime(2);
    for order in [Order::Fifo, Order::Fair] {
        let group = rt.handle().root().child("g").order(order).build().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let over = over.clone();
                group.spawn(async move {
                    while !over.load(Ordering::Relaxed) {
                        assert_eq!(evenkeel::current_group().path(), "/g");
                        yield_now().await;
                    }
                })
            })
            .collect();
        for _ in 0..20_000 {
            assert!(group.remove().unwrap_err().is_busy());
        }
        assert_eq!(group.stat().nr_tasks, 4);
        over.store(true, Ordering::Relaxed);
        for task in tasks {
            rt.block_on(task).unwrap();
        }
        until(|| group.remove().is_ok());
    }
}

#[test]
fn groups_that_come_and_go_under_load_are_forgotten() {
    let rt = runtime(2);
    let root = rt.handle().root();
    let over = Arc::new(AtomicBool::new(false));
    let busy = root.child("busy").build().unwrap();
    let load: Vec<_> = (0..4)
        .map(|_| {
            let over = over.clone();
            busy.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    yield_now().await;
                }
            })
        })
        .collect();
    for i in 0..20_000 {
        let order = [Order::Fifo, Order::Fair][i % 2];
        let group = root.child("g").order(order).build().unwrap();
        if i % 64 == 0 {
            rt.block_on(group.spawn(yield_now())).unwrap();
        }
        group.remove_to_parent().unwrap();
    }
    over.store(true, Ordering::Relaxed);
    for task in load {
        rt.block_on(task).unwrap();
    }
}

#[test]
fn children_of_a_task_whose_group_was_removed_go_to_the_parent_for_good() {
    let rt = runtime(1);
    let root = rt.handle().root();
    let group = root.child("g").build().unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let (ready, is_ready) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let stop = over.clone();
    let first = group.spawn(async move {
        yield_now().await;
        ready.send(()).unwrap();
        wait.recv().unwrap();
        let child = evenkeel::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(evenkeel::current_group().path(), "/");
                yield_now().await;
            }
        });
        Some(child)
    });
    is_ready.recv().unwrap();
    group.remove_to_parent().unwrap();
    go.send(()).unwrap();
    let child = rt.block_on(first).unwrap().unwrap();
    until(|| root.stat().nr_running > 0);
    over.store(true, Ordering::Relaxed);
    rt.block_on(child).unwrap();
}

#[test]
fn a_runtime_is_built_inside_a_task() {
    for rt in runtimes(1) {
        let inner = rt.block_on(rt.spawn(async { runtime(1) })).unwrap();
        assert_eq!(inner.block_on(inner.spawn(async { 1 })).unwrap(), 1);
        let inner = rt.block_on(async { runtime(1) });
        assert_eq!(inner.block_on(inner.spawn(async { 1 })).unwrap(), 1);
    }
}

#[test]
fn spawn_goes_to_the_runtime_that_was_entered() {
    let (a, b) = (runtime(1), runtime(3));
    let entered = b.handle().clone();
    let workers = a.spawn(async move {
        let task = {
            let _guard = entered.enter();
            evenkeel::spawn(async { Handle::current().worker_threads() })
        };
        (task.await.unwrap(), Handle::current().worker_threads())
    });
    assert_eq!(a.block_on(workers).unwrap(), (3, 1));
}

#[test]
fn a_refused_block_on_without_io_leaves_no_trace() {
    quiet_panics();
    let rt = Builder::new()
        .worker_threads(1)
        .io(Io::Off)
        .build()
        .unwrap();
    let handle = rt.handle().clone();
    let task = rt.spawn(async move {
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            handle.block_on(async {});
        }));
        assert!(refused.is_err());
        evenkeel::block_in_place(|| handle.block_on(handle.spawn(async { 8 })))
    });
    assert_eq!(rt.block_on(task).unwrap().unwrap(), 8);
}

#[test]
fn a_class_set_on_a_live_group_reaches_tasks_that_never_block() {
    let rt = runtime(1);
    let root = rt.handle().root();
    for order in [Order::Fifo, Order::Fair] {
        let high = root.child("high").order(order).build().unwrap();
        let low = root.child("low").order(order).build().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let polls: Vec<_> = (0..4).map(|_| Arc::new(AtomicUsize::new(0))).collect();
        let tasks: Vec<_> = polls
            .iter()
            .enumerate()
            .map(|(i, polls)| {
                let (polls, over) = (polls.clone(), over.clone());
                let group = if i < 2 { &high } else { &low };
                group.spawn(async move {
                    while !over.load(Ordering::Relaxed) {
                        polls.fetch_add(1, Ordering::Relaxed);
                        for i in 0..20_000 {
                            std::hint::black_box(i);
                        }
                        yield_now().await;
                    }
                })
            })
            .collect();
        let count = |i: usize| polls[i].load(Ordering::Relaxed);
        until(|| (0..4).all(|i| count(i) > 50));
        low.set_class(Class::Idle).unwrap();
        // Each gets one more turn in the old class at most.
        let settle = count(0) + 200;
        until(|| count(0) > settle);
        let before = count(2) + count(3);
        let end = count(0) + 1000;
        until(|| count(0) > end);
        let during = count(2) + count(3) - before;
        over.store(true, Ordering::Relaxed);
        low.set_class(Class::Fair).unwrap();
        for task in tasks {
            rt.block_on(task).unwrap();
        }
        assert!(during < 20, "{order:?}: {during} polls of the idle class");
        until(|| high.remove().is_ok() && low.remove().is_ok());
    }
}

#[test]
fn a_payload_of_a_waker_in_the_driver_does_not_end_a_worker() {
    struct Bad;
    impl Wake for Bad {
        fn wake(self: Arc<Self>) {
            std::panic::panic_any(PanicOnDrop);
        }
    }
    quiet_panics();
    for rt in runtimes(1) {
        let _guard = rt.enter();
        let mut sleep = pin!(tokio::time::sleep(Duration::from_millis(1)));
        let waker = Waker::from(Arc::new(Bad));
        let polled = sleep.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        // The driver ends, the workers do not.
        until(|| sleep.is_elapsed());
        for i in 0..100 {
            assert_eq!(rt.block_on(rt.spawn(async move { i })).unwrap(), i);
        }
    }
}

#[test]
fn tasks_queued_before_the_first_group_are_not_left_behind_a_long_poll() {
    let rt = runtime(2);
    let root = rt.handle().root();
    let done = Arc::new(AtomicUsize::new(0));
    let count = done.clone();
    let task = rt.spawn(async move {
        for _ in 0..1000 {
            let count = count.clone();
            drop(evenkeel::spawn(async move {
                count.fetch_add(1, Ordering::SeqCst);
            }));
        }
        root.child("first").build().unwrap();
        // One may wait in the slot.
        until(|| count.load(Ordering::SeqCst) >= 999);
    });
    rt.block_on(task).unwrap();
}

#[test]
fn a_wake_from_another_runtime_reaches_the_right_one() {
    let runtimes: Vec<_> = (0..3).map(|i| runtime(1 + i % 2)).collect();
    let turns = Arc::new(AtomicUsize::new(0));
    let wakers: Arc<Mutex<Vec<Option<Waker>>>> = Arc::new(Mutex::new(vec![None; 3]));
    let tasks: Vec<_> = runtimes
        .iter()
        .enumerate()
        .map(|(me, rt)| {
            let (turns, wakers) = (turns.clone(), wakers.clone());
            rt.spawn(std::future::poll_fn(move |cx| {
                let turn = turns.load(Ordering::SeqCst);
                wakers.lock().unwrap()[me] = Some(cx.waker().clone());
                if turn % 3 == me {
                    turns.fetch_add(1, Ordering::SeqCst);
                }
                let next = wakers.lock().unwrap()[(me + 1) % 3].clone();
                if let Some(next) = next {
                    next.wake();
                }
                if turn > 2000 {
                    return Poll::Ready(());
                }
                Poll::Pending
            }))
        })
        .collect();
    let first = &runtimes[0];
    for task in tasks {
        first.block_on(task).unwrap();
    }
    drop(runtimes);
    // Wakers of tasks whose runtime is gone do nothing.
    for waker in wakers.lock().unwrap().drain(..).flatten() {
        waker.wake();
    }
}
