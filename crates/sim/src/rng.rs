//! A small seeded generator, part of the replay format: the same seed gives the same history
//! on every machine and with every version of every dependency.
//!
//! The generator is SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number
//! Generators", 2014). Its quality is ample for choosing tests; it is no source of secrets.

/// Draws numbers from a seed.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// Starts the sequence that belongs to `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Starts an independent sequence for part `index` of a history, so that leaving out one
    /// part (as the shrinker does) changes nothing in the others.
    pub fn fork(seed: u64, index: u64) -> Self {
        let mut rng = Self::new(seed ^ index.wrapping_mul(0xd6e8_feb8_6659_fd93));
        let state = rng.next_u64();
        Self { state }
    }

    /// Draws 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = self.state;
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws a number from 0 up to `n - 1`; 0 when `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        // The high half of a 128-bit product: a bias of n / 2^64, which no test can see.
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Draws a number from `lo` up to and including `hi`; `lo` when the range is empty.
    pub fn range(&mut self, lo: u64, hi: u64) -> u64 {
        if hi <= lo {
            return lo;
        }
        lo + self.below(hi - lo + 1)
    }

    /// Draws from `lo..=hi` so that every power of two is about equally likely.
    pub fn log_range(&mut self, lo: u64, hi: u64) -> u64 {
        let (lo, hi) = (lo.max(1), hi.max(1));
        let bits = |n: u64| u64::from(64 - n.leading_zeros());
        let top = self.range(bits(lo), bits(hi));
        let (from, to) = (1u64 << (top - 1), (1u64 << (top - 1)) * 2 - 1);
        self.range(from.max(lo), to.min(hi))
    }

    /// Tells yes in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Picks one of `items`.
    ///
    /// # Panics
    /// When `items` is empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_published_sequence() {
        // First outputs of SplitMix64 for seed 1234567, as published with the reference code.
        let mut rng = Rng::new(1_234_567);
        let got: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(
            got,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn stays_inside_its_ranges() {
        let mut rng = Rng::new(1);
        let mut seen = [false; 5];
        for _ in 0..1000 {
            seen[rng.below(5) as usize] = true;
            assert!((10..=12).contains(&rng.range(10, 12)));
            assert!((3..=70_000).contains(&rng.log_range(3, 70_000)));
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!(rng.range(9, 3), 9);
        assert_eq!(rng.below(0), 0);
    }

    #[test]
    fn forks_do_not_follow_each_other() {
        let mut a = Rng::fork(7, 0);
        let mut b = Rng::fork(7, 1);
        assert!((0..64).all(|_| a.next_u64() != b.next_u64()));
    }
}
