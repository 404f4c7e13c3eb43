//! Histories: a machine, a tree of groups, tasks and live operations, as plain data.
//!
//! A history runs in four phases. In the *busy* phase tasks follow their models and operations
//! strike. Then every task that is left turns into a hog; the machine gets `settle_ns` to
//! reach its new shares, and in the *judged* phase shares are compared with the exact ones.
//! Last, all tasks wind up and exit, and nothing may be left over.

use std::fmt;

pub use evenkeel_core::{Class, Order, RtPolicy};

use crate::model::Model;

/// Is the start time of a task that was left out of a history.
pub const NEVER: u64 = u64::MAX;

/// Describes the virtual machine; all times in ns.
#[derive(Clone, Debug)]
pub struct MachineSpec {
    /// Number of CPUs, at least 1.
    pub cpus: u32,
    /// Period of each CPU's tick while it is busy.
    pub tick_ns: u64,
    /// Whether ticks strike inside polls that cannot be interrupted too.
    pub ticks_polls: bool,
    /// Period of the coordinator.
    pub coordinator_ns: u64,
    /// Longest time from a kick to an idle CPU until it looks for work.
    pub kick_ns: u64,
    /// Chance in percent that a task of a `Fifo` group that blocks for no time is woken on
    /// another CPU before its last poll has been put back.
    pub early_wake_percent: u64,
}

impl MachineSpec {
    /// Makes a machine of `cpus` CPUs with 1 ms ticks outside polls and prompt kicks.
    pub const fn new(cpus: u32) -> Self {
        Self {
            cpus,
            tick_ns: 1_000_000,
            ticks_polls: false,
            coordinator_ns: 1_000_000,
            kick_ns: 2_000,
            early_wake_percent: 0,
        }
    }
}

/// Describes a group; its index in the history is its name.
#[derive(Clone, Debug)]
pub struct GroupSpec {
    /// Index of the parent, `None` for the root.
    pub parent: Option<usize>,
    /// Weight, 1 to 10,000.
    pub weight: u32,
    /// Order of its own tasks.
    pub order: Order,
    /// Class of its own tasks.
    pub class: Class,
    /// Whether it exists from the start or waits for [`Op::CreateGroup`].
    pub from_start: bool,
}

/// Describes a task; its index in the history is its name.
#[derive(Clone, Debug)]
pub struct TaskSpec {
    /// Index of its group, `None` for the root.
    pub group: Option<usize>,
    /// What it does.
    pub model: Model,
    /// Whether it can be interrupted inside a step.
    pub is_preemptible: bool,
    /// Nice value, -20 to 19.
    pub nice: i8,
    /// Slice in ns, `None` for the default.
    pub slice_ns: Option<u32>,
    /// Class, `None` for that of the group.
    pub class: Option<Class>,
    /// Time of its first wake-up, [`NEVER`] when left out.
    pub start: u64,
}

/// Is a live operation on the running machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Sets a group's weight.
    SetWeight {
        /// Group.
        group: usize,
        /// New weight.
        weight: u32,
    },
    /// Sets a task's nice value.
    SetNice {
        /// Task.
        task: usize,
        /// New value.
        nice: i8,
    },
    /// Sets a task's slice.
    SetSlice {
        /// Task.
        task: usize,
        /// New slice in ns.
        slice_ns: u32,
    },
    /// Moves a task into another group.
    Move {
        /// Task.
        task: usize,
        /// Target, `None` for the root.
        group: Option<usize>,
    },
    /// Ends a task wherever it is.
    Abort {
        /// Task.
        task: usize,
    },
    /// Wakes a task; no effect unless it is blocked.
    Wake {
        /// Task.
        task: usize,
    },
    /// Creates a group that does not exist yet.
    CreateGroup {
        /// Group.
        group: usize,
    },
    /// Moves all tasks of a group without children to its parent and removes it.
    RemoveGroup {
        /// Group.
        group: usize,
    },
}

/// Is a complete history.
#[derive(Clone, Debug)]
pub struct History {
    /// Seed of all random choices while it runs.
    pub seed: u64,
    /// The machine.
    pub machine: MachineSpec,
    /// Groups; a parent stands before its children.
    pub groups: Vec<GroupSpec>,
    /// Tasks.
    pub tasks: Vec<TaskSpec>,
    /// Operations in order of time.
    pub ops: Vec<(u64, Op)>,
    /// Length of the busy phase.
    pub busy_ns: u64,
    /// Time to settle before shares are judged.
    pub settle_ns: u64,
    /// Length of the judged phase, 0 to skip it.
    pub judged_ns: u64,
    /// Poll length of the hogs of the judged phase.
    pub poll_ns: u64,
    /// Whether tasks follow their models in the judged phase too.
    pub keeps_models: bool,
}

impl History {
    /// Leaves out what `cut` names.
    pub fn apply(&mut self, cut: &Cut) {
        for &task in &cut.tasks {
            if let Some(spec) = self.tasks.get_mut(task) {
                spec.start = NEVER;
            }
        }
        let mut index = 0;
        self.ops.retain(|_| {
            index += 1;
            !cut.ops.contains(&(index - 1))
        });
        if cut.is_unjudged {
            self.settle_ns = 0;
            self.judged_ns = 0;
        }
        if cut.has_equal_nice {
            self.tasks.iter_mut().for_each(|t| t.nice = 0);
            self.ops.iter_mut().for_each(|(_, op)| {
                if let Op::SetNice { nice, .. } = op {
                    *nice = 0;
                }
            });
        }
        if cut.has_equal_slices {
            self.tasks.iter_mut().for_each(|t| t.slice_ns = None);
            self.ops
                .retain(|(_, op)| !matches!(op, Op::SetSlice { .. }));
        }
        if let Some(busy_ns) = cut.busy_ns {
            self.busy_ns = self.busy_ns.min(busy_ns);
        }
    }
}

impl fmt::Display for History {
    /// Writes the tasks that start, the groups above them, and the operations, one a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut is_used = vec![false; self.groups.len()];
        let starts = |t: &&TaskSpec| t.start != NEVER;
        for task in self.tasks.iter().filter(starts) {
            let mut group = task.group;
            while let Some(g) = group {
                is_used[g] = true;
                group = self.groups[g].parent;
            }
        }
        writeln!(f, "{:?}", self.machine)?;
        for (i, g) in self.groups.iter().enumerate().filter(|(i, _)| is_used[*i]) {
            writeln!(f, "group {i}: {g:?}")?;
        }
        for (i, t) in self.tasks.iter().enumerate().filter(|(_, t)| starts(t)) {
            writeln!(f, "task {i}: {t:?}")?;
        }
        for (at, op) in &self.ops {
            writeln!(f, "operation at {at}: {op:?}")?;
        }
        write!(
            f,
            "busy {} ns, settle {} ns, judged {} ns with polls of {} ns",
            self.busy_ns, self.settle_ns, self.judged_ns, self.poll_ns
        )
    }
}

/// Says what to leave out of a history, for replaying a shrunk failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Tasks that never start.
    pub tasks: Vec<usize>,
    /// Operations that do not happen.
    pub ops: Vec<usize>,
    /// Shorter length of the busy phase.
    pub busy_ns: Option<u64>,
    /// Whether the judged phase is skipped.
    pub is_unjudged: bool,
    /// Whether all nice values are 0.
    pub has_equal_nice: bool,
    /// Whether all tasks have the default slice.
    pub has_equal_slices: bool,
}
