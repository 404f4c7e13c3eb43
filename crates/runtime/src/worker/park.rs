//! How a worker sleeps, and the sentry that watches the others meanwhile.
//!
//! A worker without work sits down in the I/O driver if its seat is free, and otherwise waits on
//! its parker. Neither wakes up by itself.
//!
//! # The sentry
//!
//! Three things may go unnoticed while a worker is in a long poll and another one sleeps: nobody is
//! in the I/O driver, a task waits in the busy worker's slot, or a push and a park crossed in a
//! place that does without a fence. So while anybody runs, one of the sleepers, in the driver or on
//! its parker, is the *sentry*: it wakes every [`ROUND`], and if nobody turned the driver since its
//! last round it takes the seat; if a slot still holds a task and its worker is still in the same
//! poll it takes the task. After [`QUIET_ROUNDS`] rounds in which every worker
//! was parked it sleeps without a limit: an idle process has no timer. Whoever wakes first after
//! that sends it on watch again.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Worker;
use crate::idle::Woken;
use crate::io::Seat;
use crate::keys;
use crate::shared::Shared;
use crate::task::Runnable;

/// How long a sentry sleeps between two looks.
const ROUND: Duration = Duration::from_millis(1);
/// After how many rounds without anybody running a sentry sleeps for good.
const QUIET_ROUNDS: u32 = 16;
/// Least and most looks at the queues by a worker that lingers before it sleeps. Between two looks
/// it offers its CPU to other threads, so a look takes about half a microsecond, or none of ours.
const LINGER: std::ops::RangeInclusive<u32> = 4..=128;

/// How long a worker lingers before it sleeps.
///
/// To wake a worker costs the one who wakes it some microseconds, and on a CPU that sleeps (a
/// virtual one above all) it takes tens of them. So a worker that was woken by another thread, ran
/// out of work and might soon be woken again looks on for a moment; as it counts as searching,
/// nobody wakes anybody meanwhile. It lingers longer after it found something that way, and shorter
/// after it did not. A worker that was woken by I/O does not linger.
pub(super) struct Linger {
    looks: Cell<u32>,
    is_worthwhile: Cell<bool>,
}

impl Default for Linger {
    fn default() -> Self {
        Self {
            looks: Cell::new(16),
            is_worthwhile: Cell::new(false),
        }
    }
}

impl Linger {
    /// Looks for a while; true when there is work.
    fn look(&self, has_work: impl Fn() -> bool) -> bool {
        let looks = self.looks.get();
        for _ in 0..looks {
            if has_work() {
                self.looks.set((looks * 2).min(*LINGER.end()));
                return true;
            }
            std::thread::yield_now();
        }
        self.looks.set((looks / 2).max(*LINGER.start()));
        false
    }
}

/// Where a worker sleeps.
pub(super) enum Bed<'a> {
    Parker,
    /// The I/O driver, whose seat it holds.
    Driver(Seat<'a>),
}

/// Why a sentry left its post.
enum Relief {
    /// It was called, or found something to do.
    Work,
    /// Nobody ran for a while.
    Quiet,
}

impl Worker {
    /// Sleeps until there is work, or a reason to look for it.
    pub(super) fn park(&self) {
        let shared = &self.shared;
        let lingers = self.linger.is_worthwhile.get() && self.start_search();
        if lingers && self.linger.look(|| shared.has_work()) {
            return;
        }
        self.remote().set_asleep(true);
        shared
            .idle
            .park(self.index, self.is_searching.replace(false));
        if shared.has_work() || shared.life.is_shutdown.load(Ordering::SeqCst) {
            self.leave_list();
            return;
        }
        match shared.driver.try_sit() {
            Some(seat) => {
                self.remote().bell.set_in_driver(true);
                self.sleep(&Bed::Driver(seat));
                self.remote().bell.set_in_driver(false);
            }
            None => self.sleep(&Bed::Parker),
        }
        self.leave_list();
        self.take_from_driver();
        self.post_sentry();
    }

    /// Leaves the list of sleepers, as a searching worker if somebody took it off.
    fn leave_list(&self) {
        let is_notified = self.shared.idle.unpark(self.index) == Woken::Notified;
        self.is_searching.set(is_notified);
        self.linger.is_worthwhile.set(is_notified);
        self.remote().set_asleep(false);
        self.remote().bell.answer();
        if self.shared.wants_ticks() {
            self.shared.preempt.post_monitor();
        }
        self.shared.preempt.post_reporter();
    }

