//! Medians, and how far they can be trusted.

/// Resamples of the bootstrap.
const RESAMPLES: usize = 10_000;
/// Its seed, fixed, so that equal samples give equal intervals.
const SEED: u64 = 0x5eed;

/// An interval that holds a value in 95 of 100 cases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Returns the median; for an even number, the mean of the middle two.
///
/// # Panics
///
/// Panics without samples.
pub(crate) fn median(mut samples: Vec<f64>) -> f64 {
    assert!(!samples.is_empty(), "no samples");
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    if samples.len() % 2 == 1 {
        samples[middle]
    } else {
        (samples[middle - 1] + samples[middle]) / 2.0
    }
}

/// Returns the 95 % interval of the median of `samples`: the percentile bootstrap (Efron 1979).
///
/// # Panics
///
/// Panics without samples.
pub(crate) fn interval_of_median(samples: &[f64]) -> Interval {
    let mut state = SEED;
    let mut resample = || {
        let picked = samples
            .iter()
            .map(|_| samples[below(&mut state, samples.len())]);
        median(picked.collect())
    };
    let mut medians: Vec<f64> = (0..RESAMPLES).map(|_| resample()).collect();
    medians.sort_by(f64::total_cmp);
    Interval {
        low: medians[RESAMPLES / 40],
        high: medians[RESAMPLES - 1 - RESAMPLES / 40],
    }
}

/// Draws a number below `limit` (SplitMix64).
fn below(state: &mut u64, limit: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) % limit as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_known_samples() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn the_interval_holds_the_median_and_grows_with_the_spread() {
        let samples = |spread: f64| -> Vec<f64> {
            let at = |i: i32| 1.0 + spread * f64::from(i - 15);
            (0..31).map(at).collect()
        };
        let (narrow, wide) = (samples(0.001), samples(0.01));
        let (narrow, wide) = (interval_of_median(&narrow), interval_of_median(&wide));
        assert!(narrow.low < 1.0 && narrow.high > 1.0, "{narrow:?}");
        assert!(wide.high - wide.low > 5.0 * (narrow.high - narrow.low));
        // The order statistics around the median: 10 and 22 of 31 for 95 %.
        assert!((wide.low - 0.95).abs() < 0.02, "{wide:?}");
        let same = interval_of_median(&[1.5; 7]);
        assert_eq!((same.low, same.high), (1.5, 1.5));
    }
}
