//! Quotas on the live runtime: what a group may use, changes while tasks are throttled, removal,
//! aborts, shutdown.
//!
//! Bounds of use hold at any speed of the machine: they count the periods and the longest poll that
//! there really were.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel::{Builder, Class, Group, GroupStat, JoinHandle, Level, Order, Quota, Runtime};

const MS: fn(u64) -> Duration = Duration::from_millis;

/// Most runtime that a worker takes at a time (the core's `SLICE_NS`).
const SLICE: Duration = Duration::from_millis(5);

fn runtime(workers: usize) -> Runtime {
    let builder = Builder::new().worker_threads(workers).preempt(Level::Off);
    builder.build().expect("a runtime")
}

fn quota(text: &str) -> Quota {
    text.parse().expect(text)
}

fn group(runtime: &Runtime, name: &str, quota: Quota) -> Group {
    let child = runtime.handle().root().child(name);
    child.quota(quota).build().expect("valid")
}

/// Computes for a while by the clock.
fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Waits until something holds that others bring about.
fn wait_for(what: impl Fn() -> bool) {
    while !what() {
        thread::yield_now();
    }
}

/// Spawns tasks that compute in short polls until they are told to end.
fn hogs(group: &Group, nr: usize, is_over: &Arc<AtomicBool>) -> Vec<JoinHandle<()>> {
    let hog = |is_over: Arc<AtomicBool>| async move {
        while !is_over.load(Ordering::Relaxed) {
            compute(Duration::from_micros(100));
            evenkeel::yield_now().await;
        }
    };
    (0..nr).map(|_| group.spawn(hog(is_over.clone()))).collect()
}

/// The most that a group may have used since it got its quota at `start`, if its tasks' longest
/// poll was that long.
fn most(quota: Quota, start: Instant, workers: u32, longest: Duration) -> Duration {
    let per_period = quota.per_period().expect("a limit");
    // One begins with the quota, and one may have begun.
    let periods = start.elapsed().div_duration_f64(quota.period_length()) as u32 + 2;
    per_period * periods + quota.burst_length() + workers * (SLICE + longest)
}

fn usage(stat: &GroupStat) -> Duration {
    Duration::from_micros(stat.usage_usec)
}

/// The longest poll of a group's own tasks; histograms have two digits.
fn longest(stat: &GroupStat) -> Duration {
    Duration::from_nanos(stat.run.max()) * 102 / 100
}

#[test]
fn a_group_uses_no_more_than_its_quota() {
    for (text, burst, order, class) in [
        ("10000 50000", 0, Order::Fifo, Class::Fair),
        ("2000 10000", 2, Order::Fair, Class::Fair),
        ("13000 10000", 5, Order::Fifo, Class::Fair),
        ("2000 10000", 0, Order::Fifo, Class::Idle),
    ] {
        let runtime = runtime(2);
        let quota = quota(text).burst(MS(burst)).expect("valid");
        let builder = runtime.handle().root().child("a").order(order).class(class);
        let start = Instant::now();
        let group = builder.quota(quota).build().expect("valid");
        assert_eq!(group.quota(), quota);
        let _ = group.stat();
        let is_over = Arc::default();
        let tasks = hogs(&group, 4, &is_over);
        wait_for(|| group.stat().nr_throttled >= 4);
        let stat = group.stat();
        let most = most(quota, start, 2, longest(&stat));
        assert!(usage(&stat) <= most, "{quota}: {stat:?}, at most {most:?}");
        assert!(stat.nr_periods >= 4, "{stat:?}");
        is_over.store(true, Ordering::Relaxed);
        for task in tasks {
            runtime.block_on(task).expect("it ends");
        }
        let stat = group.stat();
        assert!(stat.throttled_usec > 0, "{stat:?}");
    }
}

#[test]
fn a_quota_above_limits_what_is_below() {
    let runtime = runtime(2);
    let start = Instant::now();
    let above = quota("8000 20000");
    let parent = group(&runtime, "parent", above);
    let child = |name| parent.child(name).quota(quota("5000 10000"));
    let children = ["a", "b"].map(|name| child(name).build().expect("valid"));
    let is_over = Arc::default();
    let mut tasks = hogs(&parent, 2, &is_over);
    for child in &children {
        let _ = child.stat();
        tasks.extend(hogs(child, 2, &is_over));
    }
    wait_for(|| parent.stat().nr_throttled >= 4);
    let stats = [&parent, &children[0], &children[1]].map(Group::stat);
    let longest = stats.iter().map(longest).max().expect("three");
    let used = usage(&parent.stat());
    let most = most(above, start, 2, longest);
    assert!(used <= most, "{used:?}, at most {most:?}: {stats:?}");
    is_over.store(true, Ordering::Relaxed);
    for task in tasks {
        runtime.block_on(task).expect("it ends");
    }
}

