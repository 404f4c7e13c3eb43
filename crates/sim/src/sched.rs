//! The seam between the virtual machine and what it drives: the core, or a faulty or naive
//! scheduler that proves that the checkers can fail.
//!
//! Tasks and groups are named by their index in the history; group `None` is the root. Times
//! are absolute, in ns.

use crate::history::{GroupSpec, TaskSpec};
use crate::state::Place;

/// Says why a task becomes runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// First time.
    New,
    /// After blocking.
    Wakeup,
    /// Comes back after an attribute or its group changed.
    Requeue,
}

/// Says why a task leaves its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Interrupted, still runnable.
    Preempted,
    /// Gave way, still runnable.
    Yielded,
    /// Not runnable until woken.
    Blocked,
    /// Ended.
    Exited,
}

/// Is the answer of [`Scheduler::pick`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Task to run.
    pub task: usize,
    /// When it should be interrupted in favour of others.
    pub slice_end: u64,
}

/// Is the answer of [`Scheduler::pull`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// Task that was moved.
    pub task: usize,
    /// Whether it should replace the task that runs where it came to.
    pub is_next: bool,
}

/// Schedules the tasks of a history on virtual CPUs.
///
/// The machine calls `enqueue` only for tasks that are not runnable, `put` only for the task
/// that the CPU picked last, and so on; the checkers watch what comes back.
pub trait Scheduler {
    /// Creates a group whose parent exists.
    fn create_group(&mut self, group: usize, spec: &GroupSpec);
    /// Removes a group without tasks and children.
    fn remove_group(&mut self, group: usize);
    /// Sets a group's weight.
    fn set_weight(&mut self, group: usize, weight: u32, now: u64);
    /// Makes a task known, not runnable.
    fn create_task(&mut self, task: usize, spec: &TaskSpec);
    /// Sets nice value and slice of a task that runs, waits on `cpu` or is blocked (`None`).
    /// Returns whether the running task of that CPU should be replaced.
    fn change_task(&mut self, cpu: Option<usize>, task: usize, spec: &TaskSpec, now: u64) -> bool;
    /// Puts a task that neither runs nor waits into another group.
    fn move_task(&mut self, task: usize, spec: &TaskSpec, now: u64);
    /// Chooses a CPU for a task that becomes runnable; `random` decides between equals.
    fn select_cpu(&mut self, task: usize, is_idle: &[bool], now: u64, random: u64) -> usize;
    /// Makes a task runnable on `cpu`; returns whether it should replace the running one.
    fn enqueue(&mut self, cpu: usize, task: usize, kind: Kind, now: u64) -> bool;
    /// Takes back a task that waits on `cpu`.
    fn dequeue(&mut self, cpu: usize, task: usize, now: u64);
    /// Ends a blocked task, which may still have traces in a queue.
    fn forget(&mut self, task: usize, now: u64);
    /// Picks the next task of `cpu`, which runs none.
    fn pick(&mut self, cpu: usize, now: u64) -> Option<Pick>;
    /// Takes the running task off `cpu` and charges it.
    fn put(&mut self, cpu: usize, task: usize, outcome: Outcome, now: u64);
    /// Is the periodic tick; returns whether the running task should be replaced.
    fn tick(&mut self, cpu: usize, now: u64) -> bool;
    /// Is the periodic work of the coordinator.
    fn coordinate(&mut self, now: u64);
    /// Lets `cpu`, which is about to pick or whose task can be interrupted, pull a task from
    /// another CPU.
    fn pull(&mut self, cpu: usize, now: u64, random: u64) -> Option<Pulled>;
    /// Counts runnable tasks of `cpu`, the running one included.
    fn nr_running(&self, cpu: usize) -> usize;
    /// Returns the time charged on `cpu` to the own tasks of `group`, in ns.
    fn usage_ns(&self, cpu: usize, group: Option<usize>) -> u64;
    /// Counts runnable tasks of `group` on all CPUs, from what the CPUs tell each other.
    fn group_nr_running(&self, group: Option<usize>) -> usize;
    /// Returns the time charged to the own tasks of `group` on all CPUs, in ns, from what the
    /// CPUs tell each other; exact when nothing runs.
    fn group_usage_ns(&self, group: Option<usize>) -> u64;
    /// Tells whether the scheduler's own record of a task agrees with where it is.
    fn is_consistent(&self, task: usize, place: Place) -> bool;
    /// Checks the scheduler's own invariants for `cpu`; panics when one is broken.
    fn check_invariants(&self, cpu: usize, now: u64);
}
