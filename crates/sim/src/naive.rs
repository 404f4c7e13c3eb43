//! A scheduler that is right but fair to nobody: one FIFO queue per CPU, idle CPUs steal the
//! oldest waiting task. It shows that the machine works without the core, and that the
//! judge finds a scheduler that ignores weights.

use std::collections::VecDeque;

use crate::history::{GroupSpec, TaskSpec};
use crate::sched::{Kind, Outcome, Pick, Pulled, Scheduler};
use crate::state::{Place, slot};

/// Time after which a task makes way, in ns.
const SLICE_NS: u64 = 3_000_000;

/// Is one CPU of [`Naive`].
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<usize>,
    /// Slot of the group that is charged, and since when.
    curr: Option<(usize, u64)>,
    /// Charged time by group, the root first.
    usage_ns: Vec<u64>,
}

/// Runs tasks in order of arrival.
#[derive(Debug)]
pub struct Naive {
    cpus: Vec<Queue>,
    /// Group of each task.
    groups: Vec<usize>,
}

impl Naive {
    /// Makes a scheduler for `cpus` CPUs and at most `groups` groups.
    pub fn new(cpus: usize, groups: usize) -> Self {
        let queue = || Queue {
            usage_ns: vec![0; groups + 1],
            ..Queue::default()
        };
        Self {
            cpus: (0..cpus).map(|_| queue()).collect(),
            groups: Vec::new(),
        }
    }
}

impl Scheduler for Naive {
    fn create_group(&mut self, _: usize, _: &GroupSpec) {}

    fn remove_group(&mut self, group: usize) {
        for queue in &mut self.cpus {
            queue.usage_ns[group + 1] = 0;
        }
    }

    fn set_weight(&mut self, _: usize, _: u32, _: u64) {}

    fn create_task(&mut self, task: usize, spec: &TaskSpec) {
        self.groups.resize(self.groups.len().max(task + 1), 0);
        self.groups[task] = slot(spec.group);
    }

    fn change_task(&mut self, _: Option<usize>, _: usize, _: &TaskSpec, _: u64) -> bool {
        false
    }

    fn move_task(&mut self, task: usize, spec: &TaskSpec, _: u64) {
        self.groups[task] = slot(spec.group);
    }

    fn select_cpu(&mut self, _: usize, is_idle: &[bool], _: u64, random: u64) -> usize {
        let any = (random % is_idle.len() as u64) as usize;
        is_idle.iter().position(|&idle| idle).unwrap_or(any)
    }

    fn enqueue(&mut self, cpu: usize, task: usize, _: Kind, _: u64) -> bool {
        self.cpus[cpu].waiting.push_back(task);
        false
    }

    fn dequeue(&mut self, cpu: usize, task: usize, _: u64) {
        self.cpus[cpu].waiting.retain(|&t| t != task);
    }

    fn forget(&mut self, _: usize, _: u64) {}

    fn pick(&mut self, cpu: usize, now: u64) -> Option<Pick> {
        let task = self.cpus[cpu].waiting.pop_front()?;
        self.cpus[cpu].curr = Some((self.groups[task], now));
        Some(Pick {
            task,
            slice_end: now + SLICE_NS,
        })
    }

    fn put(&mut self, cpu: usize, task: usize, outcome: Outcome, now: u64) {
        let queue = &mut self.cpus[cpu];
        if let Some((group, since)) = queue.curr.take() {
            queue.usage_ns[group] += now - since;
        }
        if matches!(outcome, Outcome::Preempted | Outcome::Yielded) {
            queue.waiting.push_back(task);
        }
    }

    fn tick(&mut self, cpu: usize, now: u64) -> bool {
        let queue = &self.cpus[cpu];
        let is_over = |&(_, since): &(usize, u64)| now - since >= SLICE_NS;
        !queue.waiting.is_empty() && queue.curr.as_ref().is_some_and(is_over)
    }

    fn coordinate(&mut self, _: u64) {}

    fn pull(&mut self, cpu: usize, _: u64, _: u64) -> Option<Pulled> {
        if !self.cpus[cpu].waiting.is_empty() || self.cpus[cpu].curr.is_some() {
            return None;
        }
        let victim = self.cpus.iter().position(|q| !q.waiting.is_empty())?;
        let task = self.cpus[victim].waiting.pop_front()?;
        self.cpus[cpu].waiting.push_back(task);
        let is_next = true;
        Some(Pulled { task, is_next })
    }

    fn nr_running(&self, cpu: usize) -> usize {
        let queue = &self.cpus[cpu];
        queue.waiting.len() + usize::from(queue.curr.is_some())
    }

    fn usage_ns(&self, cpu: usize, group: Option<usize>) -> u64 {
        self.cpus[cpu].usage_ns[slot(group)]
    }

    fn group_nr_running(&self, group: Option<usize>) -> usize {
        let here = |queue: &Queue| {
            let waiting = queue
                .waiting
                .iter()
                .filter(|&&t| self.groups[t] == slot(group));
            waiting.count() + usize::from(queue.curr.is_some_and(|c| c.0 == slot(group)))
        };
        self.cpus.iter().map(here).sum()
    }

    fn group_usage_ns(&self, group: Option<usize>) -> u64 {
        self.cpus.iter().map(|q| q.usage_ns[slot(group)]).sum()
    }

    fn is_consistent(&self, task: usize, place: Place) -> bool {
        match place {
            Place::Queued { cpu, .. } => self.cpus[cpu].waiting.contains(&task),
            _ => self.cpus.iter().all(|q| !q.waiting.contains(&task)),
        }
    }

    fn check_invariants(&self, _: usize, _: u64) {}
}
