//! Workers: the loop of a virtual CPU.
//!
//! A [`Worker`] is a virtual CPU: its queues and counters. An OS thread carries it;
//! `block_in_place` hands it to another thread in mid-poll. Between two polls a worker does one of
//! four things, and [`Exit`] names why a stretch of polls ended.
//!
//! Two ways of queueing:
//!
//! - *plain* (no group but the root was ever made, no statistics asked for): a FIFO queue with
//!   stealing and a slot for the task woken last ([`plain`]). No clock is read per poll.
//! - *grouped*: the core's `RunQueue`, one per worker, behind that worker's lock ([`grouped`]).
//!
//! A runtime goes from plain to grouped once and stays there; tasks that lie in plain queues at
//! that moment are moved by whoever meets them next.
//!
//! # Optional parts
//!
//! The loop exists twice. While every key is off it is the plain one, in which nothing optional is
//! looked for. While any key is on it is the *watched* one, which looks at each. A worker changes
//! over when it looks at the keys: when it takes a task from a queue that others fill, and when it
//! looks at the clock ([`maintenance`]), which comes before its next poll if its own runtime turned
//! the key on ([`Shared::look_around`]). A poll that is not watched has begun before that, or at
//! that moment; it is not timed, reported, or preempted.

mod bandwidth;
mod grouped;
mod maintenance;
mod park;
mod plain;
pub(crate) mod slot;
mod tick;

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_deque::Worker as Deque;
use crossbeam_utils::sync::Parker;

use crate::context;
use crate::keys;
use crate::preempt;
use crate::preempt::carrier::Carrier;
use crate::preempt::order::{Before, Order};
use crate::shared::{Remote, Shared};
use crate::task::outcome::forget_payload;
use crate::task::{Runnable, TaskRef};
use crate::trace;
pub(crate) use grouped::{CpuQueue, TaskArena, leave_fair_task};
use maintenance::Maintenance;
pub(crate) use tick::Verdict;

/// Why a stretch of polls ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Exit {
    /// Nothing to run.
    Idle,
    /// The I/O driver should be turned.
    Turn,
    /// The polls have used up Tokio's cooperative budget.
    Budget,
    /// Another thread carries this worker now.
    HandedOff,
    /// The first key went on, or the last one off.
    Keys,
}

/// A virtual CPU.
///
/// Its cells belong to the thread that carries it, which is the one whose `context::WORKER` points
/// to it. Everything that other threads touch is in [`Remote`] or in [`Shared`].
pub(crate) struct Worker {
    pub(crate) index: usize,
    deque: Deque<Runnable>,
    parker: Parker,
    /// The task that was woken during its own poll, which has just ended.
    yielded: Cell<Option<Runnable>>,
    /// Tasks woken while this thread was in the I/O driver.
    from_driver: RefCell<Vec<Runnable>>,
    is_driving: Cell<bool>,
    is_searching: Cell<bool>,
    linger: park::Linger,
    /// For the sentry: how many polls each worker had begun at the last look.
    seen_polls: RefCell<Vec<u32>>,
    maintenance: Maintenance,
    current: grouped::Current,
    /// Dropped last: tasks refer to it until they are dropped.
    pub(crate) shared: Arc<Shared>,
}

// SAFETY: a worker is passed from thread to thread as a whole; only the thread that carries it
// touches its cells, see the type's documentation. Passing it on goes through the start of a
// thread, which orders the accesses.
#[allow(unsafe_code)]
unsafe impl Send for Worker {}
// SAFETY: as for `Send`; an `Arc` of it is held by former carriers, which no longer touch it.
#[allow(unsafe_code)]
unsafe impl Sync for Worker {}

/// Takes a worker off this thread, and out of the count of workers, when its last carrier leaves,
/// however it leaves.
struct Ended<'a>(&'a Worker);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        if context::is_worker(self.0) {
            context::set_worker(std::ptr::null());
            self.0.shared.life.worker_ended();
        }
    }
}

/// The parts of a worker that are made before the runtime they belong to.
pub(crate) struct Seed {
    deque: Deque<Runnable>,
    parker: Parker,
}

