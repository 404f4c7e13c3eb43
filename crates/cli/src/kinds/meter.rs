//! What tasks report while they run: work done, request latencies, late heartbeats.
//!
//! Each group has one [`Meter`]. Tasks add to it with relaxed atomics, once for each piece of
//! work; a reader sees a count that is at most a few pieces old. [`Meter::restart`] sets everything
//! to zero when the warm-up ends.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// What a piece of work is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Unit {
    /// Answers that arrived whole.
    Requests,
    /// Bytes of input hashed or compressed.
    Bytes,
    /// Polls of `spin`.
    Polls,
    /// Acquisitions of a lock.
    Acquires,
    /// Heartbeats done.
    Ticks,
}

impl Unit {
    /// All units, in the order in which reports prefer them.
    pub(crate) const ALL: [Self; 5] = [
        Self::Requests,
        Self::Bytes,
        Self::Polls,
        Self::Acquires,
        Self::Ticks,
    ];

    /// What a rate in this unit is called.
    pub(crate) fn rate_name(self) -> &'static str {
        match self {
            Self::Requests => "requests/s",
            Self::Bytes => "MB/s",
            Self::Polls => "polls/s",
            Self::Acquires => "acquires/s",
            Self::Ticks => "ticks/s",
        }
    }

    /// How many pieces make one of what the rate is given in.
    pub(crate) fn per_rate(self) -> f64 {
        match self {
            Self::Bytes => 1e6,
            Self::Requests | Self::Polls | Self::Acquires | Self::Ticks => 1.0,
        }
    }
}

/// The counters of one group.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    counts: [AtomicU64; Unit::ALL.len()],
    hearts: Mutex<Vec<Arc<Heartbeat>>>,
    latencies: Mutex<Vec<Latencies>>,
}

/// The counters at one instant.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// Pieces of work by unit, in the order of [`Unit::ALL`].
    pub(crate) counts: [u64; Unit::ALL.len()],
    /// All heartbeats of the group.
    pub(crate) beats: Beats,
    /// From a request's start to its whole answer, in ns.
    pub(crate) latencies: Histogram<u64>,
}

/// How heartbeats kept to their times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Beats {
    /// Beats that have become due, done or not.
    pub(crate) due: u64,
    /// Those done later than the limit, and those not done yet and over it.
    pub(crate) late: u64,
    /// The largest lateness, also of a beat not done yet, in ns.
    pub(crate) max_late_ns: u64,
}

impl Meter {
    /// Adds pieces of work.
    pub(crate) fn add(&self, unit: Unit, pieces: u64) {
        self.counts[unit as usize].fetch_add(pieces, Ordering::Relaxed);
    }

    /// Makes the record of a new heartbeat.
    pub(crate) fn heart(&self, every: Duration, late_after: Duration) -> Arc<Heartbeat> {
        let heart = Arc::new(Heartbeat::new(every, late_after));
        locked(&self.hearts).push(Arc::clone(&heart));
        heart
    }

    /// Makes the record of a new connection's latencies.
    pub(crate) fn latencies(&self) -> Latencies {
        let latencies = Latencies::default();
        locked(&self.latencies).push(latencies.clone());
        latencies
    }

    /// Sets everything to zero.
    pub(crate) fn restart(&self) {
        for count in &self.counts {
            count.store(0, Ordering::Relaxed);
        }
        for heart in locked(&self.hearts).iter() {
            *locked(&heart.done) = Beats::default();
        }
        for latencies in locked(&self.latencies).iter() {
            locked(&latencies.0).reset();
        }
    }

    /// Reads everything. `now` decides which beats are overdue.
    pub(crate) fn read(&self, now: Instant) -> Reading {
        let mut latencies = empty_histogram();
        for each in locked(&self.latencies).iter() {
            latencies
                .add(&*locked(&each.0))
                .expect("both have the same bounds");
        }
        let mut beats = Beats::default();
        for heart in locked(&self.hearts).iter() {
            beats.merge(heart.read(now));
        }
        let counts = std::array::from_fn(|at| self.counts[at].load(Ordering::Relaxed));
        Reading {
            counts,
            beats,
            latencies,
        }
    }
}

impl Reading {
    /// The reading of a group in which nothing happened.
    pub(crate) fn empty() -> Self {
        let counts = [0; Unit::ALL.len()];
        Self {
            counts,
            beats: Beats::default(),
            latencies: empty_histogram(),
        }
    }

    /// Adds another group's reading.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.beats.merge(other.beats);
        self.latencies
            .add(&other.latencies)
            .expect("both have the same bounds");
    }
}

impl Beats {
    /// Adds other heartbeats.
    fn merge(&mut self, other: Self) {
        self.due += other.due;
        self.late += other.late;
        self.max_late_ns = self.max_late_ns.max(other.max_late_ns);
    }

    /// Counts one beat that is late by `late_ns`.
    fn count(&mut self, late_ns: u64, limit_ns: u64) {
        self.due += 1;
        self.late += u64::from(late_ns > limit_ns);
        self.max_late_ns = self.max_late_ns.max(late_ns);
    }
}

/// One heartbeat's record: written by its task, read by the report.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    every_ns: u64,
    limit_ns: u64,
    /// Due times are counted from here.
    epoch: Instant,
    /// When the next beat not done yet is due, in ns after `epoch`; `u64::MAX` before the start.
    next_ns: AtomicU64,
    done: Mutex<Beats>,
}

impl Heartbeat {
    fn new(every: Duration, late_after: Duration) -> Self {
        Self {
            every_ns: nanos(every).max(1),
            limit_ns: nanos(late_after),
            epoch: Instant::now(),
            next_ns: AtomicU64::new(u64::MAX),
            done: Mutex::default(),
        }
    }

