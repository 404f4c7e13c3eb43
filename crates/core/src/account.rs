//! The coordinator's account of one leaf group: what its slots say, and what it is owed.

use core::sync::atomic::Ordering::Relaxed;

use crate::config::Config;
use crate::leaf::{FluidClock, Leaf};

/// Share of an idle group's lag that is forfeited at a tick: 1/64.
const IDLE_DECAY_SHIFT: u32 = 6;

/// Positive lag that a group keeps although it already may run all its tasks, in ns.
const SATURATED_LAG_NS: i64 = 2_000_000;

/// What one reading of a leaf's slots says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Observation {
    /// S, cumulative.
    pub(crate) charged: u64,
    /// ∫ nr dt, cumulative.
    pub(crate) runnable: u64,
    pub(crate) nr: u64,
    /// Σ U, and the weight that it is the servable part of.
    pub(crate) units: u64,
    pub(crate) weight: u64,
    /// Σ_c l_c.
    pub(crate) lag: i64,
    /// Counts the times that a fragment became empty.
    pub(crate) generation: u32,
}

/// The coordinator's account of one leaf group.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// L, in ns.
    pub(crate) lag: i64,
    /// The clock that is published.
    pub(crate) clock: FluidClock,
    pub(crate) last: Observation,
    pub(crate) now: Observation,
    /// S and R in the present window.
    pub(crate) served: u64,
    pub(crate) runnable: u64,
    /// Whether a fragment was empty at some time in the window.
    pub(crate) slept: bool,
    /// Expected number of runnable tasks, × 2^32, and their mean weight.
    pub(crate) tasks: u64,
    pub(crate) unit_weight: u64,
    pub(crate) due: u64,
    /// Whether it takes a part of the lag that others forfeit.
    pub(crate) takes: bool,
    pub(crate) rate: u64,
}

impl Account {
    /// Returns the most lag that the group can be owed.
    ///
    /// More than a little cannot be repaid if it already may run all its tasks: it would have to
    /// use more CPUs than it has tasks. And a group that slept had no more to do: as in EEVDF, it
    /// keeps a slice and a tick, and gathers no hoard.
    pub(crate) fn most_lag(&self, slice: i64, config: &Config) -> i64 {
        let limit = config.lag_limit_ns as i64;
        if self.slept {
            limit.min(slice + i64::from(config.tick_ns))
        } else if self.due >= self.runnable {
            limit.min(SATURATED_LAG_NS)
        } else {
            limit
        }
    }

    /// Returns the most service that can have been due in a window; `most` is that of all CPUs.
    pub(crate) fn due_cap(&self, most: u64) -> u64 {
        self.runnable.min(most).max(self.served)
    }

    /// Brings the lag up to the end of the window, and returns what the group cannot use of it
    /// (or, negative, what it is forgiven).
    pub(crate) fn settle(&mut self, slice: i64, most: u64, config: &Config) -> i64 {
        let limit = config.lag_limit_ns as i64;
        let lag = self.lag + self.due as i64 - self.served as i64;
        let most_lag = self.most_lag(slice, config);
        self.lag = if self.is_active() {
            lag.clamp(-limit, most_lag)
        } else {
            lag.min(limit) - lag.min(limit) / (1 << IDLE_DECAY_SHIFT)
        };
        self.takes = self.due < self.due_cap(most) && lag <= most_lag;
        lag - self.lag
    }

    /// Returns whether the group had anything to do in the window.
    pub(crate) fn is_active(&self) -> bool {
        self.runnable > 0 || self.now.nr > 0 || self.served > 0
    }
}

/// Sums up a leaf's slots at `now`; `None` if a writer stood still in the middle of one.
pub(crate) fn observe(
    leaf: &Leaf,
    clock: &FluidClock,
    period: u32,
    now: u64,
) -> Option<Observation> {
    let mut sum = Observation::default();
    for slot in leaf.slots() {
        let data = slot.read()?;
        if data.period != period {
            // Not heard of since competition began: what it published last stands.
            sum.charged += data.charged;
            sum.runnable += data.runnable;
            sum.generation = sum.generation.wrapping_add(data.generation);
            continue;
        }
        sum.charged += data.charged_at(now);
        sum.runnable += data.runnable_at(now);
        sum.nr += u64::from(data.nr);
        sum.units += data.units;
        sum.weight += data.weight;
        sum.generation = sum.generation.wrapping_add(data.generation);
        if data.nr > 0 {
            sum.lag += data.lag_at(clock, now);
        }
    }
    if sum.nr > 0 {
        take_back(leaf);
    }
    Some(sum)
}

/// Tells empty fragments that their lag has gone to those of the group's that are not empty.
pub(crate) fn take_back(leaf: &Leaf) {
    for slot in leaf.slots() {
        if let Some(data) = slot.read()
            && data.nr == 0
        {
            slot.taken.store(data.generation, Relaxed);
        }
    }
}
