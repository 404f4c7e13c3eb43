//! What a group with a quota may have used: a leaky bucket beside the core's own account.
//!
//! For all windows that end now, the greatest excess of use over quota × period starts is
//!
//! ```text
//! E(t) = max over t0 ≤ t of  U(t) − U(t0) − quota × (starts in (t0, t])
//! ```
//!
//! It grows with the use, falls by the quota at each start, and is never below 0 (t0 = t). No
//! window breaks the promise if E never exceeds quota + burst + slices + overruns.

use evenkeel_core::Bandwidth;
use evenkeel_core::bandwidth::SLICE_NS;

/// Longest time that a task may run on after it should stop: a poll, and a tick before a new quota
/// is noticed.
pub const OVERRUN_NS: u64 = 2_000_000;

/// Least slice of the core, in ns.
const MIN_SLICE_NS: u64 = 100_000;

/// The books of one group while it has a quota.
#[derive(Clone, Debug)]
pub struct Book {
    limit: Bandwidth,
    next: u64,
    excess: u64,
    /// Largest quota + burst since the excess was 0.
    most: u64,
    /// Charges from outside since then.
    outside: u64,
    used: u64,
    /// Period starts since `used` is counted.
    starts: u64,
}

impl Book {
    /// Begins when the group gets `limit`; `next` is the first period start.
    pub fn new(limit: Bandwidth, next: u64) -> Self {
        Book {
            limit,
            next,
            excess: 0,
            most: 0,
            outside: 0,
            used: 0,
            starts: 0,
        }
    }

    fn quota(&self) -> u64 {
        self.limit.quota_ns().unwrap_or(0)
    }

    /// Changes the limit at `now`: the next start is at most a new period away.
    pub fn change(&mut self, limit: Bandwidth, now: u64) {
        self.limit = limit;
        self.next = self.next.min(now + limit.period_ns());
        self.most = self.most.max(self.quota() + limit.burst_ns());
    }

    /// Books `ns` of use that ended at `now`, without a start in between.
    pub fn add(&mut self, ns: u64) {
        if self.excess == 0 {
            self.most = self.quota() + self.limit.burst_ns();
            self.outside = 0;
        }
        self.excess += ns;
        self.used += ns;
    }

    /// Books use outside of a pick.
    pub fn add_outside(&mut self, ns: u64) {
        self.add(ns);
        self.outside += ns;
    }

    /// Returns the next period start.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Begins a period.
    pub fn start(&mut self) {
        self.next += self.limit.period_ns();
        self.excess = self.excess.saturating_sub(self.quota());
        self.starts += 1;
    }

    /// Begins to count use anew.
    pub fn restart(&mut self) {
        (self.used, self.starts) = (0, 0);
    }

    /// Returns use and period starts since the last restart.
    pub fn count(&self) -> (u64, u64) {
        (self.used, self.starts)
    }

    /// Returns the part of a bound that is not quota: slices and overruns of `cpus` CPUs.
    pub fn slack(&self, cpus: u64) -> u64 {
        let part = self.most / (2 * cpus);
        cpus * (part.clamp(MIN_SLICE_NS, SLICE_NS) + OVERRUN_NS)
    }

    /// Checks the promise.
    ///
    /// # Errors
    /// The excess and its bound, in words.
    pub fn check(&self, cpus: u64) -> Result<(), String> {
        let bound = self.most + self.slack(cpus) + self.outside;
        if self.excess <= bound {
            return Ok(());
        }
        let limit = self.limit;
        Err(format!(
            "used {} ns above quota × periods ({limit}), allowed {bound}",
            self.excess
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_excess_is_noticed_in_the_window_that_has_it() {
        let ms = Duration::from_millis;
        let limit = Bandwidth::new(ms(10), ms(100)).expect("valid");
        let mut book = Book::new(limit, 50);
        let slack = 5_000_000 + OVERRUN_NS;
        book.add(10_000_000 + slack);
        assert_eq!(book.check(1), Ok(()));
        // Rest in one period is no credit for later ones.
        (0..5).for_each(|_| book.start());
        book.add(10_000_000 + slack);
        assert_eq!(book.check(1), Ok(()));
        book.start();
        book.add(10_000_001);
        assert!(book.check(1).is_err());
    }
}
