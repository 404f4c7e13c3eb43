//! Subjects by turns, and what came of it.

use serde_json::{Value, json};

use super::round::{self, Round};
use super::{Config, Error, Level, Subject, table};
use crate::lock::Distribution;
use crate::work::Pace;

/// The quantiles that tables and JSON give, with their names.
pub(super) const QUANTILES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

/// Runs the experiment by turns: in each round first the work without a beat, then every subject.
///
/// # Errors
///
/// A setting outside its limits; a runtime that could not be started, as with a level that is not
/// compiled in; a task that panicked.
pub fn compare(config: &Config, subjects: &[Subject]) -> Result<Comparison, Error> {
    config.check()?;
    let pace = Pace::measure();
    let mut comparison = Comparison {
        config: *config,
        alone: Vec::new(),
        outcomes: subjects.iter().map(|s| Outcome::new(*s)).collect(),
    };
    for _ in 0..config.rounds() {
        let alone = round::run(config, pace, Subject::Runtime(Level::Off), false)?;
        for outcome in &mut comparison.outcomes {
            let round = round::run(config, pace, outcome.subject, true)?;
            outcome.add(round, &alone);
        }
        comparison.alone.push(alone);
    }
    Ok(comparison)
}

/// What the experiment found, subject by subject.
#[derive(Clone, Debug)]
pub struct Comparison {
    config: Config,
    alone: Vec<Round>,
    outcomes: Vec<Outcome>,
}

impl Comparison {
    /// Returns the settings that were used.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the rounds without preemption and without a beat.
    pub fn alone(&self) -> &[Round] {
        &self.alone
    }

    /// Returns what was found, in the order in which the subjects were given.
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// Returns everything as a table, with a line on the settings above it.
    pub fn table(&self) -> String {
        table::render(self)
    }

    /// Returns everything as JSON; times in nanoseconds, work in CPUs.
    pub fn to_json(&self) -> Value {
        let ns = |time: std::time::Duration| time.as_nanos() as u64;
        json!({
            "experiment": "latency",
            "workers": self.config.workers(),
            "hogs": self.config.hogs(),
            "poll_ns": ns(self.config.poll()),
            "duration_ns": ns(self.config.duration()),
            "rounds": self.config.rounds(),
            "work_alone": of_rounds(&self.alone, |round| round.work),
            "cpus_alone": of_rounds(&self.alone, |round| round.cpus),
            "subjects": self.outcomes.iter().map(Outcome::to_json).collect::<Vec<_>>(),
        })
    }
}

/// What was found for one subject.
#[derive(Clone, Debug)]
pub struct Outcome {
    subject: Subject,
    rounds: Vec<Round>,
    /// The hogs' work as a part of that without a beat in the same round.
    kept: Vec<f64>,
    /// The same of the work per CPU second used, of rounds where that is known.
    kept_per_cpu: Vec<f64>,
    waits: Distribution,
    lateness: Distribution,
}

impl Outcome {
    fn new(subject: Subject) -> Outcome {
        Outcome {
            subject,
            rounds: Vec::new(),
            kept: Vec::new(),
            kept_per_cpu: Vec::new(),
            waits: Distribution::new(),
            lateness: Distribution::new(),
        }
    }

    fn add(&mut self, round: Round, alone: &Round) {
        self.waits.merge(&round.waits);
        self.lateness.merge(&round.lateness);
        let kept = round.work / alone.work;
        self.kept.push(kept);
        if let Some((used, used_alone)) = round.cpus.zip(alone.cpus) {
            self.kept_per_cpu.push(kept * used_alone / used);
        }
        self.rounds.push(round);
    }

    /// Returns what ran the tasks.
    pub fn subject(&self) -> Subject {
        self.subject
    }

    /// Returns the rounds.
    pub fn rounds(&self) -> &[Round] {
        &self.rounds
    }

    /// Returns, by rounds, the hogs' work as a part of what they did in the same round without
    /// preemption and without a beat: 1.0 where they lost nothing.
    pub fn kept(&self) -> &[f64] {
        &self.kept
    }

