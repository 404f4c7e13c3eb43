//! What the workers and handles of one runtime share.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering};

use crossbeam_deque::{Injector, Steal, Stealer};
use crossbeam_utils::CachePadded;
use crossbeam_utils::sync::Unparker;
use evenkeel_core::{Config, Domain, Entity, GroupId, TaskParams};
use parking_lot::{Condvar, Mutex};

use crate::bell::{Bell, Wake};
use crate::group::{Event, GroupInner, GroupTable};
use crate::idle::Idle;
use crate::io::Driver;
use crate::preempt::{self, Level, Preempt};
use crate::task::owned::OwnedTasks;
use crate::task::{Meta, Runnable, TaskRef};
use crate::worker::CpuQueue;
use crate::worker::slot::LifoSlot;

/// Shards of the owned list for threads that are not workers.
const OUTSIDE_SHARDS: usize = 4;

/// Slice of tasks and groups that ask for none, where polls are interrupted at its end: long enough
/// for the interruption, some 30 µs, to be one percent of it.
const PREEMPTING_SLICE_NS: u32 = 3_000_000;

/// A worker as the other threads see it.
pub(crate) struct Remote {
    pub(crate) slot: LifoSlot<Runnable>,
    pub(crate) stealer: Stealer<Runnable>,
    pub(crate) unparker: Unparker,
    pub(crate) bell: Bell,
    /// Polls begun, modulo 2³²; written by the worker alone.
    pub(crate) polls: AtomicU32,
    /// The worker looks at the clock and the keys when it has begun so many polls, or more.
    look_at: AtomicU32,
    /// The [`Level`] of the task that is polled.
    level: AtomicU8,
    /// The group of that task.
    group: AtomicPtr<GroupInner>,
    /// The task that is polled should make room.
    need_resched: AtomicBool,
    /// The worker sleeps, or is about to.
    is_asleep: AtomicBool,
}

impl Remote {
    pub(crate) fn new(stealer: Stealer<Runnable>, unparker: Unparker) -> Self {
        Self {
            slot: LifoSlot::new(),
            stealer,
            unparker,
            bell: Bell::new(),
            polls: AtomicU32::new(0),
            look_at: AtomicU32::new(0),
            level: AtomicU8::new(0),
            group: AtomicPtr::new(ptr::null_mut()),
            need_resched: AtomicBool::new(false),
            is_asleep: AtomicBool::new(false),
        }
    }

    /// Counts a poll that begins. For the worker's carrier.
    #[inline(always)]
    pub(crate) fn count_poll(&self) {
        let count = self.polls.load(Ordering::Relaxed).wrapping_add(1);
        self.polls.store(count, Ordering::Relaxed);
    }

    /// Returns whether the worker should look at the clock and the keys before its next poll.
    #[inline(always)]
    pub(crate) fn is_look_due(&self) -> bool {
        let polls = self.polls.load(Ordering::Relaxed);
        let past = polls.wrapping_sub(self.look_at.load(Ordering::Relaxed));
        past.cast_signed() >= 0
    }

    /// Sets in how many polls the next look is due. For the worker's carrier, which looks at the
    /// keys after this: it sees those that were on when a look was asked for that this undoes.
    pub(crate) fn look_after(&self, polls: u32) {
        let at = self.polls.load(Ordering::Relaxed).wrapping_add(polls);
        self.look_at.swap(at, Ordering::AcqRel);
    }

    /// Has the worker look before its next poll. For any thread.
    pub(crate) fn look_soon(&self) {
        let polls = self.polls.load(Ordering::Relaxed);
        self.look_at.swap(polls, Ordering::AcqRel);
    }

    /// Returns what may happen to the poll that goes on.
    pub(crate) fn level(&self) -> Option<Level> {
        Level::from_u8(self.level.load(Ordering::Relaxed))
    }

    /// Takes note of the poll that begins. For the worker's carrier.
    #[inline]
    pub(crate) fn begin_poll(&self, meta: &Meta) {
        self.level.store(meta.level() as u8, Ordering::Relaxed);
        let group = meta.group.get().cast_mut();
        self.group.store(group, Ordering::Relaxed);
        if self.need_resched.load(Ordering::Relaxed) {
            self.need_resched.store(false, Ordering::Relaxed);
        }
    }

