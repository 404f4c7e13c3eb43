//! Tokio's net, time, sync, fs, process and signal inside tasks, with the semantics they have in
//! Tokio.

mod common;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::runtimes;
use evenkeel::{Builder, Io};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time;

#[test]
fn tcp_echo() {
    for rt in runtimes(2) {
        rt.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let at = listener.local_addr().unwrap();
            evenkeel::spawn(async move {
                while let Ok((mut stream, _)) = listener.accept().await {
                    evenkeel::spawn(async move {
                        let (mut read, mut write) = stream.split();
                        let _ = tokio::io::copy(&mut read, &mut write).await;
                    });
                }
            });
            let clients: Vec<_> = (0..20_u8)
                .map(|i| {
                    evenkeel::spawn(async move {
                        let mut stream = TcpStream::connect(at).await.unwrap();
                        for _ in 0..50 {
                            stream.write_all(&[i; 100]).await.unwrap();
                            let mut back = [0; 100];
                            stream.read_exact(&mut back).await.unwrap();
                            assert_eq!(back, [i; 100]);
                        }
                    })
                })
                .collect();
            for client in clients {
                client.await.unwrap();
            }
        });
    }
}

#[test]
fn timers_intervals_and_timeouts() {
    for rt in runtimes(2) {
        rt.block_on(rt.spawn(async {
            let begin = Instant::now();
            time::sleep(Duration::from_millis(10)).await;
            assert!(begin.elapsed() >= Duration::from_millis(10));
            let mut interval = time::interval(Duration::from_millis(1));
            for _ in 0..5 {
                interval.tick().await;
            }
            let late = time::timeout(Duration::from_millis(2), std::future::pending::<()>()).await;
            assert!(late.is_err());
        }))
        .unwrap();
    }
}

#[test]
fn a_timer_set_far_away_is_reset_from_another_thread() {
    for rt in runtimes(2) {
        let (reset, resets) = tokio::sync::oneshot::channel();
        let task = rt.spawn(async move {
            let sleep = time::sleep(Duration::from_secs(3600));
            tokio::pin!(sleep);
            tokio::select! {
                () = &mut sleep => unreachable!("an hour has not passed"),
                deadline = resets => sleep.as_mut().reset(deadline.unwrap()),
            }
            sleep.await;
        });
        reset
            .send(time::Instant::now() + Duration::from_millis(1))
            .unwrap();
        rt.block_on(task).unwrap();
    }
}

#[test]
fn files_processes_and_signals() {
    for rt in runtimes(2) {
        rt.block_on(rt.spawn(async {
            let path = std::env::temp_dir().join(format!("evenkeel-{}", std::process::id()));
            tokio::fs::write(&path, b"even keel").await.unwrap();
            assert_eq!(tokio::fs::read(&path).await.unwrap(), b"even keel");
            tokio::fs::remove_file(&path).await.unwrap();

            let out = tokio::process::Command::new("echo")
                .arg("hello")
                .output()
                .await
                .unwrap();
            assert_eq!(out.stdout, b"hello\n");

            use tokio::signal::unix::{SignalKind, signal};
            let mut usr1 = signal(SignalKind::user_defined1()).unwrap();
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::USR1)
                .unwrap();
            usr1.recv().await.unwrap();
        }))
        .unwrap();
    }
}

#[test]
fn tokio_spawn_and_tokio_spawn_blocking_inside_a_task() {
    for rt in runtimes(2) {
        let sum = rt.block_on(rt.spawn(async {
            let a = tokio::spawn(async {
                time::sleep(Duration::from_millis(1)).await;
                40
            });
            let b = tokio::task::spawn_blocking(|| 2);
            a.await.unwrap() + b.await.unwrap()
        }));
        assert_eq!(sum.unwrap(), 42);
    }
}

#[test]
fn nested_block_on_panics_and_block_in_place_allows_it() {
    common::quiet_panics();
    for rt in runtimes(2) {
        let handle = rt.handle().clone();
        let nested = rt.block_on(rt.spawn(async move {
            catch_unwind(AssertUnwindSafe(|| handle.block_on(async {}))).is_err()
        }));
        assert!(
            nested.unwrap(),
            "nested block_on must panic, not block a worker"
        );
        let handle = rt.handle().clone();
        let inside =
            rt.spawn(async move { evenkeel::block_in_place(|| handle.block_on(async { 3 })) });
        assert_eq!(rt.block_on(inside).unwrap(), 3);
    }
}

