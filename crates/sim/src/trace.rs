//! The last events of a run, kept for the report of a failure.

use std::collections::VecDeque;
use std::fmt;

/// Events kept for a failure's report.
const KEPT: usize = 40;

/// Is one thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A task became runnable on a CPU; whether it asked for the CPU at once.
    Enqueue(usize, usize, bool),
    /// A waiting task was taken back from a CPU.
    Dequeue(usize, usize),
    /// A CPU started to run a task until its slice ends.
    Run(usize, usize, u64),
    /// A CPU stopped running a task; the name of the reason.
    Stop(usize, usize, &'static str),
    /// A CPU pulled a task from another.
    Pull(usize, usize, usize),
    /// A CPU found nothing to run.
    Idle(usize),
    /// An operation of the history struck, by index.
    Op(usize),
    /// A phase began.
    Phase(&'static str),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Enqueue(cpu, task, resched) => {
                let mark = if resched { ", needs resched" } else { "" };
                write!(f, "cpu {cpu}: enqueue task {task}{mark}")
            }
            Self::Dequeue(cpu, task) => write!(f, "cpu {cpu}: dequeue task {task}"),
            Self::Run(cpu, task, end) => write!(f, "cpu {cpu}: run task {task} until {end}"),
            Self::Stop(cpu, task, why) => write!(f, "cpu {cpu}: task {task} {why}"),
            Self::Pull(cpu, task, from) => write!(f, "cpu {cpu}: pull task {task} of {from}"),
            Self::Idle(cpu) => write!(f, "cpu {cpu}: idle"),
            Self::Op(index) => write!(f, "operation {index}"),
            Self::Phase(name) => write!(f, "phase: {name}"),
        }
    }
}

/// Keeps the last events, and prints all of them when asked to.
#[derive(Debug, Default)]
pub struct Trace {
    last: VecDeque<(u64, What)>,
    is_printed: bool,
}

impl Trace {
    /// Makes an empty trace; `is_printed` sends every event to standard error at once.
    pub const fn new(is_printed: bool) -> Self {
        Self {
            last: VecDeque::new(),
            is_printed,
        }
    }

    /// Adds an event at `now` ns.
    pub fn add(&mut self, now: u64, what: What) {
        if self.is_printed {
            eprintln!("{now:>14} {what}");
        }
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back((now, what));
    }

    /// Returns the last events, oldest first, one a line.
    pub fn lines(&self) -> Vec<String> {
        let line = |(at, what): &(u64, What)| format!("{at:>14} {what}");
        self.last.iter().map(line).collect()
    }
}
