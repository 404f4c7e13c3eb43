//! Subjects by turns, and what came of it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::contest::Contest;
use super::{Config, Distribution, Error, Figures, Subject, Tally, table};
use crate::work::Pace;

/// Runs the experiment for every subject by turns: first round of each, second round of each, ...
///
/// # Errors
///
/// A setting outside its limits; a contender that could not be started, or panicked.
pub fn compare(config: &Config, subjects: &[&dyn Subject]) -> Result<Comparison, Error> {
    config.check()?;
    let pace = Pace::measure();
    let mut outcomes: Vec<Outcome> = subjects.iter().map(|s| Outcome::new(*s)).collect();
    for _ in 0..config.rounds() {
        for (subject, outcome) in subjects.iter().zip(&mut outcomes) {
            let contest = Arc::new(Contest::begin(config, pace, subject.lock()));
            let tallies = subject.run(&contest)?;
            outcome.add(&contest, &tallies);
        }
    }
    Ok(Comparison {
        config: *config,
        outcomes,
    })
}

/// What the experiment found, subject by subject.
#[derive(Clone, Debug)]
pub struct Comparison {
    config: Config,
    outcomes: Vec<Outcome>,
}

impl Comparison {
    /// Returns the settings that were used.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns what was found, in the order in which the subjects were given.
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// Returns everything as one table, with a line on the settings above it and a line on how
    /// preemption was noticed below.
    pub fn table(&self) -> String {
        table::render(self)
    }

    /// Returns everything as JSON; times in nanoseconds.
    pub fn to_json(&self) -> Value {
        let ns = |time: Duration| time.as_nanos() as u64;
        json!({
            "experiment": "lock",
            "contenders": self.config.contenders(),
            "cpus": self.config.cpus(),
            "duration_ns": ns(self.config.duration()),
            "section_ns": ns(self.config.section()),
            "outside_ns": ns(self.config.outside()),
            "rounds": self.config.rounds(),
            "subjects": self.outcomes.iter().map(Outcome::to_json).collect::<Vec<_>>(),
        })
    }
}

/// One subject's figures.
#[derive(Clone, Debug)]
pub struct Outcome {
    name: String,
    probe: &'static str,
    sees_expiry: bool,
    rounds: Vec<Round>,
    waits: Distribution,
    holds: Distribution,
}

/// One round of one subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// How often the lock was taken.
    pub acquisitions: u64,
    /// How often a contender lost its CPU while it held the lock.
    pub preempted: u64,
    /// How often a contender was given time, ended its section in it, and gave its CPU up.
    pub yielded: u64,
    /// How often the time given was over before the section ended; 0 where the subject does not
    /// [see](Subject::sees_expiry) that.
    pub expired: u64,
    /// How long the round took, to the end of the last contender.
    pub elapsed: Duration,
}

impl Outcome {
    fn new(subject: &dyn Subject) -> Outcome {
        Outcome {
            name: subject.name().to_owned(),
            probe: subject.probe(),
            sees_expiry: subject.sees_expiry(),
            rounds: Vec::new(),
            waits: Distribution::new(),
            holds: Distribution::new(),
        }
    }

    fn add(&mut self, contest: &Contest, tallies: &[Tally]) {
        let elapsed = contest.elapsed();
        let mut sum = Tally::new();
        for tally in tallies {
            sum.merge(tally);
        }
        assert_eq!(
            sum.waits.count(),
            contest.counter(),
            "two contenders held the lock at the same time"
        );
        self.rounds.push(Round {
            acquisitions: sum.waits.count(),
            preempted: sum.preempted,
            yielded: sum.yielded,
            expired: sum.expired,
            elapsed,
        });
        self.waits.merge(&sum.waits);
        self.holds.merge(&sum.holds);
    }

    /// Returns the subject's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns how the subject noticed that a contender lost its CPU.
    pub fn probe(&self) -> &str {
        self.probe
    }

    /// Returns the rounds in the order in which they ran.
    pub fn rounds(&self) -> &[Round] {
        &self.rounds
    }

    /// Returns how often the lock was taken in all rounds.
    pub fn acquisitions(&self) -> u64 {
        self.waits.count()
    }

    /// Returns how long contenders waited for the lock.
    pub fn waits(&self) -> &Distribution {
        &self.waits
    }

