//! How the CPUs are divided among tasks of long and of short polls.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::config::{check_duration, check_poll};
use super::host::Host;
use super::round::{Hogs, measure, sleep_until};
use super::{Error, Level};
use crate::work::Pace;

/// Sets up the experiment on shares: tasks of two lengths of polls, in one group of fair order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharesConfig {
    /// What happens to polls that go on while others wait.
    pub level: Level,
    /// How many workers there are.
    pub workers: usize,
    /// How many tasks have long polls; from 1.
    pub long: usize,
    /// How long those are; 20 µs to a minute.
    pub long_poll: Duration,
    /// How many tasks have short polls; from 1.
    pub short: usize,
    /// How long those are; 20 µs to a minute.
    pub short_poll: Duration,
    /// How long it lasts, 20 ms to a minute; a tenth of a second that does not count comes before.
    pub duration: Duration,
}

impl SharesConfig {
    /// Returns 4 tasks of polls of 200 ms beside 4 of polls of 0.3 ms, for 5 s at [`Level::Park`],
    /// with a worker for each CPU of this process.
    pub fn new() -> SharesConfig {
        SharesConfig {
            level: Level::Park,
            workers: super::Config::new().workers(),
            long: 4,
            long_poll: Duration::from_millis(200),
            short: 4,
            short_poll: Duration::from_micros(300),
            duration: Duration::from_secs(5),
        }
    }

    /// Checks every setting.
    ///
    /// # Errors
    ///
    /// The first setting that is outside its limits, with what is allowed.
    pub fn check(&self) -> Result<(), Error> {
        for (knob, tasks) in [("long", self.long), ("short", self.short)] {
            if tasks == 0 {
                return Err(Error::config(knob, tasks, "1 or more"));
            }
        }
        check_poll("long poll", self.long_poll)?;
        check_poll("short poll", self.short_poll)?;
        check_duration(self.duration)
    }
}

impl Default for SharesConfig {
    fn default() -> SharesConfig {
        SharesConfig::new()
    }
}

/// Runs the experiment.
///
/// # Errors
///
/// A setting outside its limits; a runtime that could not be started, as without the cargo feature
/// `fair-order`; a task that panicked.
pub fn shares(config: &SharesConfig) -> Result<Shares, Error> {
    config.check()?;
    let pace = Pace::measure();
    let host = Host::fair(config.level, config.workers)?;
    let mut polls = vec![config.long_poll; config.long];
    polls.resize(config.long + config.short, config.short_poll);
    let hogs = Hogs::spawn(&host, pace, &polls);
    let speed = measure(config.duration, &hogs, |_, until, _| sleep_until(until));
    hogs.end();
    hogs.join()?;
    host.stop();
    Ok(Shares::new(config, &polls, &speed.work))
}

/// What one task got.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The length of its polls.
    pub poll: Duration,
    /// The CPUs' worth of work that it did.
    pub work: f64,
    /// Its work by the work that is its due, which is the same for every task: 1.0 is just.
    pub of_due: f64,
}

/// What all tasks got.
#[derive(Clone, Debug)]
pub struct Shares {
    config: SharesConfig,
    tasks: Vec<Share>,
}

impl Shares {
    fn new(config: &SharesConfig, polls: &[Duration], work: &[f64]) -> Shares {
        let due = work.iter().sum::<f64>() / work.len() as f64;
        let tasks = polls.iter().zip(work).map(|(&poll, &work)| Share {
            poll,
            work,
            of_due: work / due,
        });
        Shares {
            config: *config,
            tasks: tasks.collect(),
        }
    }

    /// Returns each task's share: first those of long polls.
    pub fn tasks(&self) -> &[Share] {
        &self.tasks
    }

    /// Returns what the tasks of long polls got together, as a part of what is their due.
    pub fn long(&self) -> f64 {
        mean(&self.tasks[..self.config.long])
    }

    /// Returns what the tasks of short polls got together, as a part of what is their due.
    pub fn short(&self) -> f64 {
        mean(&self.tasks[self.config.long..])
    }