    /// Counts an event of the poll that goes on, which cannot end meanwhile, and returns its group:
    /// for the monitor, which holds its carrier up.
    #[allow(unsafe_code)]
    pub(crate) fn count_event(&self, event: Event) -> Option<GroupId> {
        // SAFETY: an unfinished task keeps its group alive, and this one cannot finish meanwhile.
        let group = unsafe { self.group.load(Ordering::Relaxed).as_ref() }?;
        group.count_event(event);
        Some(group.id)
    }

    /// Returns whether the poll that goes on should make room.
    pub(crate) fn need_resched(&self) -> bool {
        self.need_resched.load(Ordering::Relaxed)
    }

    pub(crate) fn set_need_resched(&self) {
        self.need_resched.store(true, Ordering::Relaxed);
    }

    /// Returns whether the worker sleeps, or is about to: after this is set it looks at the queues
    /// once more.
    pub(crate) fn is_asleep(&self) -> bool {
        self.is_asleep.load(Ordering::SeqCst)
    }

    /// For the worker's carrier.
    pub(crate) fn set_asleep(&self, is_asleep: bool) {
        self.is_asleep.store(is_asleep, Ordering::SeqCst);
    }
}

/// The shared part of a runtime.
pub(crate) struct Shared {
    pub(crate) remotes: Box<[CachePadded<Remote>]>,
    /// Tasks woken or spawned by threads that are not workers, and by the I/O driver while its
    /// worker is busy.
    pub(crate) injector: Injector<Runnable>,
    pub(crate) idle: Idle,
    pub(crate) owned: OwnedTasks,
    pub(crate) driver: Driver,
    pub(crate) groups: GroupTable,
    /// The workers' run queues, in use once the runtime is grouped.
    pub(crate) queues: Box<[CachePadded<CpuQueue>]>,
    pub(crate) life: Life,
    pub(crate) preempt: Preempt,
    /// A parked worker watches the running ones, see `worker::park`.
    pub(crate) has_sentry: AtomicBool,
    pub(crate) settings: Settings,
    /// What the scheduling core knows of a task before it is first queued there.
    pub(crate) new_entity: Entity<TaskRef>,
    next_shard: AtomicUsize,
}

/// Settings that threads started later need.
pub(crate) struct Settings {
    pub(crate) thread_name: String,
    pub(crate) stack_size: usize,
}

/// Where a runtime is between start and end.
#[derive(Default)]
pub(crate) struct Life {
    /// No new tasks; the old ones are being dropped.
    pub(crate) is_shutdown: AtomicBool,
    /// The time for shutdown is over: workers leave without waiting for polls that go on elsewhere.
    pub(crate) is_abandoned: AtomicBool,
    workers: Mutex<usize>,
    changed: Condvar,
    /// See [`Shared::outlive_tasks`].
    keeper: Mutex<Option<Arc<Shared>>>,
}

impl Life {
    pub(crate) fn worker_started(&self) {
        *self.workers.lock() += 1;
    }

    pub(crate) fn worker_ended(&self) {
        *self.workers.lock() -= 1;
        self.changed.notify_all();
    }

    /// Waits until every worker has ended, or the deadline; true when all have.
    pub(crate) fn wait_workers(&self, deadline: std::time::Instant) -> bool {
        let mut workers = self.workers.lock();
        while *workers > 0 {
            if self.changed.wait_until(&mut workers, deadline).timed_out() {
                return *workers == 0;
            }
        }
        true
    }
}

impl Shared {
    pub(crate) fn new(
        remotes: Vec<Remote>,
        driver: Driver,
        preempt: Preempt,
        settings: Settings,
    ) -> Arc<Self> {
        let workers = remotes.len();
        let shards = workers + OUTSIDE_SHARDS;
        let mut config = Config::for_cpus(workers);
        if preempt.takes_cpus() {
            config.base_slice_ns = config.base_slice_ns.max(PREEMPTING_SLICE_NS);
            config.group_slice_ns = config.group_slice_ns.max(PREEMPTING_SLICE_NS);
        }
        let queue = |cpu| CpuQueue::new(cpu, workers, config.clone());
        let queues: Box<[_]> = (0..workers).map(queue).map(CachePadded::new).collect();
        let domain = Domain::new(workers, config.clone());
        let groups = GroupTable::new(domain, shards, workers);
        for queue in &queues {
            queue.lock().attach(groups.root().leaf().clone());
        }
        Arc::new(Self {
            remotes: remotes.into_iter().map(CachePadded::new).collect(),
            injector: Injector::new(),
            idle: Idle::new(workers),
            owned: OwnedTasks::new(shards),
            driver,
            groups,
            queues,
            life: Life::default(),
            preempt,
            has_sentry: AtomicBool::new(false),
            settings,
            new_entity: Entity::new(GroupId::ROOT, TaskParams::default()),
            next_shard: AtomicUsize::new(0),
        })
    }

