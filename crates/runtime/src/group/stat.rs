//! What a group has used, and how long its tasks waited and ran.

use std::fmt;

use hdrhistogram::Histogram as Hdr;

/// Least time that a histogram tells apart from zero, in ns.
const LOWEST_NS: u64 = 128;
/// Longest time that a histogram records as it is, in ns; longer ones count as this.
const HIGHEST_NS: u64 = 1_000_000_000_000;
/// Significant decimal digits of a recorded time.
const DIGITS: u8 = 2;

/// Usage and latencies of a group since accounting began. All of it only grows, `nr_running` and
/// `nr_tasks` excepted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GroupStat {
    /// CPU time of the group's tasks and of all groups below it, removed ones included, in µs: the
    /// time that polls took by the clock.
    pub usage_usec: u64,
    /// The part of it that the group's own tasks used.
    pub own_usage_usec: u64,
    /// Tasks of the group itself that are running or ready.
    pub nr_running: u64,
    /// Tasks of the group itself that have not finished.
    pub nr_tasks: u64,
    /// Polls of the group's own tasks that lost their CPU, see [`Level`](crate::Level).
    pub nr_preempted: u64,
    /// Those that were let go on to the end of a critical section when their CPU was asked for.
    pub nr_extended: u64,
    /// Those that lost their CPU in a critical section, whose deadline had passed.
    pub nr_forced: u64,
    /// Polls that took longer than the limit, where that is
    /// [set](crate::Builder::report_long_polls).
    pub nr_over_limit: u64,
    /// Periods of the group's [quota](crate::Quota) in which it had work or debt.
    pub nr_periods: u64,
    /// Periods at whose end its tasks, or those of a group below it, were throttled because it had
    /// nothing left.
    pub nr_throttled: u64,
    /// How long tasks were throttled because of that, in µs: the sum over the workers on which some
    /// waited. A wait counts when it is over.
    pub throttled_usec: u64,
    /// Periods in which more than the quota was used, out of the [burst](crate::Quota::burst).
    pub nr_bursts: u64,
    /// What was used above the quota in those, in µs.
    pub burst_usec: u64,
    /// How long the group's own tasks were ready before they ran.
    pub wait: Histogram,
    /// How long polls of the group's own tasks took.
    pub run: Histogram,
}

/// Recorded times in ns, with two significant digits from 128 ns up to 1000 s.
#[derive(Clone)]
pub struct Histogram(Hdr<u64>);

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("p50_ns", &self.percentile(50.0))
            .field("p99_ns", &self.percentile(99.0))
            .field("max_ns", &self.max())
            .finish()
    }
}

impl Histogram {
    pub(super) fn new() -> Self {
        // The bounds are constants that the library accepts, see the test.
        let hdr = Hdr::new_with_bounds(LOWEST_NS, HIGHEST_NS, DIGITS);
        Self(hdr.unwrap_or_else(|error| unreachable!("histogram bounds: {error}")))
    }

    fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    pub(super) fn add(&mut self, other: &Self) {
        // Equal bounds, so nothing can be out of range.
        let added = self.0.add(&other.0);
        debug_assert!(added.is_ok());
    }

    /// Returns the time, in ns, that `percentile` percent (0 to 100) of the recorded times do not
    /// exceed; 0 when nothing was recorded.
    #[must_use]
    pub fn percentile(&self, percentile: f64) -> u64 {
        if self.0.is_empty() {
            return 0;
        }
        self.0.value_at_quantile(percentile / 100.0)
    }

    /// Returns the longest time, in ns; 0 when nothing was recorded.
    #[must_use]
    pub fn max(&self) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.max() }
    }

    /// Returns the mean, in ns; 0 when nothing was recorded.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// Returns how many times were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns what was recorded since `earlier` was taken from the same group.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut later = self.clone();
        if later.0.subtract(&earlier.0).is_err() {
            return self.clone();
        }
        later
    }
}

/// Wait and run times of one group on one worker; the histograms are made by the first record.
#[derive(Default)]
pub(crate) struct PollTimes(Option<Box<(Histogram, Histogram)>>);

impl PollTimes {
    /// Records one poll.
    pub(crate) fn record(&mut self, wait_ns: Option<u64>, run_ns: u64) {
        let times = self
            .0
            .get_or_insert_with(|| Box::new((Histogram::new(), Histogram::new())));
        if let Some(wait_ns) = wait_ns {
            times.0.record(wait_ns);
        }
        times.1.record(run_ns);
    }

    pub(super) fn add_to(&self, wait: &mut Histogram, run: &mut Histogram) {
        if let Some(times) = &self.0 {
            wait.add(&times.0);
            run.add(&times.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_known_times() {
        let mut times = PollTimes::default();
        for us in 1..=1000 {
            times.record(Some(us * 1000), us * 500);
        }
        let (mut wait, mut run) = (Histogram::new(), Histogram::new());
        times.add_to(&mut wait, &mut run);
        assert_eq!(wait.count(), 1000);
        let close = |got: u64, want: u64| got.abs_diff(want) * 50 <= want;
        assert!(close(wait.percentile(50.0), 500_000), "{wait:?}");
        assert!(close(wait.percentile(99.0), 990_000), "{wait:?}");
        assert!(close(run.max(), 500_000), "{run:?}");
        assert_eq!(wait.since(&wait).count(), 0);
        assert_eq!(Histogram::new().percentile(99.0), 0);
        wait.record(u64::MAX);
        assert!(wait.max() >= HIGHEST_NS);
    }
}
