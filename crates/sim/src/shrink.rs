//! Cuts a failing history down: fewer operations, fewer tasks, a shorter busy phase.
//!
//! Tasks draw their choices from generators of their own, so what is left of a history mostly
//! behaves as before. A cut is kept when the run still breaks the same kind of promise.

use crate::history::Cut;
use crate::runner::Failure;

/// Most runs that a search may use, times the number of tasks.
const MOST_TASK_RUNS: usize = 12_000;
/// Most runs that a search may use.
const MOST_RUNS: usize = 400;

/// Says what there is to cut.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Tasks of the history.
    pub tasks: usize,
    /// Operations of the history.
    pub ops: usize,
    /// Length of its busy phase in ns.
    pub busy_ns: u64,
}

/// Searches a small history that fails as `first` did with the cut `from`; `run` replays the
/// history with a cut.
pub fn shrink(
    size: Size,
    from: &Cut,
    first: &Failure,
    run: impl FnMut(&Cut) -> Option<Box<Failure>>,
) -> (Cut, Option<Box<Failure>>) {
    let mut search = Search {
        kind: first.violation.kind(),
        run,
        runs_left: MOST_RUNS.min(MOST_TASK_RUNS / size.tasks.max(1)),
        best: from.clone(),
        failure: None,
    };
    search.shorten(size.busy_ns, first.report.stats.elapsed_ns);
    search.remove(size.ops, |cut| &mut cut.ops);
    search.remove(size.tasks, |cut| &mut cut.tasks);
    search.remove(size.ops, |cut| &mut cut.ops);
    (search.best, search.failure)
}

struct Search<F> {
    kind: &'static str,
    run: F,
    runs_left: usize,
    best: Cut,
    failure: Option<Box<Failure>>,
}

impl<F: FnMut(&Cut) -> Option<Box<Failure>>> Search<F> {
    /// Keeps `cut` if it fails in the same way.
    fn attempt(&mut self, cut: Cut) -> bool {
        if self.runs_left == 0 {
            return false;
        }
        self.runs_left -= 1;
        let failure = (self.run)(&cut).filter(|f| f.violation.kind() == self.kind);
        let is_kept = failure.is_some();
        if is_kept {
            self.best = cut;
            self.failure = failure;
        }
        is_kept
    }

    /// Leaves out the judged phase and differences between tasks, and the busy phase after the
    /// failure or in halves.
    fn shorten(&mut self, busy_ns: u64, failed_at: u64) {
        for simplify in [
            |cut: &mut Cut| cut.is_unjudged = true,
            |cut: &mut Cut| cut.has_equal_nice = true,
            |cut: &mut Cut| cut.has_equal_slices = true,
        ] {
            let mut cut = self.best.clone();
            simplify(&mut cut);
            if cut != self.best {
                self.attempt(cut);
            }
        }
        let mut length = busy_ns.min(failed_at);
        while length > 1_000 {
            let cut = Cut {
                busy_ns: Some(length),
                ..self.best.clone()
            };
            if !self.attempt(cut) && length < busy_ns.min(failed_at) {
                break;
            }
            length /= 2;
        }
    }

    /// Leaves out as many of `count` parts as it can: halves first, then ever smaller pieces.
    fn remove(&mut self, count: usize, part: impl Fn(&mut Cut) -> &mut Vec<usize>) {
        let mut piece = count;
        while piece > 0 {
            for from in (0..count).step_by(piece) {
                let mut cut = self.best.clone();
                let list = part(&mut cut);
                let before = list.len();
                list.extend(from..(from + piece).min(count));
                list.sort_unstable();
                list.dedup();
                if list.len() > before {
                    self.attempt(cut);
                }
            }
            piece /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::Report;
    use crate::stats::Stats;
    use crate::violation::Violation;

    fn failure() -> Box<Failure> {
        let mut stats = Stats::new(1);
        stats.pass(5_000_000, 0, 0);
        Box::new(Failure {
            violation: Violation::NotDrained {
                left: 1,
                first: None,
            },
            last_events: vec![],
            report: Report {
                stats,
                errors: Default::default(),
            },
        })
    }

    #[test]
    fn finds_the_parts_that_matter() {
        let size = Size {
            tasks: 20,
            ops: 33,
            busy_ns: 8_000_000,
        };
        // Fails as long as tasks 3 and 17, operation 5 and the first half millisecond are there.
        let run = |cut: &Cut| {
            let has = !cut.tasks.contains(&3) && !cut.tasks.contains(&17);
            let is_long = cut.busy_ns.is_none_or(|ns| ns >= 500_000);
            (has && is_long && !cut.ops.contains(&5)).then(failure)
        };
        let (cut, last) = shrink(size, &Cut::default(), &failure(), run);
        assert!(last.is_some() && cut.is_unjudged);
        assert_eq!((cut.tasks.len(), cut.ops.len()), (18, 32));
        assert!(
            cut.busy_ns
                .is_some_and(|ns| (500_000..1_250_000).contains(&ns))
        );
    }

    #[test]
    fn keeps_everything_when_nothing_can_go() {
        let size = Size {
            tasks: 2,
            ops: 2,
            busy_ns: 2_000,
        };
        let (cut, last) = shrink(size, &Cut::default(), &failure(), |_| None);
        assert_eq!(cut, Cut::default());
        assert!(last.is_none());
    }
}