#[test]
fn what_a_capped_group_leaves_goes_to_others() {
    let runtime = runtime(2);
    let capped = group(&runtime, "capped", quota("1000 100000"));
    let free = group(&runtime, "free", Quota::MAX);
    let is_over = Arc::default();
    let others = hogs(&capped, 4, &is_over);
    wait_for(|| capped.stat().nr_throttled > 0);
    let task = free.spawn(async { 7 });
    assert_eq!(runtime.block_on(task).expect("a number"), 7);
    is_over.store(true, Ordering::Relaxed);
    capped.set_quota(None).expect("it exists");
    for task in others {
        runtime.block_on(task).expect("it ends");
    }
    assert_eq!(free.stat().nr_periods, 0);
}

#[test]
fn a_burst_is_used_and_counted() {
    let runtime = runtime(1);
    let quota = quota("2000 10000").burst(MS(2)).expect("valid");
    let group = group(&runtime, "a", quota);
    let mut rounds = 0;
    while group.stat().nr_bursts == 0 {
        // A period without work, then more work than a quota.
        compute(MS(20));
        let task = group.spawn(async { compute(MS(4)) });
        runtime.block_on(task).expect("it ends");
        rounds += 1;
    }
    let stat = group.stat();
    assert!(stat.burst_usec > 0 && stat.nr_bursts <= rounds, "{stat:?}");
}

/// A group whose tasks stay throttled, and tasks that are throttled in it and count when they end.
struct Throttled {
    group: Group,
    tasks: Vec<JoinHandle<()>>,
    ended: Arc<AtomicU64>,
    dropped: Arc<AtomicU64>,
}

struct Count(Arc<AtomicU64>);

impl Drop for Count {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

const TASKS: u64 = 50;

impl Throttled {
    /// The group has used many times its quota, which would take half a minute to pay off.
    fn new(runtime: &Runtime, order: Order, class: Class) -> Self {
        let builder = runtime.handle().root().child("throttled").order(order);
        let group = builder.class(class).quota(quota("1000 1000000"));
        let group = group.build().expect("valid");
        runtime
            .block_on(group.spawn(async { compute(MS(30)) }))
            .expect("it ends");
        // Its worker charges it a moment after it has ended, and until then another one finds what
        // the quota had left. The end of a period tells that somebody found nothing.
        let is_throttled = || {
            let stat = group.stat();
            stat.nr_throttled > 0 && stat.nr_running == 0 && usage(&stat) >= MS(30)
        };
        loop {
            let probe = group.spawn(async {});
            wait_for(|| probe.is_finished() || is_throttled());
            if !probe.is_finished() {
                break;
            }
        }
        let (ended, dropped) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let task = |_| {
            let (ended, dropped) = (ended.clone(), Count(dropped.clone()));
            group.spawn(async move {
                let _dropped = dropped;
                evenkeel::yield_now().await;
                ended.fetch_add(1, Ordering::SeqCst);
            })
        };
        let tasks = (0..TASKS).map(task).collect();
        // They, and the probe, are ready, and not counted as such.
        wait_for(|| {
            let stat = group.stat();
            stat.nr_tasks == TASKS + 1 && stat.nr_running == 0
        });
        assert_eq!(ended.load(Ordering::SeqCst), 0);
        Self {
            group,
            tasks,
            ended,
            dropped,
        }
    }

    /// One in each order and class, each in a runtime of its own.
    fn each(workers: usize) -> impl Iterator<Item = (Runtime, Self)> {
        let kinds = [
            (Order::Fifo, Class::Fair),
            (Order::Fair, Class::Fair),
            (Order::Fifo, Class::Idle),
        ];
        kinds.into_iter().map(move |(order, class)| {
            let runtime = runtime(workers);
            let throttled = Self::new(&runtime, order, class);
            (runtime, throttled)
        })
    }

