//! Quotas of groups: their place in the table, and the refills that let throttled tasks go on.
//!
//! The core knows when a refill is due, and can come to want it earlier at any switch. Somebody has
//! to look, and who does depends on what the workers do:
//!
//! - workers look at each switch and at each look at the clock;
//! - while one of them runs and another sleeps, the sentry (`worker::park`) looks, since those that
//!   run may be in long polls; while all are in long polls, the monitor does;
//! - while all sleep, one sleeper on a parker is the *timekeeper* and wakes up in time, and so does
//!   the one in the I/O driver, whose timers are coarser ([`Quotas::keep_time`]).
//!
//! While nobody is throttled no refill is wanted, so an idle process has no timer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use evenkeel_core::{GroupId, key_on};

use super::quota::Quota;
use super::table::Tree;
use super::{Group, GroupInner, GroupTable};
use crate::clock;
use crate::context;
use crate::error::{Error, Kind};
use crate::preempt;
use crate::shared::Shared;
use crate::worker::TaskArena;

/// Nobody keeps time.
const NOBODY: u64 = u64::MAX;

/// The groups of a runtime that have a quota.
pub(super) struct Quotas {
    nr: AtomicUsize,
    /// When the timekeeper wakes up, in ns, or [`NOBODY`].
    ///
    /// The time is never later than that of some sleeper who will wake up by itself, or of a worker
    /// that is awake and looks here once more before it sleeps.
    kept_until: AtomicU64,
}

impl Quotas {
    pub(super) fn new() -> Self {
        Self {
            nr: AtomicUsize::new(0),
            kept_until: AtomicU64::new(NOBODY),
        }
    }
}

impl GroupTable {
    /// Returns whether a refill is due; false while the key is off.
    #[inline(always)]
    pub(crate) fn is_refill_due(&self, now_ns: u64) -> bool {
        key_on!(BANDWIDTH) && self.domain.refill_due(now_ns)
    }

    /// Returns when the next refill is due, in ns; `None` while nobody is throttled.
    pub(crate) fn next_refill(&self) -> Option<u64> {
        self.domain.next_refill()
    }

    /// Returns whether any group has a quota.
    #[inline]
    pub(crate) fn has_quotas(&self) -> bool {
        key_on!(BANDWIDTH) && self.quotas.nr.load(Ordering::SeqCst) > 0
    }

    /// Makes the caller the timekeeper for a refill at `at_ns`, unless another sleeper wakes up by
    /// then. The timekeeper calls [`GroupTable::leave_time`] when it wakes up.
    pub(crate) fn keep_time(&self, at_ns: u64) -> bool {
        self.quotas.kept_until.fetch_min(at_ns, Ordering::SeqCst) > at_ns
    }

    /// The timekeeper is awake, and looks at the time of the next refill before it sleeps again.
    pub(crate) fn leave_time(&self) {
        self.quotas.kept_until.store(NOBODY, Ordering::SeqCst);
    }

    pub(super) fn quota(&self, inner: &GroupInner) -> Quota {
        let _section = context::section();
        let tree = self.tree.lock();
        let bandwidth = tree.domain.bandwidth(inner.id);
        bandwidth.map_or(Quota::MAX, Quota::from_bandwidth)
    }
}

impl Shared {
    pub(super) fn set_quota(&self, inner: &Arc<GroupInner>, quota: Quota) -> Result<(), Error> {
        if inner.parent.is_none() {
            return Err(Error::new(Kind::Root));
        }
        let _section = context::section();
        let mut tree = self.groups.tree.lock();
        if inner.is_removed() {
            return Err(Group::removed_error(inner));
        }
        // Otherwise `lift_quotas` has been here, or will be.
        if !self.life.is_shutdown.load(Ordering::SeqCst) {
            self.limit(&mut tree, inner.id, quota)?;
        }
        drop(tree);
        self.call_timekeeper();
        // A poll that goes on beside a sleeping worker has to be looked at from now on.
        self.preempt.post_monitor();
        Ok(())
    }

