//! Random numbers that a seed reproduces.

/// A generator of 64-bit numbers: SplitMix64 (Steele, Lea and Flood, Fast Splittable Pseudorandom
/// Number Generators, 2014). Good enough to choose samples, not for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator; the same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// Returns the next number.
    pub fn next_u64(&mut self) -> u64 {
        const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
        self.0 = self.0.wrapping_add(GOLDEN_GAMMA);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`. The bias is below 2^-32 for bounds below 2^32.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "there is no number below 0");
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// Returns a number in 0..1.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            [random.next_u64(), random.next_u64()]
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn numbers_stay_below_their_bound_and_reach_it() {
        let mut random = Random::new(7);
        let mut counts = [0_u32; 5];
        for _ in 0..5_000 {
            counts[random.below(5)] += 1;
            assert!((0.0..1.0).contains(&random.unit()));
        }
        // Expected 1,000 each, standard deviation 28.
        assert!(
            counts.iter().all(|count| (850..1_150).contains(count)),
            "{counts:?}"
        );
    }
}
