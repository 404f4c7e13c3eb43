//! Panics wherever user code runs, aborts, and shutdown in every state: no worker dies and no task
//! is lost.

mod common;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use common::{PanicOnDrop, quiet_panics, runtimes};
use evenkeel::{Builder, Runtime};

/// Runs one task to its end, to see that the workers live.
fn assert_alive(rt: &Runtime) {
    assert_eq!(rt.block_on(rt.spawn(async { 7 })).unwrap(), 7);
}

#[test]
fn a_panic_in_the_destructor_of_a_future_is_the_tasks_own() {
    quiet_panics();
    for rt in runtimes(1) {
        let bomb = PanicOnDrop;
        let returned = rt.spawn(async move {
            let _bomb = &bomb;
            5
        });
        assert!(rt.block_on(returned).unwrap_err().is_panic());
        let bomb = PanicOnDrop;
        let aborted = rt.spawn(async move {
            let _bomb = &bomb;
            std::future::pending::<()>().await;
        });
        aborted.abort();
        let error = rt.block_on(aborted).unwrap_err();
        assert!(error.is_panic() || error.is_cancelled());
        assert_alive(&rt);
    }
}

#[test]
fn a_panic_in_the_destructor_of_an_output_nobody_takes_ends_there() {
    quiet_panics();
    for rt in runtimes(1) {
        drop(rt.spawn(async { PanicOnDrop }));
        let held = rt.spawn(async { PanicOnDrop });
        assert_alive(&rt);
        drop(held);
        assert_alive(&rt);
    }
}

#[test]
fn a_panic_payload_that_panics_when_dropped_ends_there() {
    quiet_panics();
    for rt in runtimes(1) {
        drop(rt.spawn(async { std::panic::panic_any(PanicOnDrop) }));
        assert_alive(&rt);
    }
}

/// A waker that panics whenever it is used, and says that it was.
struct BadWaker(AtomicUsize);

impl Wake for BadWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("bad waker");
    }
}

#[test]
fn a_panic_in_the_waker_of_whoever_awaits_a_task_ends_there() {
    quiet_panics();
    for rt in runtimes(1) {
        let bad = Arc::new(BadWaker(AtomicUsize::new(0)));
        let (go, gone) = tokio::sync::oneshot::channel::<()>();
        let mut handle = rt.spawn(async move { gone.await.is_ok() });
        let waker = Waker::from(bad.clone());
        let first = Pin::new(&mut handle).poll(&mut Context::from_waker(&waker));
        assert!(first.is_pending());
        go.send(()).unwrap();
        assert_alive(&rt);
        while bad.0.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        assert!(rt.block_on(handle).unwrap());
        assert_alive(&rt);
    }
}

#[test]
fn a_task_wakes_itself_from_its_destructor() {
    struct WakeOnDrop(Option<Waker>);
    impl Drop for WakeOnDrop {
        fn drop(&mut self) {
            if let Some(waker) = self.0.take() {
                waker.wake();
            }
        }
    }
    for rt in runtimes(2) {
        let mut on_drop = WakeOnDrop(None);
        let handle = rt.spawn(std::future::poll_fn(move |cx| {
            drop(on_drop.0.replace(cx.waker().clone()));
            Poll::<()>::Pending
        }));
        handle.abort();
        assert!(rt.block_on(handle).unwrap_err().is_cancelled());
        assert_alive(&rt);
    }
}

#[test]
fn abort_at_any_time_gives_output_or_cancelled() {
    for rt in runtimes(2) {
        for i in 0..500 {
            let handle = rt.spawn(async move {
                for _ in 0..i % 7 {
                    evenkeel::yield_now().await;
                }
                i
            });
            let abort = handle.abort_handle();
            if i % 3 == 0 {
                rt.spawn(async move { abort.abort() });
            } else {
                abort.abort();
            }
            match rt.block_on(handle) {
                Ok(got) => assert_eq!(got, i),
                Err(error) => assert!(error.is_cancelled()),
            }
        }
    }
}

#[test]
fn abort_after_the_end_changes_nothing() {
    for rt in runtimes(1) {
        let handle = rt.spawn(async { 3 });
        let abort = handle.abort_handle();
        while !handle.is_finished() {
            std::thread::yield_now();
        }
        abort.abort();
        handle.abort();
        assert_eq!(rt.block_on(handle).unwrap(), 3);
        abort.abort();
    }
}

