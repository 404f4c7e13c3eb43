//! The limit on the CPU time of a group, and its text form.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use evenkeel_core::Bandwidth;

use crate::error::Error;

/// The period of a quota that gives none (kernel: `default_cfs_period`).
const DEFAULT_PERIOD: Duration = Duration::from_millis(100);
/// Shortest and longest period (kernel: `min_cfs_quota_period`, `max_cfs_quota_period`).
const PERIODS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(1);
/// Least quota (kernel: `min_cfs_quota_period`).
const LEAST: Duration = Duration::from_millis(1);
/// Largest quota, 2^43 ns (kernel: `max_cfs_runtime`).
const MOST: Duration = Duration::from_nanos(1 << 43);

const PERIOD_RANGE: &str = "1 ms to 1 s";
const QUOTA_RANGE: &str = "1 ms to 2^43 ns (about 2.4 h) in each period";
const TEXT_FORM: &str =
    "\"QUOTA PERIOD\" or \"max PERIOD\" in µs, the period optional (as in cgroup v2's cpu.max)";

/// A limit on the CPU time of a group and all groups below it: at most `quota` in each `period`,
/// over all workers together.
///
/// It means what cgroup v2 means by `cpu.max` and `cpu.max.burst`, and is written in the same way:
/// `"50000 100000"` (half a CPU), `"max"` (no limit), `"max 100000"`, `"50000"`; in µs, with a
/// period of 100 ms where none is given.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use evenkeel::Quota;
///
/// let half = Quota::cores(0.5)?;
/// assert_eq!(half, "50000 100000".parse()?);
/// let finer = half.period(Duration::from_millis(20))?.burst(Duration::from_millis(5))?;
/// assert_eq!(finer.to_string(), "10000 20000");
/// assert!(Quota::cores(-1.0).is_err_and(|error| error.is_invalid_value()));
/// # Ok::<(), evenkeel::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quota(Bandwidth);

impl Quota {
    /// No limit.
    pub const MAX: Quota = Quota(Bandwidth::UNLIMITED);

    /// Limits a group to `quota` of CPU time in each `period`. Two CPUs give twice a period.
    ///
    /// # Errors
    ///
    /// [`Error::is_invalid_value`] unless the period is 1 ms to 1 s and the quota 1 ms to 2^43 ns.
    pub fn new(quota: Duration, period: Duration) -> Result<Self, Error> {
        check_period(period)?;
        if !(LEAST..=MOST).contains(&quota) {
            return Err(Error::invalid("quota", format!("{quota:?}"), QUOTA_RANGE));
        }
        let made = Bandwidth::new(quota, period);
        made.map(Self).map_err(|error| Error::core("quota", error))
    }

    /// Limits a group to so many CPUs' time, in periods of 100 ms: 0.01 or more.
    ///
    /// # Errors
    ///
    /// [`Error::is_invalid_value`] for less, for NaN and infinity, and where it comes to more than
    /// 2^43 ns in each period.
    pub fn cores(cores: f64) -> Result<Self, Error> {
        let quota = Duration::try_from_secs_f64(cores * DEFAULT_PERIOD.as_secs_f64());
        match quota {
            Ok(quota) if (LEAST..=MOST).contains(&quota) => Self::new(quota, DEFAULT_PERIOD),
            _ => {
                let allowed = "0.01 CPUs to 2^43 ns in each period of 100 ms (about 87960 CPUs)";
                Err(Error::invalid("quota", format!("{cores} CPUs"), allowed))
            }
        }
    }

    /// Changes the period and keeps the rate: the quota, and the burst, change in proportion.
    ///
    /// A short period evens out how the group gets its time; each period that begins while the
    /// group is throttled costs a wake-up.
    ///
    /// # Errors
    ///
    /// [`Error::is_invalid_value`] unless the period is 1 ms to 1 s and the quota comes to 1 ms or
    /// more, and not above 2^43 ns.
    pub fn period(self, period: Duration) -> Result<Self, Error> {
        check_period(period)?;
        let in_proportion = |ns: u64| {
            let ns = u128::from(ns) * period.as_nanos() / u128::from(self.0.period_ns());
            Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
        };
        let Some(quota) = self.0.quota_ns() else {
            return Self::unlimited(period);
        };
        Self::new(in_proportion(quota), period)?.burst(in_proportion(self.0.burst_ns()))
    }

    /// Lets later periods use up to `burst` of what earlier ones left.
    ///
    /// # Errors
    ///
    /// [`Error::is_invalid_value`] if it is more than the quota, or not zero without a limit.
    pub fn burst(self, burst: Duration) -> Result<Self, Error> {
        self.0.burst(burst).map(Self).map_err(|_| {
            let allowed = if self.is_max() {
                "0 without a quota"
            } else {
                "0 to the quota"
            };
            Error::invalid("burst", format!("{burst:?}"), allowed)
        })
    }

    /// No limit, with a period that shows only in its text form.
    fn unlimited(period: Duration) -> Result<Self, Error> {
        let text = format!("max {}", period.as_micros());
        let read = text.parse::<Bandwidth>();
        read.map(Self).map_err(|error| Error::core("quota", error))
    }

    /// Returns whether there is no limit.
    #[must_use]
    pub fn is_max(&self) -> bool {
        self.0.is_unlimited()
    }

    /// Returns the CPU time allowed in each period; `None` without a limit.
    #[must_use]
    pub fn per_period(&self) -> Option<Duration> {
        self.0.quota_ns().map(Duration::from_nanos)
    }

    /// Returns the length of a period.
    #[must_use]
    pub fn period_length(&self) -> Duration {
        Duration::from_nanos(self.0.period_ns())
    }

