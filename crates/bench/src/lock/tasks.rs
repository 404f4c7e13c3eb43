//! Tasks of the runtime, under its preemption.

use std::sync::Arc;

use evenkeel::{Builder, Level, Runtime};
use evenkeel_slice::runtime::{self as slice, Counts};

use super::contest::{Contender, Contest, Exit, Grant, Tally};
use super::probe::parked;
use super::{Error, Lock, Subject};

/// Tasks of a runtime with a worker for each CPU of this process. Each is one poll.
///
/// [`Tasks::plain`] takes the runtime's CPU away from a task wherever it is; [`Tasks::sectioned`]
/// asks a task that holds the lock to finish its section first. At [`Level::Off`] neither happens:
/// a task that is not among the first, as many as there are CPUs, runs when the round is over.
///
/// Counted as preempted while holding is a task that the runtime parked there ([`Level::Park`]).
/// What the kernel does to the workers is not counted, nor is [`Level::Handoff`], where a poll goes
/// on without a virtual CPU, under the kernel's scheduler.
#[derive(Debug)]
pub struct Tasks {
    name: String,
    level: Level,
    lock: Lock,
}

impl Tasks {
    /// Returns tasks that share a plain spin lock, in a runtime that preempts at `level`.
    pub fn plain(level: Level) -> Tasks {
        Tasks::new(level, Lock::Plain)
    }

    /// Returns tasks whose lock is a section, in a runtime that preempts at `level`.
    pub fn sectioned(level: Level) -> Tasks {
        Tasks::new(level, Lock::Sectioned)
    }

    fn new(level: Level, lock: Lock) -> Tasks {
        let kind = match lock {
            Lock::Plain => "plain lock",
            Lock::Sectioned => "sections",
        };
        Tasks {
            name: format!("tasks, {level:?}, {kind}"),
            level,
            lock,
        }
    }

    fn runtime(&self) -> Result<Runtime, Error> {
        Builder::new()
            .preempt(self.level)
            .build()
            .map_err(Error::start)
    }
}

impl Subject for Tasks {
    fn name(&self) -> &str {
        &self.name
    }

    fn lock(&self) -> Lock {
        self.lock
    }

    fn probe(&self) -> &'static str {
        parked::METHOD
    }

    fn sees_expiry(&self) -> bool {
        true
    }

    fn run(&self, contest: &Arc<Contest>) -> Result<Vec<Tally>, Error> {
        let runtime = self.runtime()?;
        let tasks: Vec<_> = (0..contest.contenders())
            .map(|_| {
                let contest = Arc::clone(contest);
                runtime.spawn(async move { contest.contend(&mut TaskContender::new()) })
            })
            .collect();
        runtime.block_on(async {
            // All are waited for, whatever became of one of them.
            let mut ended = Vec::with_capacity(tasks.len());
            for task in tasks {
                ended.push(task.await);
            }
            let tallies = ended
                .into_iter()
                .map(|tally| tally.map_err(|_| Error::panicked()));
            tallies.collect()
        })
    }
}

/// One task's dealings with the runtime. A poll stays on the thread on which it began, so what is
/// counted by thread is this task's within it.
struct TaskContender {
    /// The requests at `enter`.
    counts: Counts,
    /// How often the thread had been parked when the lock was taken.
    parked_before: i64,
    is_preempted: bool,
}

impl TaskContender {
    fn new() -> TaskContender {
        TaskContender {
            counts: Counts::default(),
            parked_before: 0,
            is_preempted: false,
        }
    }
}

impl Contender for TaskContender {
    fn enter(&mut self) {
        self.counts = slice::counts();
        self.is_preempted = false;
    }

    fn acquired(&mut self) {
        self.parked_before = parked::count();
    }

    fn releasing(&mut self) {
        self.is_preempted = parked::count() != self.parked_before;
    }

    fn exit(&mut self) -> Exit {
        Exit {
            is_preempted: self.is_preempted,
            grant: grant(self.counts, slice::counts()),
        }
    }
}

/// Returns what became of the requests between two readings: a forced end outweighs others.
fn grant(before: Counts, after: Counts) -> Grant {
    if after.forced != before.forced {
        Grant::Expired
    } else if after.extended != before.extended {
        Grant::Yielded
    } else {
        Grant::None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::lock::{Config, compare};

    fn small() -> Config {
        Config::new()
            .with_duration(Duration::from_millis(20))
            .with_section(Duration::from_micros(5))
    }

    #[test]
    fn tasks_that_are_never_preempted_lose_nothing() {
        let tasks = [Tasks::plain(Level::Off), Tasks::sectioned(Level::Off)];
        let subjects = tasks.each_ref().map(|one| one as &dyn Subject);
        let comparison = compare(&small(), &subjects).unwrap();
        for (outcome, lock) in comparison.outcomes().iter().zip(["plain lock", "sections"]) {
            assert_eq!(outcome.name(), format!("tasks, Off, {lock}"));
            let [round] = outcome.rounds() else {
                panic!("one round was asked for");
            };
            assert!(round.acquisitions > 0);
            assert_eq!((round.preempted, round.yielded, round.expired), (0, 0, 0));
        }
    }

    #[cfg(feature = "preempt")]
    #[test]
    fn tasks_that_are_parked_end_and_only_sections_are_asked() {
        let config = small().with_contenders(Config::new().cpus() + 3);
        let tasks = [Tasks::plain(Level::Park), Tasks::sectioned(Level::Park)];
        let subjects = tasks.each_ref().map(|one| one as &dyn Subject);
        let comparison = compare(&config, &subjects).unwrap();
        let [plain, sectioned] = comparison.outcomes() else {
            panic!("two subjects were given");
        };
        assert!(plain.acquisitions() > 0 && sectioned.acquisitions() > 0);
        // Nobody in a plain lock is in a section.
        let round = plain.rounds()[0];
        assert_eq!((round.yielded, round.expired), (0, 0));
    }

    #[test]
    fn a_forced_end_outweighs_a_request_that_was_served() {
        // The type has no constructor from numbers, so a section makes them.
        let before = slice::counts();
        assert_eq!(grant(before, before), Grant::None);
        let section = evenkeel_slice::enter();
        assert!(slice::request());
        drop(section);
        let served = slice::counts();
        assert_eq!(grant(before, served), Grant::Yielded);
        let section = evenkeel_slice::enter();
        assert!(slice::request() && slice::force());
        drop(section);
        assert_eq!(grant(before, slice::counts()), Grant::Expired);
        assert_eq!(grant(served, slice::counts()), Grant::Expired);
    }
}
