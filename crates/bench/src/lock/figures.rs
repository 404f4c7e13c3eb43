//! Distributions, and what is said about them.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Longest time a distribution tells from longer ones: one minute.
const LONGEST_NS: u64 = 60_000_000_000;

/// Decimal digits that a recorded time keeps.
const DIGITS: u8 = 3;

/// A distribution of times in nanoseconds. Its memory is all there from the beginning.
#[derive(Clone, Debug)]
pub struct Distribution {
    histogram: Histogram<u64>,
    total_ns: u64,
    max_ns: u64,
}

impl Distribution {
    pub(crate) fn new() -> Distribution {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS);
        Distribution {
            histogram: histogram.expect("the bounds are in order and the digits at most five"),
            total_ns: 0,
            max_ns: 0,
        }
    }

    pub(crate) fn record(&mut self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.histogram.saturating_record(ns);
        self.total_ns = self.total_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    pub(crate) fn merge(&mut self, other: &Distribution) {
        self.histogram
            .add(&other.histogram)
            .expect("all distributions have the same bounds");
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Returns how many times were recorded.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the time, in nanoseconds and with three digits, that this fraction of the times does
    /// not exceed, 0 to 1; none where no time was recorded.
    pub fn quantile(&self, fraction: f64) -> Option<u64> {
        // The histogram rounds up.
        let value = || self.histogram.value_at_quantile(fraction).min(self.max_ns);
        (self.count() > 0).then(value)
    }

    /// Returns the figures, in nanoseconds. Total, mean and maximum are exact; the others have
    /// three digits.
    pub fn figures(&self) -> Figures {
        let count = self.count();
        if count == 0 {
            return Figures::default();
        }
        Figures {
            count,
            total: self.total_ns as f64,
            mean: self.total_ns as f64 / count as f64,
            std: Some(self.histogram.stdev()),
            min: self.histogram.min() as f64,
            p99: Some(self.histogram.value_at_quantile(0.99) as f64),
            max: self.max_ns as f64,
        }
    }
}

/// What is said about a set of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// How many numbers there are.
    pub count: u64,
    /// Their sum.
    pub total: f64,
    /// Their mean; 0 where there are none.
    pub mean: f64,
    /// Their standard deviation; of few numbers that of a sample, and none of a single one.
    pub std: Option<f64>,
    /// The smallest.
    pub min: f64,
    /// The smallest number that 99 of 100 do not exceed; none where there are few.
    pub p99: Option<f64>,
    /// The largest.
    pub max: f64,
}

impl Figures {
    /// Returns the figures of one number per round.
    pub(crate) fn of_rounds(numbers: impl IntoIterator<Item = u64>) -> Figures {
        let numbers: Vec<f64> = numbers.into_iter().map(|number| number as f64).collect();
        if numbers.is_empty() {
            return Figures::default();
        }
        let total: f64 = numbers.iter().sum();
        let mean = total / numbers.len() as f64;
        let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
        let std = (numbers.len() > 1).then(|| (squares / (numbers.len() - 1) as f64).sqrt());
        Figures {
            count: numbers.len() as u64,
            total,
            mean,
            std,
            min: numbers.iter().copied().fold(f64::INFINITY, f64::min),
            p99: None,
            max: numbers.iter().copied().fold(0.0, f64::max),
        }
    }

    /// Returns the same numbers in a unit that is `factor` times as large.
    pub(crate) fn in_units_of(self, factor: f64) -> Figures {
        Figures {
            count: self.count,
            total: self.total / factor,
            mean: self.mean / factor,
            std: self.std.map(|std| std / factor),
            min: self.min / factor,
            p99: self.p99.map(|p99| p99 / factor),
            max: self.max / factor,
        }
    }

    pub(crate) fn to_json(self) -> serde_json::Value {
        serde_json::json!({
            "count": self.count,
            "total": self.total,
            "mean": self.mean,
            "std": self.std,
            "min": self.min,
            "p99": self.p99,
            "max": self.max,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_rounds_are_those_of_a_sample() {
        let figures = Figures::of_rounds([2, 4, 9]);
        assert_eq!((figures.count, figures.total, figures.mean), (3, 15.0, 5.0));
        assert_eq!((figures.min, figures.max), (2.0, 9.0));
        assert_eq!(figures.std, Some(13_f64.sqrt()));
        assert_eq!(figures.p99, None);
        assert_eq!(Figures::of_rounds([7]).std, None);
        assert_eq!(Figures::of_rounds([]), Figures::default());
    }

    #[test]
    fn a_distribution_keeps_total_and_maximum_exactly() {
        let mut one = Distribution::new();
        assert_eq!(one.figures(), Figures::default());
        for ns in [1_000, 2_000, 123_456_789] {
            one.record(Duration::from_nanos(ns));
        }
        let mut sum = Distribution::new();
        sum.merge(&one);
        sum.merge(&one);
        let figures = sum.figures();
        assert_eq!(figures.count, 6);
        assert_eq!(figures.total, 2.0 * 123_459_789.0);
        assert_eq!(figures.max, 123_456_789.0);
        assert!((figures.min - 1_000.0).abs() < 2.0, "{}", figures.min);
        let p99 = figures.p99.unwrap();
        assert!((p99 / 123_456_789.0 - 1.0).abs() < 0.001, "{p99}");
        let in_us = figures.in_units_of(1_000.0);
        assert_eq!((in_us.count, in_us.max), (6, 123_456.789));
        assert_eq!(Distribution::new().quantile(0.5), None);
        assert_eq!(sum.quantile(1.0), Some(123_456_789));
        assert!(sum.quantile(0.3).unwrap().abs_diff(1_000) < 2);
        assert!(sum.quantile(0.5).unwrap().abs_diff(2_000) < 3);
    }
}
