//! Medians, paired ratios and the order of interleaved repetitions.

/// Returns the median of `samples`; for an even number, the mean of the middle two.
///
/// # Panics
///
/// When `samples` is empty.
pub fn median(samples: &[f64]) -> f64 {
    assert!(!samples.is_empty(), "no samples");
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        (sorted[middle - 1] + sorted[middle]) / 2.0
    }
}

/// Returns the value below which the fraction `quantile` (0..=1) of `sorted` lies: the nearest
/// rank, so always a sample.
///
/// # Panics
///
/// When `sorted` is empty.
pub fn quantile<T: Copy>(sorted: &[T], quantile: f64) -> T {
    assert!(!sorted.is_empty(), "no samples");
    let rank = (quantile * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// Ratios of two candidates, one for each repetition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The median of the ratios.
    pub median: f64,
    /// The smallest ratio.
    pub min: f64,
    /// The largest ratio.
    pub max: f64,
}

impl Ratio {
    /// Pairs the samples by repetition and divides `peer` by `own`. `None` when there are none.
    ///
    /// # Panics
    ///
    /// When both have samples, but not equally many.
    pub fn paired(peer: &[f64], own: &[f64]) -> Option<Ratio> {
        if peer.is_empty() || own.is_empty() {
            return None;
        }
        assert_eq!(peer.len(), own.len(), "repetitions do not pair up");
        let ratios: Vec<f64> = peer.iter().zip(own).map(|(peer, own)| peer / own).collect();
        Some(Ratio {
            median: median(&ratios),
            min: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            max: ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Ratio { median, min, max } = self;
        f.pad(&format!("{median:.2} ({min:.2}..{max:.2})"))
    }
}

/// Returns the order in which repetition number `repetition` visits `count` candidates: every
/// candidate is first, second, … equally often.
pub fn rotated(count: usize, repetition: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |index| (index + repetition) % count)
}

#[cfg(test)]
mod tests {
    //! Known answers.
    use super::*;

    #[test]
    fn median_of_odd_and_even_counts() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn quantile_is_the_nearest_rank() {
        let sorted: Vec<u32> = (1..=100).collect();
        assert_eq!(quantile(&sorted, 0.5), 50);
        assert_eq!(quantile(&sorted, 0.99), 99);
        assert_eq!(quantile(&sorted, 1.0), 100);
        assert_eq!(quantile(&[7], 0.0), 7);
    }

    #[test]
    fn ratios_are_paired_by_repetition() {
        let ratio = Ratio::paired(&[2.0, 40.0, 3.0], &[1.0, 10.0, 3.0]).expect("samples");
        assert_eq!(
            ratio,
            Ratio {
                median: 2.0,
                min: 1.0,
                max: 4.0
            }
        );
        assert_eq!(ratio.to_string(), "2.00 (1.00..4.00)");
        assert_eq!(Ratio::paired(&[], &[1.0]), None);
    }

    #[test]
    fn rotation_gives_everyone_each_place() {
        let orders: Vec<Vec<usize>> = (0..3).map(|r| rotated(3, r).collect()).collect();
        assert_eq!(orders, [[0, 1, 2], [1, 2, 0], [2, 0, 1]]);
    }
}
