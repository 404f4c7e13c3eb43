//! Whether one subject is better than another.

use serde_json::{Value, json};

use super::bootstrap::median_interval;
use super::summary::{Better, Series, median};

/// With fewer pairs of runs than this nothing is called significant: the whole range of 5 samples
/// covers the median in only 94 of 100 cases.
pub const MIN_PAIRS: usize = 6;

/// Counts that differ by less than this, in percent, are the same: start-up and end of two programs
/// do not cancel to the last instruction.
const EXACT_PERCENT: f64 = 0.01;

/// Something against nothing has no ratio: differences end here, in percent.
const MAX_PERCENT: f64 = 1e6;

/// An interval wider than this to either side, in percent, that contains 0: too noisy to tell.
const MAX_WIDTH_PERCENT: f64 = 10.0;

/// One subject compared with another by one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The one subject.
    pub a: String,
    /// The other one.
    pub b: String,
    /// The metric.
    pub metric: &'static str,
    /// The median over the rounds of a ÷ b, or b ÷ a where lower is better: above 1 is better for
    /// `a`.
    pub ratio: f64,
    /// By how much `a` is better than `b`, in percent; negative: worse. A million where `b` has
    /// nothing to compare with.
    pub diff_percent: f64,
    /// The interval that covers the difference in 95 of 100 cases, in percent. With fewer than
    /// [`MIN_PAIRS`] rounds, the range of the differences.
    pub ci95: (f64, f64),
    /// Whether the interval excludes 0 and there are enough rounds to say so.
    pub significant: bool,
    /// Whether there are too few rounds to say anything.
    pub is_too_few: bool,
}

impl Comparison {
    /// Compares the runs of the same rounds. `None` if one of the series has no sample, or their
    /// metrics differ.
    pub fn of(a: &Series, b: &Series) -> Option<Self> {
        if a.metric != b.metric || a.samples.is_empty() || b.samples.is_empty() {
            return None;
        }
        let gains: Vec<f64> = a
            .samples
            .iter()
            .zip(&b.samples)
            .map(|(&a_value, &b_value)| match a.metric.better {
                Better::Lower => percent(b_value, a_value),
                Better::Higher => percent(a_value, b_value),
            })
            .collect();
        let diff_percent = median(&gains);
        let (low, high) = if a.metric.is_exact {
            (diff_percent, diff_percent)
        } else if gains.len() < MIN_PAIRS {
            range(&gains)
        } else {
            median_interval(&gains)
        };
        let least = if a.metric.is_exact {
            EXACT_PERCENT
        } else {
            0.0
        };
        let has_enough = a.metric.is_exact || gains.len() >= MIN_PAIRS;
        Some(Comparison {
            a: a.name.clone(),
            b: b.name.clone(),
            metric: a.metric.name,
            ratio: 1.0 + diff_percent / 100.0,
            diff_percent,
            ci95: (low, high),
            is_too_few: !has_enough,
            significant: has_enough && (low > least || high < -least),
        })
    }

    /// Returns whether the runs scatter so much that nothing can be told from them, not even that
    /// the subjects are about equal.
    pub fn is_too_noisy(&self) -> bool {
        let (low, high) = self.ci95;
        !self.significant
            && !self.is_too_few
            && (low < -MAX_WIDTH_PERCENT || high > MAX_WIDTH_PERCENT)
    }

    /// Returns the mark of the table: `*` if the difference is significant.
    pub fn mark(&self) -> &'static str {
        if self.significant {
            "*"
        } else if self.is_too_few {
            "too few runs to tell"
        } else if self.is_too_noisy() {
            "too noisy to tell"
        } else {
            ""
        }
    }

    /// Returns the difference as text, such as `+1.50 %`.
    pub fn difference(&self) -> String {
        format!("{} %", signed(self.diff_percent))
    }

    /// Returns the interval as text, such as `-0.10..+2.00`, in percent.
    pub fn interval(&self) -> String {
        format!("{}..{}", signed(self.ci95.0), signed(self.ci95.1))
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "a": self.a,
            "b": self.b,
            "metric": self.metric,
            "ratio": self.ratio,
            "diff_percent": self.diff_percent,
            "ci95": [self.ci95.0, self.ci95.1],
            "significant": self.significant,
        })
    }
}

/// Returns by how many percent `good` exceeds `base`, at most [`MAX_PERCENT`]; two zeros are equal.
fn percent(good: f64, base: f64) -> f64 {
    if good == base {
        return 0.0;
    }
    ((good / base - 1.0) * 100.0).min(MAX_PERCENT)
}

/// Writes a difference with its sign.
fn signed(percent: f64) -> String {
    if percent >= MAX_PERCENT {
        return "+∞".to_owned();
    }
    format!("{percent:+.2}")
}

