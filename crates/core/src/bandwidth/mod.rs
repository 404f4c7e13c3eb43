//! CPU bandwidth control: what a group may use at most.
//!
//! **Guarantee.** For a group with quota q, period p and burst b, in any window that contains n
//! period starts, the execution of its fair-class and idle-class tasks and of those of all groups
//! below it is at most
//!
//! ```text
//! q × (n + 1) + b + one slice per CPU + what running tasks overran
//! ```
//!
//! A slice is at most 5 ms ([`SLICE_NS`]). A task overruns by the time from the end of its slice
//! to the next safe point; that is debt, paid off from later periods before anybody runs, and
//! never forgiven. Nothing is stranded: a CPU holds runtime for the turn of the group that runs
//! there, and gives the rest back when the turn ends. Each group with a quota above a task is
//! charged, each by its own account.
//!
//! **Mechanism, as of now.** Every capped group has a pool of runtime, which is filled at each
//! period start (kernel: `cfs_bandwidth`). When a fragment's turn begins, its CPU takes a *slice*
//! out of the pool of each capped group above (kernel: `assign_cfs_rq_runtime`), not more than the
//! turn needs and not more than 1 / (2 × CPUs) of what the pool has left, so slices shrink as the
//! pool does. The turn ends when the slice is used up, so a switch inside a turn costs nothing. If
//! a pool has nothing, the fragment is throttled: its tasks stay in their queue and are not
//! counted as runnable anywhere, until [`Domain::refill`](crate::Domain::refill) lets the CPU go
//! on, those with the most lag first.
//!
//! # Differences from the kernel
//! A CPU keeps nothing between turns, there a millisecond; debt goes to the pool at once, there it
//! stays on its CPU; a pool is filled when somebody asks and it is time, so that a timer is needed
//! only while a fragment is throttled. A change of the quota keeps what the present period has
//! left (at most the new quota and burst) and shows fully from the next period start on.
//!
//! # What is not covered
//! Real-time tasks are neither charged nor throttled, as in the kernel: they have a limit of their
//! own ([`Config::rt_runtime_ns`](crate::Config::rt_runtime_ns)).

mod pool;

use alloc::string::ToString;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::config::MSEC;
use crate::error::{Error, Kind};

pub use pool::SLICE_NS;
pub(crate) use pool::{Pool, SLACK_NS};

/// Default period (kernel: `default_cfs_period`), in ns.
const PERIOD_NS: u64 = 100 * MSEC;

/// Least quota (kernel: `min_cfs_quota_period`), in ns.
const MIN_QUOTA_NS: u64 = MSEC;

/// Largest quota in ns, 2^43 (kernel: `max_cfs_runtime`).
const MAX_QUOTA_NS: u64 = 1 << 43;

/// Marks a bandwidth without a limit.
pub(crate) const UNLIMITED: u64 = u64::MAX;

const TEXT: &str = "\"QUOTA PERIOD\" or \"max PERIOD\" in µs, PERIOD optional";

/// A limit on the CPU time of a group: at most `quota` in each `period`, over all CPUs, and what
/// earlier periods left of it up to `burst`.
///
/// Text form as in cgroup v2 (`cpu.max`): `"50000 100000"`, `"max"`, `"max 100000"`, in µs.
///
/// # Examples
/// ```
/// use core::time::Duration;
/// use evenkeel_core::Bandwidth;
///
/// let half: Bandwidth = "50000 100000".parse()?;
/// let ms = Duration::from_millis;
/// assert_eq!(half, Bandwidth::new(ms(50), ms(100))?);
/// assert_eq!(half.burst(ms(10))?.to_string(), "50000 100000");
/// assert!("50000 2000000".parse::<Bandwidth>().is_err());
/// # Ok::<(), evenkeel_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// [`UNLIMITED`] or ns.
    quota: u64,
    period: u64,
    burst: u64,
}

impl Bandwidth {
    /// No limit, and a period of 100 ms.
    pub const UNLIMITED: Bandwidth = Bandwidth {
        quota: UNLIMITED,
        period: PERIOD_NS,
        burst: 0,
    };

    /// Makes a limit without burst.
    ///
    /// # Errors
    /// [`Error::is_invalid_value`] unless the period is 1 ms to 1 s and the quota 1 ms to 2^43 ns.
    pub fn new(quota: Duration, period: Duration) -> Result<Self, Error> {
        let (quota, period) = (nanos(quota), nanos(period));
        check_period(period)?;
        if !(MIN_QUOTA_NS..=MAX_QUOTA_NS).contains(&quota) {
            return Err(invalid("quota (ns)", quota, "1000000 (1 ms) to 2^43"));
        }
        Ok(Bandwidth {
            quota,
            period,
            burst: 0,
        })
    }

    /// Lets later periods use up to `burst` of what earlier ones left.
    ///
    /// # Errors
    /// [`Error::is_invalid_value`] if it is more than the quota, or not 0 without a limit.
    pub fn burst(mut self, burst: Duration) -> Result<Self, Error> {
        let burst = nanos(burst);
        let most = if self.is_unlimited() { 0 } else { self.quota };
        if burst > most {
            return Err(invalid("burst (ns)", burst, "0 to the quota"));
        }
        self.burst = burst;
        Ok(self)
    }

