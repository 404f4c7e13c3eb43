//! Faulty schedulers: each breaks one promise, and shows that a checker notices.

use crate::history::{GroupSpec, TaskSpec};
use crate::sched::{Kind, Outcome, Pick, Pulled, Scheduler};
use crate::state::Place;

/// Says what goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A wake-up is lost: the task is never enqueued.
    DropWakeup,
    /// A task is enqueued on two CPUs.
    DoubleEnqueue,
    /// A task that yields is dropped.
    LoseYielded,
    /// The time of a stay on a CPU is not charged.
    SkipCharge,
    /// A CPU gets a task that runs on another.
    RunTwice,
    /// A CPU with waiting tasks picks none.
    PickNothing,
    /// A CPU pulls a task that runs on another.
    PullRunning,
    /// Groups count one task too many.
    MiscountGroup,
    /// Groups report a nanosecond too much.
    MisreportUsage,
    /// The scheduler panics at a pick.
    Panic,
    /// Idle CPUs never pull, and all tasks start on CPU 0.
    NeverPull,
    /// Weights are taken to be 100, whatever they are.
    IgnoreWeights,
    /// Nice values are taken to be 0, whatever they are.
    IgnoreNice,
    /// A group is served only while nobody else is.
    Starve,
}

/// Does what `inner` does, until its turn comes to do wrong.
#[derive(Debug)]
pub struct Faulty<S> {
    inner: S,
    fault: Fault,
    /// Opportunities to let pass before the fault strikes, for faults that strike once.
    countdown: u32,
    /// Task and start of its stay, by CPU.
    running: Vec<Option<(usize, u64)>>,
}

impl<S> Faulty<S> {
    /// Wraps `inner`, a scheduler of `cpus` CPUs; faults that strike once do so at opportunity
    /// `at`, counted from 0.
    pub fn new(inner: S, cpus: usize, fault: Fault, at: u32) -> Self {
        Self {
            inner,
            fault,
            countdown: at + 1,
            running: vec![None; cpus],
        }
    }

    /// Tells whether `fault` strikes at this opportunity for it.
    fn strikes(&mut self, fault: Fault) -> bool {
        if self.fault != fault || self.countdown == 0 {
            return false;
        }
        self.countdown -= 1;
        self.countdown == 0
    }

    fn any_running(&self) -> Option<usize> {
        self.running.iter().flatten().next().map(|&(task, _)| task)
    }

    fn altered(&self, spec: &TaskSpec) -> TaskSpec {
        let mut spec = spec.clone();
        if self.fault == Fault::IgnoreNice {
            spec.nice = 0;
        }
        spec
    }
}

impl<S: Scheduler> Scheduler for Faulty<S> {
    fn create_group(&mut self, group: usize, spec: &GroupSpec) {
        let mut spec = spec.clone();
        match self.fault {
            Fault::IgnoreWeights => spec.weight = 100,
            Fault::Starve if group == 0 => spec.weight = 1,
            Fault::Starve => spec.weight = 10_000,
            _ => {}
        }
        self.inner.create_group(group, &spec);
    }

    fn remove_group(&mut self, group: usize) {
        self.inner.remove_group(group);
    }

    fn set_weight(&mut self, group: usize, weight: u32, now: u64) {
        if self.fault != Fault::IgnoreWeights {
            self.inner.set_weight(group, weight, now);
        }
    }

    fn create_task(&mut self, task: usize, spec: &TaskSpec) {
        let spec = self.altered(spec);
        self.inner.create_task(task, &spec);
    }

    fn change_task(&mut self, cpu: Option<usize>, task: usize, spec: &TaskSpec, now: u64) -> bool {
        let spec = self.altered(spec);
        self.inner.change_task(cpu, task, &spec, now)
    }

    fn move_task(&mut self, task: usize, spec: &TaskSpec, now: u64) {
        let spec = self.altered(spec);
        self.inner.move_task(task, &spec, now);
    }

    fn select_cpu(&mut self, task: usize, is_idle: &[bool], now: u64, random: u64) -> usize {
        if self.fault == Fault::NeverPull {
            return 0;
        }
        self.inner.select_cpu(task, is_idle, now, random)
    }

    fn enqueue(&mut self, cpu: usize, task: usize, kind: Kind, now: u64) -> bool {
        if kind == Kind::Wakeup && self.strikes(Fault::DropWakeup) {
            return false;
        }
        if self.strikes(Fault::DoubleEnqueue) {
            let other = (cpu + 1) % self.running.len();
            let _ = self.inner.enqueue(other, task, kind, now);
        }
        self.inner.enqueue(cpu, task, kind, now)
    }

    fn dequeue(&mut self, cpu: usize, task: usize, now: u64) {
        self.inner.dequeue(cpu, task, now);
    }

    fn forget(&mut self, task: usize, now: u64) {
        self.inner.forget(task, now);
    }

    fn pick(&mut self, cpu: usize, now: u64) -> Option<Pick> {
        assert!(!self.strikes(Fault::Panic), "the fault that was asked for");
        if self.inner.nr_running(cpu) > 0 && self.strikes(Fault::PickNothing) {
            return None;
        }
        let mut pick = self.inner.pick(cpu, now);
        if let (Some(pick), Some(task)) = (&mut pick, self.any_running())
            && self.strikes(Fault::RunTwice)
        {
            pick.task = task;
        }
        self.running[cpu] = pick.map(|p| (p.task, now));
        pick
    }

    fn put(&mut self, cpu: usize, task: usize, outcome: Outcome, now: u64) {
        let since = self.running[cpu].take().map_or(now, |(_, since)| since);
        let is_lost = outcome == Outcome::Yielded && self.strikes(Fault::LoseYielded);
        let outcome = if is_lost { Outcome::Blocked } else { outcome };
        let until = if self.strikes(Fault::SkipCharge) {
            since
        } else {
            now
        };
        self.inner.put(cpu, task, outcome, until);
    }

    fn tick(&mut self, cpu: usize, now: u64) -> bool {
        self.inner.tick(cpu, now)
    }

    fn coordinate(&mut self, now: u64) {
        self.inner.coordinate(now);
    }

    fn pull(&mut self, cpu: usize, now: u64, random: u64) -> Option<Pulled> {
        if self.fault == Fault::NeverPull {
            return None;
        }
        let running = self.any_running();
        if running.is_some() && self.strikes(Fault::PullRunning) {
            let is_next = true;
            return running.map(|task| Pulled { task, is_next });
        }
        self.inner.pull(cpu, now, random)
    }

    fn nr_running(&self, cpu: usize) -> usize {
        self.inner.nr_running(cpu)
    }

    fn usage_ns(&self, cpu: usize, group: Option<usize>) -> u64 {
        self.inner.usage_ns(cpu, group)
    }

    fn group_nr_running(&self, group: Option<usize>) -> usize {
        let wrong = usize::from(self.fault == Fault::MiscountGroup);
        self.inner.group_nr_running(group) + wrong
    }

    fn group_usage_ns(&self, group: Option<usize>) -> u64 {
        let wrong = u64::from(self.fault == Fault::MisreportUsage);
        self.inner.group_usage_ns(group) + wrong
    }

    fn is_consistent(&self, task: usize, place: Place) -> bool {
        self.inner.is_consistent(task, place)
    }

    fn check_invariants(&self, cpu: usize, now: u64) {
        self.inner.check_invariants(cpu, now);
    }
}