impl Seed {
    pub(crate) fn new() -> (Self, Remote) {
        let deque = Deque::new_fifo();
        let parker = Parker::new();
        let remote = Remote::new(deque.stealer(), parker.unparker().clone());
        (Self { deque, parker }, remote)
    }
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, index: usize, seed: Seed) -> Arc<Self> {
        Arc::new(Self {
            index,
            deque: seed.deque,
            parker: seed.parker,
            yielded: Cell::new(None),
            from_driver: RefCell::new(Vec::new()),
            is_driving: Cell::new(false),
            is_searching: Cell::new(false),
            linger: park::Linger::default(),
            seen_polls: RefCell::new(Vec::new()),
            maintenance: Maintenance::default(),
            current: grouped::Current::default(),
            shared,
        })
    }

    /// This worker as the other threads see it.
    #[inline]
    fn remote(&self) -> &Remote {
        &self.shared.remotes[self.index]
    }

    /// Runs stretches of polls, and what comes between them, until the runtime ends or another
    /// thread takes over.
    fn run(&self) {
        loop {
            let stretch = AssertUnwindSafe(|| self.shared.driver.run(|| self.run_stretch()));
            match catch_unwind(stretch) {
                Ok(Exit::HandedOff) => return,
                Ok(Exit::Budget | Exit::Keys) => {}
                Ok(Exit::Turn) => self.turn_driver(),
                Ok(Exit::Idle) => {
                    if self.shared.life.is_shutdown.load(Ordering::Acquire) {
                        if self.may_leave() {
                            return;
                        }
                    } else {
                        self.park();
                    }
                }
                Err(payload) => {
                    forget_payload(payload);
                    context::leave_task();
                    if !context::is_worker(self) {
                        return;
                    }
                    tracing::error!("a worker caught a panic that is not a task's; it goes on");
                }
            }
        }
    }

    /// Polls tasks until there is a reason to stop.
    fn run_stretch(&self) -> Exit {
        if keys::any_on() {
            return self.run_watched();
        }
        context::set_plain(self);
        self.run_polls::<false>()
    }

    #[inline(never)]
    fn run_watched(&self) -> Exit {
        context::leave_plain();
        self.run_polls::<true>()
    }

    /// The loop itself; `WATCHED`: optional parts are looked after.
    #[inline(always)]
    fn run_polls<const WATCHED: bool>(&self) -> Exit {
        let remote = self.remote();
        loop {
            if remote.is_look_due()
                && let Some(exit) = self.maintain(WATCHED)
            {
                return exit;
            }
            let next = if WATCHED {
                self.next_watched()
            } else {
                self.next_plain::<false>()
            };
            let Some(runnable) = next else {
                return if keys::any_on() == WATCHED {
                    Exit::Idle
                } else {
                    Exit::Keys
                };
            };
            if self.is_searching.get() {
                self.found_work();
            }
            remote.count_poll();
            if WATCHED {
                self.poll_watched(runnable);
            } else {
                poll_task(runnable);
            }
            if !context::is_worker(self) {
                return Exit::HandedOff;
            }
            if !tokio::task::coop::has_budget_remaining() {
                return Exit::Budget;
            }
        }
    }

    #[inline(always)]
    fn next_watched(&self) -> Option<Runnable> {
        if self.shared.is_grouped() {
            self.next_grouped()
        } else {
            self.next_plain::<true>()
        }
    }

    /// Polls one task, whose poll can be preempted or reported.
    #[inline(always)]
    fn poll_watched(&self, runnable: Runnable) {
        let meta = runnable.metadata();
        if preempt::is_on() {
            meta.watch();
            if self.shared.preempt.has_windows() {
                self.remote().begin_poll(meta);
            }
            if meta.is_parked() {
                let task = TaskRef::from_runnable(runnable);
                return self.resume(task.meta());
            }
        }
        trace::switch(meta, self.index);
        poll_task(runnable);
    }

    /// Becomes one of those who look for work, unless enough do so already.
    fn start_search(&self) -> bool {
        if !self.is_searching.get() && self.shared.idle.try_search() {
            self.is_searching.set(true);
        }
        self.is_searching.get()
    }

    #[cold]
    fn found_work(&self) {
        self.is_searching.set(false);
        if self.shared.idle.end_search() && self.shared.has_work() {
            self.shared.notify_one();
        }
    }

    /// Queues a task that was woken, or spawned, by the thread that carries this worker.
    #[inline]
    fn schedule_local(&self, runnable: Runnable, is_yield: bool) {
        if self.is_driving.get() {
            self.from_driver.borrow_mut().push(runnable);
            self.shared.driver.wake();
        } else if !is_yield && self.shared.is_grouped() {
            self.wake_grouped(runnable);
        } else {
            self.schedule_plain(runnable, is_yield);
        }
    }

    /// As [`Worker::schedule_local`] outside of the I/O driver, while no group is in use.
    #[inline]
    fn schedule_plain(&self, runnable: Runnable, is_yield: bool) {
        if is_yield {
            debug_assert!(context::is_current_task(&runnable));
            self.yielded.set(Some(runnable));
        } else {
            self.wake_plain(runnable);
        }
    }

    /// Turns the I/O driver once, unless another worker sits in it.
    fn turn_driver(&self) {
        if let Some(seat) = self.shared.driver.try_sit() {
            self.in_driver(|| self.shared.driver.turn(&seat));
            drop(seat);
            for runnable in self.from_driver.take() {
                self.shared.inject(runnable);
            }
        }
    }

    /// Does something in the I/O driver; tasks that it wakes are collected. A panic out of it is
    /// somebody's waker and ends here.
    fn in_driver(&self, work: impl FnOnce()) {
        context::leave_plain();
        self.is_driving.set(true);
        let outcome = catch_unwind(AssertUnwindSafe(work));
        self.is_driving.set(false);
        if let Err(payload) = outcome {
            forget_payload(payload);
            self.shared.driver.give_up();
        }
    }

    /// At shutdown, without work: returns whether every task is gone or the time is over; otherwise
    /// waits a moment.
    fn may_leave(&self) -> bool {
        let life = &self.shared.life;
        if life.is_abandoned.load(Ordering::Acquire) || self.shared.owned.len() == 0 {
            return true;
        }
        self.parker
            .park_timeout(std::time::Duration::from_millis(1));
        false
    }
}