    /// Queues the tasks that events woke while this worker sat in the driver.
    fn take_from_driver(&self) {
        let mut woken = self.from_driver.take();
        if woken.is_empty() {
            return;
        }
        let others = woken.len() > 1;
        for runnable in woken.drain(..) {
            self.queue_local(runnable);
        }
        self.from_driver.replace(woken);
        if others {
            self.shared.notify_one();
        }
    }

    /// Queues a task behind those that this worker has.
    fn queue_local(&self, runnable: Runnable) {
        if self.shared.is_grouped() {
            self.enqueue_grouped(runnable);
        } else {
            self.deque.push(runnable);
        }
    }

    /// Sleeps in `bed`: as the sentry if somebody runs and nobody watches, else until called.
    fn sleep(&self, bed: &Bed<'_>) {
        let shared = &self.shared;
        while !self.is_called(bed) {
            if shared.idle.all_parked() || shared.has_sentry.swap(true, Ordering::SeqCst) {
                self.doze_until_refill(bed);
                // Without a call this was a request to take over the watch.
                continue;
            }
            let relieved = self.watch(bed);
            shared.has_sentry.store(false, Ordering::SeqCst);
            if matches!(relieved, Relief::Work) {
                return;
            }
            // All is quiet. Whoever woke up since then saw a sentry on watch, and did not post one,
            // which the loop's condition notices.
        }
    }

    /// Returns whether this worker was called, has brought tasks from the driver, or should leave
    /// the driver because that has ended.
    fn is_called(&self, bed: &Bed<'_>) -> bool {
        self.remote().bell.is_ringing()
            || !self.from_driver.borrow().is_empty()
            || (matches!(bed, Bed::Driver(_)) && self.shared.driver.is_broken())
    }

    /// Sleeps once, for `limit` at the most.
    pub(super) fn doze(&self, bed: &Bed<'_>, limit: Option<Duration>) {
        match (bed, limit) {
            (Bed::Parker, None) => self.parker.park(),
            (Bed::Parker, Some(limit)) => self.parker.park_timeout(limit),
            (Bed::Driver(seat), limit) => self.in_driver(|| {
                let bell = &self.remote().bell;
                self.shared.driver.wait(seat, || bell.is_ringing(), limit);
            }),
        }
    }

    /// Stands sentry until called, or there is something to do, or all is quiet.
    fn watch(&self, bed: &Bed<'_>) -> Relief {
        let shared = &self.shared;
        let mut seen = self.seen_polls.borrow_mut();
        let mut turned_ns = shared.driver.last_turn_ns();
        let mut quiet = 0;
        while quiet < QUIET_ROUNDS {
            seen.clear();
            seen.extend(self.poll_counts());
            self.doze(bed, Some(self.until_refill(ROUND)));
            self.refill_if_due();
            if self.is_called(bed) || shared.has_work() {
                return Relief::Work;
            }
            if shared.idle.all_parked() {
                quiet += 1;
                continue;
            }
            quiet = 0;
            if let Some(stuck) = self.stuck_task(&seen) {
                self.queue_local(stuck);
                return Relief::Work;
            }
            let last_ns = shared.driver.last_turn_ns();
            if last_ns == turned_ns && shared.driver.is_seat_free() {
                return Relief::Work;
            }
            turned_ns = last_ns;
        }
        keys::run_deferred();
        Relief::Quiet
    }

    fn poll_counts(&self) -> impl Iterator<Item = u32> {
        let remotes = self.shared.remotes.iter();
        remotes.map(|remote| remote.polls.load(Ordering::Relaxed))
    }

    /// Takes a task out of the slot of a worker that is in the same poll as at the last look.
    fn stuck_task(&self, seen: &[u32]) -> Option<Runnable> {
        let remotes = self.shared.remotes.iter().zip(seen);
        remotes
            .filter(|(remote, seen)| remote.polls.load(Ordering::Relaxed) == **seen)
            .find_map(|(remote, _)| remote.slot.take())
    }

    /// Sends a sleeper on watch if somebody sleeps and nobody watches.
    fn post_sentry(&self) {
        let shared = &self.shared;
        if shared.has_sentry.load(Ordering::SeqCst) || !shared.idle.has_parked() {
            return;
        }
        shared.nudge_sleeper();
    }
}

impl Shared {
    /// Has one of those who sleep look once more whether it should stand sentry, or keep time.
    pub(crate) fn nudge_sleeper(&self) {
        if let Some(sleeper) = self.idle.peek_sleeper() {
            // Not a call: the bell does not ring. A sleeper in the driver is woken there, and one
            // that is on its way from one bed to the other finds the parker's token.
            self.driver.wake();
            self.remotes[sleeper].unparker.unpark();
        }
    }
}
