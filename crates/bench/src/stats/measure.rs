//! Subjects by turns.

use std::ops::ControlFlow;

use super::summary::{Metric, Series};

/// Something that is measured, a number of values in each run.
pub trait Subject {
    /// Why a run gives no values.
    type Error;

    /// Returns the name, as reports give it.
    fn name(&self) -> &str;

    /// Returns what the values of a run are.
    fn metrics(&self) -> &[Metric];

    /// Runs once; returns a value for each metric, in their order.
    ///
    /// # Errors
    /// The measurement ends with it.
    fn run(&mut self) -> Result<Vec<f64>, Self::Error>;
}

/// How often subjects run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Rounds that count: each subject runs once in each.
    pub runs: usize,
    /// Rounds before them that do not count.
    pub warm_up: usize,
}

/// What is about to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// The subject.
    pub name: &'a str,
    /// How many runs there were, of all subjects, warm-up included.
    pub done: usize,
    /// How many there will be.
    pub total: usize,
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// A series for each subject and metric, in the order of the subjects and of their metrics.
    pub series: Vec<Series>,
    /// Rounds that were completed.
    pub rounds: usize,
    /// Whether the measurement was broken off.
    pub is_partial: bool,
}

/// Runs every subject once per round. The first one of a round is the second one of the next, so
/// that each has each place equally often.
///
/// `before` is told of every run; [`ControlFlow::Break`] ends the measurement, and a round that is
/// not complete is dropped. It is asked again when a run has failed: a run that was stopped on
/// purpose is no error.
///
/// # Errors
/// The first error of a subject.
///
/// # Panics
/// If a subject returns another number of values than it has metrics.
pub fn measure<E>(
    plan: Plan,
    subjects: &mut [&mut dyn Subject<Error = E>],
    before: &mut dyn FnMut(Step<'_>) -> ControlFlow<()>,
) -> Result<Measured, E> {
    let count = subjects.len();
    let total = (plan.warm_up + plan.runs) * count;
    let mut samples: Vec<Vec<Vec<f64>>> = subjects
        .iter()
        .map(|subject| vec![Vec::new(); subject.metrics().len()])
        .collect();
    let mut rounds = 0;
    let mut is_partial = false;
    'rounds: for round in 0..plan.warm_up + plan.runs {
        let mut values = vec![Vec::new(); count];
        for place in 0..count {
            let index = (round + place) % count;
            let subject = &mut *subjects[index];
            let done = round * count + place;
            if before(step(subject.name(), done, total)).is_break() {
                is_partial = true;
                break 'rounds;
            }
            values[index] = match subject.run() {
                Ok(values) => values,
                Err(_) if before(step(subject.name(), done, total)).is_break() => {
                    is_partial = true;
                    break 'rounds;
                }
                Err(error) => return Err(error),
            };
        }
        if round >= plan.warm_up {
            rounds += 1;
            for (samples, values) in samples.iter_mut().zip(values) {
                assert_eq!(samples.len(), values.len(), "a value for each metric");
                for (samples, value) in samples.iter_mut().zip(values) {
                    samples.push(value);
                }
            }
        }
    }
    let series = subjects.iter().zip(samples).flat_map(|(subject, samples)| {
        let metrics = subject.metrics().iter().zip(samples);
        metrics.map(|(&metric, samples)| Series::new(subject.name(), metric, samples))
    });
    Ok(Measured {
        series: series.collect(),
        rounds,
        is_partial,
    })
}

fn step(name: &str, done: usize, total: usize) -> Step<'_> {
    Step { name, done, total }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::super::summary::Better;
    use super::*;

    const METRICS: [Metric; 2] = [
        Metric::sampled("time", "ns", Better::Lower),
        Metric::sampled("rate", "1/s", Better::Higher),
    ];

    /// Notes when it runs, and gives the number of its run.
    struct Noting<'a> {
        name: &'static str,
        log: &'a RefCell<String>,
        runs: u32,
        fails_at: u32,
    }

    impl Subject for Noting<'_> {
        type Error = &'static str;

        fn name(&self) -> &str {
            self.name
        }
        fn metrics(&self) -> &[Metric] {
            &METRICS
        }
        fn run(&mut self) -> Result<Vec<f64>, &'static str> {
            self.log.borrow_mut().push_str(self.name);
            self.runs += 1;
            if self.runs == self.fails_at {
                return Err("failed");
            }
            Ok(vec![f64::from(self.runs), -f64::from(self.runs)])
        }
    }

    /// Measures three subjects, the second of which fails in its run `fails_at`, until `stop_at`
    /// runs have begun.
    fn run(fails_at: u32, stop_at: usize) -> (Result<Measured, &'static str>, String) {
        let log = RefCell::new(String::new());
        let subject = |name, fails_at| Noting {
            name,
            log: &log,
            runs: 0,
            fails_at,
        };
        let (mut a, mut b, mut c) = (subject("a", 0), subject("b", fails_at), subject("c", 0));
        let plan = Plan {
            runs: 3,
            warm_up: 1,
        };
        let measured = measure(plan, &mut [&mut a, &mut b, &mut c], &mut |step| {
            assert_eq!(step.total, 12);
            if log.borrow().len() >= stop_at {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        (measured, log.into_inner())
    }

    #[test]
    fn subjects_take_turns_and_the_warm_up_does_not_count() {
        let (measured, log) = run(0, usize::MAX);
        let measured = measured.expect("none fails");
        assert_eq!(log, "abcbcacababc");
        assert_eq!((measured.rounds, measured.is_partial), (3, false));
        assert_eq!(measured.series.len(), 6);
        assert_eq!(measured.series[2].name, "b");
        assert_eq!(measured.series[2].samples, [2.0, 3.0, 4.0]);
        assert_eq!(measured.series[3].metric.name, "rate");
        assert_eq!(measured.series[3].samples, [-2.0, -3.0, -4.0]);
    }

    #[test]
    fn a_round_that_was_broken_off_is_dropped() {
        let (measured, log) = run(0, 8);
        let measured = measured.expect("none fails");
        assert_eq!(log, "abcbcaca");
        assert_eq!((measured.rounds, measured.is_partial), (1, true));
        assert!(
            measured
                .series
                .iter()
                .all(|series| series.samples.len() == 1)
        );
    }

    #[test]
    fn a_failure_ends_the_measurement_unless_it_was_to_end_anyway() {
        assert_eq!(
            run(2, usize::MAX).0.expect_err("the second run fails"),
            "failed"
        );
        let (measured, log) = run(3, 9);
        assert_eq!(log, "abcbcacab");
        let measured = measured.expect("a run that was stopped is no error");
        assert_eq!((measured.rounds, measured.is_partial), (1, true));
    }
}
