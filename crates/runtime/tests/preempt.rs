//! Preemption: polls that do not end make room for others, and nothing is lost, whatever happens to
//! them meanwhile.
//!
//! The hogs here compute until another task has run, so a test ends only if that one gets a CPU.

mod common;

use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::quiet_panics;
use evenkeel::{Builder, Group, JoinHandle, Level, Runtime};

const WORKERS: usize = 2;

/// Levels at which a poll that goes on loses its CPU.
const TAKING: [Level; 2] = [Level::Handoff, Level::Park];

fn runtime(level: Level) -> Runtime {
    Builder::new()
        .worker_threads(WORKERS)
        .preempt(level)
        .build()
        .unwrap()
}

fn group(runtime: &Runtime, name: &str) -> Group {
    runtime.handle().root().child(name).build().unwrap()
}

/// A flag that one task sets and others compute until it is set.
#[derive(Clone, Default)]
struct Flag(Arc<AtomicBool>);

impl Flag {
    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Computes until it is set.
    fn compute(&self) {
        while !self.is_set() {
            spin_loop();
        }
    }
}

/// Waits for tasks that end well, and returns what they return.
fn join_all<T>(runtime: &Runtime, tasks: impl IntoIterator<Item = JoinHandle<T>>) -> Vec<T> {
    let wait = |task: JoinHandle<T>| runtime.block_on(task).unwrap();
    tasks.into_iter().map(wait).collect()
}

/// Runs so many polls that end only when a task that is spawned after them has run.
fn run_until_another_task_runs(runtime: &Runtime, polls: usize) {
    let flag = Flag::default();
    let hogs: Vec<_> = (0..polls)
        .map(|_| {
            let flag = flag.clone();
            runtime.spawn(async move { flag.compute() })
        })
        .collect();
    let setter = runtime.spawn(async move { flag.set() });
    join_all(runtime, [setter]);
    join_all(runtime, hogs);
}

/// Computes until `group` has had so many polls preempted.
fn compute_until_preempted(group: &Group, polls: u64) {
    while group.stat().nr_preempted < polls {
        for _ in 0..10_000 {
            spin_loop();
        }
    }
}

#[test]
fn polls_that_wait_for_another_task_end() {
    for level in TAKING {
        let runtime = runtime(level);
        run_until_another_task_runs(&runtime, 3 * WORKERS);
        let stat = runtime.handle().root().stat();
        assert!(stat.nr_preempted > 0, "{level:?}: {stat:?}");
        assert_eq!(stat.nr_tasks, 0);
    }
}

#[test]
fn by_default_the_first_long_polls_run_to_their_end_and_later_ones_make_room() {
    let runtime = Builder::new().worker_threads(WORKERS).build().unwrap();
    // Whatever comes first; afterwards somebody has seen that polls should make room.
    let root = runtime.handle().root();
    while root.stat().nr_preempted == 0 {
        let polls: Vec<_> = (0..2 * WORKERS)
            .map(|_| {
                runtime.spawn(async {
                    for _ in 0..5_000_000 {
                        spin_loop();
                    }
                })
            })
            .collect();
        join_all(&runtime, polls);
    }
    run_until_another_task_runs(&runtime, 2 * WORKERS);
}

#[test]
fn at_lazy_code_that_asks_is_told_to_make_room() {
    for level in [Level::Lazy, Level::Handoff] {
        let runtime = runtime(level);
        let flag = Flag::default();
        let askers: Vec<_> = (0..WORKERS)
            .map(|_| {
                let flag = flag.clone();
                runtime.spawn(async move {
                    while !flag.is_set() {
                        evenkeel::yield_if_needed().await;
                    }
                })
            })
            .collect();
        let setter = runtime.spawn(async move { flag.set() });
        join_all(&runtime, [setter]);
        join_all(&runtime, askers);
    }
}

#[test]
fn a_group_that_is_off_or_lazy_keeps_its_cpu() {
    for level in TAKING {
        let runtime = runtime(level);
        let kept = group(&runtime, "kept");
        kept.set_preempt(Level::Off).unwrap();
        let others = group(&runtime, "others");
        let flag = Flag::default();
        let polls: Vec<_> = (0..2 * WORKERS)
            .map(|_| {
                let (flag, others) = (flag.clone(), others.clone());
                others.clone().spawn(async move {
                    compute_until_preempted(&others, 1);
                    flag.set();
                })
            })
            .collect();
        let keeper = kept.spawn(async move { flag.compute() });
        join_all(&runtime, [keeper]);
        join_all(&runtime, polls);
        assert_eq!(kept.stat().nr_preempted, 0, "{level:?}");
        assert!(others.stat().nr_preempted > 0, "{level:?}");
    }
}