fn range(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    (
        low,
        values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    )
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::super::summary::Metric;
    use super::*;

    const TIME: Metric = Metric::sampled("time", "ns", Better::Lower);
    const RATE: Metric = Metric::sampled("rate", "1/s", Better::Higher);
    const COUNT: Metric = Metric::counted("instructions", "1", Better::Lower);

    fn compare(metric: Metric, a: &[f64], b: &[f64]) -> Comparison {
        let a = Series::new("a", metric, a.to_vec());
        let b = Series::new("b", metric, b.to_vec());
        Comparison::of(&a, &b).expect("samples")
    }

    /// A time around `base` as machines give it: scatter of 3 %, a slow drift, now and then a run
    /// that was disturbed and takes half as long again.
    fn noisy(random: &mut Random, base: f64, round: usize) -> f64 {
        let bell: f64 = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
        let disturbed = if random.below(20) == 0 { 1.5 } else { 1.0 };
        let drift = 1.0 + 0.2 * (round as f64 / 10.0).sin();
        base * (1.0 + 0.03 * bell) * disturbed * drift
    }

    fn pair(random: &mut Random, runs: usize, b_over_a: f64) -> Comparison {
        let (a, b): (Vec<f64>, Vec<f64>) = (0..runs)
            .map(|round| {
                let a = noisy(random, 100.0, round);
                (a, noisy(random, 100.0 * b_over_a, round))
            })
            .unzip();
        compare(TIME, &a, &b)
    }

    #[test]
    fn a_subject_compared_with_itself_is_not_significant() {
        for runs in [10, 15, 30] {
            let mut random = Random::new(runs as u64);
            let significant = (0..100)
                .filter(|_| pair(&mut random, runs, 1.0).significant)
                .count();
            assert!(significant <= 7, "{significant} of 100 with {runs} runs");
        }
    }

    #[test]
    fn the_interval_covers_the_truth_as_often_as_it_says() {
        const CASES: usize = 400;
        let mut random = Random::new(1);
        let covers = (0..CASES)
            .filter(|_| {
                let (low, high) = pair(&mut random, 30, 1.05).ci95;
                (low..=high).contains(&5.0)
            })
            .count();
        // 380 expected, standard deviation 4.
        assert!((366..=394).contains(&covers), "{covers} of {CASES}");
    }

    #[test]
    fn a_real_difference_is_found() {
        let mut random = Random::new(2);
        let found = (0..100)
            .filter(|_| {
                let comparison = pair(&mut random, 30, 1.05);
                comparison.significant && comparison.diff_percent > 0.0
            })
            .count();
        assert!(found >= 95, "{found} of 100");
    }

    #[test]
    fn above_one_is_better_for_the_first_one() {
        let half = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5];
        let whole = half.map(|value| 2.0 * value);
        for (metric, a, b, ratio) in [
            (TIME, &half, &whole, 2.0),
            (TIME, &whole, &half, 0.5),
            (RATE, &whole, &half, 2.0),
            (RATE, &half, &whole, 0.5),
        ] {
            let comparison = compare(metric, a, b);
            assert!((comparison.ratio - ratio).abs() < 1e-12, "{comparison:?}");
            assert!((comparison.diff_percent - (ratio - 1.0) * 100.0).abs() < 1e-9);
            assert!(comparison.significant && comparison.mark() == "*");
        }
    }

    #[test]
    fn few_runs_give_no_verdict_and_scatter_says_that_it_is_too_noisy() {
        let few = compare(TIME, &[1.0; 5], &[2.0; 5]);
        assert!(!few.significant && few.mark() == "too few runs to tell");
        assert_eq!(few.ci95, (100.0, 100.0));
        let scattered = compare(
            TIME,
            &[1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.5],
            &[2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 1.5],
        );
        assert!(scattered.is_too_noisy() && scattered.mark() == "too noisy to tell");
        let equal = compare(TIME, &[1.0; 10], &[1.0; 10]);
        assert!(!equal.is_too_noisy() && equal.mark().is_empty());
    }

    #[test]
    fn counts_need_no_repetition() {
        assert!(compare(COUNT, &[100.0], &[101.0]).significant);
        assert!(!compare(COUNT, &[100.0], &[100.0]).significant);
        assert!(!compare(COUNT, &[0.0], &[0.0]).significant);
        assert!(!compare(COUNT, &[100_000.0], &[100_001.0]).significant);
    }

    #[test]
    fn something_against_nothing_is_finite() {
        let comparison = compare(COUNT, &[0.0], &[5.0]);
        assert_eq!((comparison.ratio, comparison.significant), (10_001.0, true));
        assert_eq!(comparison.difference(), "+∞ %");
        assert_eq!(compare(COUNT, &[5.0], &[0.0]).difference(), "-100.00 %");
        assert_eq!(compare(COUNT, &[2.0], &[3.0]).interval(), "+50.00..+50.00");
    }

    #[test]
    fn what_cannot_be_compared_is_not() {
        let time = Series::new("a", TIME, vec![1.0]);
        assert_eq!(
            Comparison::of(&time, &Series::new("b", RATE, vec![1.0])),
            None
        );
        assert_eq!(Comparison::of(&time, &Series::new("b", TIME, vec![])), None);
    }
}
