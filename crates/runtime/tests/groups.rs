//! Groups on the live runtime: making, naming, nesting, settings, inheritance, statistics, removal.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::runtimes;
use evenkeel::{Builder, Class, Group, Order, RtPolicy, Runtime};

fn runtime(workers: usize) -> Runtime {
    Builder::new().worker_threads(workers).build().unwrap()
}

#[test]
fn paths_and_lookup() {
    let rt = runtime(1);
    let root = rt.handle().root();
    assert_eq!(
        (root.path().as_str(), root.name(), root.parent()),
        ("/", "", None)
    );
    let tenants = root.child("tenants").build().unwrap();
    let a = tenants.child("a").weight(300).build().unwrap();
    assert_eq!(
        (a.path().as_str(), a.name(), a.weight()),
        ("/tenants/a", "a", 300)
    );
    assert_eq!(a.parent(), Some(tenants.clone()));
    assert_eq!(rt.handle().group("/tenants/a"), Some(a.clone()));
    assert_eq!(rt.handle().group("/"), Some(root.clone()));
    for missing in ["", "tenants", "/tenants/", "/tenants/b", "//", "/a"] {
        assert_eq!(rt.handle().group(missing), None, "{missing:?}");
    }
    assert_eq!(root.children(), std::slice::from_ref(&tenants));
    assert_eq!(tenants.children(), [a]);
    rt.block_on(async { assert_eq!(Group::lookup("/tenants"), Some(tenants)) });
}

#[test]
fn bad_values_say_what_is_allowed() {
    let rt = runtime(1);
    let root = rt.handle().root();
    let check = |group: Result<Group, evenkeel::Error>, expected: &str| {
        let error = group.unwrap_err();
        assert!(error.is_invalid_value(), "{error}");
        assert_eq!(error.to_string(), expected);
    };
    let child = || root.child("x");
    check(
        child().weight(0).build(),
        "weight: 0 is not allowed; allowed: 1 to 10000",
    );
    check(
        child().weight(10_001).build(),
        "weight: 10001 is not allowed; allowed: 1 to 10000",
    );
    check(
        child().nice(20).build(),
        "nice: 20 is not allowed; allowed: -20 to 19",
    );
    let slice = child().slice(Duration::from_micros(99)).build();
    check(
        slice,
        "slice: 99µs is not allowed; allowed: 0 (the base slice), or 0.1 to 100 ms",
    );
    let class = Class::RealTime {
        priority: 100,
        policy: RtPolicy::Fifo,
    };
    check(
        child().class(class).build(),
        "priority: 100 is not allowed; allowed: 1 to 99",
    );
    check(
        root.child("a/b").build(),
        "name: \"a/b\" is not allowed; allowed: not empty, not . or .., no /",
    );
    check(
        root.child("").build(),
        "name: \"\" is not allowed; allowed: not empty, not . or .., no /",
    );

    let group = child().build().unwrap();
    assert!(child().build().unwrap_err().is_name_taken());
    assert!(group.set_weight(0).unwrap_err().is_invalid_value());
    assert!(group.set_nice(-21).unwrap_err().is_invalid_value());
    assert!(root.set_weight(100).unwrap_err().is_root());
    assert_eq!(group.weight(), 100);
    group.set_weight(10_000).unwrap();
    group.set_nice(-20).unwrap();
    group.set_slice(Duration::from_millis(100)).unwrap();
    group.set_class(Class::Idle).unwrap();
    assert_eq!(
        (group.weight(), group.nice(), group.class()),
        (10_000, -20, Class::Idle)
    );
}

#[test]
fn tasks_inherit_the_group_of_their_spawner() {
    for rt in runtimes(2) {
        let a = rt.handle().root().child("a").build().unwrap();
        let inside = a.child("inside").order(Order::Fair).build().unwrap();
        let path = rt.block_on(a.spawn(async move {
            let child = evenkeel::spawn(async { evenkeel::current_group().path() })
                .await
                .unwrap();
            let blocking = evenkeel::spawn_blocking(|| evenkeel::current_group().path())
                .await
                .unwrap();
            let below = inside
                .spawn(async { evenkeel::current_group().path() })
                .await
                .unwrap();
            (evenkeel::current_group().path(), child, blocking, below)
        }));
        let (own, child, blocking, below) = path.unwrap();
        assert_eq!(
            (&*own, &*child, &*blocking, &*below),
            ("/a", "/a", "/a", "/a/inside")
        );
        assert_eq!(rt.block_on(async { evenkeel::current_group().path() }), "/");
    }
}

#[test]
fn every_order_and_class_runs_tasks_to_their_end() {
    for rt in runtimes(2) {
        let root = rt.handle().root();
        let real_time = Class::RealTime {
            priority: 50,
            policy: RtPolicy::RoundRobin,
        };
        let groups = [
            root.child("fifo").build().unwrap(),
            root.child("fair")
                .order(Order::Fair)
                .nice(5)
                .build()
                .unwrap(),
            root.child("rt").class(real_time).build().unwrap(),
            root.child("idle").class(Class::Idle).build().unwrap(),
            root.clone(),
        ];
        let tasks: Vec<_> = (0..500)
            .map(|i| {
                groups[i % groups.len()].spawn(async move {
                    for _ in 0..i % 20 {
                        evenkeel::yield_now().await;
                    }
                    tokio::time::sleep(Duration::from_micros(i as u64 % 3 * 100)).await;
                    evenkeel::spawn(async move { i }).await.unwrap()
                })
            })
            .collect();
        for (i, task) in tasks.into_iter().enumerate() {
            assert_eq!(rt.block_on(task).unwrap(), i);
        }
        for group in &groups[..4] {
            while group.stat().nr_tasks > 0 {
                std::thread::yield_now();
            }
            group.remove().unwrap();
        }
    }
}

