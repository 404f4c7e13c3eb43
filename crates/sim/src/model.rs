//! Task models: what a virtual task does between two decisions of the scheduler.
//!
//! A task is a sequence of [`Step`]s: CPU time to use, then what it does with the CPU. A
//! cooperative task (an ordinary future) cannot be interrupted inside a step; a preemptible
//! one (a thread, or a poll parked by a signal) can, and later continues where it was.

use crate::rng::Rng;

/// Describes a kind of task; times in ns of CPU (`run`, `poll`) or of the clock (the others).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Model {
    /// Computes for ever and yields after every `poll`.
    Hog {
        /// Length of one poll.
        poll: u64,
    },
    /// Uses `run` once per `period`, counted from its start; late runs follow at once.
    Periodic {
        /// CPU time per period.
        run: u64,
        /// Period.
        period: u64,
    },
    /// Alternates between runs and sleeps of random length around these.
    Bursty {
        /// Median CPU time of a burst.
        run: u64,
        /// Median sleep.
        sleep: u64,
    },
    /// Runs, wakes its partner, waits for the partner: one half of a ping-pong.
    Partner {
        /// CPU time per turn.
        run: u64,
        /// Index of the partner in the history.
        peer: usize,
        /// Whether it has the first turn.
        serves: bool,
    },
    /// Starts a child in its own group after every run, then sleeps.
    Spawner {
        /// CPU time per round.
        run: u64,
        /// Sleep between rounds.
        sleep: u64,
        /// CPU time that each child uses in polls of at most `run` before it exits.
        child: u64,
    },
    /// Uses `run` in polls of at most `poll`, then exits.
    Once {
        /// CPU time in total.
        run: u64,
        /// Longest poll.
        poll: u64,
    },
    /// Draws each step anew: computing, yielding, sleeping, waking others.
    Mixed {
        /// Longest step.
        run: u64,
        /// Longest sleep.
        sleep: u64,
    },
}

/// Says what follows when a step has used its CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Stays runnable and lets others go first where the policy says so.
    Yield,
    /// Blocks until the clock shows this time; at once runnable again when that is past.
    SleepUntil(u64),
    /// Blocks until another task wakes it.
    Wait,
    /// Ends.
    Exit,
}

/// Is one stretch of CPU time and what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// CPU time, at least 1 ns.
    pub run_ns: u64,
    /// What follows.
    pub then: Then,
    /// Task to wake at the end of the step.
    pub wakes: Option<usize>,
    /// CPU time of a child to start at the end of the step.
    pub child_ns: Option<u64>,
}

impl Step {
    const fn new(run_ns: u64, then: Then) -> Self {
        Self {
            run_ns: if run_ns == 0 { 1 } else { run_ns },
            then,
            wakes: None,
            child_ns: None,
        }
    }
}

/// Plays a [`Model`]: yields its steps one after the other.
#[derive(Clone, Debug)]
pub struct Player {
    model: Model,
    rng: Rng,
    /// Periods begun (Periodic) or CPU time given out (Once).
    progress: u64,
    started_at: u64,
    has_served: bool,
}

impl Player {
    /// Starts to play `model` at `now` with random choices from `rng`.
    pub const fn new(model: Model, rng: Rng, now: u64) -> Self {
        Self {
            model,
            rng,
            progress: 0,
            started_at: now,
            has_served: false,
        }
    }

    /// Turns the task into one that exits after at most `run_ns` more of CPU time.
    pub fn wind_up(&mut self, run_ns: u64) {
        self.model = Model::Once {
            run: run_ns,
            poll: run_ns,
        };
        self.progress = 0;
    }

    /// Turns the task into a hog with polls of `poll` ns.
    pub fn turn_to_hog(&mut self, poll: u64) {
        self.model = Model::Hog { poll };
    }

    /// Tells whether the model depends on being woken by a partner.
    pub const fn waits_for_partner(&self) -> bool {
        matches!(self.model, Model::Partner { .. })
    }

    /// Returns the next step, decided at `now`; `tasks` is the number of tasks of the history.
    pub fn next_step(&mut self, now: u64, tasks: usize) -> Step {
        match self.model {
            Model::Hog { poll } => Step::new(poll, Then::Yield),
            Model::Periodic { run, period } => {
                self.progress += 1;
                let next = self.started_at + self.progress * period;
                Step::new(run, Then::SleepUntil(next))
            }
            Model::Bursty { run, sleep } => {
                let run_ns = self.rng.log_range(run / 8, run * 8);
                let until = now + run_ns + self.rng.log_range(sleep / 8, sleep * 8);
                Step::new(run_ns, Then::SleepUntil(until))
            }
            Model::Partner { run, peer, serves } => {
                let is_first = !std::mem::replace(&mut self.has_served, true);
                if is_first && !serves {
                    return Step::new(1, Then::Wait);
                }
                Step {
                    wakes: Some(peer),
                    ..Step::new(run, Then::Wait)
                }
            }
            Model::Spawner { run, sleep, child } => {
                let until = now + run + self.rng.log_range(sleep / 4, sleep * 4);
                Step {
                    child_ns: Some(child),
                    ..Step::new(run, Then::SleepUntil(until))
                }
            }
            Model::Once { run, poll } => {
                let run_ns = poll.min(run.saturating_sub(self.progress));
                self.progress += run_ns;
                let is_last = self.progress >= run;
                Step::new(run_ns, if is_last { Then::Exit } else { Then::Yield })
            }
            Model::Mixed { run, sleep } => self.mixed(now, run, sleep, tasks),
        }
    }

    fn mixed(&mut self, now: u64, run: u64, sleep: u64, tasks: usize) -> Step {
        let run_ns = self.rng.log_range(1, run);
        let then = if self.rng.percent(55) {
            Then::Yield
        } else {
            Then::SleepUntil(now + run_ns + self.rng.log_range(1, sleep) - 1)
        };
        let mut step = Step::new(run_ns, then);
        if self.rng.percent(20) {
            step.wakes = Some(self.rng.below(tasks as u64) as usize);
        }
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn player(model: Model) -> Player {
        Player::new(model, Rng::new(3), 100)
    }

    #[test]
    fn periodic_keeps_its_grid() {
        let mut p = player(Model::Periodic { run: 5, period: 50 });
        assert_eq!(p.next_step(100, 1).then, Then::SleepUntil(150));
        assert_eq!(p.next_step(170, 1).then, Then::SleepUntil(200));
        assert_eq!(p.next_step(260, 1).then, Then::SleepUntil(250));
    }

    #[test]
    fn once_uses_exactly_its_time() {
        let mut p = player(Model::Once { run: 25, poll: 10 });
        let steps: Vec<Step> = (0..3).map(|_| p.next_step(0, 1)).collect();
        assert_eq!(steps.iter().map(|s| s.run_ns).sum::<u64>(), 25);
        assert_eq!(steps[1].then, Then::Yield);
        assert_eq!(steps[2].then, Then::Exit);
    }

    #[test]
    fn partners_take_turns() {
        let pair = |serves| {
            player(Model::Partner {
                run: 5,
                peer: 1,
                serves,
            })
        };
        assert_eq!(pair(true).next_step(0, 2).wakes, Some(1));
        let mut second = pair(false);
        assert_eq!(second.next_step(0, 2).wakes, None);
        assert_eq!(second.next_step(9, 2).wakes, Some(1));
    }
}
