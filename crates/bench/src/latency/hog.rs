//! Tasks that compute.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::work::{Pace, Steps};

/// Work is counted in pieces of this length.
pub(super) const PIECE: Duration = Duration::from_micros(20);

/// The pieces of work that one task has done, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Done(AtomicU64);

/// One task's work: how much a poll is, and how much was done.
#[derive(Clone, Debug)]
pub(super) struct Work {
    done: Arc<Done>,
    is_over: Arc<AtomicBool>,
    piece: Steps,
    pieces_per_poll: u64,
}

impl Work {
    /// Returns work in polls of the length `poll`, rounded to whole pieces, at least one. It is
    /// over when `is_over` is true.
    pub(super) fn new(pace: Pace, poll: Duration, is_over: &Arc<AtomicBool>) -> Work {
        let pieces = poll.as_nanos().div_ceil(PIECE.as_nanos()).max(1);
        Work {
            done: Arc::default(),
            is_over: Arc::clone(is_over),
            piece: pace.steps(PIECE),
            pieces_per_poll: u64::try_from(pieces).unwrap_or(u64::MAX),
        }
    }

    /// Returns the work done so far, as the CPU time that it takes alone on a CPU.
    pub(super) fn done(&self) -> Duration {
        let pieces = self.done.0.load(Ordering::Relaxed);
        Duration::from_nanos(pieces.saturating_mul(PIECE.as_nanos() as u64))
    }

    /// Returns whether the task should end.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Does what belongs into one poll, or less if the work is over before. No system call, and no
    /// reading of a clock.
    pub(super) fn run(&self) {
        for _ in 0..self.pieces_per_poll {
            if self.is_over() {
                return;
            }
            self.piece.run();
            self.done.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_is_a_number_of_pieces_and_less_when_it_is_over() {
        let is_over = Arc::new(AtomicBool::new(false));
        let work = Work::new(Pace::measure(), Duration::from_micros(90), &is_over);
        work.run();
        assert_eq!(work.done(), 5 * PIECE);
        work.clone().run();
        assert_eq!(work.done(), 10 * PIECE);
        is_over.store(true, Ordering::Relaxed);
        work.run();
        assert!(work.is_over());
        assert_eq!(work.done(), 10 * PIECE);
    }
}