    fn all_end(self, runtime: &Runtime) {
        for task in self.tasks {
            runtime.block_on(task).expect("it ends");
        }
        assert_eq!(self.ended.load(Ordering::SeqCst), TASKS);
        assert_eq!(self.dropped.load(Ordering::SeqCst), TASKS);
    }
}

#[test]
fn throttled_tasks_go_on_when_the_quota_is_lifted_or_raised() {
    for workers in [1, 2] {
        for (runtime, throttled) in Throttled::each(workers) {
            throttled.group.set_quota(None).expect("it exists");
            assert_eq!(throttled.group.quota(), Quota::MAX);
            throttled.all_end(&runtime);
        }
        for (runtime, throttled) in Throttled::each(workers) {
            // A thousand CPUs: the debt is paid at the next period start.
            let more = quota("1000000 1000");
            throttled.group.set_quota(more).expect("it exists");
            throttled.all_end(&runtime);
        }
    }
}

#[test]
fn tasks_of_a_throttled_group_move_when_it_is_removed() {
    for (runtime, throttled) in Throttled::each(2) {
        assert!(throttled.group.remove().is_err_and(|error| error.is_busy()));
        throttled.group.remove_to_parent().expect("no children");
        assert!(
            throttled
                .group
                .set_quota(Quota::MAX)
                .is_err_and(|e| e.is_removed())
        );
        assert_eq!(throttled.group.quota(), Quota::MAX);
        throttled.all_end(&runtime);
    }
}

#[test]
fn aborted_tasks_are_dropped_when_their_group_goes_on() {
    for (runtime, throttled) in Throttled::each(2) {
        throttled.tasks.iter().for_each(JoinHandle::abort);
        throttled.group.set_quota(None).expect("it exists");
        for task in throttled.tasks {
            let error = runtime.block_on(task).expect_err("it was aborted");
            assert!(error.is_cancelled());
        }
        assert_eq!(throttled.ended.load(Ordering::SeqCst), 0);
        assert_eq!(throttled.dropped.load(Ordering::SeqCst), TASKS);
    }
}

/// Waits for a task outside of any runtime.
fn wait<T>(task: JoinHandle<T>) -> Result<T, evenkeel::JoinError> {
    struct Unpark(thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut cx = std::task::Context::from_waker(&waker);
    let mut task = std::pin::pin!(task);
    loop {
        match task.as_mut().poll(&mut cx) {
            std::task::Poll::Ready(result) => return result,
            std::task::Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn shutdown_drops_throttled_tasks() {
    for way in 0..3 {
        for (runtime, throttled) in Throttled::each(2) {
            match way {
                0 => drop(runtime),
                1 => runtime.shutdown_background(),
                _ => runtime.shutdown_timeout(MS(1)),
            }
            // It has no effect any more, and does no harm.
            throttled.group.set_quota(quota("1000")).expect("it exists");
            for task in throttled.tasks {
                assert!(wait(task).expect_err("shut down").is_cancelled());
            }
            assert_eq!(throttled.ended.load(Ordering::SeqCst), 0);
            assert_eq!(throttled.dropped.load(Ordering::SeqCst), TASKS);
        }
    }
}

#[test]
fn bad_requests_are_errors_and_change_nothing() {
    let runtime = runtime(1);
    let root = runtime.handle().root();
    let half = Quota::cores(0.5).expect("valid");
    let error = root.set_quota(half).expect_err("the root has no quota");
    assert!(error.is_root(), "{error}");
    let text = "group /: the root group has no weight and no quota, and cannot be removed";
    assert_eq!(error.to_string(), text);
    assert_eq!(root.quota(), Quota::MAX);
    let group = group(&runtime, "a", half);
    assert!(
        root.child("a")
            .quota(half)
            .build()
            .is_err_and(|e| e.is_name_taken())
    );
    group.set_quota(Some(half)).expect("it exists");
    assert_eq!(group.quota(), half);
    group.remove().expect("no tasks");
    assert!(group.set_quota(half).is_err_and(|error| error.is_removed()));
}

#[test]
fn tasks_that_sleep_and_talk_under_a_quota_lose_nothing() {
    let runtime = runtime(2);
    let group = group(&runtime, "a", quota("1000 2000"));
    let talk = || async {
        let (there, mut back) = tokio::sync::mpsc::channel(4);
        let sender = evenkeel::spawn(async move {
            for number in 0..200u64 {
                compute(Duration::from_micros(20));
                there.send(number).await.expect("the other one listens");
            }
        });
        let mut sum = 0;
        while let Some(number) = back.recv().await {
            sum += number;
        }
        sender.await.expect("it ends");
        sum
    };
    let tasks: Vec<_> = (0..8).map(|_| group.spawn(talk())).collect();
    for task in tasks {
        assert_eq!(runtime.block_on(task).expect("a sum"), 199 * 200 / 2);
    }
}

/// Computes in one poll until it is told to end.
fn long_poll(group: &Group, is_over: &Arc<AtomicBool>) -> JoinHandle<()> {
    let is_over = is_over.clone();
    group.spawn(async move {
        while !is_over.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    })
}

#[cfg(feature = "preempt")]
mod preemption {
    use super::*;

    fn preemptive(level: Level) -> Runtime {
        let builder = Builder::new().worker_threads(2).preempt(level);
        builder.build().expect("a runtime")
    }

    /// Nobody else wants the CPU, and the other worker sleeps.
    #[test]
    fn a_poll_alone_is_told_that_its_quota_is_used_up() {
        let runtime = preemptive(Level::Lazy);
        let group = group(&runtime, "a", quota("1000 1000000"));
        let task = group.spawn(async { while !evenkeel::need_resched() {} });
        runtime.block_on(task).expect("it ends");
    }

    #[test]
    fn a_quota_holds_for_a_poll_that_has_begun() {
        let runtime = preemptive(Level::Lazy);
        let group = group(&runtime, "a", Quota::MAX);
        let has_begun = Arc::new(AtomicBool::new(false));
        let begun = has_begun.clone();
        let task = group.spawn(async move {
            begun.store(true, Ordering::SeqCst);
            while !evenkeel::need_resched() {}
        });
        wait_for(|| has_begun.load(Ordering::SeqCst));
        group.set_quota(quota("1000 1000000")).expect("it exists");
        runtime.block_on(task).expect("it ends");
    }

    #[test]
    fn a_poll_over_its_quota_is_parked_until_there_is_some() {
        let runtime = preemptive(Level::Park);
        let group = group(&runtime, "a", quota("2000 20000"));
        let is_over = Arc::default();
        let task = long_poll(&group, &is_over);
        // It goes on after it was throttled, and is throttled again.
        wait_for(|| group.stat().nr_preempted >= 3);
        assert!(group.stat().throttled_usec > 0);
        is_over.store(true, Ordering::Relaxed);
        runtime.block_on(task).expect("it ends");
    }

    #[test]
    fn a_throttled_poll_goes_on_when_its_group_is_removed() {
        let runtime = preemptive(Level::Park);
        let group = group(&runtime, "a", quota("1000 1000000"));
        let is_over = Arc::default();
        let task = long_poll(&group, &is_over);
        wait_for(|| group.stat().nr_preempted > 0 && group.stat().nr_running == 0);
        is_over.store(true, Ordering::Relaxed);
        group.remove_to_parent().expect("no children");
        runtime.block_on(task).expect("it ends");
    }

    #[test]
    fn a_throttled_poll_runs_to_its_end_at_shutdown() {
        for is_over_before in [true, false] {
            let runtime = preemptive(Level::Park);
            let group = group(&runtime, "a", quota("1000 1000000"));
            let is_over = Arc::default();
            let task = long_poll(&group, &is_over);
            wait_for(|| group.stat().nr_preempted > 0 && group.stat().nr_running == 0);
            if is_over_before {
                is_over.store(true, Ordering::Relaxed);
                drop(runtime);
            } else {
                runtime.shutdown_background();
                is_over.store(true, Ordering::Relaxed);
            }
            // Its poll returned; whether the task was dropped before that is up to the moment.
            let _ = wait(task);
        }
    }

    /// Every CPU is in a long poll of others when the quota comes back: the monitor lets the
    /// throttled group go on.
    #[test]
    fn a_throttled_group_goes_on_beside_long_polls() {
        for level in [Level::Handoff, Level::Park] {
            let runtime = preemptive(level);
            let capped = group(&runtime, "capped", quota("1000 50000"));
            let free = group(&runtime, "free", Quota::MAX);
            let is_over = Arc::default();
            runtime
                .block_on(capped.spawn(async { compute(MS(3)) }))
                .expect("it ends");
            let polls = [long_poll(&free, &is_over), long_poll(&free, &is_over)];
            let task = capped.spawn(async {});
            runtime.block_on(task).expect("it ends");
            is_over.store(true, Ordering::Relaxed);
            for poll in polls {
                runtime.block_on(poll).expect("it ends");
            }
        }
    }
}
