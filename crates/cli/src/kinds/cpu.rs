//! Calibrated CPU work: computing for a given CPU time, without looking at a clock meanwhile.
//!
//! A loop that ran until a clock says so would do less work whenever its thread loses the CPU.
//! Here the number of rounds for a microsecond is measured once, and the work is that many rounds.
//! What is measured is the fastest of several short runs, since others can only slow a run down.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// How fast this machine does the rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu {
    rounds_per_us: f64,
}

/// Rounds of one measured run: some hundred microseconds on today's machines.
const ROUNDS: u64 = 200_000;
/// Runs measured.
const RUNS: u32 = 40;

impl Cpu {
    /// Measures this machine; takes some tens of milliseconds.
    pub(crate) fn calibrate() -> Self {
        let fastest = (0..RUNS)
            .map(|_| {
                let start = Instant::now();
                rounds(ROUNDS);
                start.elapsed()
            })
            .min()
            .unwrap_or(Duration::from_micros(1));
        let us = (fastest.as_secs_f64() * 1e6).max(1e-3);
        Self {
            rounds_per_us: ROUNDS as f64 / us,
        }
    }

    /// Computes for the given CPU time.
    pub(crate) fn burn(self, time: Duration) {
        rounds(self.rounds_for(time));
    }

    /// How many rounds take the given CPU time.
    fn rounds_for(self, time: Duration) -> u64 {
        (time.as_secs_f64() * 1e6 * self.rounds_per_us) as u64
    }
}

/// The work: a chain of dependent multiplications, which no compiler and no core can shorten.
fn rounds(count: u64) {
    let mut x = black_box(count) | 1;
    for _ in 0..count {
        x = x.wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(17);
    }
    black_box(x);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_proportional_to_time() {
        let cpu = Cpu {
            rounds_per_us: 250.0,
        };
        assert_eq!(cpu.rounds_for(Duration::ZERO), 0);
        assert_eq!(cpu.rounds_for(Duration::from_micros(4)), 1_000);
        assert_eq!(cpu.rounds_for(Duration::from_millis(4)), 1_000_000);
    }

    #[test]
    fn burning_takes_no_less_than_the_time_asked_for() {
        // Only this direction holds on a busy machine. The tenth covers a clock rate that rose
        // after the calibration.
        let cpu = Cpu::calibrate();
        let start = Instant::now();
        cpu.burn(Duration::from_millis(20));
        assert!(start.elapsed() > Duration::from_millis(2));
    }
}