#[test]
fn block_in_place_lets_the_other_tasks_go_on() {
    for rt in runtimes(1) {
        let (done, is_done) = std::sync::mpsc::channel();
        let blocker = rt.spawn(async move {
            let other = evenkeel::spawn(async move { done.send(5).unwrap() });
            let got = evenkeel::block_in_place(|| is_done.recv().unwrap());
            other.await.unwrap();
            got
        });
        assert_eq!(rt.block_on(blocker).unwrap(), 5);
        assert_eq!(rt.block_on(rt.spawn(async { 1 })).unwrap(), 1);
    }
}

/// How often a future was polled.
struct Polls<F>(F, Arc<AtomicUsize>);

impl<F: Future + Unpin> Future for Polls<F> {
    type Output = F::Output;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<F::Output> {
        self.1.fetch_add(1, Ordering::Relaxed);
        std::pin::Pin::new(&mut self.0).poll(cx)
    }
}

#[test]
fn a_task_that_is_always_ready_yields_after_tokios_budget() {
    const ACQUIRES: usize = 20_000;
    for rt in runtimes(1) {
        let polls = Arc::new(AtomicUsize::new(0));
        let work = Box::pin(async {
            let semaphore = tokio::sync::Semaphore::new(1);
            for _ in 0..ACQUIRES {
                drop(semaphore.acquire().await.unwrap());
            }
        });
        rt.block_on(rt.spawn(Polls(work, polls.clone()))).unwrap();
        let polls = polls.load(Ordering::Relaxed);
        assert!(
            polls >= ACQUIRES / 128,
            "{polls} polls for {ACQUIRES} operations"
        );
    }
}

#[test]
fn a_hot_socket_does_not_starve_a_timer() {
    for rt in runtimes(1) {
        rt.block_on(rt.spawn(async {
            let a = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let b = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            a.connect(b.local_addr().unwrap()).await.unwrap();
            let hot = evenkeel::spawn(async move {
                let mut packet = [0; 64];
                loop {
                    a.send(&packet).await.unwrap();
                    b.recv(&mut packet).await.unwrap();
                }
            });
            for _ in 0..10 {
                time::sleep(Duration::from_millis(1)).await;
            }
            hot.abort();
            assert!(hot.await.unwrap_err().is_cancelled());
        }))
        .unwrap();
    }
}

#[test]
fn timers_go_on_while_one_worker_computes() {
    for rt in runtimes(2) {
        let is_over = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let ticks = rt.spawn(async {
            for _ in 0..20 {
                time::sleep(Duration::from_millis(1)).await;
            }
        });
        let over = is_over.clone();
        let hog = rt.spawn(async move {
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        rt.block_on(ticks).unwrap();
        is_over.store(true, Ordering::Relaxed);
        rt.block_on(hog).unwrap();
    }
}

#[test]
fn without_io_timers_say_so_and_tasks_run() {
    common::quiet_panics();
    let rt = Builder::new()
        .worker_threads(2)
        .io(Io::Off)
        .build()
        .unwrap();
    let error = rt
        .block_on(rt.spawn(async { time::sleep(Duration::from_millis(1)).await }))
        .unwrap_err();
    assert!(error.is_panic(), "{error}");
    let sum = rt.block_on(async {
        let (send, receive) = tokio::sync::oneshot::channel();
        evenkeel::spawn(async move { send.send(40).unwrap() });
        receive.await.unwrap() + evenkeel::spawn_blocking(|| 2).await.unwrap()
    });
    assert_eq!(sum, 42);
    let handle = rt.handle().clone();
    let nested =
        rt.spawn(
            async move { catch_unwind(AssertUnwindSafe(|| handle.block_on(async {}))).is_err() },
        );
    assert!(rt.block_on(nested).unwrap());
}

#[test]
fn a_child_does_not_wait_for_the_end_of_its_parents_poll() {
    for workers in [2, 3] {
        for rt in runtimes(workers) {
            let parent = rt.spawn(async {
                let (done, is_done) = std::sync::mpsc::channel();
                evenkeel::spawn(async move { done.send(6).unwrap() });
                // The poll ends only when the child has run, on another worker.
                is_done.recv().unwrap()
            });
            assert_eq!(rt.block_on(parent).unwrap(), 6);
        }
    }
}
