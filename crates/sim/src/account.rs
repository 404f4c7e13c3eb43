//! The books of the judged phase: exact due service beside received service, in samples.

use std::collections::HashMap;

use evenkeel_core::weight;

use crate::frac::Frac;
use crate::history::{Class, History, Order};
use crate::judge::{Judge, NodeId};
use crate::state::{Task, slot};

/// Weight of the own tasks of a group beside its child groups.
const OWN_TASKS_WEIGHT: u64 = 100;

/// Is what every group and task had received, and was due, at one instant.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Instant, in ns.
    pub at: u64,
    /// Service received by the own tasks of each group, the root first, in ns.
    pub service_ns: Vec<u64>,
    /// Service due to them, in ns.
    pub due_ns: Vec<u64>,
    /// Runnable tasks among them.
    pub runnable: Vec<u64>,
    /// Service received by each task, in ns.
    pub ran_ns: Vec<u64>,
    /// Service due to each task of a group with `Fair` order, in ns.
    pub task_due_ns: Vec<Option<u64>>,
}

/// Compares service with the judge's exact answer from the start of the judged phase on.
#[derive(Debug)]
pub struct Account {
    judge: Judge,
    /// Node of the own tasks of each group, the root first.
    own: Vec<NodeId>,
    /// Nodes of the tasks of `Fair` groups, by task and group slot.
    task_nodes: HashMap<(usize, usize), NodeId>,
    samples: Vec<Sample>,
}

impl Account {
    /// Starts at `now` with the present groups and runnable tasks.
    pub fn new(history: &History, tasks: &[Task], now: u64) -> Self {
        let mut judge = Judge::new(history.machine.cpus);
        judge.set_rt_share(Frac::new(19, 20));
        let root = judge.root();
        let mut nodes = vec![root];
        let mut own = vec![judge.add(root, OWN_TASKS_WEIGHT)];
        for group in &history.groups {
            let node = judge.add(nodes[slot(group.parent)], group.weight.into());
            nodes.push(node);
            own.push(judge.add(node, OWN_TASKS_WEIGHT));
        }
        judge.advance(now);
        let mut account = Self {
            judge,
            own,
            task_nodes: HashMap::new(),
            samples: Vec::new(),
        };
        for (index, task) in tasks.iter().enumerate().filter(|(_, t)| t.is_runnable()) {
            account.change(history, task, index, 1);
        }
        account
    }

    /// Books that a task became (`delta` 1) or ceased to be (-1) runnable.
    pub fn change(&mut self, history: &History, task: &Task, index: usize, delta: i64) {
        let at = slot(task.spec.group);
        let order = task
            .spec
            .group
            .map_or(Order::Fifo, |g| history.groups[g].order);
        let node = match order {
            Order::Fifo => self.own[at],
            Order::Fair => {
                let weight = weight::nice_to_weight(task.spec.nice);
                let (judge, own) = (&mut self.judge, self.own[at]);
                let make = || judge.add(own, weight.into());
                *self.task_nodes.entry((index, at)).or_insert_with(make)
            }
        };
        let class = match task.class(history) {
            Class::RealTime { .. } => 0,
            Class::Fair => 1,
            Class::Idle => 2,
        };
        self.judge.change_runnable(node, class, delta);
    }

    /// Returns the present due rate of a runnable task in CPUs: that of its own, or an equal
    /// part of its group's.
    pub fn rate(&self, task: &Task, index: usize) -> f64 {
        let at = slot(task.spec.group);
        match self.task_nodes.get(&(index, at)) {
            Some(&node) => self.judge.rate(node),
            None => {
                let own = self.own[at];
                self.judge.rate(own) / self.judge.demand(own).max(1) as f64
            }
        }
    }

    /// Integrates what is due up to `now`.
    pub fn advance(&mut self, now: u64) {
        self.judge.advance(now);
    }

    /// Takes a sample at `now`, which [`Account::advance`] has reached.
    pub fn sample(&mut self, now: u64, service_ns: Vec<u64>, ran_ns: Vec<u64>) {
        let due = |&node: &NodeId| self.judge.due_ns(node);
        let mut task_due_ns = vec![None; ran_ns.len()];
        for (&(task, _), node) in &self.task_nodes {
            *task_due_ns[task].get_or_insert(0) += self.judge.due_ns(*node);
        }
        self.samples.push(Sample {
            at: now,
            service_ns,
            due_ns: self.own.iter().map(due).collect(),
            runnable: self.own.iter().map(|&n| self.judge.demand(n)).collect(),
            ran_ns,
            task_due_ns,
        });
    }

    /// Returns the samples, oldest first.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }
}

/// Is the error of service against what was due, over windows of one length.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WindowError {
    /// Largest error of a group, in % of one CPU.
    pub max: f64,
    /// Mean over groups and windows, in % of one CPU.
    pub mean: f64,
    /// Largest error of a task of a `Fair` group relative to its due share, in %.
    pub task_max: f64,
    /// Number of windows.
    pub windows: usize,
}

/// Compares service and due service over all windows of `span` samples.
///
/// A group is the own tasks of a node; the relative error of tasks is only taken where at
/// least `least_due_ns` was due.
pub fn window_error(samples: &[Sample], span: usize, least_due_ns: u64) -> WindowError {
    let mut error = WindowError::default();
    let (mut sum, mut count) = (0.0, 0usize);
    for pair in samples.windows(span + 1) {
        let (a, b) = (&pair[0], &pair[span]);
        let length = (b.at - a.at) as f64;
        error.windows += 1;
        for g in 0..b.due_ns.len() {
            let due = b.due_ns[g] - a.due_ns[g];
            let got = b.service_ns[g] - a.service_ns[g];
            if due == 0 && got == 0 {
                continue;
            }
            let off = 100.0 * got.abs_diff(due) as f64 / length;
            error.max = error.max.max(off);
            sum += off;
            count += 1;
        }
        for (task, due_end) in b.task_due_ns.iter().enumerate() {
            let before = a.task_due_ns.get(task).copied().flatten().unwrap_or(0);
            let due = due_end.unwrap_or(0) - before;
            let ran = b.ran_ns[task] - a.ran_ns.get(task).copied().unwrap_or(0);
            if due >= least_due_ns {
                let off = 100.0 * ran.abs_diff(due) as f64 / due as f64;
                error.task_max = error.task_max.max(off);
            }
        }
    }
    error.mean = sum / count.max(1) as f64;
    error
}
