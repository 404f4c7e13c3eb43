//! Quotas of groups, and the order in which throttled CPUs go on.

use core::cmp::Reverse;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::Domain;
use crate::bandwidth::{Bandwidth, BandwidthStat};
use crate::error::Error;
use crate::group::GroupId;
use crate::keys::{self, Hold};
use crate::leaf::Leaf;

/// 2^64 divided by the golden ratio: its multiples fill the circle evenly.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The limit of a group.
#[derive(Debug, Default)]
pub(super) struct Limit {
    bandwidth: Bandwidth,
    /// Keeps the key on while there is a quota.
    hold: Option<Hold>,
}

/// A throttled fragment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    lag: i64,
    cpu: usize,
    index: usize,
}

impl Domain {
    /// Limits what a group and those below it may use, changes the limit, or removes it. It counts
    /// from `now` on. A group that gets a limit begins with a whole quota; its period starts are
    /// spread against those of other groups. A change keeps what the present period has left, or
    /// owes, up to the new quota and burst; the new quota is given from the next period start on,
    /// which is at most a new period away. Without a limit, debt is forgotten.
    ///
    /// Throttled fragments that may go on are found by the next [`Domain::refill`], which is due
    /// at once then.
    ///
    /// # Errors
    /// [`Error::is_removed`]; [`Error::is_not_compiled`] without the cargo feature `bandwidth`;
    /// [`Error::is_key`] if the key is off and the system refuses to have code changed. Nothing has
    /// changed then.
    pub fn set_bandwidth(
        &mut self,
        id: GroupId,
        bandwidth: Bandwidth,
        now: u64,
    ) -> Result<(), Error> {
        let node = self.node(id)?;
        let Some(leaf) = node.leaf.clone() else {
            return Ok(());
        };
        let old = node.limit.bandwidth;
        match (old.is_unlimited(), bandwidth.is_unlimited()) {
            (true, false) => {
                let hold = keys::BANDWIDTH.hold()?;
                self.nodes[id.index()].limit.hold = Some(hold);
                let part = (id.index() as u64).wrapping_mul(GOLDEN);
                let period = u128::from(bandwidth.period_ns());
                let offset = period - ((period * u128::from(part)) >> 64);
                // Known only when the pool has it: who reserves with this epoch takes from it.
                let epoch = self.shared.cap_epoch() + 1;
                leaf.pool.begin(&bandwidth, epoch, now, offset as u64);
                self.shared.set_cap_epoch(epoch);
                self.reserve_waiters();
                self.count_below(&leaf, 1);
            }
            (false, false) => leaf.pool.change(&bandwidth, now),
            (false, true) => {
                leaf.pool.end();
                self.count_below(&leaf, u32::MAX);
                self.nodes[id.index()].limit.hold = None;
            }
            (true, true) => {}
        }
        self.nodes[id.index()].limit.bandwidth = bandwidth;
        if leaf.pool.waits() || self.shared.next_refill().is_some() {
            self.shared.refill_at(now);
        }
        Ok(())
    }

    /// Makes room for all fragments that can be throttled at once, so that a refill need not
    /// allocate. Nothing before the first quota.
    pub(super) fn reserve_waiters(&mut self) {
        if self.shared.cap_epoch() > 0 {
            self.waiters.clear();
            self.waiters.reserve(self.order.len() * self.cpus);
        }
    }

    /// Adds to the number of quotas on the paths of a group and of those below it.
    fn count_below(&self, top: &Leaf, change: u32) {
        for &index in &self.order {
            let Some(leaf) = &self.nodes[index].leaf else {
                continue;
            };
            if leaf.path().any(|above| above.id() == top.id()) {
                let capped = leaf.capped.load(SeqCst).wrapping_add(change);
                leaf.capped.store(capped, SeqCst);
            }
        }
    }

    /// Returns a group's limit.
    pub fn bandwidth(&self, id: GroupId) -> Option<Bandwidth> {
        Some(self.node(id).ok()?.limit.bandwidth)
    }

    /// Returns what bandwidth control has done to a group.
    pub fn bandwidth_stat(&self, id: GroupId) -> Option<BandwidthStat> {
        Some(self.node(id).ok()?.leaf.as_ref()?.pool.stat())
    }

    /// Returns the runtime of a group that no CPU holds, in ns, negative for debt; `None` without
    /// a quota.
    pub fn bandwidth_runtime(&self, id: GroupId) -> Option<i64> {
        let node = self.node(id).ok()?;
        let leaf = node.leaf.as_ref()?;
        (!node.limit.bandwidth.is_unlimited()).then(|| leaf.pool.runtime())
    }