    /// Returns how much of what earlier periods left a later one may use; zero by default.
    #[must_use]
    pub fn burst_length(&self) -> Duration {
        Duration::from_nanos(self.0.burst_ns())
    }

    /// Returns the limit in CPUs; infinity without one.
    #[must_use]
    pub fn as_cores(&self) -> f64 {
        let quota = self.0.quota_ns();
        quota.map_or(f64::INFINITY, |quota| {
            quota as f64 / self.0.period_ns() as f64
        })
    }

    pub(super) fn bandwidth(self) -> Bandwidth {
        self.0
    }

    pub(super) fn from_bandwidth(bandwidth: Bandwidth) -> Self {
        Self(bandwidth)
    }
}

impl Default for Quota {
    /// Returns [`Quota::MAX`].
    fn default() -> Self {
        Self::MAX
    }
}

impl FromStr for Quota {
    type Err = Error;

    /// Reads the text form of cgroup v2's `cpu.max`; the burst is zero.
    fn from_str(text: &str) -> Result<Self, Error> {
        let refused = || Error::invalid("quota", format!("{text:?}"), TEXT_FORM);
        let number = |word: &str| {
            let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
            let value = word.parse::<u64>().ok().filter(|_| is_number);
            value.map(Duration::from_micros).ok_or_else(refused)
        };
        let mut words = text.split_ascii_whitespace();
        let (Some(quota), period, None) = (words.next(), words.next(), words.next()) else {
            return Err(refused());
        };
        let period = period.map_or(Ok(DEFAULT_PERIOD), number)?;
        if quota == "max" {
            check_period(period)?;
            return Self::unlimited(period);
        }
        Self::new(number(quota)?, period)
    }
}

impl fmt::Display for Quota {
    /// Writes quota and period as cgroup v2's `cpu.max`, in µs, rounded down; not the burst.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn check_period(period: Duration) -> Result<(), Error> {
    if PERIODS.contains(&period) {
        return Ok(());
    }
    Err(Error::invalid(
        "period",
        format!("{period:?}"),
        PERIOD_RANGE,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn texts_are_those_of_cgroup_v2() {
        for (text, shown, cores) in [
            ("50000 100000", "50000 100000", 0.5),
            ("max", "max 100000", f64::INFINITY),
            ("max 20000", "max 20000", f64::INFINITY),
            ("50000", "50000 100000", 0.5),
            (" 1000\t1000 \n", "1000 1000", 1.0),
            ("300000 200000", "300000 200000", 1.5),
        ] {
            let quota: Quota = text.parse().expect(text);
            assert_eq!(quota.to_string(), shown);
            assert_eq!(quota.as_cores(), cores, "{text}");
            assert_eq!(shown.parse::<Quota>().expect(shown), quota);
        }
    }

    fn check(result: Result<Quota, Error>, message: &str) {
        let error = result.expect_err(message);
        assert!(error.is_invalid_value());
        let text = error.to_string();
        assert!(text.starts_with(message), "{text:?}, expected {message:?}");
    }

    #[test]
    fn errors_name_what_was_given_and_what_is_allowed() {
        for text in [
            "",
            "max max",
            "5 5 5",
            "-1 100000",
            "+5000",
            "1e6",
            "nan",
            "Max",
            "0.5",
        ] {
            let message = format!("quota: {text:?} is not allowed; allowed: \"QUOTA PERIOD\" or");
            check(text.parse(), &message);
        }
        check(
            "999".parse(),
            "quota: 999µs is not allowed; allowed: 1 ms to",
        );
        check(
            "5000 999".parse(),
            "period: 999µs is not allowed; allowed: 1 ms to 1 s",
        );
        check(
            "max 1000001".parse(),
            "period: 1.000001s is not allowed; allowed: 1 ms to 1 s",
        );
        check(
            Quota::new(Duration::MAX, MS(100)),
            "quota: 18446744073709551615.999999999s",
        );
        check(
            Quota::new(Duration::ZERO, MS(100)),
            "quota: 0ns is not allowed",
        );
        let burst = Quota::cores(0.5).and_then(|quota| quota.burst(MS(51)));
        check(burst, "burst: 51ms is not allowed; allowed: 0 to the quota");
        check(
            Quota::MAX.burst(MS(1)),
            "burst: 1ms is not allowed; allowed: 0 without a quota",
        );
        for cores in [f64::NAN, f64::INFINITY, -0.5, 0.0, 0.0099, 1e9, 1e300] {
            check(
                Quota::cores(cores),
                &format!("quota: {cores} CPUs is not allowed"),
            );
        }
        let rate = Quota::cores(0.01).and_then(|quota| quota.period(MS(50)));
        check(rate, "quota: 500µs is not allowed; allowed: 1 ms to");
        check(Quota::MAX.period(MS(0)), "period: 0ns is not allowed");
    }

    #[test]
    fn a_new_period_keeps_the_rate() {
        let quota = Quota::cores(1.5).expect("valid");
        assert_eq!(quota.per_period(), Some(MS(150)));
        let quota = quota.burst(MS(30)).expect("valid");
        let finer = quota.period(MS(20)).expect("valid");
        assert_eq!(finer.per_period(), Some(MS(30)));
        assert_eq!(
            (finer.period_length(), finer.burst_length()),
            (MS(20), MS(6))
        );
        assert_eq!(finer.as_cores(), 1.5);
        let unlimited = Quota::MAX.period(MS(20)).expect("valid");
        assert!(unlimited.is_max() && unlimited.per_period().is_none());
        assert_eq!(unlimited.to_string(), "max 20000");
    }
}