#[test]
fn a_critical_section_is_let_go_on_and_forced_when_it_lasts() {
    let runtime = runtime(Level::Park);
    let group = group(&runtime, "sections");
    let flag = Flag::default();
    // Short sections, until one of them was in the way.
    let short: Vec<_> = (0..2 * WORKERS)
        .map(|_| {
            let (group, flag) = (group.clone(), flag.clone());
            group.clone().spawn(async move {
                while group.stat().nr_extended == 0 && !flag.is_set() {
                    let _section = evenkeel_slice::enter();
                    for _ in 0..1_000 {
                        spin_loop();
                    }
                }
                flag.set();
            })
        })
        .collect();
    join_all(&runtime, short);
    assert!(group.stat().nr_extended > 0);
    // Sections that last until another task has run.
    let flag = Flag::default();
    let long: Vec<_> = (0..2 * WORKERS)
        .map(|_| {
            let flag = flag.clone();
            group.spawn(async move {
                let _section = evenkeel_slice::enter_lock();
                flag.compute();
            })
        })
        .collect();
    let setter = group.spawn(async move { flag.set() });
    join_all(&runtime, [setter]);
    join_all(&runtime, long);
    let stat = group.stat();
    assert!(stat.nr_forced >= WORKERS as u64, "{stat:?}");
    assert!(stat.nr_extended >= stat.nr_forced, "{stat:?}");
}

/// A value that counts its drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn aborting_preempted_polls_returns_at_once_and_drops_them_at_their_end() {
    for level in TAKING {
        let runtime = runtime(level);
        let hogs = group(&runtime, "hogs");
        let flag = Flag::default();
        let drops = Arc::new(AtomicUsize::new(0));
        let handles: Vec<_> = (0..3 * WORKERS)
            .map(|_| {
                let (flag, counted) = (flag.clone(), Counted(drops.clone()));
                hogs.spawn(async move {
                    flag.compute();
                    std::future::pending::<()>().await;
                    drop(counted);
                })
            })
            .collect();
        // Those that come last keep the CPUs, since nobody waits any more at `Handoff`.
        compute_until_preempted(&hogs, 2 * WORKERS as u64);
        for handle in &handles {
            handle.abort();
        }
        assert_eq!(
            drops.load(Ordering::Relaxed),
            0,
            "their polls have not ended"
        );
        flag.set();
        runtime.block_on(async {
            for handle in handles {
                assert!(handle.await.unwrap_err().is_cancelled());
            }
        });
        assert_eq!(drops.load(Ordering::Relaxed), 3 * WORKERS);
    }
}

#[test]
fn detached_and_panicking_polls_end_after_preemption() {
    quiet_panics();
    for level in TAKING {
        let runtime = runtime(level);
        let hogs = group(&runtime, "hogs");
        let flag = Flag::default();
        let drops = Arc::new(AtomicUsize::new(0));
        let mut panicking = Vec::new();
        for _ in 0..WORKERS {
            let (detached, counted) = (flag.clone(), Counted(drops.clone()));
            drop(hogs.spawn(async move {
                detached.compute();
                drop(counted);
            }));
            let (flag, counted) = (flag.clone(), Counted(drops.clone()));
            panicking.push(hogs.spawn(async move {
                let _counted = counted;
                let caught = catch_unwind(AssertUnwindSafe(|| {
                    flag.compute();
                    panic!("boom");
                }));
                assert!(caught.is_err());
                panic!("boom");
            }));
        }
        compute_until_preempted(&hogs, WORKERS as u64);
        flag.set();
        runtime.block_on(async {
            for task in panicking {
                assert!(task.await.unwrap_err().is_panic());
            }
        });
        while runtime.handle().nr_tasks() > 0 {
            std::thread::yield_now();
        }
        assert_eq!(drops.load(Ordering::Relaxed), 2 * WORKERS);
    }
}

#[test]
fn shutdown_lets_preempted_polls_go_on_to_their_end() {
    for level in TAKING {
        let runtime = runtime(level);
        let hogs = group(&runtime, "hogs");
        let flag = Flag::default();
        let drops = Arc::new(AtomicUsize::new(0));
        let handles: Vec<_> = (0..4 * WORKERS)
            .map(|_| {
                let (flag, counted) = (flag.clone(), Counted(drops.clone()));
                hogs.spawn(async move {
                    flag.compute();
                    evenkeel::yield_now().await;
                    drop(counted);
                })
            })
            .collect();
        compute_until_preempted(&hogs, 3 * WORKERS as u64);
        let setter = std::thread::spawn({
            let (flag, handle) = (flag.clone(), handles[0].abort_handle());
            move || {
                handle.abort();
                flag.set();
            }
        });
        // Waits for all polls, which go on beside each other once nobody schedules them any more.
        drop(runtime);
        setter.join().unwrap();
        assert_eq!(drops.load(Ordering::Relaxed), 4 * WORKERS, "{level:?}");
        drop(handles);
    }
}