#[test]
fn statistics_count_tasks_usage_and_times() {
    for rt in runtimes(2) {
        let a = rt.handle().root().child("a").build().unwrap();
        let sub = a.child("sub").build().unwrap();
        let before = sub.stat();
        assert_eq!(
            (before.nr_tasks, before.nr_running, before.usage_usec),
            (0, 0, 0)
        );
        let (release, held) = tokio::sync::oneshot::channel::<()>();
        let idle = sub.spawn(async move { held.await.is_ok() });
        let spin = Duration::from_millis(20);
        let busy = sub.spawn(async move {
            let begin = std::time::Instant::now();
            while begin.elapsed() < spin {
                std::hint::spin_loop();
            }
        });
        rt.block_on(busy).unwrap();
        assert_eq!(sub.stat().nr_tasks, 1);
        release.send(()).unwrap();
        assert!(rt.block_on(idle).unwrap());
        let after = sub.stat();
        assert_eq!(after.nr_tasks, 0);
        // The last switch may not have been made yet, so give the worker the time to charge it.
        let used = || a.stat().usage_usec;
        while used() < 20_000 {
            std::thread::yield_now();
        }
        while sub.stat().run.max() < 19_000_000 {
            std::thread::yield_now();
        }
        let after = sub.stat();
        assert!(after.wait.count() >= 1);
        assert_eq!(after.run.since(&after.run).count(), 0);
        while sub.remove().is_err() {
            std::thread::yield_now();
        }
        assert!(
            used() >= 20_000,
            "usage of a removed child stays with its parent"
        );
    }
}

#[test]
fn removal_wants_an_empty_group_or_moves_its_tasks() {
    for rt in runtimes(2) {
        let root = rt.handle().root();
        let a = root.child("a").build().unwrap();
        let b = a.child("b").build().unwrap();
        assert!(root.remove().unwrap_err().is_root());
        let busy = a.remove().unwrap_err();
        assert!(busy.is_busy());
        assert_eq!(
            busy.to_string(),
            "group /a: busy: 0 tasks and 1 child groups remain"
        );
        let (release, held) = tokio::sync::oneshot::channel::<()>();
        let task = b.spawn(async move {
            held.await.unwrap();
            evenkeel::yield_now().await;
            evenkeel::current_group().path()
        });
        assert!(b.remove().unwrap_err().is_busy());
        b.remove_to_parent().unwrap();
        assert!(b.is_removed());
        assert!(b.remove().unwrap_err().is_removed());
        assert!(b.set_weight(5).unwrap_err().is_removed());
        assert!(b.child("c").build().unwrap_err().is_removed());
        assert_eq!(rt.handle().group("/a/b"), None);
        // The name is free again, and a spawn through the old handle goes to the parent.
        let again = a.child("b").build().unwrap();
        let late = rt.block_on(b.spawn(async { evenkeel::current_group().path() }));
        assert_eq!(late.unwrap(), "/a");
        release.send(()).unwrap();
        assert_eq!(rt.block_on(task).unwrap(), "/a");
        again.remove().unwrap();
        while a.remove().is_err() {
            std::thread::yield_now();
        }
    }
}

#[test]
fn groups_come_into_use_while_tasks_are_queued_and_running() {
    let rt = runtime(2);
    let done = Arc::new(AtomicU64::new(0));
    let is_over = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..200)
        .map(|_| {
            let (done, is_over) = (done.clone(), is_over.clone());
            rt.spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    done.fetch_add(1, Ordering::Relaxed);
                    evenkeel::yield_now().await;
                }
            })
        })
        .collect();
    let wait_for_more = || {
        let now = done.load(Ordering::Relaxed);
        while done.load(Ordering::Relaxed) < now + 1000 {
            std::thread::yield_now();
        }
    };
    wait_for_more();
    let a = rt.handle().root().child("a").build().unwrap();
    wait_for_more();
    let answer = rt.block_on(a.spawn(async { 42 })).unwrap();
    assert_eq!(answer, 42);
    drop(a.stat());
    wait_for_more();
    is_over.store(true, Ordering::Relaxed);
    for task in tasks {
        rt.block_on(task).unwrap();
    }
}

#[test]
fn many_groups_come_and_go() {
    let rt = runtime(2);
    let root = rt.handle().root();
    rt.block_on(async {
        for i in 0..500 {
            let group = root
                .child(format!("g{i}"))
                .weight(1 + i % 1000)
                .build()
                .unwrap();
            let task = group.spawn(async {
                evenkeel::yield_now().await;
            });
            if i % 2 == 0 {
                task.await.unwrap();
            }
            group.remove_to_parent().unwrap();
        }
    });
    assert!(root.children().is_empty());
}

#[test]
fn a_task_spawned_after_a_change_of_class_runs_to_its_end() {
    let real_time = Class::RealTime {
        priority: 1,
        policy: RtPolicy::Fifo,
    };
    for class in [real_time, Class::Idle] {
        let rt = runtime(1);
        let changing = rt.handle().root().child("changing").build().unwrap();
        let other = rt.handle().root().child("other").build().unwrap();
        let yields = || async {
            for _ in 0..200 {
                evenkeel::yield_now().await;
            }
        };
        let parent = changing.clone();
        let parent = changing.spawn(async move {
            // Short polls, so that the worker goes on within the group without its queue.
            yields().await;
            drop(other.spawn(yields()));
            parent.set_class(class).unwrap();
            // The child takes this task's place on the CPU, and yields while another task waits.
            evenkeel::spawn(yields()).await.unwrap();
        });
        rt.block_on(parent).unwrap();
    }
}
