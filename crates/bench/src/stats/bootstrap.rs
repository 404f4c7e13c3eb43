//! A confidence interval of a median, by resampling.

use super::random::Random;
use super::summary::quantile;

/// How often the samples are drawn anew. The ends of the interval then scatter by about a tenth of
/// its width from seed to seed.
const RESAMPLES: usize = 2_000;

/// What the draws start from: the same samples give the same interval.
const SEED: u64 = 0x0065_7665_6e6b_6565;

/// Returns an interval that covers the median of what `samples` are drawn from in 95 of 100 cases:
/// the middle 95 % of the medians of samples that are drawn from `samples` with replacement.
///
/// # Panics
/// If there are no samples.
pub(super) fn median_interval(samples: &[f64]) -> (f64, f64) {
    const TAIL: f64 = 0.025;
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut random = Random::new(SEED);
    // How often each of the sorted samples was drawn: so a drawn sample need not be sorted.
    let mut drawn = vec![0_usize; sorted.len()];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            drawn.fill(0);
            for _ in 0..sorted.len() {
                drawn[random.below(sorted.len())] += 1;
            }
            let (low, high) = ((sorted.len() - 1) / 2, sorted.len() / 2);
            f64::midpoint(sorted[at(&drawn, low)], sorted[at(&drawn, high)])
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    (quantile(&medians, TAIL), quantile(&medians, 1.0 - TAIL))
}

/// Returns which of the sorted samples has place `place` (from 0) among those drawn.
fn at(drawn: &[usize], place: usize) -> usize {
    let mut before = 0;
    let found = drawn.iter().position(|count| {
        before += count;
        before > place
    });
    found.expect("as many were drawn as there are samples")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_lies_within_the_samples_around_the_median() {
        let samples: Vec<f64> = (1..=31).map(f64::from).collect();
        let (low, high) = median_interval(&samples);
        // By the order statistics of 31 samples: ranks 10 and 22 cover in 97 %, 11 and 21 in 93 %.
        assert!((10.0..=11.0).contains(&low), "{low}");
        assert!((21.0..=22.0).contains(&high), "{high}");
        assert_eq!(median_interval(&samples), (low, high));
        assert_eq!(median_interval(&[5.0; 9]), (5.0, 5.0));
    }
}