    /// Sets, changes or removes a limit, and lets those go on that may now.
    pub(super) fn limit(&self, tree: &mut Tree, id: GroupId, quota: Quota) -> Result<(), Error> {
        let had_one = tree.domain.bandwidth(id).is_some_and(|b| !b.is_unlimited());
        if quota.is_max() && !had_one {
            return Ok(());
        }
        let now_ns = clock::now_ns();
        let set = tree.domain.set_bandwidth(id, quota.bandwidth(), now_ns);
        set.map_err(|error| Error::of_part("bandwidth", "quota", error))?;
        match (had_one, quota.is_max()) {
            (false, false) => drop(self.groups.quotas.nr.fetch_add(1, Ordering::SeqCst)),
            (true, true) => drop(self.groups.quotas.nr.fetch_sub(1, Ordering::SeqCst)),
            _ => {}
        }
        // Not left to those who look: without a quota the key may be off.
        self.refill_with(tree, now_ns, None);
        Ok(())
    }

    /// Removes every limit, at shutdown: throttled tasks are to be dropped like the others.
    pub(crate) fn lift_quotas(&self) {
        let _section = context::section();
        let mut tree = self.groups.tree.lock();
        for inner in self.groups.all(&tree) {
            if let Err(error) = self.limit(&mut tree, inner.id, Quota::MAX) {
                tracing::error!(%error, "a quota could not be removed");
            }
        }
    }

    /// Refills, unless somebody else changes groups or refills at the moment: then it stays due.
    /// For whoever looks again soon.
    ///
    /// `own`: the worker that calls this, if it switches right after it.
    #[cold]
    pub(crate) fn try_refill(&self, now_ns: u64, own: Option<usize>) {
        if let Some(mut tree) = self.groups.tree.try_lock() {
            self.refill_with(&mut tree, now_ns, own);
        }
    }

    /// Refills. For workers that sleep.
    #[cold]
    pub(crate) fn refill(&self, now_ns: u64) {
        self.refill_with(&mut self.groups.tree.lock(), now_ns, None);
    }

    fn refill_with(&self, tree: &mut Tree, now_ns: u64, own: Option<usize>) {
        let Tree { domain, kicked, .. } = tree;
        domain.refill(now_ns, |cpu| kicked[cpu] = true);
        for (cpu, kicked) in kicked.iter_mut().enumerate() {
            if std::mem::take(kicked) {
                self.go_on(cpu, now_ns, own);
            }
        }
    }

    /// Lets the tasks of a worker go on to which the core has promised runtime.
    fn go_on(&self, cpu: usize, now_ns: u64, own: Option<usize>) {
        let resched = self.queues[cpu].lock().unthrottle(&mut TaskArena, now_ns);
        if own == Some(cpu) {
            return;
        }
        // Whoever falls asleep says so before its last look at the queues, and this looks after the
        // tasks can be seen there: one of the two sees the other.
        fence(Ordering::SeqCst);
        if self.remotes[cpu].is_asleep() {
            self.unpark(cpu);
        } else if resched.is_needed() && preempt::is_on() && self.preempt.is_parking() {
            self.preempt.ask_for(cpu);
        } else if self.queues[cpu].hints.nr_waiting() > 0 {
            self.notify_one();
        }
    }

    /// Has a sleeper look at the time of the next refill if it might sleep for too long: for
    /// threads that are no workers, after what can make a refill due earlier.
    pub(crate) fn call_timekeeper(&self) {
        let Some(at_ns) = self.groups.next_refill() else {
            return;
        };
        if at_ns < self.groups.quotas.kept_until.load(Ordering::SeqCst) {
            self.nudge_sleeper();
        }
    }

    /// Returns whether polls that go on have to be looked at from outside: every worker is awake,
    /// so that tasks may wait; or a poll goes on without a CPU; or some worker is awake, and what
    /// it runs may have a quota.
    #[inline]
    pub(crate) fn wants_ticks(&self) -> bool {
        !self.idle.has_parked()
            || self.preempt.counters.free.load(Ordering::SeqCst) > 0
            || self.groups.has_quotas() && !self.idle.all_parked()
    }
}
