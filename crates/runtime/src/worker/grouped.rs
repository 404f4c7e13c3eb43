//! Queueing through the core: a `RunQueue` for each worker, behind that worker's lock.
//!
//! # Who owns an entity
//!
//! Whoever holds a task's `Runnable` may touch its entity. Queueing the task turns the `Runnable`
//! into a key in some run queue; from then on the entity belongs to the holder of that queue's
//! lock, until a pick or a pull turns the key back.
//!
//! Tasks of groups of fair order are the exception: with delayed dequeue one may stay in its run
//! queue while it is blocked. So such a task leaves its CPU before its poll returns
//! ([`leave_fair_task`]), when nobody else can wake it yet, and when it is woken it goes to that
//! same run queue, under that queue's lock.
//!
//! # A switch
//!
//! takes the worker's lock once: charge the task that ran and put it back if it yielded, take in
//! the slot and the plain queues, pick. A task woken by the one that runs waits in the slot until
//! then, so that waking takes no lock.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::Ordering;

use crossbeam_deque::Steal;
use evenkeel_core::balance::select_victim;
use evenkeel_core::{
    Arena, Class, Config, CpuShared, EnqueueKind, Entity, GroupId, Migrating, Outcome, Picked,
    PullRequest, Resched, RunQueue, TaskState,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use super::Worker;
use crate::clock;
use crate::context;
use crate::group::GroupInner;
use crate::preempt::request::Request;
use crate::shared::Shared;
use crate::task::{Meta, Runnable, TaskRef};

/// Most tasks taken from the shared plain queue at a switch.
const MAX_INTAKE: usize = 32;

/// Time that polls of one group may take together without a look at the clock, in ns.
const TURN_STRETCH_NS: u64 = 10_000;
/// Most such polls.
const MAX_STRETCH: u64 = 16;

/// Where the core finds its entities: in the tasks' own cells.
pub(crate) struct TaskArena;

impl Arena for TaskArena {
    type Key = TaskRef;

    #[inline]
    fn entity(&self, key: TaskRef) -> &Entity<TaskRef> {
        key.entity()
    }

    #[inline]
    fn entity_mut(&mut self, key: TaskRef) -> &mut Entity<TaskRef> {
        key.entity_mut()
    }
}

pub(super) type Rq = RunQueue<TaskArena>;

/// A worker's run queue and what others may know of it without its lock.
///
/// The lock is the standard library's, because the monitor takes it: a `parking_lot` lock shares a
/// table with those of the tasks, whose locks a parked thread may hold.
pub(crate) struct CpuQueue {
    rq: Mutex<Rq>,
    pub(crate) hints: Arc<CpuShared>,
}

impl CpuQueue {
    pub(crate) fn new(cpu: usize, cpus: usize, config: Config) -> Self {
        let rq = RunQueue::new(cpu, cpus, config);
        Self {
            hints: rq.shared().clone(),
            rq: Mutex::new(rq),
        }
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, Rq> {
        self.rq.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the queue if nobody else does at the moment.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Rq>> {
        match self.rq.try_lock() {
            Ok(rq) => Some(rq),
            Err(TryLockError::Poisoned(rq)) => Some(rq.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Takes a waiting task out of this queue, of one group if it is given.
    pub(crate) fn take_waiting(&self, group: Option<GroupId>) -> Option<Runnable> {
        let mut rq = self.lock();
        let key = rq.any_waiting(&TaskArena, group)?;
        rq.dequeue(&mut TaskArena, key, clock::now_ns());
        Some(key.into_runnable())
    }
}

/// The task that the run queue believes to be running here.
pub(super) struct Current {
    /// It has not been put back yet.
    is_open: Cell<bool>,
    /// It was picked from a group of fair order.
    is_fair: Cell<bool>,
    started_ns: Cell<u64>,
    /// When it became ready, for the wait times; 0 when unknown.
    woken_ns: Cell<u64>,
    group: Cell<*const GroupInner>,
    /// The group's id, of the task picked last through the queue.
    id: Cell<GroupId>,
    /// The version of its group that it knew.
    version: Cell<u32>,
    /// When that was.
    now_ns: Cell<u64>,
    /// Polls that may follow it without the clock, and how many of them are left.
    polls_planned: Cell<u32>,
    polls_left: Cell<u32>,
    /// Another task of the group has taken the place of the one that the run queue believes to be
    /// running.
    is_replaced: Cell<bool>,
    /// The task in [`Worker::yielded`] did not yield: its poll is parked on another thread.
    is_preempted: Cell<bool>,
    seed: Cell<u64>,
}

impl Current {
    /// No task is open on this CPU: the next one comes through the queue.
    fn end_stretch(&self) {
        self.polls_planned.set(0);
        self.polls_left.set(0);
    }

    /// Decides how many polls may follow without the clock: as many as took [`TURN_STRETCH_NS`]
    /// lately, none where each is timed or tasks are not simply in order.
    #[inline]
    fn plan_stretch(&self, meta: &Meta, now_ns: u64, has_times: bool) {
        let entity = TaskRef::new(meta).entity();
        let polls = u64::from(self.polls_planned.get() - self.polls_left.get()) + 1;
        let elapsed = now_ns.saturating_sub(self.now_ns.replace(now_ns)).max(1);
        let affordable = TURN_STRETCH_NS * polls / elapsed;
        let is_plain = !meta.group_ref().is_fair_order && entity.class() == Class::Fair;
        let planned = if is_plain && !has_times {
            affordable.min(MAX_STRETCH) as u32
        } else {
            0
        };
        self.polls_planned.set(planned);
        self.polls_left.set(planned);
        self.id.set(entity.group());
        self.version.set(meta.known_version());
    }
}

impl Default for Current {
    fn default() -> Self {
        Self {
            is_open: Cell::new(false),
            is_fair: Cell::new(false),
            started_ns: Cell::new(0),
            woken_ns: Cell::new(0),
            group: Cell::new(ptr::null()),
            id: Cell::new(GroupId::ROOT),
            version: Cell::new(0),
            now_ns: Cell::new(0),
            polls_planned: Cell::new(0),
            polls_left: Cell::new(0),
            is_replaced: Cell::new(false),
            is_preempted: Cell::new(false),
            seed: Cell::new(0),
        }
    }
}

impl Worker {
    #[inline]
    fn queue(&self) -> &CpuQueue {
        &self.shared.queues[self.index]
    }

    #[inline]
    fn request(&self) -> &Request {
        self.shared.preempt.crew.request(self.index)
    }

    /// Keeps a task woken by this thread in the slot until the switch; a displaced one is queued
    /// where others see it.
    #[inline]
    pub(super) fn wake_grouped(&self, runnable: Runnable) {
        if runnable.metadata().group_ref().is_fair_order {
            self.shared.enqueue_home(runnable, clock::now_ns());
            self.shared.notify_one();
        } else if let Some(displaced) = self.remote().slot.put(runnable) {
            self.enqueue_grouped(displaced);
            self.shared.notify_one();
        }
    }

    /// Queues a task on this worker.
    pub(super) fn enqueue_grouped(&self, runnable: Runnable) {
        let now_ns = clock::now_ns();
        if runnable.metadata().group_ref().is_fair_order {
            return self.shared.enqueue_home(runnable, now_ns);
        }
        // The worker is between polls, or its current one goes on to its end.
        let _ = enqueue(&mut self.queue().lock(), &self.shared, runnable, now_ns);
    }

    /// Switches to the next task.
    #[inline]
    pub(super) fn next_grouped(&self) -> Option<Runnable> {
        self.next_in_turn().or_else(|| self.next_through_queue())
    }

    /// Goes on within the group whose turn it is, without the clock, for a few polls that together
    /// take about [`TURN_STRETCH_NS`].
    ///
    /// Either the task that woke last takes the place of the one that blocked, or the task that
    /// yielded goes behind the others of its group. What they use is charged to their group at the
    /// next switch through the queue.
    #[inline]
    fn next_in_turn(&self) -> Option<Runnable> {
        let left = self.current.polls_left.get();
        if left == 0 {
            return None;
        }
        self.current.polls_left.set(left - 1);
        let slot = &self.remote().slot;
        let Some(yielded) = self.yielded.take() else {
            let woken = slot.take()?;
            // An equal version means the same group with the same settings, the class among them,
            // as when the task was picked whose place this one takes.
            let meta = woken.metadata();
            if meta.known_version() != self.current.version.get() || meta.is_outdated() {
                self.current.polls_left.set(0);
                // Nobody else puts, so the slot is free for it.
                drop(slot.put(woken));
                return None;
            }
            self.current.is_replaced.set(true);
            return Some(woken);
        };
        if slot.is_empty() && !yielded.metadata().is_outdated() {
            if self.queue().hints.nr_waiting() == 0 {
                return Some(yielded);
            }
            let mut rq = self.queue().lock();
            if rq.turn_goes_on() {
                self.put_yielded(&mut rq, yielded, self.current.now_ns.get());
                let picked = rq.pick_next(&mut TaskArena, self.current.now_ns.get())?;
                self.request().begin_turn();
                drop(rq);
                // The charge for the switch may have ended the turn.
                if picked.group != self.current.id.get() {
                    return Some(self.open(picked, clock::now_ns()));
                }
                return Some(picked.key.into_runnable());
            }
        }
        self.yielded.set(Some(yielded));
        None
    }

    /// Puts the task that ran and was woken meanwhile back behind the others of its group.
    #[inline]
    fn put_yielded(&self, rq: &mut Rq, yielded: Runnable, now_ns: u64) {
        let key = TaskRef::from_runnable(yielded);
        if self.current.is_replaced.replace(false) {
            rq.replace_current(&mut TaskArena, key);
        }
        let outcome = if self.current.is_preempted.replace(false) {
            Outcome::Preempted
        } else {
            Outcome::Yielded
        };
        rq.put_prev(&mut TaskArena, now_ns, outcome);
    }

    /// Takes over a task whose poll was interrupted on this worker and is parked.
    pub(super) fn put_preempted(&self, task: Runnable) {
        self.current.end_stretch();
        // From here on it is queued, or about to be.
        task.metadata().is_picked.store(false, Ordering::Release);
        self.current.is_preempted.set(true);
        self.yielded.set(Some(task));
    }

    /// Switches through the run queue: charges, takes in what was woken, picks.
    fn next_through_queue(&self) -> Option<Runnable> {
        let now_ns = clock::now_ns();
        self.record_times(now_ns);
        self.take_plain(now_ns);
        self.shared.groups.tick(now_ns);
        if self.shared.groups.is_refill_due(now_ns) {
            self.shared.try_refill(now_ns, Some(self.index));
        }
        if self.shared.groups.has_fair_order() {
            self.send_home(now_ns);
        }
        let mut rq = self.queue().lock();
        self.put_current(&mut rq, now_ns);
        if let Some(woken) = self.remote().slot.take() {
            let _ = enqueue(&mut rq, &self.shared, woken, now_ns);
        }
        if let Some(request) = rq.pull_request(now_ns) {
            drop(rq);
            let pulled = self.pull(&request, now_ns);
            rq = self.queue().lock();
            rq.pull_done(now_ns, pulled.is_some());
            if let Some(task) = pulled {
                let _ = rq.enqueue(
                    &mut TaskArena,
                    task.key(),
                    EnqueueKind::Migrated(task),
                    now_ns,
                );
            }
        }
        let picked = rq.pick_next(&mut TaskArena, now_ns);
        self.request().begin_turn();
        let others_wait = rq.nr_waiting() > 0;
        drop(rq);
        let Some(picked) = picked else {
            self.current.end_stretch();
            return self.take_left_over(now_ns);
        };
        let runnable = self.open(picked, now_ns);
        if others_wait && self.shared.idle.has_parked() {
            self.shared.notify_one();
        }
        Some(runnable)
    }

    /// Queues tasks of fair order where they were last, if they yielded or lie in the slot: they
    /// may still be in that queue's tree.
    #[cold]
    fn send_home(&self, now_ns: u64) {
        let is_fair = |task: &Runnable| task.metadata().group_ref().is_fair_order;
        if !self.current.is_open.get() {
            match self.yielded.take() {
                Some(yielded) if is_fair(&yielded) => {
                    self.current.is_preempted.set(false);
                    self.shared.enqueue_home(yielded, now_ns);
                }
                other => self.yielded.set(other),
            }
        }
        match self.remote().slot.take() {
            Some(woken) if is_fair(&woken) => self.shared.enqueue_home(woken, now_ns),
            // Nobody else puts, so the slot is free for it.
            Some(other) => drop(self.remote().slot.put(other)),
            None => {}
        }
    }

    /// Charges the task that ran, and queues it again if it was woken during its poll.
    #[inline]
    fn put_current(&self, rq: &mut Rq, now_ns: u64) {
        let yielded = self.yielded.take();
        let is_open = self.current.is_open.replace(false);
        match yielded {
            None if is_open => rq.put_prev(&mut TaskArena, now_ns, Outcome::Blocked),
            None => {}
            Some(task) if is_open && !task.metadata().is_outdated() => {
                self.put_yielded(rq, task, now_ns)
            }
            Some(task) => {
                if is_open {
                    rq.put_prev(&mut TaskArena, now_ns, Outcome::Blocked);
                }
                self.current.is_preempted.set(false);
                // It ran from the plain queues, and was never on this CPU.
                let _ = enqueue(rq, &self.shared, task, now_ns);
            }
        }
    }

    /// Takes note of the task picked and turns its key back.
    #[inline]
    fn open(&self, picked: Picked<TaskRef>, now_ns: u64) -> Runnable {
        let runnable = picked.key.into_runnable();
        let meta = runnable.metadata();
        self.current.is_open.set(true);
        self.current.is_replaced.set(false);
        self.current
            .plan_stretch(meta, now_ns, self.shared.groups.has_times());
        let is_fair = meta.group_ref().is_fair_order;
        self.current.is_fair.set(is_fair);
        if is_fair {
            meta.is_picked.store(true, Ordering::Relaxed);
        }
        // Only where it will be taken at the end of this poll: times are recorded from the first
        // poll that begins after the flip.
        let has_times = self.shared.groups.has_times();
        let timed = if has_times {
            meta.group.get()
        } else {
            ptr::null()
        };
        self.current.group.set(timed);
        self.current.started_ns.set(now_ns);
        self.current.woken_ns.set(meta.woken_ns.replace(0));
        runnable
    }

    /// Moves what lies in the plain queues to the run queue: what was queued before groups came
    /// into use, and what came from outside.
    #[inline]
    fn take_plain(&self, now_ns: u64) {
        if self.shared.injector.is_empty() && self.deque.is_empty() {
            return;
        }
        self.take_plain_slow(now_ns);
    }

    #[cold]
    fn take_plain_slow(&self, now_ns: u64) {
        while let Some(runnable) = self.deque.pop() {
            self.shared.enqueue_any(runnable, self.index, now_ns);
        }
        for _ in 0..MAX_INTAKE {
            match self.shared.injector.steal() {
                Steal::Success(runnable) => self.shared.enqueue_any(runnable, self.index, now_ns),
                Steal::Empty => return,
                Steal::Retry => {}
            }
        }
    }

    /// Takes over what lies in another worker's plain queue since before groups came into use; that
    /// worker may be in a long poll.
    #[cold]
    fn take_left_over(&self, now_ns: u64) -> Option<Runnable> {
        let runnable = self.steal()?;
        self.shared.enqueue_any(runnable, self.index, now_ns);
        self.next_through_queue()
    }

    /// Asks the CPU that is furthest ahead for a task.
    #[cold]
    fn pull(&self, request: &PullRequest, now_ns: u64) -> Option<Migrating<TaskRef>> {
        let queues = &self.shared.queues;
        let hints = |cpu: usize| &*queues[cpu].hints;
        let victim = select_victim(request, hints, queues.len(), now_ns, self.random())?;
        queues[victim]
            .lock()
            .pull_task(&mut TaskArena, request, now_ns)
    }

    /// SplitMix64, for the choice of victims.
    fn random(&self) -> u64 {
        let state = self.current.seed.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.current.seed.set(state);
        let mut z = state ^ (self.index as u64) << 32;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Ends the current task's time on this CPU, because another thread will carry this worker
    /// while its poll goes on.
    pub(super) fn detach_current(&self) {
        self.current.end_stretch();
        if self.current.is_open.replace(false) {
            let now_ns = clock::now_ns();
            self.record_times(now_ns);
            let mut rq = self.queue().lock();
            let fair = rq.curr().filter(|_| self.current.is_fair.get());
            rq.put_prev(&mut TaskArena, now_ns, Outcome::Exited);
            // A task of fair order stays until it is told that it may go.
            if let Some(task) = fair {
                task.meta().is_picked.store(false, Ordering::Release);
            }
        }
    }

    /// Records how long the last task waited and ran, where somebody asked for that.
    #[inline]
    fn record_times(&self, now_ns: u64) {
        if self.shared.groups.has_times() {
            self.record_times_slow(now_ns);
        }
    }

    #[allow(unsafe_code)]
    #[cold]
    fn record_times_slow(&self, now_ns: u64) {
        let group = self.current.group.replace(ptr::null());
        // SAFETY: it is set only for a poll whose end is recorded here, before the run queue lets
        // go of the task (before a task of fair order leaves); until then the queue refuses to let
        // go of the group.
        if let Some(group) = unsafe { group.as_ref() } {
            let started_ns = self.current.started_ns.get();
            let woken_ns = self.current.woken_ns.get();
            let wait_ns = (woken_ns != 0).then(|| started_ns.saturating_sub(woken_ns));
            let run_ns = now_ns.saturating_sub(started_ns);
            group.times(self.index).lock().record(wait_ns, run_ns);
        }
    }
}

/// Takes a task of a group of fair order off its CPU at the end of its poll, before anybody can
/// wake it.
///
/// `has_ended`: its future will not be polled again.
#[inline]
pub(crate) fn leave_fair_task(meta: &Meta, has_ended: bool) {
    if meta.shared_ref().groups.has_fair_order() {
        leave_fair_task_slow(meta, has_ended);
    }
}

#[cold]
fn leave_fair_task_slow(meta: &Meta, has_ended: bool) {
    let has_left = context::with_worker(|worker| {
        let Some(worker) = worker else { return false };
        if !context::is_current_meta(meta)
            || !worker.current.is_fair.get()
            || !worker.current.is_open.replace(false)
        {
            return false;
        }
        let outcome = if has_ended {
            Outcome::Exited
        } else {
            Outcome::Blocked
        };
        meta.home.store(worker.index as u32, Ordering::Relaxed);
        let now_ns = clock::now_ns();
        worker.record_times(now_ns);
        let mut rq = worker.queue().lock();
        rq.put_prev(&mut TaskArena, now_ns, outcome);
        meta.is_picked.store(false, Ordering::Release);
        true
    });
    if has_left || !meta.group_ref().is_fair_order {
        return;
    }
    // It lost its CPU during the poll. Whoever carries that on takes it off there first of all;
    // until then it must neither be queued elsewhere nor freed.
    while meta.is_picked.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    if has_ended {
        leave_tree(meta);
    }
}

/// Takes a task that ends out of the tree in which it may still be: it was polled by somebody who
/// did not take it from there.
fn leave_tree(meta: &Meta) {
    let _section = context::section();
    let key = TaskRef::new(meta);
    let queues = &meta.shared_ref().queues;
    let home = meta.home.load(Ordering::Relaxed) as usize;
    let mut rq = queues[home % queues.len()].lock();
    if key.entity().state() == TaskState::Delayed {
        rq.dequeue(&mut TaskArena, key, clock::now_ns());
    }
}

/// Queues a task in a run queue whose lock is held. Not for tasks of fair order that may be delayed
/// elsewhere.
pub(super) fn enqueue(rq: &mut Rq, shared: &Shared, runnable: Runnable, now_ns: u64) -> Resched {
    let key = TaskRef::from_runnable(runnable);
    if key.group().is_removed() {
        if key.entity().state() == TaskState::Delayed {
            rq.dequeue(&mut TaskArena, key, now_ns);
        }
        shared.owned.move_to_living(key.meta());
    }
    let kind = key.prepare();
    rq.enqueue(&mut TaskArena, key, kind, now_ns)
}

impl Shared {
    /// Queues a task on worker `cpu`, or where it was last if its group has fair order.
    pub(crate) fn enqueue_any(&self, runnable: Runnable, cpu: usize, now_ns: u64) {
        if runnable.metadata().group_ref().is_fair_order {
            self.enqueue_home(runnable, now_ns);
        } else {
            let _ = enqueue(&mut self.queues[cpu].lock(), self, runnable, now_ns);
        }
    }

    /// Queues a task of fair order on the CPU that it last left, where it may still be in the tree.
    fn enqueue_home(&self, runnable: Runnable, now_ns: u64) {
        let home = runnable.metadata().home.load(Ordering::Relaxed) as usize;
        // A task spawned from outside has a shard beyond the workers for its home.
        let queue = &self.queues[home % self.queues.len()];
        let _ = enqueue(&mut queue.lock(), self, runnable, now_ns);
    }
}