    /// Returns by how much the task that is farthest from its due is off, as a part of it.
    pub fn worst(&self) -> f64 {
        let off = self.tasks.iter().map(|task| (task.of_due - 1.0).abs());
        off.fold(0.0, f64::max)
    }

    /// Returns everything as text.
    pub fn table(&self) -> String {
        let config = &self.config;
        let mut text = format!(
            "{} tasks in polls of {:?} beside {} in polls of {:?}, of equal weight, {} workers, \
             {:?} at {:?}\n\nwork of each task, CPUs, and as a part of its due\n",
            config.long,
            config.long_poll,
            config.short,
            config.short_poll,
            config.workers,
            config.duration,
            config.level,
        );
        for task in &self.tasks {
            let poll = format!("{:?}", task.poll);
            let (work, of_due) = (task.work, task.of_due * 100.0);
            writeln!(text, "  {poll:<10}{work:>9.4}{of_due:>9.2} %").expect("a string takes all");
        }
        let [long, short, worst] = [self.long(), self.short(), self.worst()].map(|x| x * 100.0);
        writeln!(
            text,
            "long polls together {long:.2} %, short polls {short:.2} %; the task that is farthest \
             off: {worst:.2} %"
        )
        .expect("a string takes all");
        text
    }

    /// Returns everything as JSON; times in nanoseconds, work in CPUs.
    pub fn to_json(&self) -> Value {
        let task = |task: &Share| {
            json!({
                "poll_ns": task.poll.as_nanos() as u64,
                "work": task.work,
                "of_due": task.of_due,
            })
        };
        json!({
            "experiment": "shares",
            "level": format!("{:?}", self.config.level),
            "workers": self.config.workers,
            "duration_ns": self.config.duration.as_nanos() as u64,
            "tasks": self.tasks.iter().map(task).collect::<Vec<_>>(),
            "long": self.long(),
            "short": self.short(),
            "worst": self.worst(),
        })
    }
}

fn mean(tasks: &[Share]) -> f64 {
    tasks.iter().map(|task| task.of_due).sum::<f64>() / tasks.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_parts_of_the_mean() {
        let config = SharesConfig {
            long: 1,
            short: 2,
            ..SharesConfig::new()
        };
        let polls = [config.long_poll, config.short_poll, config.short_poll];
        let shares = Shares::new(&config, &polls, &[0.9, 0.6, 0.3]);
        let of_due: Vec<f64> = shares.tasks().iter().map(|task| task.of_due).collect();
        for (got, wanted) in of_due.iter().zip([1.5, 1.0, 0.5]) {
            assert!((got - wanted).abs() < 1e-12, "{of_due:?}");
        }
        assert!((shares.long() - 1.5).abs() < 1e-12);
        assert!((shares.short() - 0.75).abs() < 1e-12);
        assert!((shares.worst() - 0.5).abs() < 1e-12);
        let text = shares.table();
        assert!(
            text.contains("\n  200ms        0.9000   150.00 %\n"),
            "{text}"
        );
        assert!(
            text.ends_with("short polls 75.00 %; the task that is farthest off: 50.00 %\n"),
            "{text}"
        );
        assert_eq!(shares.to_json()["tasks"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn settings_outside_their_limits_are_named() {
        let good = SharesConfig::new();
        assert!(good.check().is_ok());
        for (config, knob) in [
            (SharesConfig { long: 0, ..good }, "long is 0"),
            (SharesConfig { short: 0, ..good }, "short is 0"),
            (
                SharesConfig {
                    short_poll: Duration::ZERO,
                    ..good
                },
                "short poll is 0ns",
            ),
        ] {
            let error = config.check().expect_err(knob);
            assert!(error.to_string().starts_with(knob), "{error}");
        }
    }

    #[cfg(all(feature = "preempt", feature = "fair-order"))]
    #[test]
    fn tasks_of_both_kinds_work_under_park() {
        let config = SharesConfig {
            duration: Duration::from_millis(300),
            ..SharesConfig::new()
        };
        let shares = shares(&config).unwrap();
        assert_eq!(shares.tasks().len(), 8);
        assert!(shares.long() > 0.0 && shares.short() > 0.0);
    }
}