    /// Starts the beat now; returns when the first is due.
    pub(crate) fn start(&self) -> Instant {
        let first = nanos(self.epoch.elapsed()) + self.every_ns;
        self.next_ns.store(first, Ordering::Relaxed);
        self.epoch + Duration::from_nanos(first)
    }

    /// Records that the next beat was done at `now`; returns when the one after it is due.
    pub(crate) fn beat(&self, now: Instant) -> Instant {
        let mut done = locked(&self.done);
        let due = self.next_ns.load(Ordering::Relaxed);
        done.count(self.since_epoch(now).saturating_sub(due), self.limit_ns);
        let next = due + self.every_ns;
        self.next_ns.store(next, Ordering::Relaxed);
        self.epoch + Duration::from_nanos(next)
    }

    /// The record at `now`. Beats that are due and not done yet are in it: a heart that stopped
    /// is late, and not merely silent.
    fn read(&self, now: Instant) -> Beats {
        let mut beats = *locked(&self.done);
        let next = self.next_ns.load(Ordering::Relaxed);
        let Some(overdue) = self.since_epoch(now).checked_sub(next) else {
            return beats;
        };
        beats.due += overdue / self.every_ns + 1;
        if let Some(over_limit) = overdue.checked_sub(self.limit_ns + 1) {
            beats.late += over_limit / self.every_ns + 1;
        }
        beats.max_late_ns = beats.max_late_ns.max(overdue);
        beats
    }

    fn since_epoch(&self, now: Instant) -> u64 {
        nanos(now.saturating_duration_since(self.epoch))
    }
}

/// One connection's latencies: written by its client, read by the report.
#[derive(Clone, Debug)]
pub(crate) struct Latencies(Arc<Mutex<Histogram<u64>>>);

impl Default for Latencies {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(empty_histogram())))
    }
}

impl Latencies {
    /// Adds one request's latency.
    pub(crate) fn record(&self, latency: Duration) {
        locked(&self.0).saturating_record(nanos(latency));
    }
}

/// A histogram of durations from 1 ns to one hour with two significant digits: an error of at
/// most 1 %.
fn empty_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 2).expect("the bounds are valid")
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
}

/// Locks, also after a panic of another holder: counts are valid at every instant.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A heart with a beat due every 10 ms and a limit of 4 ms, first due 10 ms after its epoch.
    fn heart() -> Heartbeat {
        let heart = Heartbeat::new(Duration::from_millis(10), Duration::from_millis(4));
        heart.next_ns.store(10 * MS, Ordering::Relaxed);
        heart
    }

    fn at(heart: &Heartbeat, ms: u64) -> Instant {
        heart.epoch + Duration::from_millis(ms)
    }

    fn check(heart: &Heartbeat, ms: u64, due: u64, late: u64, max_late_ms: u64) {
        let expected = Beats {
            due,
            late,
            max_late_ns: max_late_ms * MS,
        };
        assert_eq!(heart.read(at(heart, ms)), expected, "at {ms} ms");
    }

    #[test]
    fn beats_in_time_are_due_and_not_late() {
        let heart = heart();
        check(&heart, 9, 0, 0, 0);
        assert_eq!(heart.beat(at(&heart, 10)), at(&heart, 20));
        assert_eq!(heart.beat(at(&heart, 24)), at(&heart, 30));
        check(&heart, 25, 2, 0, 4);
    }

    #[test]
    fn late_beats_do_not_move_later_ones() {
        let heart = heart();
        assert_eq!(heart.beat(at(&heart, 27)), at(&heart, 20));
        assert_eq!(heart.beat(at(&heart, 27)), at(&heart, 30));
        check(&heart, 27, 2, 2, 17);
    }

    #[test]
    fn a_stopped_heart_is_late() {
        let heart = heart();
        check(&heart, 10, 1, 0, 0);
        check(&heart, 14, 1, 0, 4);
        check(&heart, 15, 1, 1, 5);
        check(&heart, 24, 2, 1, 14);
        check(&heart, 25, 2, 2, 15);
        check(&heart, 110, 11, 10, 100);
    }

    #[test]
    fn a_heart_that_has_not_started_owes_nothing() {
        let heart = Heartbeat::new(Duration::from_millis(10), Duration::from_millis(4));
        check(&heart, 1_000, 0, 0, 0);
        let first = heart.start();
        assert!(first >= at(&heart, 10));
    }

    #[test]
    fn restarting_forgets_all_but_due_times() {
        let meter = Meter::default();
        meter.add(Unit::Bytes, 7);
        meter.latencies().record(Duration::from_millis(3));
        let heart = meter.heart(Duration::from_millis(10), Duration::from_millis(4));
        heart.next_ns.store(10 * MS, Ordering::Relaxed);
        heart.beat(at(&heart, 30));
        let before = meter.read(at(&heart, 19));
        assert_eq!(before.counts[Unit::Bytes as usize], 7);
        assert_eq!(before.latencies.len(), 1);
        assert_eq!(
            before.beats,
            Beats {
                due: 1,
                late: 1,
                max_late_ns: 20 * MS
            }
        );
        meter.restart();
        let after = meter.read(at(&heart, 19));
        assert_eq!(after.counts, [0; Unit::ALL.len()]);
        assert_eq!(after.latencies.len(), 0);
        assert_eq!(after.beats, Beats::default());
        assert_eq!(meter.read(at(&heart, 20)).beats.due, 1);
    }

    #[test]
    fn units_index_their_place() {
        for (place, unit) in Unit::ALL.into_iter().enumerate() {
            assert_eq!(unit as usize, place);
        }
    }
}
