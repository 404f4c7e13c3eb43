//! Work of a known length, for programs that measure how much of it gets done.
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//! use evenkeel_bench::work::Pace;
//!
//! let steps = Pace::measure().steps(Duration::from_micros(20));
//! steps.run(); // 20 µs on a CPU of one's own
//! ```

use std::hint::black_box;
use std::time::{Duration, Instant};

/// A stretch of calibration lasts at least this long; shorter ones are doubled.
const LONG_ENOUGH: Duration = Duration::from_micros(300);

/// How many stretches are timed. The fastest counts: the others were disturbed.
const TRIALS: usize = 9;

/// How fast this machine steps through [`Steps::run`].
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    steps_per_ns: f64,
}

/// A number of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps(u64);

impl Pace {
    /// Measures this machine, for about 3 ms; at a moment when others use it too, it seems slower.
    pub fn measure() -> Pace {
        let mut steps = Steps(1_000);
        while time(steps) < LONG_ENOUGH {
            steps = Steps(steps.0 * 2);
        }
        let best = (0..TRIALS).map(|_| time(steps)).min().unwrap_or_default();
        Pace {
            steps_per_ns: steps.0 as f64 / best.as_nanos().max(1) as f64,
        }
    }

    /// Returns the number of steps that takes `length` on a CPU of one's own.
    pub fn steps(self, length: Duration) -> Steps {
        Steps((length.as_nanos() as f64 * self.steps_per_ns) as u64)
    }
}

impl Steps {
    /// Does the steps: arithmetic whose every result depends on the one before. No system call, no
    /// reading of a clock.
    pub fn run(self) {
        let mut value = 1_u64;
        for _ in 0..self.0 {
            value = black_box(
                value
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1),
            );
        }
    }
}

fn time(steps: Steps) -> Duration {
    let begin = Instant::now();
    steps.run();
    begin.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_in_proportion_to_length() {
        let pace = Pace { steps_per_ns: 0.5 };
        assert_eq!(pace.steps(Duration::from_micros(20)), Steps(10_000));
        assert_eq!(pace.steps(Duration::ZERO), Steps(0));
    }

    #[test]
    fn the_pace_of_this_machine_is_a_positive_number() {
        let pace = Pace::measure();
        assert!(pace.steps_per_ns.is_finite() && pace.steps_per_ns > 0.0);
    }
}