    /// Returns the same of the work for each second of CPU time that the process used: what is left
    /// when other processes take CPUs away. Idle CPUs are not seen in it. Rounds for which the
    /// system does not say are left out.
    pub fn kept_per_cpu(&self) -> &[f64] {
        &self.kept_per_cpu
    }

    /// Returns the times from each wake to the run that answers it, of all rounds.
    pub fn waits(&self) -> &Distribution {
        &self.waits
    }

    /// Returns the times from when each wake was due to the run that answers it, of all rounds.
    pub fn lateness(&self) -> &Distribution {
        &self.lateness
    }

    fn to_json(&self) -> Value {
        json!({
            "name": self.subject.name(),
            "wait_ns": distribution_json(&self.waits),
            "lateness_ns": distribution_json(&self.lateness),
            "work": of_rounds(&self.rounds, |round| round.work),
            "cpus": of_rounds(&self.rounds, |round| round.cpus),
            "kept": self.kept,
            "kept_per_cpu": self.kept_per_cpu,
        })
    }
}

fn of_rounds<T>(rounds: &[Round], value: impl Fn(&Round) -> T) -> Vec<T> {
    rounds.iter().map(value).collect()
}

fn distribution_json(times: &Distribution) -> Value {
    let figures = times.figures();
    let mut value = json!({ "count": figures.count, "mean": figures.mean, "max": figures.max });
    for (name, fraction) in QUANTILES {
        value[name] = json!(times.quantile(fraction));
    }
    value
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::*;

    /// Two rounds of two subjects, of made-up numbers.
    pub(in crate::latency) fn made_up() -> Comparison {
        let round = |work, cpus, waits_us: &[u64]| {
            let mut waits = Distribution::new();
            let mut lateness = Distribution::new();
            for us in waits_us {
                waits.record(Duration::from_micros(*us));
                lateness.record(Duration::from_micros(us + 60));
            }
            Round {
                work,
                cpus: Some(cpus),
                waits,
                lateness,
            }
        };
        let mut park = Outcome::new(Subject::Runtime(Level::Park));
        let alone = [round(2.0, 2.0, &[]), round(1.9, 1.9, &[])];
        park.add(round(1.98, 2.0, &[20, 30]), &alone[0]);
        park.add(round(1.90, 2.0, &[40, 5_000]), &alone[1]);
        let mut tokio = Outcome::new(Subject::Tokio);
        tokio.add(round(1.0, 1.0, &[3_000]), &alone[0]);
        tokio.add(round(1.9, 1.9, &[7_000]), &alone[1]);
        Comparison {
            config: Config::new().with_rounds(2),
            alone: alone.into(),
            outcomes: vec![park, tokio],
        }
    }

    #[test]
    fn work_is_compared_within_a_round_and_times_over_all() {
        let comparison = made_up();
        let [park, tokio] = comparison.outcomes() else {
            panic!("two were made up");
        };
        assert_eq!(park.kept(), [0.99, 1.0]);
        assert_eq!(park.kept_per_cpu(), [0.99, 0.95]);
        assert_eq!(tokio.kept(), [0.5, 1.0]);
        assert_eq!(tokio.kept_per_cpu(), [1.0, 1.0]);
        assert_eq!(park.waits().count(), 4);
        assert_eq!(park.waits().figures().max, 5e6);
        assert_eq!(park.lateness().figures().max, 5.06e6);
    }

    #[test]
    fn json_has_every_figure() {
        let json = made_up().to_json();
        assert_eq!(json["experiment"], "latency");
        assert_eq!(json["work_alone"], json!([2.0, 1.9]));
        let park = &json["subjects"][0];
        assert_eq!(park["name"], "park");
        assert_eq!(park["wait_ns"]["count"], 4);
        for (name, _) in QUANTILES {
            assert!(park["wait_ns"][name].is_u64(), "{name}");
            assert!(park["lateness_ns"][name].is_u64(), "{name}");
        }
        assert_eq!(park["kept"], json!([0.99, 1.0]));
        assert_eq!(park["kept_per_cpu"], json!([0.99, 0.95]));
        assert_eq!(park["cpus"], json!([2.0, 2.0]));
    }

    #[test]
    fn settings_are_checked_first() {
        let error = compare(&Config::new().with_hogs(0), &[]).unwrap_err();
        assert!(error.is_config());
    }
}
