//! Series of samples, and what is said about one of them.

use serde_json::{Value, json};

/// Whether small or large values of a metric are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Times, instructions.
    Lower,
    /// Rates.
    Higher,
}

impl Better {
    /// Returns the word that JSON has for it.
    pub fn word(self) -> &'static str {
        match self {
            Better::Lower => "lower",
            Better::Higher => "higher",
        }
    }
}

/// What a subject's samples are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name, such as `time`.
    pub name: &'static str,
    /// The unit, such as `ns`.
    pub unit: &'static str,
    /// Which values are good.
    pub better: Better,
    /// Whether a repetition gives the same value again, as counted instructions do: then every
    /// difference is a real one.
    pub is_exact: bool,
}

impl Metric {
    /// Makes a metric whose samples scatter.
    pub const fn sampled(name: &'static str, unit: &'static str, better: Better) -> Self {
        Metric {
            name,
            unit,
            better,
            is_exact: false,
        }
    }

    /// Makes a metric that is counted, and comes out the same every time.
    pub const fn counted(name: &'static str, unit: &'static str, better: Better) -> Self {
        Metric {
            name,
            unit,
            better,
            is_exact: true,
        }
    }
}

/// The samples of one subject and one metric, a sample for each run.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The subject.
    pub name: String,
    /// What the samples are.
    pub metric: Metric,
    /// The samples in the order of the runs.
    pub samples: Vec<f64>,
}

impl Series {
    /// Makes a series.
    pub fn new(name: impl Into<String>, metric: Metric, samples: Vec<f64>) -> Self {
        Series {
            name: name.into(),
            metric,
            samples,
        }
    }

    /// Returns what is said about the samples; `None` if there are none.
    pub fn summary(&self) -> Option<Summary> {
        Summary::of(&self.samples)
    }

    /// Returns the series as an element of `subjects`; `None` if there are no samples.
    pub(super) fn to_json(&self) -> Option<Value> {
        let summary = self.summary()?;
        Some(json!({
            "name": self.name,
            "metric": self.metric.name,
            "unit": self.metric.unit,
            "better": self.metric.better.word(),
            "count": summary.count,
            "mean": summary.mean,
            "std": summary.std,
            "min": summary.min,
            "p50": summary.p50,
            "p99": summary.p99,
            "max": summary.max,
        }))
    }
}

/// What is said about samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// How many there are.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation, as an estimate from a sample (divided by count − 1); none of a
    /// single one.
    pub std: Option<f64>,
    /// The smallest.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// The nearest rank: the smallest sample that at least 99 % do not exceed. The maximum, for
    /// fewer than a hundred.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// Computes the figures; `None` if there are no samples.
    pub fn of(samples: &[f64]) -> Option<Self> {
        if samples.is_empty() {
            return None;
        }
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let mean = sorted.iter().sum::<f64>() / count as f64;
        let squares: f64 = sorted.iter().map(|sample| (sample - mean).powi(2)).sum();
        Some(Summary {
            count,
            mean,
            std: (count > 1).then(|| (squares / (count - 1) as f64).sqrt()),
            min: sorted[0],
            p50: median_of_sorted(&sorted),
            p99: quantile(&sorted, 0.99),
            max: sorted[count - 1],
        })
    }
}

/// Returns the median; for an even number of samples, the mean of the middle two.
///
/// # Panics
/// If there are no samples.
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

fn median_of_sorted(sorted: &[f64]) -> f64 {
    assert!(!sorted.is_empty(), "no samples");
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    }
}

/// Returns the smallest of the `sorted` samples that at least the fraction `quantile` (0..=1) does
/// not exceed.
///
/// # Panics
/// If there are no samples.
pub fn quantile(sorted: &[f64], quantile: f64) -> f64 {
    assert!(!sorted.is_empty(), "no samples");
    let rank = (quantile * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_known_samples() {
        let summary = Summary::of(&[9.0, 2.0, 4.0]).expect("samples");
        assert_eq!((summary.count, summary.mean), (3, 5.0));
        assert_eq!(summary.std, Some(13_f64.sqrt()));
        assert_eq!(
            (summary.min, summary.p50, summary.p99, summary.max),
            (2.0, 4.0, 9.0, 9.0)
        );
        assert_eq!(Summary::of(&[7.0]).expect("a sample").std, None);
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn ranks() {
        let sorted: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(quantile(&sorted, 0.99), 198.0);
        assert_eq!(quantile(&sorted, 1.0), 200.0);
        assert_eq!(quantile(&[7.0], 0.0), 7.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
    }
}
