//! What the machine itself knows about tasks and CPUs, independent of the scheduler.

use crate::history::{Class, History, Order, TaskSpec};
use crate::model::{Player, Step};
use crate::rng::Rng;

/// Says where a task is. A live task is in exactly one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Not started.
    Out,
    /// Not runnable.
    Blocked,
    /// Waits on a CPU since a time.
    Queued {
        /// CPU.
        cpu: usize,
        /// Since when, in ns.
        since: u64,
    },
    /// Runs on a CPU.
    Running {
        /// CPU.
        cpu: usize,
    },
    /// Ended.
    Dead,
}

/// Is what the machine knows about a task.
#[derive(Debug)]
pub struct Task {
    /// Present attributes.
    pub spec: TaskSpec,
    /// Source of its steps.
    pub player: Player,
    /// Where it is.
    pub place: Place,
    /// Step under way.
    pub step: Option<Step>,
    /// CPU time left in that step.
    pub left_ns: u64,
    /// Sleep that is being waited for; older wake-ups are void.
    pub sleep: u64,
    /// Whether it was woken while it ran.
    pub is_woken: bool,
    /// Whether it is to end at the next opportunity.
    pub is_aborted: bool,
    /// Group it is to move to when its step ends.
    pub moves_to: Option<Option<usize>>,
    /// CPU time used up to the last switch, in ns.
    pub ran_ns: u64,
}

impl Task {
    /// Makes the state of task `index` of a history with this seed.
    pub fn new(seed: u64, index: usize, spec: TaskSpec, now: u64) -> Self {
        let rng = Rng::fork(seed, 1_000 + index as u64);
        Self {
            player: Player::new(spec.model.clone(), rng, now),
            spec,
            place: Place::Out,
            step: None,
            left_ns: 0,
            sleep: 0,
            is_woken: false,
            is_aborted: false,
            moves_to: None,
            ran_ns: 0,
        }
    }

    /// Tells whether the task is neither ended nor left out.
    pub const fn is_live(&self) -> bool {
        !matches!(self.place, Place::Out | Place::Dead)
    }

    /// Tells whether the task runs or waits for a CPU.
    pub const fn is_runnable(&self) -> bool {
        matches!(self.place, Place::Queued { .. } | Place::Running { .. })
    }

    /// Returns its class.
    pub fn class(&self, history: &History) -> Class {
        let inherited = self.spec.group.map(|g| history.groups[g].class);
        self.spec.class.or(inherited).unwrap_or(Class::Fair)
    }

    /// Tells whether EEVDF orders it among the tasks of its group.
    pub fn is_fair_ordered(&self, history: &History) -> bool {
        let order = self.spec.group.map(|g| history.groups[g].order);
        order == Some(Order::Fair) && self.class(history) == Class::Fair
    }
}

/// Is the task on a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Curr {
    /// Task.
    pub task: usize,
    /// Since when it is there.
    pub since: u64,
    /// Group it belonged to when it was picked.
    pub group: Option<usize>,
    /// End of its slice.
    pub slice_end: u64,
    /// Whether the task has blocked, was woken elsewhere, and only its last poll is still
    /// to be put back here.
    pub is_ghost: bool,
}

/// Is what the machine knows about a CPU.
#[derive(Debug, Default)]
pub struct Cpu {
    /// Task that runs, if any.
    pub curr: Option<Curr>,
    /// Since when nobody runs.
    pub idle_since: u64,
    /// Number of the event that this CPU waits for; others are void.
    pub stamp: u64,
    /// Whether a kick is on its way.
    pub is_kicked: bool,
    /// Whether its tick is under way.
    pub is_ticking: bool,
    /// Whether the running task should be replaced.
    pub needs_resched: bool,
    /// Whether anything happened here since the last check.
    pub is_touched: bool,
    /// Tasks that wait here.
    pub waiting: usize,
    /// Time charged by group up to the last switch, the root first, in ns.
    pub charged_ns: Vec<u64>,
}

impl Cpu {
    /// Counts the tasks that the scheduler should count here.
    pub fn nr_running(&self) -> usize {
        self.waiting + usize::from(self.curr.is_some())
    }
}

/// Returns the position of a group in vectors that hold the root first.
pub fn slot(group: Option<usize>) -> usize {
    group.map_or(0, |g| g + 1)
}