    /// Chooses a shard of the owned list for a thread that is not a worker.
    pub(crate) fn outside_shard(&self) -> u32 {
        let n = self.next_shard.fetch_add(1, Ordering::Relaxed) % OUTSIDE_SHARDS;
        (self.remotes.len() + n) as u32
    }

    /// Returns whether any group but the root was ever made.
    #[inline(always)]
    pub(crate) fn is_grouped(&self) -> bool {
        self.groups.is_grouped()
    }

    /// Has every worker look at the keys before its next poll, because this runtime has turned one
    /// on.
    pub(crate) fn look_around(&self) {
        self.remotes.iter().for_each(|remote| remote.look_soon());
    }

    /// Returns the group of the task that this thread polls, else the root.
    pub(crate) fn current_group(&self) -> *const GroupInner {
        crate::context::current_group(self).unwrap_or_else(|| Arc::as_ptr(self.groups.root()))
    }

    /// Returns a counted reference to what [`Shared::current_group`] returns.
    #[allow(unsafe_code)]
    pub(crate) fn current_group_arc(&self) -> Arc<GroupInner> {
        let group = self.current_group();
        // SAFETY: groups live in `Arc`s, and the current task keeps its group alive (the root is
        // kept by `self`).
        unsafe {
            Arc::increment_strong_count(group);
            Arc::from_raw(group)
        }
    }

    /// Queues a task that is ready and lets somebody know.
    pub(crate) fn inject(&self, mut runnable: Runnable) {
        if preempt::is_on() && self.preempt.is_parking() {
            match preempt::queue_preempting(self, runnable) {
                Some(back) => runnable = back,
                None => return,
            }
        }
        self.injector.push(runnable);
        self.notify_one();
    }

    /// Wakes one worker if one sleeps and nobody is searching.
    #[inline]
    pub(crate) fn notify_one(&self) {
        if let Some(worker) = self.idle.worker_to_notify() {
            self.unpark(worker);
        }
    }

    /// Wakes a worker that was taken off the list of sleepers.
    #[cold]
    pub(crate) fn unpark(&self, worker: usize) {
        let remote = &self.remotes[worker];
        match remote.bell.ring() {
            Wake::Driver => self.driver.wake(),
            Wake::Parker => remote.unparker.unpark(),
        }
    }

    /// Returns whether a queue that any worker can take from holds work.
    pub(crate) fn has_work(&self) -> bool {
        !self.injector.is_empty()
            || self.remotes.iter().any(|r| !r.stealer.is_empty())
            || (self.is_grouped() && self.queues.iter().any(|q| q.hints.nr_waiting() > 0))
    }

    /// Keeps this alive until its last task is gone, at the end of shutdown: polls may go on, and
    /// other threads may be about to queue a task that they have just woken.
    pub(crate) fn outlive_tasks(self: &Arc<Self>) {
        *self.life.keeper.lock() = Some(self.clone());
        drop(self.let_go());
    }

    /// Returns the reference that [`Shared::outlive_tasks`] made when the last task is gone.
    ///
    /// Tasks are only taken out of closed shards, so whoever takes the last one sees them all
    /// empty; and who made the reference looks after that too.
    #[cold]
    pub(crate) fn let_go(&self) -> Option<Arc<Self>> {
        if self.owned.len() > 0 {
            return None;
        }
        self.life.keeper.lock().take()
    }

    /// Takes part in dropping what is queued at shutdown, in case every worker is held up by a poll
    /// or has left.
    pub(crate) fn drop_queued_tasks(&self) {
        while let Some(runnable) = self.take_any() {
            preempt::run_or_release(self, runnable);
        }
    }

    /// Takes any ready task from any queue.
    fn take_any(&self) -> Option<Runnable> {
        let sources = std::iter::once(None).chain(self.remotes.iter().map(Some));
        for remote in sources {
            loop {
                let steal = match remote {
                    None => self.injector.steal(),
                    Some(remote) => remote.stealer.steal(),
                };
                match steal {
                    Steal::Success(runnable) => return Some(runnable),
                    Steal::Empty => break,
                    Steal::Retry => {}
                }
            }
            if let Some(runnable) = remote.and_then(|r| r.slot.take()) {
                return Some(runnable);
            }
        }
        self.queues
            .iter()
            .find_map(|queue| queue.take_waiting(None))
    }
}
