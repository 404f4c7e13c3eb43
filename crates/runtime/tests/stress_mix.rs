//! Everything at once: every way a task can end against every way of looking at it, and random
//! histories of groups, classes, aborts, panics and blocking calls.

mod common;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use common::{quiet_panics, runtimes};
use evenkeel::{
    Builder, Class, Group, Handle, Io, JoinHandle, Order, RtPolicy, Runtime, yield_now,
};

/// Counts how often something was made and dropped; may panic when dropped.
struct Counted {
    live: Arc<AtomicUsize>,
    panics: bool,
}

impl Counted {
    fn new(live: &Arc<AtomicUsize>, panics: bool) -> Self {
        live.fetch_add(1, Ordering::SeqCst);
        Self {
            live: live.clone(),
            panics,
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Ordering::SeqCst);
        if self.panics && !std::thread::panicking() {
            panic!("dropped");
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    None,
    Poll,
    Future,
    Output,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Abort {
    Never,
    AtOnce,
    WhileItRuns,
    ByItself,
    AtItsEnd,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Joined {
    DroppedAtOnce,
    DroppedAtItsEnd,
    Here,
    InATask,
    InAnotherRuntime,
}

struct Work {
    _guard: Counted,
    live: Arc<AtomicUsize>,
    fault: Fault,
    yields: u32,
}

impl Future for Work {
    type Output = Option<Counted>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.yields > 0 {
            self.yields -= 1;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        assert!(self.fault != Fault::Poll, "boom");
        if self.fault == Fault::Future {
            // The compiler leaks what an async block returns when the drop of a local panics.
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Counted::new(&self.live, self.fault == Fault::Output)))
    }
}

fn check(rt: &Runtime, other: &Runtime, group: &Group, case: (Fault, Abort, Joined, u32)) {
    let (fault, abort, joined, yields) = case;
    let live = Arc::new(AtomicUsize::new(0));
    let work = Work {
        _guard: Counted::new(&live, fault == Fault::Future),
        live: live.clone(),
        fault,
        yields,
    };
    let own: Arc<Mutex<Option<evenkeel::AbortHandle>>> = Arc::default();
    let of_task = own.clone();
    let task = group.spawn(async move {
        if abort == Abort::ByItself {
            yield_now().await;
            if let Some(handle) = of_task.lock().unwrap().take() {
                handle.abort();
            }
        }
        work.await
    });
    let handle = task.abort_handle();
    *own.lock().unwrap() = Some(handle.clone());
    if abort == Abort::AtOnce {
        handle.abort();
    } else if abort == Abort::WhileItRuns {
        let handle = handle.clone();
        drop(rt.spawn(async move { handle.abort() }));
    }
    let at_end = |task: &JoinHandle<Option<Counted>>| {
        while !task.is_finished() {
            std::thread::yield_now();
        }
        if abort == Abort::AtItsEnd {
            handle.abort();
            task.abort();
        }
    };
    let result = match joined {
        Joined::DroppedAtOnce => {
            drop(task);
            None
        }
        Joined::DroppedAtItsEnd => {
            at_end(&task);
            drop(task);
            None
        }
        Joined::Here => {
            at_end(&task);
            Some(rt.block_on(task))
        }
        Joined::InATask => Some(rt.block_on(rt.spawn(task)).unwrap()),
        Joined::InAnotherRuntime => Some(rt.block_on(other.spawn(task)).unwrap()),
    };
    let may_cancel = !matches!(abort, Abort::Never | Abort::AtItsEnd);
    match result {
        Some(Ok(output)) => {
            assert!(matches!(fault, Fault::None | Fault::Output), "{case:?}");
            output.unwrap().panics = false;
        }
        Some(Err(error)) if error.is_panic() => {
            assert!(matches!(fault, Fault::Poll | Fault::Future), "{case:?}");
        }
        Some(Err(_)) => assert!(may_cancel, "{case:?}"),
        None => {}
    }
    while live.load(Ordering::SeqCst) > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn every_end_of_a_task_against_every_way_to_join_it() {
    quiet_panics();
    let other = Builder::new().worker_threads(1).build().unwrap();
    for rt in runtimes(1).chain(runtimes(2)) {
        let root = rt.handle().root();
        let mut groups = vec![root.clone()];
        // The first kind stays plain.
        if !root.children().is_empty() {
            groups.push(root.child("fifo").build().unwrap());
            groups.push(root.child("fair").order(Order::Fair).build().unwrap());
            groups.push(root.child("idle").class(Class::Idle).build().unwrap());
        }
        for group in &groups {
            for fault in [Fault::None, Fault::Poll, Fault::Future, Fault::Output] {
                for abort in [
                    Abort::Never,
                    Abort::AtOnce,
                    Abort::WhileItRuns,
                    Abort::ByItself,
                    Abort::AtItsEnd,
                ] {
                    for joined in [
                        Joined::DroppedAtOnce,
                        Joined::DroppedAtItsEnd,
                        Joined::Here,
                        Joined::InATask,
                        Joined::InAnotherRuntime,
                    ] {
                        for yields in [0, 3] {
                            check(&rt, &other, group, (fault, abort, joined, yields));
                        }
                    }
                }
            }
        }
        while rt.handle().nr_tasks() > 0 {
            std::thread::yield_now();
        }
        for group in &groups[1..] {
            group.remove().unwrap();
        }
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn some_class(random: &mut Random) -> Class {
    match random.below(4) {
        0 => Class::Idle,
        1 => Class::RealTime {
            priority: 1 + random.below(99) as u8,
            policy: [RtPolicy::Fifo, RtPolicy::RoundRobin][random.below(2) as usize],
        },
        _ => Class::Fair,
    }
}

/// Returns a group, which it makes if it is not there; somebody may remove it at any time.
fn some_group(random: &mut Random, handle: &Handle) -> Group {
    let mut at = handle.root();
    for _ in 0..random.below(3) {
        let name = NAMES[random.below(6) as usize];
        let found = at.children().into_iter().find(|c| c.name() == name);
        let next = found.or_else(|| {
            let order = [Order::Fifo, Order::Fair][random.below(2) as usize];
            let weight = 1 + random.below(10_000) as u32;
            let child = at.child(name).order(order).weight(weight);
            child.class(some_class(random)).build().ok()
        });
        let Some(next) = next else { break };
        at = next;
    }
    at
}

fn change_a_group(random: &mut Random, handle: &Handle) {
    let group = some_group(random, handle);
    let outcome = match random.below(7) {
        0 => group.set_class(some_class(random)),
        1 => group.set_nice(random.below(40) as i8 - 20),
        2 => group.set_weight(1 + random.below(10_000) as u32),
        3 => group.set_slice(Duration::from_micros(100 + random.below(5000))),
        4 => group.remove(),
        5 => {
            let _ = group.stat();
            Ok(())
        }
        _ => group.remove_to_parent(),
    };
    if let Err(error) = outcome {
        assert!(
            error.is_busy() || error.is_removed() || error.is_root(),
            "{error}"
        );
    }
}

#[derive(Default)]
struct World {
    aborts: Mutex<Vec<evenkeel::AbortHandle>>,
    wakers: Mutex<Vec<Waker>>,
    live: Arc<AtomicUsize>,
    has_stats: bool,
}

/// Pends once; whoever comes by wakes it, at the latest the next that sleeps.
async fn sleep_till_woken(world: &World) {
    let mut first = true;
    std::future::poll_fn(|cx| {
        if !std::mem::take(&mut first) {
            return Poll::Ready(());
        }
        let mut wakers = world.wakers.lock().unwrap();
        wakers.push(cx.waker().clone());
        let other = wakers.swap_remove(0);
        drop(wakers);
        other.wake();
        Poll::Pending
    })
    .await;
}

async fn wander(world: Arc<World>, seed: u64, depth: u32) {
    let mut random = Random(seed);
    let _counted = Counted::new(&world.live, random.below(20) == 0);
    let handle = Handle::current();
    for _ in 0..random.below(12) {
        match random.below(40) {
            0 => evenkeel::block_in_place(std::thread::yield_now),
            1 => drop(evenkeel::spawn_blocking(|| ()).await),
            2 => assert!(random.below(3) > 0, "boom"),
            3 => {
                let mut aborts = world.aborts.lock().unwrap();
                let victim = aborts.pop();
                drop(aborts);
                if let Some(victim) = victim {
                    victim.abort();
                }
            }
            4..=6 if world.has_stats => change_a_group(&mut random, &handle),
            7..=12 if depth > 0 => {
                let child = wander_below(world.clone(), random.0, depth - 1);
                let task = if random.below(2) == 0 && world.has_stats {
                    some_group(&mut random, &handle).spawn(child)
                } else {
                    evenkeel::spawn(child)
                };
                world.aborts.lock().unwrap().push(task.abort_handle());
                if random.below(2) == 0 {
                    drop(task.await);
                }
            }
            13..=20 => sleep_till_woken(&world).await,
            21 => tokio::time::sleep(Duration::from_micros(random.below(500))).await,
            _ => yield_now().await,
        }
    }
}

fn wander_below(
    world: Arc<World>,
    seed: u64,
    depth: u32,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(wander(world, seed, depth))
}

/// Wakes those that nobody else will, until all tasks have ended.
///
/// The count of tasks is summed up part by part, so it misses a task that another one spawns in a
/// part already counted before it ends in one that is not.
fn drain(rt: &Runtime, world: &World) {
    while rt.handle().nr_tasks() > 0 || world.live.load(Ordering::SeqCst) > 0 {
        let wakers = std::mem::take(&mut *world.wakers.lock().unwrap());
        wakers.into_iter().for_each(Waker::wake);
        std::thread::yield_now();
    }
    assert_eq!(rt.handle().nr_tasks(), 0);
}

fn wander_all(rt: &Runtime, world: &Arc<World>, seed: u64, tasks: u64) {
    for i in 0..tasks {
        let task = wander(world.clone(), seed * 1000 + i, 3);
        let mut random = Random(seed + i);
        if world.has_stats {
            drop(some_group(&mut random, rt.handle()).spawn(task));
        } else {
            drop(rt.spawn(task));
        }
    }
}

fn remove_all(group: &Group) {
    for child in group.children() {
        remove_all(&child);
        while child.remove().is_err_and(|error| error.is_busy()) {
            std::thread::yield_now();
        }
    }
}

#[test]
fn random_histories_end_with_every_task_gone() {
    quiet_panics();
    for seed in 0..12 {
        let io = [Io::Shared, Io::Shared, Io::Dedicated][seed as usize % 3];
        let builder = Builder::new().worker_threads(1 + seed as usize % 4).io(io);
        let rt = builder.clone().build().unwrap();
        let world = Arc::new(World {
            has_stats: seed % 4 != 3,
            ..World::default()
        });
        for round in 0..4 {
            wander_all(&rt, &world, seed * 10 + round, 60);
            drain(&rt, &world);
        }
        remove_all(&rt.handle().root());
        assert_eq!(rt.handle().root().stat().nr_tasks, 0);
    }
}

#[test]
fn random_histories_are_cut_short_by_shutdown() {
    quiet_panics();
    for seed in 0..40 {
        let rt = Builder::new()
            .worker_threads(1 + seed as usize % 3)
            .build()
            .unwrap();
        let world = Arc::new(World {
            has_stats: seed % 4 != 3,
            ..World::default()
        });
        wander_all(&rt, &world, seed, 60);
        let handle = rt.handle().clone();
        match seed % 4 {
            0 => drop(rt),
            1 => rt.shutdown_background(),
            2 => rt.shutdown_timeout(Duration::from_millis(1)),
            _ => {
                let group = handle.root();
                let carried = handle.clone();
                let last = handle.spawn(async move {
                    drop(rt);
                    drop(carried);
                });
                drop((group, last));
            }
        }
        // What was woken or polled at that moment ends soon after.
        while handle.nr_tasks() > 0 {
            std::thread::yield_now();
        }
        while world.live.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        let wakers = std::mem::take(&mut *world.wakers.lock().unwrap());
        drop(handle);
        wakers.into_iter().for_each(Waker::wake);
        let aborts = std::mem::take(&mut *world.aborts.lock().unwrap());
        aborts.iter().for_each(evenkeel::AbortHandle::abort);
    }
}

#[test]
fn wakes_cross_with_shutdown() {
    for seed in 0..150_u64 {
        let wakers: Arc<Mutex<Vec<Waker>>> = Arc::default();
        let rt = Builder::new().worker_threads(1).build().unwrap();
        if seed % 2 == 0 {
            rt.handle().root().child("g").build().unwrap();
        }
        let live = Arc::new(AtomicUsize::new(0));
        for _ in 0..8 {
            let (wakers, counted) = (wakers.clone(), Counted::new(&live, false));
            drop(rt.spawn(std::future::poll_fn(move |cx| {
                let _ = &counted;
                wakers.lock().unwrap().push(cx.waker().clone());
                Poll::<()>::Pending
            })));
        }
        let over = Arc::new(AtomicBool::new(false));
        let (others, is_over) = (wakers.clone(), over.clone());
        let waking = std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let batch = std::mem::take(&mut *others.lock().unwrap());
                batch.iter().for_each(Waker::wake_by_ref);
            }
        });
        while live.load(Ordering::SeqCst) == 8 && wakers.lock().unwrap().len() < 4 {
            std::hint::spin_loop();
            if seed % 3 == 0 {
                break;
            }
        }
        rt.shutdown_background();
        over.store(true, Ordering::Relaxed);
        waking.join().unwrap();
        while live.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
    }
}

#[test]
fn runtimes_come_and_go_on_many_threads() {
    let threads: Vec<_> = (0..4_u64)
        .map(|thread| {
            std::thread::spawn(move || {
                for i in 0..25 {
                    let rt = Builder::new()
                        .worker_threads(1 + (i + thread as usize) % 3)
                        .build()
                        .unwrap();
                    let inner = rt.block_on(rt.spawn(async move {
                        let inner = Builder::new().worker_threads(1).build().unwrap();
                        let task = inner.spawn(async { 1 });
                        assert_eq!(task.await.unwrap(), 1);
                        inner
                    }));
                    let inner = inner.unwrap();
                    drop(rt.spawn(async { std::future::pending::<()>().await }));
                    if i % 2 == 0 {
                        drop(rt);
                    }
                    assert_eq!(inner.block_on(inner.spawn(async { 2 })).unwrap(), 2);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
