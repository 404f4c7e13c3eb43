//! What polls do: compute, begin and end sections that nest, call the kernel, look whether they
//! should make room.

use std::collections::VecDeque;

use super::sections::Kind;
use crate::rng::Rng;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// Time between two steps at the ends of a section, in ns.
const STEP_NS: u64 = 5;

/// Longest stretch of a poll that is drawn at once, in ns: what is begun in it ends in it.
const CHUNK_NS: u64 = 2 * MS;

/// One step of a poll. The ends of a section are several, as they are several instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Count a section.
    Add(Kind),
    /// If it is the outermost one, ask the kernel for an extension.
    AskKernel,
    /// Drop the count; if that was the outermost section, the next three have an effect.
    Subtract(Kind),
    /// Withdraw the request to the kernel.
    Withdraw,
    /// Give a grant back.
    YieldGrant,
    /// Look whether the CPU was asked for.
    Look,
    /// Enter the gate: code of the runtime that the poll called.
    EnterGate,
    /// Leave the gate.
    LeaveGate,
    /// A system call that knows nothing of sections.
    Call,
    /// A point at which the poll ends if it should make room.
    Point,
    /// The end of the poll.
    End,
}

/// What a task does after a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It stays runnable.
    Yield,
    /// It is woken after this time, in ns.
    Sleep(u64),
}

/// How the polls of a task are drawn; lengths in ns.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// Shortest poll.
    pub least_ns: u64,
    /// Longest poll; `u64::MAX`: one that never ends.
    pub most_ns: u64,
    /// Longest sleep after a poll; 0: none.
    pub sleep_ns: u64,
    /// Chance of a section after each stretch of computing, in percent.
    pub sections_percent: u64,
    /// Whether polls look whether they should make room.
    pub has_points: bool,
}

/// A poll under way: the steps that were drawn, and what is left of its length.
#[derive(Clone, Debug)]
pub struct Plan {
    steps: VecDeque<(u64, Action)>,
    left_ns: u64,
    /// What follows.
    pub then: Then,
    model: Model,
}

impl Plan {
    /// Begins a poll.
    pub fn new(model: Model, rng: &mut Rng) -> Self {
        let is_endless = model.most_ns == u64::MAX;
        Self {
            steps: VecDeque::new(),
            left_ns: if is_endless {
                u64::MAX
            } else {
                rng.log_range(model.least_ns, model.most_ns)
            },
            then: match model.sleep_ns {
                0 => Then::Yield,
                most => Then::Sleep(rng.log_range(most / 50, most)),
            },
            model,
        }
    }

    /// Returns the next step, and how long the poll computes before it, in ns.
    pub fn next(&mut self, rng: &mut Rng, is_look_first: bool) -> (u64, Action) {
        if let Some(step) = self.steps.pop_front() {
            return step;
        }
        if self.left_ns == 0 {
            return (0, Action::End);
        }
        let chunk = self.left_ns.min(rng.log_range(US, CHUNK_NS));
        self.left_ns -= chunk;
        let compute = chunk / 2;
        if rng.percent(self.model.sections_percent) {
            self.section(rng, compute, 0, is_look_first);
            self.push(chunk - compute, Action::Point);
        } else if rng.percent(10) {
            self.push(compute, Action::EnterGate);
            if rng.percent(30) {
                self.section(rng, 0, 3, is_look_first);
            }
            self.push(rng.log_range(100, 20 * US), Action::LeaveGate);
            self.push(chunk - compute, Action::Point);
        } else {
            self.push(
                chunk,
                if rng.percent(20) {
                    Action::Call
                } else {
                    Action::Point
                },
            );
        }
        self.steps.pop_front().unwrap_or((0, Action::End))
    }

    fn push(&mut self, gap: u64, action: Action) {
        if action != Action::Point || self.model.has_points {
            self.steps.push_back((gap, action));
        } else {
            // A stretch without anything at its end.
            self.steps.push_back((gap, Action::Call));
        }
    }

    /// Draws a section and what is in it.
    fn section(&mut self, rng: &mut Rng, before_ns: u64, depth: u32, is_look_first: bool) {
        let kinds = [Kind::Slice, Kind::Slice, Kind::Lock, Kind::Runtime];
        let kind = if depth >= 3 {
            Kind::Slice
        } else {
            *rng.pick(&kinds)
        };
        self.steps.push_back((before_ns, Action::Add(kind)));
        self.steps.push_back((STEP_NS, Action::AskKernel));
        let mut rest = match kind {
            Kind::Slice => rng.log_range(200, 200 * US),
            Kind::Lock => rng.log_range(US, 12 * MS),
            Kind::Runtime => rng.log_range(100, 300 * US),
        };
        while depth < 2 && rng.percent(35) {
            let before = rest / 2;
            rest -= before;
            self.section(rng, before, depth + 1, is_look_first);
        }
        if kind != Kind::Runtime && rng.percent(10) {
            self.steps.push_back((rest / 2, Action::Call));
            rest -= rest / 2;
        }
        if is_look_first {
            self.steps.push_back((rest, Action::Look));
            rest = STEP_NS;
        }
        self.steps.push_back((rest, Action::Subtract(kind)));
        self.steps.push_back((STEP_NS, Action::Withdraw));
        self.steps.push_back((STEP_NS, Action::YieldGrant));
        if !is_look_first {
            self.steps.push_back((STEP_NS, Action::Look));
        }
    }

    /// Lets the poll end after what was drawn already.
    pub fn wind_up(&mut self) {
        self.left_ns = 0;
    }

    /// Puts back the step that was returned last.
    pub fn put_back(&mut self, step: (u64, Action)) {
        self.steps.push_front(step);
    }

    /// Ends the poll here.
    pub fn end_now(&mut self) {
        self.steps.clear();
        self.left_ns = 0;
        self.then = Then::Yield;
    }
}