    /// Returns when a group's next period starts, in ns, as of its last switches; `None` without a
    /// quota.
    pub fn next_period(&self, id: GroupId) -> Option<u64> {
        let node = self.node(id).ok()?;
        let leaf = node.leaf.as_ref()?;
        (!node.limit.bandwidth.is_unlimited()).then(|| leaf.pool.next())
    }

    /// Begins the periods that are due, and lets CPUs go on whose fragments are throttled: those
    /// with the most lag first, and as many as there is runtime for. Calls `kick` for each, which
    /// must see to it that [`RunQueue::unthrottle`](crate::RunQueue::unthrottle) or a pick happens
    /// there soon. Returns when it wants to run again; `None` while nobody is throttled.
    ///
    /// Call it when [`DomainShared::refill_due`](crate::DomainShared::refill_due) says so, from
    /// any CPU or thread. O(groups × CPUs) if anybody is throttled; does not allocate. A CPU may
    /// be named more than once.
    pub fn refill(&mut self, now: u64, mut kick: impl FnMut(usize)) -> Option<u64> {
        // First of all: a pool that is filled here asks for this refill once more.
        for leaf in self
            .order
            .iter()
            .filter_map(|&i| self.nodes[i].leaf.as_ref())
        {
            leaf.pool.refresh(now);
        }
        self.shared.clear_refill();
        self.waiters.clear();
        for &index in &self.order {
            let Some(leaf) = &self.nodes[index].leaf else {
                continue;
            };
            if leaf.pool.epoch() != 0 {
                leaf.pool.begin_promises();
            }
            if leaf.nr_throttles.load(SeqCst) == 0 {
                continue;
            }
            for (cpu, throttle) in leaf.throttles().iter().enumerate() {
                if throttle.is_set.load(SeqCst) {
                    let lag = throttle.lag.load(Relaxed);
                    self.waiters.push(Waiter { lag, cpu, index });
                }
            }
        }
        self.waiters
            .sort_unstable_by_key(|waiter| (Reverse(waiter.lag), waiter.cpu, waiter.index));
        for waiter in &self.waiters {
            let Some(leaf) = &self.nodes[waiter.index].leaf else {
                continue;
            };
            let capped = || leaf.path().filter(|leaf| leaf.pool.epoch() != 0);
            let is_short = |leaf: &Leaf| leaf.pool.epoch() != 0 && !leaf.pool.can_promise();
            if let Some(level) = leaf.path().position(is_short) {
                leaf.change_refusal(waiter.cpu, level as u32, now);
                if let Some(short) = leaf.above(level as u32) {
                    self.shared.refill_at(short.pool.retry_at(now));
                }
                continue;
            }
            capped().for_each(|leaf| leaf.pool.promise());
            leaf.throttle(waiter.cpu).is_set.store(false, SeqCst);
            kick(waiter.cpu);
        }
        self.shared.next_refill()
    }
}

#[cfg(all(test, not(feature = "bandwidth")))]
mod tests {
    use crate::{Bandwidth, Config, Domain, GroupId};
    use core::time::Duration;

    #[test]
    fn a_quota_is_refused_where_it_is_compiled_out() {
        let mut domain = Domain::new(1, Config::for_cpus(1));
        let ms = Duration::from_millis;
        let limit = Bandwidth::new(ms(1), ms(1)).expect("in range");
        let error = domain.set_bandwidth(GroupId::ROOT, limit, 0);
        assert!(error.expect_err("compiled out").is_not_compiled());
        let removed = domain.set_bandwidth(GroupId::ROOT, Bandwidth::UNLIMITED, 0);
        assert_eq!(removed, Ok(()));
    }
}

#[cfg(all(test, feature = "bandwidth"))]
mod tests {
    use super::*;
    use crate::config::{Config, MSEC};
    use crate::group::GroupParams;
    use core::time::Duration;

    #[test]
    fn a_change_looks_after_a_cpu_that_has_not_asked_for_a_refill_yet() {
        let mut domain = Domain::new(2, Config::for_cpus(2));
        let id = domain.create(GroupId::ROOT, GroupParams::default());
        let id = id.expect("valid");
        let second = Duration::from_secs(1);
        let limit = Bandwidth::new(second / 10, second).expect("valid");
        let mut set = |limit| domain.set_bandwidth(id, limit, MSEC);
        set(limit).expect("the key can be flipped");
        let leaf = domain.leaf(id).expect("exists");
        leaf.pool.wait();
        assert_eq!(domain.shared.next_refill(), None);
        let set = domain.set_bandwidth(id, Bandwidth::UNLIMITED, 2 * MSEC);
        set.expect("the key can be flipped");
        assert_eq!(domain.shared.next_refill(), Some(2 * MSEC));
    }
}
