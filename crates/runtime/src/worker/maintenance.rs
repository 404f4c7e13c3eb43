//! What a busy worker looks after every so many polls.

use std::cell::Cell;

use super::Worker;
use crate::clock;

/// Most polls between two looks at the clock.
const MAX_POLLS: u32 = 61;
/// Time that should pass between two looks at the clock, in ns; polls that take long are followed
/// by a look each.
const CHECK_NS: u64 = 100_000;
/// Least time between two turns of the I/O driver by a busy worker, in ns.
const TURN_NS: u64 = 50_000;

/// Counts polls down to the next look at the clock.
///
/// The count adapts to how long polls took lately, so that the driver is turned about every
/// [`CHECK_NS`] whether polls take 50 ns or 50 µs, and short polls do not pay for a clock.
pub(super) struct Maintenance {
    polls_left: Cell<u32>,
    interval: Cell<u32>,
    checked_ns: Cell<u64>,
}

impl Default for Maintenance {
    fn default() -> Self {
        Self {
            polls_left: Cell::new(1),
            interval: Cell::new(1),
            checked_ns: Cell::new(0),
        }
    }
}

impl Maintenance {
    /// Counts one poll; true when it is time for a look.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        let left = self.polls_left.get() - 1;
        self.polls_left.set(left);
        left == 0
    }

    /// Starts the next interval, whose length follows from how long the polls of the last one took.
    fn restart(&self, now_ns: u64) {
        let elapsed = now_ns.saturating_sub(self.checked_ns.get()).max(1);
        let affordable = CHECK_NS * u64::from(self.interval.get()) / elapsed;
        let interval = u32::try_from(affordable)
            .unwrap_or(MAX_POLLS)
            .clamp(1, MAX_POLLS);
        self.checked_ns.set(now_ns);
        self.interval.set(interval);
        self.polls_left.set(interval);
    }
}

impl Worker {
    /// Looks after the I/O driver; true when this worker should turn it.
    #[cold]
    pub(super) fn maintain(&self) -> bool {
        let now_ns = clock::now_ns();
        self.maintenance.restart(now_ns);
        let driver = &self.shared.driver;
        driver.is_seat_free() && now_ns.saturating_sub(driver.last_turn_ns()) >= TURN_NS
    }
}