    /// Returns how long contenders held the lock.
    pub fn holds(&self) -> &Distribution {
        &self.holds
    }

    /// Returns figures of one of the numbers that each round has.
    pub fn per_round(&self, number: impl Fn(&Round) -> u64) -> Figures {
        Figures::of_rounds(self.rounds.iter().map(number))
    }

    /// Returns figures of how often, per round, time given was over before the section ended;
    /// `None` where the subject does not see that.
    pub fn expired(&self) -> Option<Figures> {
        self.sees_expiry
            .then(|| self.per_round(|round| round.expired))
    }

    fn to_json(&self) -> Value {
        let rounds = self.rounds.iter().map(|round| {
            json!({
                "acquisitions": round.acquisitions,
                "preempted": round.preempted,
                "yielded": round.yielded,
                "expired": self.sees_expiry.then_some(round.expired),
                "elapsed_ns": round.elapsed.as_nanos() as u64,
            })
        });
        json!({
            "name": self.name,
            "probe": self.probe,
            "rounds": rounds.collect::<Vec<_>>(),
            "acquisitions": self.per_round(|round| round.acquisitions).to_json(),
            "preempted": self.per_round(|round| round.preempted).to_json(),
            "yielded": self.per_round(|round| round.yielded).to_json(),
            "expired": self.expired().map(Figures::to_json),
            "wait_ns": self.waits.figures().to_json(),
            "held_ns": self.holds.figures().to_json(),
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::lock::Lock;
    use crate::lock::contest::{Contender, Exit, Grant};

    /// A subject whose contenders take turns on one thread, so that each gets the lock once.
    struct InTurn;

    struct Quiet;

    impl Contender for Quiet {
        fn enter(&mut self) {}
        fn acquired(&mut self) {}
        fn releasing(&mut self) {}
        fn exit(&mut self) -> Exit {
            Exit {
                is_preempted: true,
                grant: Grant::Expired,
            }
        }
    }

    impl Subject for InTurn {
        fn name(&self) -> &str {
            "in turn"
        }
        fn lock(&self) -> Lock {
            Lock::Plain
        }
        fn probe(&self) -> &'static str {
            "always"
        }
        fn sees_expiry(&self) -> bool {
            true
        }
        fn run(&self, contest: &Arc<Contest>) -> Result<Vec<Tally>, Error> {
            Ok((0..contest.contenders())
                .map(|_| contest.contend(&mut Quiet))
                .collect())
        }
    }

    pub(in crate::lock) fn in_turn(rounds: usize) -> Comparison {
        let config = Config::new()
            .with_contenders(2)
            .with_duration(Duration::from_millis(1))
            .with_section(Duration::ZERO)
            .with_rounds(rounds);
        compare(&config, &[&InTurn, &InTurn]).unwrap()
    }

    #[test]
    fn every_subject_gets_every_round_and_sums_agree() {
        let comparison = in_turn(3);
        assert_eq!(comparison.outcomes().len(), 2);
        for outcome in comparison.outcomes() {
            assert_eq!(outcome.rounds().len(), 3);
            let sum: u64 = outcome.rounds().iter().map(|r| r.acquisitions).sum();
            assert_eq!(sum, outcome.acquisitions());
            let preempted = outcome.per_round(|round| round.preempted);
            assert_eq!(preempted.total, sum as f64);
            assert_eq!(outcome.expired(), Some(preempted));
            assert!(outcome.rounds().iter().all(|round| round.yielded == 0));
        }
    }

    #[test]
    fn a_setting_outside_its_limits_is_refused() {
        let config = Config::new().with_rounds(0);
        assert!(compare(&config, &[&InTurn]).unwrap_err().is_config());
    }

    #[test]
    fn json_has_what_the_table_has() {
        let json = in_turn(2).to_json();
        let subject = &json["subjects"][1];
        assert_eq!(subject["name"], "in turn");
        assert_eq!(subject["rounds"].as_array().unwrap().len(), 2);
        assert_eq!(subject["preempted"]["count"], 2);
        assert_eq!(subject["yielded"]["max"], 0.0);
        assert!(subject["wait_ns"]["p99"].is_number() || subject["wait_ns"]["count"] == 0);
    }
}
