//! What a busy worker looks after every so many polls.

use std::cell::Cell;

use super::{Exit, Worker};
use crate::clock;
use crate::keys;

/// Most polls between two looks at the clock.
const MAX_POLLS: u32 = 61;
/// Time that should pass between two looks at the clock, in ns; polls that take long are followed
/// by a look each.
const CHECK_NS: u64 = 100_000;
/// Least time between two turns of the I/O driver by a busy worker, in ns.
const TURN_NS: u64 = 50_000;

/// How many polls there are between two looks at the clock.
///
/// The number adapts to how long polls took lately, so that the driver is turned about every
/// [`CHECK_NS`] whether polls take 50 ns or 50 µs, and short polls do not pay for a clock. When the
/// next look is due is in [`Remote`], where others can have it come sooner.
///
/// [`Remote`]: crate::shared::Remote
pub(super) struct Maintenance {
    interval: Cell<u32>,
    checked_ns: Cell<u64>,
}

impl Default for Maintenance {
    fn default() -> Self {
        Self {
            interval: Cell::new(1),
            checked_ns: Cell::new(0),
        }
    }
}

impl Maintenance {
    /// Returns the length of the next interval, in polls, which follows from how long those of the
    /// last one took.
    fn next_interval(&self, now_ns: u64) -> u32 {
        let elapsed = now_ns.saturating_sub(self.checked_ns.get()).max(1);
        let affordable = CHECK_NS * u64::from(self.interval.get()) / elapsed;
        let interval = u32::try_from(affordable)
            .unwrap_or(MAX_POLLS)
            .clamp(1, MAX_POLLS);
        self.checked_ns.set(now_ns);
        self.interval.set(interval);
        interval
    }
}

impl Worker {
    /// Looks after the I/O driver and the keys; says why the stretch of polls ends, if it does.
    #[cold]
    #[inline(never)]
    pub(super) fn maintain(&self, is_watched: bool) -> Option<Exit> {
        let now_ns = clock::now_ns();
        // Before the look at the keys: whoever turns one on has a look come sooner after that.
        let interval = self.maintenance.next_interval(now_ns);
        self.remote().look_after(interval);
        if is_watched {
            self.look_at_refill(now_ns);
        }
        let driver = &self.shared.driver;
        if driver.is_seat_free() && now_ns.saturating_sub(driver.last_turn_ns()) >= TURN_NS {
            return Some(Exit::Turn);
        }
        (keys::any_on() != is_watched).then_some(Exit::Keys)
    }
}
