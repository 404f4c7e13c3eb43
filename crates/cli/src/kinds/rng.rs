//! Random numbers that depend only on the workload's seed and the number of the task.
//!
//! The generator is SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
//! generators", 2014): short, and good enough for start offsets and think times.

use std::time::Duration;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Rng {
    state: u64,
}

/// SplitMix64's increment: the golden ratio in 64 bits.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

impl Rng {
    /// The stream of one task of a workload. Different tasks get unrelated streams.
    pub(crate) fn new(seed: u64, task: u64) -> Self {
        let mut rng = Self { state: seed };
        let start = rng.next() ^ task.wrapping_mul(GAMMA);
        Self { state: start }
    }

    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// An index below `len`, which is at least 1.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        let wide = u128::from(self.next()) * len as u128;
        (wide >> 64) as usize
    }

    /// A duration from zero up to, but not including, `limit`; zero when that is zero.
    pub(crate) fn below(&mut self, limit: Duration) -> Duration {
        // 53 bits fill the fraction of an f64 exactly, so the factor stays below 1.
        let fraction = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        limit.mul_f64(fraction)
    }

    /// A duration between half and one and a half times the mean, evenly spread.
    pub(crate) fn around(&mut self, mean: Duration) -> Duration {
        mean / 2 + self.below(mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_stream_and_tasks_differ() {
        let take = |seed, task| {
            let mut rng = Rng::new(seed, task);
            [rng.next(), rng.next(), rng.next()]
        };
        assert_eq!(take(1, 2), take(1, 2));
        assert_ne!(take(1, 2), take(1, 3));
        assert_ne!(take(1, 2), take(2, 2));
    }

    #[test]
    fn draws_stay_in_their_ranges() {
        let mut rng = Rng::new(7, 0);
        let mean = Duration::from_millis(2);
        let mut seen = [0_u32; 3];
        let mut total = Duration::ZERO;
        for _ in 0..3000 {
            seen[rng.index(3)] += 1;
            let draw = rng.around(mean);
            assert!((mean / 2..mean * 3 / 2).contains(&draw), "{draw:?}");
            total += draw;
        }
        assert!(seen.iter().all(|&n| n > 800), "{seen:?}");
        assert!((total.as_secs_f64() / 3000.0 / mean.as_secs_f64() - 1.0).abs() < 0.05);
        assert_eq!(rng.below(Duration::ZERO), Duration::ZERO);
        assert_eq!(rng.index(1), 0);
    }
}