/// Counts the futures that are alive.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn shutdown_drops_tasks_in_every_state() {
    for rt in runtimes(2) {
        let count = Arc::new(AtomicUsize::new(0));
        let mut wakers = Vec::new();
        for i in 0..400 {
            let alive = Alive::new(&count);
            let (wake, woken) = tokio::sync::oneshot::channel::<()>();
            wakers.push(wake);
            drop(rt.spawn(async move {
                let _alive = alive;
                match i % 4 {
                    0 => std::future::pending::<()>().await,
                    1 => drop(woken.await),
                    2 => loop {
                        evenkeel::yield_now().await;
                    },
                    _ => tokio::time::sleep(Duration::from_secs(3600)).await,
                }
            }));
        }
        drop(rt);
        assert_eq!(count.load(Ordering::SeqCst), 0);
        drop(wakers);
    }
}

#[test]
fn a_poll_that_goes_on_does_not_hold_up_shutdown_and_is_dropped_at_its_end() {
    for rt in runtimes(2) {
        let count = Arc::new(AtomicUsize::new(0));
        let (release, held) = mpsc::channel::<()>();
        let (started, is_started) = mpsc::channel();
        let alive = Alive::new(&count);
        drop(rt.spawn(async move {
            let _alive = alive;
            started.send(()).unwrap();
            held.recv().unwrap();
            std::future::pending::<()>().await;
        }));
        is_started.recv().unwrap();
        let others: Vec<_> = (0..50).map(|_| Alive::new(&count)).collect();
        for alive in others {
            drop(rt.spawn(async move {
                let _alive = alive;
                std::future::pending::<()>().await;
            }));
        }
        let begin = Instant::now();
        rt.shutdown_timeout(Duration::from_millis(50));
        assert!(
            begin.elapsed() < Duration::from_secs(4),
            "shutdown waited for the poll"
        );
        assert_eq!(
            count.load(Ordering::SeqCst),
            1,
            "only the poll that goes on is left"
        );
        release.send(()).unwrap();
        while count.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
    }
}

#[test]
fn spawning_after_shutdown_gives_cancelled_handles() {
    for rt in runtimes(1) {
        let handle = rt.handle().clone();
        drop(rt);
        let count = Arc::new(AtomicUsize::new(0));
        let alive = Alive::new(&count);
        let late = handle.spawn(async move {
            let _alive = alive;
        });
        assert!(late.is_finished());
        assert_eq!(count.load(Ordering::SeqCst), 0);
        let other = Builder::new().worker_threads(1).build().unwrap();
        assert!(other.block_on(late).unwrap_err().is_cancelled());
        assert!(
            other
                .block_on(handle.spawn_blocking(|| ()))
                .unwrap_err()
                .is_cancelled()
        );
    }
}

#[test]
fn tasks_that_spawn_for_ever_do_not_hold_up_shutdown() {
    fn breed(is_over: Arc<AtomicBool>) {
        drop(evenkeel::spawn(async move {
            evenkeel::yield_now().await;
            if !is_over.load(Ordering::SeqCst) {
                breed(is_over);
            }
        }));
    }
    for rt in runtimes(2) {
        let is_over = Arc::new(AtomicBool::new(false));
        rt.block_on(async { breed(is_over.clone()) });
        let weak = Arc::downgrade(&is_over);
        drop(is_over);
        drop(rt);
        assert!(weak.upgrade().is_none(), "a task was left behind");
    }
}

#[test]
fn a_runtime_can_be_dropped_in_a_task_of_another() {
    for rt in runtimes(1) {
        let inner = Runtime::new().unwrap();
        let task = inner.spawn(async { std::future::pending::<()>().await });
        rt.block_on(rt.spawn(async move { drop(inner) })).unwrap();
        assert!(rt.block_on(task).unwrap_err().is_cancelled());
    }
}

#[test]
fn block_on_propagates_a_panic_and_the_runtime_lives() {
    quiet_panics();
    for rt in runtimes(1) {
        let outcome = catch_unwind(AssertUnwindSafe(|| rt.block_on(async { panic!("outer") })));
        assert!(outcome.is_err());
        assert_alive(&rt);
    }
}