impl Worker {
    /// Carries this worker on this thread until the runtime ends or another thread takes over.
    pub(crate) fn carry(&self) {
        let _ended = Ended(self);
        self.run();
    }

    /// Returns whether this is a worker of `shared`.
    #[inline]
    pub(crate) fn is_of(&self, shared: &Shared) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.shared), shared)
    }

    /// Looks at the keys before the next poll. For the carrier.
    pub(crate) fn look_around(&self) {
        self.remote().look_soon();
    }

    /// Returns whether the poll that goes on should make room.
    pub(crate) fn need_resched(&self) -> bool {
        self.remote().need_resched()
    }

    /// Settles what became of the poll that another thread ran on this worker.
    pub(crate) fn take_over(&self, before: Before) {
        match before {
            Before::Nothing => {}
            Before::Free(_) => self.detach_current(),
            Before::Parked(thread) => {
                let thread = self.shared.preempt.crew.carrier(thread);
                let task = thread.and_then(Carrier::interrupted);
                if let Some(task) = task {
                    self.put_preempted(task.into_runnable());
                }
            }
        }
    }
}

/// Queues a task that is ready; the schedule function of every task that workers run.
#[inline]
pub(crate) fn schedule(runnable: Runnable, is_yield: bool) {
    match context::plain_worker() {
        Some(worker) if worker.is_of(runnable.metadata().shared_ref()) => {
            worker.schedule_plain(runnable, is_yield);
        }
        _ => schedule_from_elsewhere(runnable, is_yield),
    }
}

/// Queues a task from a thread that carries no worker of its runtime, or one that is watched or in
/// the I/O driver.
#[inline(never)]
fn schedule_from_elsewhere(runnable: Runnable, is_yield: bool) {
    if !is_yield {
        trace::wakeup(runnable.metadata());
    }
    context::with_worker(|worker| {
        let meta = runnable.metadata();
        if meta.shared_ref().groups.has_times() {
            meta.woken_ns.set(crate::clock::now_ns());
        }
        match worker {
            Some(worker) if worker.is_of(meta.shared_ref()) => {
                worker.schedule_local(runnable, is_yield);
            }
            _ => schedule_from_outside(runnable),
        }
    });
}

/// Polls one task. The worker may be gone from this thread afterwards.
#[inline(always)]
fn poll_task(runnable: Runnable) {
    let before = context::set_task(&runnable);
    runnable.run();
    context::restore_task(before);
}

/// Queues a task from a thread that carries no worker of its runtime.
#[cold]
fn schedule_from_outside(runnable: Runnable) {
    let shared = runnable.metadata().shared_arc();
    shared.inject(runnable);
    // Ordered after the push by the fence in `notify_one`; pairs with `Runtime::shutdown`.
    if shared.life.is_abandoned.load(Ordering::SeqCst) {
        shared.drop_queued_tasks();
    }
}

/// Runs `f`, which may block this thread; the worker goes to another thread first, so that its
/// tasks go on.
///
/// Without a worker on this thread, or when no thread can be started, or in the I/O driver (that is
/// in a task of Tokio's, or in a waker), `f` simply runs.
pub(crate) fn block_in_place<R>(f: impl FnOnce() -> R) -> R {
    let is_driving = context::with_worker(|worker| match worker {
        Some(worker) if worker.is_driving.get() => true,
        Some(worker) => {
            worker.hand_off();
            false
        }
        None => context::is_companion(),
    });
    if is_driving {
        return f();
    }
    tokio::task::block_in_place(f)
}

impl Worker {
    /// Gives this worker to another thread.
    fn hand_off(&self) {
        let preempt = &self.shared.preempt;
        let next = match preempt::spare_or_new(&self.shared) {
            Ok(next) => next,
            Err(error) => {
                tracing::warn!(%error, "block_in_place: no thread for the worker, its tasks wait");
                return;
            }
        };
        self.detach_current();
        context::set_worker(std::ptr::null());
        let lease = preempt.crew.lease(self.index);
        let is_passed = lease.pass(lease.load(), next.id);
        debug_assert!(
            is_passed,
            "nobody takes a worker whose carrier is in a section"
        );
        next.mailbox.command(Order::Carry {
            cpu: self.index as u16,
            before: Before::Nothing,
        });
    }
}