    /// Returns whether there is no limit.
    pub fn is_unlimited(&self) -> bool {
        self.quota == UNLIMITED
    }

    /// Returns the quota in ns; `None`: no limit.
    pub fn quota_ns(&self) -> Option<u64> {
        (!self.is_unlimited()).then_some(self.quota)
    }

    /// Returns the period in ns, 1 ms to 1 s.
    pub fn period_ns(&self) -> u64 {
        self.period
    }

    /// Returns the burst in ns, at most the quota.
    pub fn burst_ns(&self) -> u64 {
        self.burst
    }
}

impl Default for Bandwidth {
    /// Returns [`Bandwidth::UNLIMITED`].
    fn default() -> Self {
        Self::UNLIMITED
    }
}

impl FromStr for Bandwidth {
    type Err = Error;

    /// Reads the text form of cgroup v2. Without a period, it is 100 ms.
    fn from_str(text: &str) -> Result<Self, Error> {
        let refused = || Error::from(Kind::Text("bandwidth", text.to_string(), TEXT));
        let number = |word: &str| {
            let all_digits = word.bytes().all(|byte| byte.is_ascii_digit());
            let value = word.parse::<u64>().ok().filter(|_| all_digits);
            value.map(Duration::from_micros).ok_or_else(refused)
        };
        let mut words = text.split_ascii_whitespace();
        let (Some(quota), period, None) = (words.next(), words.next(), words.next()) else {
            return Err(refused());
        };
        let period = period.map_or(Ok(Duration::from_nanos(PERIOD_NS)), number)?;
        if quota != "max" {
            return Self::new(number(quota)?, period);
        }
        check_period(nanos(period))?;
        Ok(Bandwidth {
            period: nanos(period),
            ..Self::UNLIMITED
        })
    }
}

impl fmt::Display for Bandwidth {
    /// Writes the text form of cgroup v2: quota and period in µs, rounded down; not the burst.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.quota_ns() {
            Some(quota) => write!(f, "{} ", quota / 1000)?,
            None => f.write_str("max ")?,
        }
        write!(f, "{}", self.period / 1000)
    }
}

/// What bandwidth control has done to a group, as in cgroup v2 (`cpu.stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BandwidthStat {
    /// Periods in which the group had work or debt.
    pub nr_periods: u64,
    /// Periods at whose end a fragment was throttled because this group had nothing left.
    pub nr_throttled: u64,
    /// Time for which fragments were throttled because of that, summed over CPUs, in µs. A fragment
    /// counts when it goes on.
    pub throttled_usec: u64,
    /// Periods in which more than the quota was used.
    pub nr_bursts: u64,
    /// What was used above the quota in those, in µs.
    pub burst_usec: u64,
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX - 1)
}

fn invalid(knob: &'static str, given: u64, allowed: &'static str) -> Error {
    Error::invalid(knob, i64::try_from(given).unwrap_or(i64::MAX), allowed)
}

fn check_period(period: u64) -> Result<(), Error> {
    if (MSEC..=1000 * MSEC).contains(&period) {
        return Ok(());
    }
    let allowed = "1000000 (1 ms) to 1000000000 (1 s)";
    Err(invalid("period (ns)", period, allowed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn text_forms_are_those_of_the_kernel() {
        let parse = |text: &str| text.parse::<Bandwidth>();
        for (text, shown) in [
            ("50000 100000", "50000 100000"),
            ("max", "max 100000"),
            ("max 20000", "max 20000"),
            (" 1000\t1000 \n", "1000 1000"),
            ("370000", "370000 100000"),
        ] {
            let value = parse(text).expect(text);
            assert_eq!(value.to_string(), shown);
            assert_eq!(parse(shown), Ok(value));
        }
        for text in [
            "",
            "max max",
            "5 5 5",
            "-1 100000",
            "+5000",
            "1e6",
            "Max",
            "9999999999999999999999",
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.is_invalid_value(), "{error}");
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn values_out_of_range_are_named() {
        let new = |quota, period| Bandwidth::new(quota, period);
        for (result, words) in [
            (
                new(MS(1), Duration::from_micros(999)),
                "period (ns) is 999000",
            ),
            (new(MS(1), MS(1001)), "period (ns) is 1001000000"),
            (
                new(Duration::from_micros(999), MS(100)),
                "quota (ns) is 999000",
            ),
            (new(Duration::MAX, MS(100)), "quota (ns) is"),
            (
                new(MS(5), MS(100)).and_then(|b| b.burst(MS(6))),
                "burst (ns) is 6000000",
            ),
            (Bandwidth::UNLIMITED.burst(MS(1)), "burst (ns) is 1000000"),
            ("999 100000".parse(), "quota (ns) is 999000"),
        ] {
            let error = result.expect_err(words);
            assert!(
                error.is_invalid_value() && error.to_string().starts_with(words),
                "{error}"
            );
        }
        assert!(new(MS(1), MS(1)).and_then(|b| b.burst(MS(1))).is_ok());
        assert!(new(MS(8000), MS(1000)).is_ok());
    }
}