#[test]
fn shutdown_in_the_background_leaves_preempted_polls_to_themselves() {
    for level in TAKING {
        let runtime = runtime(level);
        let hogs = group(&runtime, "hogs");
        let flag = Flag::default();
        let drops = Arc::new(AtomicUsize::new(0));
        for _ in 0..4 * WORKERS {
            let (flag, counted) = (flag.clone(), Counted(drops.clone()));
            drop(hogs.spawn(async move {
                flag.compute();
                drop(counted);
            }));
        }
        compute_until_preempted(&hogs, 3 * WORKERS as u64);
        runtime.shutdown_timeout(Duration::ZERO);
        flag.set();
        while drops.load(Ordering::Relaxed) < 4 * WORKERS {
            std::thread::yield_now();
        }
    }
}

#[test]
fn locks_held_by_preempted_polls_are_released() {
    for level in TAKING {
        let runtime = runtime(level);
        let (std_lock, other) = (
            Arc::new(Mutex::new(0u64)),
            Arc::new(parking_lot::Mutex::new(0u64)),
        );
        let hogs = group(&runtime, "hogs");
        let tasks: Vec<_> = (0..3 * WORKERS)
            .map(|_| {
                let (std_lock, other, hogs) = (std_lock.clone(), other.clone(), hogs.clone());
                hogs.clone().spawn(async move {
                    for round in 0.. {
                        *std_lock.lock().unwrap() += 1;
                        *other.lock() += 1;
                        {
                            let mut held = std_lock.lock().unwrap();
                            for _ in 0..20_000 {
                                spin_loop();
                            }
                            *held += 1;
                        }
                        drop(vec![round; 100]);
                        if round >= 20 && hogs.stat().nr_preempted >= 20 {
                            return round + 1;
                        }
                        evenkeel::yield_now().await;
                    }
                    0
                })
            })
            .collect();
        let rounds = join_all(&runtime, tasks).into_iter().sum::<u64>();
        assert_eq!(*std_lock.lock().unwrap(), 2 * rounds, "{level:?}");
        assert_eq!(*other.lock(), rounds, "{level:?}");
    }
}

#[test]
fn where_the_limit_of_threads_is_reached_polls_go_on_and_all_end() {
    let runtime = Builder::new()
        .worker_threads(WORKERS)
        .preempt(Level::Park)
        .max_parked_polls(1)
        .max_blocking_threads(1)
        .build()
        .unwrap();
    let hogs = group(&runtime, "hogs");
    let tasks: Vec<_> = (0..8 * WORKERS)
        .map(|_| {
            hogs.spawn(async {
                for _ in 0..20_000_000 {
                    spin_loop();
                }
            })
        })
        .collect();
    join_all(&runtime, tasks);
    assert!(hogs.stat().nr_preempted > 0);
}

#[test]
fn blocking_in_place_and_starting_programs_work_in_preempted_polls() {
    for level in TAKING {
        let runtime = runtime(level);
        let hogs = group(&runtime, "hogs");
        let tasks: Vec<_> = (0..2 * WORKERS)
            .map(|_| {
                let hogs = hogs.clone();
                hogs.clone().spawn(async move {
                    for round in 1..=3 {
                        compute_until_preempted(&hogs, round);
                        let value = evenkeel::block_in_place(|| {
                            let status = std::process::Command::new("true").status();
                            status.unwrap().success()
                        });
                        assert!(value);
                        assert!(
                            std::process::Command::new("true")
                                .status()
                                .unwrap()
                                .success()
                        );
                        evenkeel::yield_now().await;
                    }
                })
            })
            .collect();
        join_all(&runtime, tasks);
    }
}

#[test]
fn two_runtimes_preempt_beside_each_other() {
    let (first, second) = (runtime(Level::Park), runtime(Level::Handoff));
    let flag = Flag::default();
    let mut hogs = Vec::new();
    for runtime in [&first, &second] {
        for _ in 0..2 * WORKERS {
            let flag = flag.clone();
            hogs.push(runtime.spawn(async move { flag.compute() }));
        }
    }
    // A task of each wakes one of the other.
    let (handle, inner) = (second.handle().clone(), flag.clone());
    let outer = first.spawn(async move { handle.spawn(async move { inner.set() }).await });
    first.block_on(async {
        outer.await.unwrap().unwrap();
        for hog in hogs {
            hog.await.unwrap();
        }
    });
}

#[test]
fn errors_of_the_settings() {
    let build = |signal| {
        let builder = Builder::new().preempt(Level::Park).preempt_signal(signal);
        builder.build().map(drop)
    };
    for signal in [0, 65, 9, 19, -1] {
        let error = build(signal).unwrap_err();
        assert!(error.to_string().contains("preempt_signal"), "{error}");
    }
    let lazy = runtime(Level::Lazy);
    let error = group(&lazy, "g").set_preempt(Level::Park).unwrap_err();
    assert!(error.is_level(), "{error}");
    let error = lazy
        .handle()
        .root()
        .child("h")
        .preempt(Level::Handoff)
        .build();
    assert!(error.unwrap_err().is_level());
}
