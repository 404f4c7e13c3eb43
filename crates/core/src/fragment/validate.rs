//! Checks of counts and sums, for tests and simulations.

use super::FairClass;

impl<K: Copy + Eq + core::fmt::Debug> FairClass<K> {
    /// Checks counts and sums.
    ///
    /// # Panics
    /// If they disagree.
    pub(crate) fn validate(&self) {
        self.tree.validate(&self.slab);
        let runnable = self.slab.0.iter().filter(|f| !f.is_throttled());
        let waiting: usize = runnable.map(|f| f.queue.nr_waiting()).sum();
        assert_eq!(waiting, self.nr_waiting as usize);
        let in_tree = self
            .active
            .iter()
            .filter(|&&at| self.fragment(at).in_tree)
            .count();
        assert_eq!(in_tree, self.tree.len());
        let outside = self
            .active
            .iter()
            .filter(|&&at| Some(at) == self.curr)
            .count();
        assert_eq!(in_tree + outside, self.active.len());
        for &at in &self.throttled {
            let parked = self.fragment(at).parked();
            assert!(parked.is_some_and(|parked| parked.nr_running() > 0));
            assert_eq!(self.fragment(at).nr, 0);
        }
        let rate: u64 = self.active.iter().map(|&at| self.fragment(at).rate()).sum();
        assert_eq!(rate, self.rate_sum);
        let lag: i64 = self
            .active
            .iter()
            .map(|&at| self.fragment(at).lag_at(self.at) + self.fragment(at).pending as i64)
            .sum();
        assert!(
            (lag - self.lag_sum).abs() < 1_000_000,
            "{lag} {}",
            self.lag_sum
        );
    }
}
