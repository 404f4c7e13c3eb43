//! The runtime of one group, shared by all CPUs.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::SeqCst};

use super::{Bandwidth, BandwidthStat, UNLIMITED};
use crate::config::MSEC;
use crate::leaf::DomainShared;
use crate::seqcell::SeqCell;

/// Most runtime that a CPU takes at a time, in ns (kernel: `sched_cfs_bandwidth_slice_us`).
pub const SLICE_NS: u64 = 5 * MSEC;

/// Least runtime that a CPU takes at a time where the pool has it, in ns: shorter turns cost more
/// than they distribute.
const MIN_SLICE_NS: u64 = MSEC / 10;

/// Less than this is not worth a switch and waits for the next period, in ns.
const MIN_GRANT_NS: i64 = 1_000;

/// Delay after which runtime that came back is handed to throttled CPUs, in ns (kernel:
/// `cfs_bandwidth_slack_period`, there 5 ms).
pub(crate) const SLACK_NS: u64 = MSEC / 2;

/// The runtime of one group.
///
/// All operations are sequentially consistent, because of one pattern: a CPU announces that it
/// waits and then looks for runtime once more; who brings runtime does so and then looks who
/// waits. One of them sees the other. Nothing here blocks.
#[derive(Debug)]
pub(crate) struct Pool {
    cpus: u64,
    domain: Arc<DomainShared>,
    /// Quota, period, burst. Written by the domain alone.
    limits: SeqCell<3>,
    /// 0: no limit. Otherwise the number of the occasion at which the group got one.
    epoch: AtomicU64,
    /// When that was.
    since: AtomicU64,
    /// Runtime that no CPU holds; negative: debt.
    runtime: AtomicI64,
    /// `runtime` after the last period start.
    at_start: AtomicI64,
    /// Next period start.
    next: AtomicU64,
    /// Fragments that are throttled because this pool had nothing for them.
    waiting: AtomicU32,
    /// Runtime that a [`refill`](crate::Domain::refill) has not promised to a CPU yet.
    unpromised: AtomicI64,
    nr_periods: AtomicU64,
    nr_throttled: AtomicU64,
    throttled_ns: AtomicU64,
    nr_bursts: AtomicU64,
    burst_ns: AtomicU64,
}

impl Pool {
    pub(crate) fn new(cpus: usize, domain: Arc<DomainShared>) -> Self {
        let zero = || AtomicU64::new(0);
        Pool {
            cpus: cpus as u64,
            domain,
            limits: SeqCell::new([UNLIMITED, 1, 0]),
            epoch: zero(),
            since: zero(),
            runtime: AtomicI64::new(0),
            at_start: AtomicI64::new(0),
            next: zero(),
            waiting: AtomicU32::new(0),
            unpromised: AtomicI64::new(0),
            nr_periods: zero(),
            nr_throttled: zero(),
            throttled_ns: zero(),
            nr_bursts: zero(),
            burst_ns: zero(),
        }
    }

    /// Returns the epoch of the limit, 0 without one.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(SeqCst)
    }

    /// Returns when the limit was set.
    pub(crate) fn since(&self) -> u64 {
        self.since.load(SeqCst)
    }

    /// Returns the next period start.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(SeqCst)
    }

    /// Gives a group that has none a limit: a whole quota until the first period start, which is
    /// `offset` away.
    pub(crate) fn begin(&self, limit: &Bandwidth, epoch: u64, now: u64, offset: u64) {
        self.limits.write([limit.quota, limit.period, limit.burst]);
        self.runtime.store(limit.quota as i64, SeqCst);
        self.at_start.store(limit.quota as i64, SeqCst);
        self.next.store(now + offset.clamp(1, limit.period), SeqCst);
        self.since.store(now, SeqCst);
        self.epoch.store(epoch, SeqCst);
    }

    /// Changes a limit: what the present period has left stays, as far as the new limit allows.
    pub(crate) fn change(&self, limit: &Bandwidth, now: u64) {
        self.refresh(now);
        self.limits.write([limit.quota, limit.period, limit.burst]);
        let most = (limit.quota + limit.burst) as i64;
        let before = self.runtime.fetch_min(most, SeqCst);
        let lost = before.saturating_sub(most).max(0);
        self.at_start.fetch_sub(lost, SeqCst);
        self.next.fetch_min(now + limit.period, SeqCst);
    }

    /// Removes the limit.
    pub(crate) fn end(&self) {
        self.epoch.store(0, SeqCst);
        self.limits.write([UNLIMITED, 1, 0]);
    }

    /// Fills the pool if a period has begun since the last time (kernel:
    /// `__refill_cfs_bandwidth_runtime`).
    pub(crate) fn refresh(&self, now: u64) {
        let next = self.next();
        if now < next || self.epoch() == 0 {
            return;
        }
        self.fill(next, now);
    }

    #[cold]
    fn fill(&self, next: u64, now: u64) {
        let Some([quota, period, burst]) = self.limits.read() else {
            return;
        };
        if quota == UNLIMITED {
            return;
        }
        let periods = (now - next) / period + 1;
        let begins = next + periods * period;
        if self
            .next
            .compare_exchange(next, begins, SeqCst, SeqCst)
            .is_err()
        {
            return;
        }
        let most = (quota + burst) as i64;
        let add = periods.saturating_mul(quota).min(i64::MAX as u64 / 2) as i64;
        let filled = |runtime: i64| runtime.saturating_add(add).min(most);
        let update = self
            .runtime
            .fetch_update(SeqCst, SeqCst, |r| Some(filled(r)));
        let before = update.unwrap_or_else(|r| r);
        let used = self.at_start.swap(filled(before), SeqCst) - before;
        self.count(used, quota, burst, most - before, periods);
        if self.waits() {
            // A CPU or a refill that came between `next` and `runtime` found nothing, and looks
            // again at the next period start only.
            self.domain.refill_at(now);
        }
    }

    /// Returns whether a fragment is throttled because this pool had nothing for it.
    pub(crate) fn waits(&self) -> bool {
        self.waiting.load(SeqCst) > 0
    }

    /// Counts a period: `missing` is what the pool lacked.
    fn count(&self, used: i64, quota: u64, burst: u64, missing: i64, periods: u64) {
        let busy = (missing.max(0) as u64).div_ceil(quota).min(periods);
        self.nr_periods.fetch_add(busy, SeqCst);
        if self.waits() {
            self.nr_throttled.fetch_add(1, SeqCst);
        }
        if burst > 0 && used > quota as i64 {
            self.nr_bursts.fetch_add(1, SeqCst);
            self.burst_ns.fetch_add(used as u64 - quota, SeqCst);
        }
    }

    /// Returns how much of `runtime` one CPU takes: less, the less there is.
    fn slice(&self, runtime: i64) -> i64 {
        let part = runtime / (2 * self.cpus) as i64;
        part.clamp(MIN_SLICE_NS as i64, SLICE_NS as i64)
            .min(runtime)
    }

    /// Takes up to `wanted` out of the pool; 0 if it has nothing.
    pub(crate) fn take(&self, wanted: u64, now: u64) -> u64 {
        self.refresh(now);
        let mut runtime = self.runtime.load(SeqCst);
        loop {
            if runtime < MIN_GRANT_NS {
                return 0;
            }
            let amount = self.slice(runtime).min(wanted as i64);
            let rest = runtime - amount;
            match self
                .runtime
                .compare_exchange_weak(runtime, rest, SeqCst, SeqCst)
            {
                Ok(_) => return amount as u64,
                Err(found) => runtime = found,
            }
        }
    }

    /// Returns whether [`Pool::take`] would get anything.
    pub(crate) fn has_runtime(&self, now: u64) -> bool {
        self.refresh(now);
        self.runtime.load(SeqCst) >= MIN_GRANT_NS
    }

    /// Puts back at `now` what a CPU has not used. Returns whether somebody waits for it.
    pub(crate) fn give(&self, amount: u64, now: u64) -> bool {
        self.refresh(now);
        self.runtime.fetch_add(amount as i64, SeqCst);
        self.waits()
    }

    /// Charges execution for which no runtime was taken: debt, if the pool has none.
    pub(crate) fn charge(&self, amount: u64, now: u64) {
        self.refresh(now);
        self.runtime.fetch_sub(amount as i64, SeqCst);
    }

    /// Records that a fragment begins to wait for this pool.
    pub(crate) fn wait(&self) {
        self.waiting.fetch_add(1, SeqCst);
    }

    /// Records that it no longer does, after `waited` ns.
    pub(crate) fn resume(&self, waited: u64) {
        self.waiting.fetch_sub(1, SeqCst);
        self.throttled_ns.fetch_add(waited, SeqCst);
    }

    /// Begins to promise the runtime to CPUs.
    pub(crate) fn begin_promises(&self) {
        self.unpromised.store(self.runtime.load(SeqCst), SeqCst);
    }

    /// Returns whether there is runtime to promise.
    pub(crate) fn can_promise(&self) -> bool {
        self.unpromised.load(SeqCst) >= MIN_GRANT_NS
    }

    /// Promises one slice.
    pub(crate) fn promise(&self) {
        let rest = self.unpromised.load(SeqCst);
        self.unpromised.store(rest - self.slice(rest), SeqCst);
    }

    /// Returns when a CPU to which nothing was promised should be looked at again.
    pub(crate) fn retry_at(&self, now: u64) -> u64 {
        if self.runtime.load(SeqCst) >= MIN_GRANT_NS {
            (now + SLACK_NS).min(self.next())
        } else {
            self.next()
        }
    }

    /// Returns runtime that no CPU holds in ns; negative: debt.
    pub(crate) fn runtime(&self) -> i64 {
        self.runtime.load(SeqCst)
    }

    /// Returns the statistics.
    pub(crate) fn stat(&self) -> BandwidthStat {
        BandwidthStat {
            nr_periods: self.nr_periods.load(SeqCst),
            nr_throttled: self.nr_throttled.load(SeqCst),
            throttled_usec: self.throttled_ns.load(SeqCst) / 1000,
            nr_bursts: self.nr_bursts.load(SeqCst),
            burst_usec: self.burst_ns.load(SeqCst) / 1000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use proptest::prelude::*;

    /// The same, period by period, with sums that cannot be misread.
    struct Reference {
        quota: i64,
        period: u64,
        burst: i64,
        next: u64,
        runtime: i64,
        used: i64,
        nr_periods: u64,
        nr_bursts: u64,
        burst_ns: u64,
    }

    impl Reference {
        fn advance(&mut self, now: u64) {
            while self.next <= now {
                self.next += self.period;
                self.nr_periods += u64::from(self.runtime < self.quota + self.burst);
                if self.burst > 0 && self.used > self.quota {
                    self.nr_bursts += 1;
                    self.burst_ns += (self.used - self.quota) as u64;
                }
                self.runtime = (self.runtime + self.quota).min(self.quota + self.burst);
                self.used = 0;
            }
        }

        fn spend(&mut self, ns: i64) {
            self.runtime -= ns;
            self.used += ns;
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Op {
        Take(u64),
        Give(u64),
        Charge(u64),
        Change(u64, u64, u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (1u64..8_000_000).prop_map(Op::Take),
            3 => (0u64..100).prop_map(Op::Give),
            2 => (1u64..40_000_000).prop_map(Op::Charge),
            1 => (1u64..50, 1u64..40, 0u64..100).prop_map(|(q, p, b)| Op::Change(q, p, b)),
        ]
    }

    fn limit(quota: u64, period: u64, burst_percent: u64) -> Bandwidth {
        let ms = Duration::from_millis;
        let limit = Bandwidth::new(ms(quota), ms(period)).expect("in range");
        let burst = Duration::from_nanos(quota * 10_000 * burst_percent);
        limit.burst(burst).expect("at most the quota")
    }

    proptest! {
        #[test]
        fn behaves_as_period_by_period(
            steps in prop::collection::vec((0u64..30_000_000, op()), 1..200),
            cpus in 1usize..300,
            (quota, period, burst) in (1u64..50, 1u64..40, 0u64..100),
            offset in 1u64..2_000_000,
        ) {
            let pool = Pool::new(cpus, Arc::new(DomainShared::new()));
            let first = limit(quota, period, burst);
            let mut now = 1_000;
            pool.begin(&first, 1, now, offset);
            let mut slow = Reference {
                quota: first.quota as i64,
                period: first.period,
                burst: first.burst as i64,
                next: now + offset.min(first.period),
                runtime: first.quota as i64,
                used: 0,
                nr_periods: 0,
                nr_bursts: 0,
                burst_ns: 0,
            };
            let mut held = 0;
            for (delay, op) in steps {
                now += delay;
                slow.advance(now);
                match op {
                    Op::Take(wanted) => {
                        let amount = pool.take(wanted, now) as i64;
                        let most = (slow.runtime / (2 * cpus) as i64).clamp(100_000, 5_000_000);
                        let most = most.min(slow.runtime).min(wanted as i64);
                        prop_assert_eq!(amount, if slow.runtime < 1_000 { 0 } else { most });
                        slow.spend(amount);
                        held += amount;
                    }
                    Op::Give(percent) => {
                        let back = held * percent as i64 / 100;
                        pool.give(back as u64, now);
                        slow.spend(-back);
                        held -= back;
                    }
                    Op::Charge(ns) => {
                        pool.charge(ns, now);
                        slow.spend(ns as i64);
                    }
                    Op::Change(quota, period, burst) => {
                        let new = limit(quota, period, burst);
                        pool.change(&new, now);
                        (slow.quota, slow.burst) = (new.quota as i64, new.burst as i64);
                        slow.period = new.period;
                        slow.next = slow.next.min(now + new.period);
                        slow.runtime = slow.runtime.min(slow.quota + slow.burst);
                    }
                }
                prop_assert_eq!(pool.has_runtime(now), slow.runtime >= 1_000);
                prop_assert_eq!(pool.runtime(), slow.runtime);
                prop_assert_eq!(pool.next(), slow.next);
                let stat = pool.stat();
                prop_assert_eq!(stat.nr_periods, slow.nr_periods);
                let bursts = (slow.nr_bursts, slow.burst_ns / 1000);
                prop_assert_eq!((stat.nr_bursts, stat.burst_usec), bursts);
            }
        }
    }

    #[test]
    fn a_fill_beside_somebody_who_waits_asks_for_a_refill() {
        let domain = Arc::new(DomainShared::new());
        let pool = Pool::new(2, domain.clone());
        pool.begin(&limit(2, 1000, 0), 1, 0, 1_000);
        pool.charge(5, 1_000);
        assert_eq!(domain.next_refill(), None);
        // As if it had come between the two steps of the next one.
        pool.wait();
        pool.charge(5, 1_000_001_000);
        assert_eq!(domain.next_refill(), Some(1_000_001_000));
    }

    #[test]
    fn threads_neither_make_nor_lose_runtime() {
        let pool = Pool::new(4, Arc::new(DomainShared::new()));
        // All of it within the first period.
        pool.begin(&limit(900, 1000, 0), 1, 0, u64::MAX);
        let taken: u64 = std::thread::scope(|scope| {
            let threads: std::vec::Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut kept = 0;
                        for i in 0..5_000 {
                            let got = pool.take(10_000 + i, 1);
                            pool.give(got / 2, 1);
                            kept += got - got / 2;
                        }
                        kept
                    })
                })
                .collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.map(|kept| kept.expect("no panic")).sum()
        });
        assert_eq!(pool.runtime() + taken as i64, 900_000_000);
        let threads_fill_once = || {
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| pool.refresh(1_000_000_000));
                }
            });
        };
        threads_fill_once();
        assert_eq!((pool.runtime(), pool.stat().nr_periods), (900_000_000, 1));
    }
}
