//! What the scheduler knows of one task (or of a group on one CPU).

use crate::config::{MAX_SLICE_NS, MIN_SLICE_NS};
use crate::error::Error;
use crate::group::GroupId;
use crate::keys;
use crate::weight::{IDLE_WEIGHT, NICE_RANGE, nice_to_weight};

/// What a real-time task does when others of its priority wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtPolicy {
    /// Runs until it blocks or yields (POSIX `SCHED_FIFO`).
    Fifo,
    /// Goes behind the others after [`Config::rr_slice_ns`](crate::Config::rr_slice_ns)
    /// (POSIX `SCHED_RR`).
    RoundRobin,
}

/// Scheduling class of a task. A higher class always runs first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Runs before all others, in order of priority.
    RealTime {
        /// 1 (lowest) to 99 (highest).
        priority: u8,
        /// What happens between tasks of equal priority.
        policy: RtPolicy,
    },
    /// Shares the CPUs with the other groups by weight.
    Fair,
    /// Runs on CPUs that would otherwise be idle.
    Idle,
}

impl Class {
    /// Turns on what tasks of this class need.
    fn make_ready(self) -> Result<(), Error> {
        match self {
            Class::RealTime { .. } => keys::REALTIME.enable(),
            Class::Fair | Class::Idle => Ok(()),
        }
    }
}

/// Settings of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskParams {
    /// Scheduling class.
    pub class: Class,
    /// −20 to 19; has an effect in groups of [`Order::Fair`](crate::Order::Fair).
    pub nice: i8,
    /// Requested slice in ns, 100 µs to 100 ms; 0 asks for the base slice.
    pub slice_ns: u32,
}

impl Default for TaskParams {
    /// Returns the fair class, nice 0, base slice.
    fn default() -> Self {
        TaskParams {
            class: Class::Fair,
            nice: 0,
            slice_ns: 0,
        }
    }
}

impl TaskParams {
    /// Checks every value, and makes ready what the class needs: the first settings that ask for
    /// the real-time class turn its [key](crate::keys::REALTIME) on, for good. Call it before the
    /// settings are given to an entity.
    ///
    /// # Errors
    /// [`Error::is_invalid_value`], naming the knob; [`Error::is_not_compiled`] if the real-time
    /// class is not in this build (cargo feature `realtime`); [`Error::is_key`] if its key is off
    /// and the system refuses to have code changed.
    pub fn check(&self) -> Result<(), Error> {
        if let Class::RealTime { priority, .. } = self.class
            && !(1..=99).contains(&priority)
        {
            return Err(Error::invalid("priority", priority.into(), "1 to 99"));
        }
        if !NICE_RANGE.contains(&self.nice) {
            return Err(Error::invalid("nice", self.nice.into(), "-20 to 19"));
        }
        if self.slice_ns != 0 && !(MIN_SLICE_NS..=MAX_SLICE_NS).contains(&self.slice_ns) {
            let allowed = "0 (base slice), or 100000 to 100000000 ns";
            return Err(Error::invalid("slice_ns", self.slice_ns.into(), allowed));
        }
        self.class.make_ready()
    }
}

/// Where a task is, as far as its run queue has recorded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// In no queue and not running.
    Blocked,
    /// Runnable and waiting in the run queue of [`Entity::cpu`].
    Queued,
    /// Blocked, but still in the tree of [`Entity::cpu`] until its negative lag is burnt
    /// (kernel: `sched_delayed`). Only tasks of [`Order::Fair`](crate::Order::Fair) groups.
    Delayed,
    /// Picked by the run queue of [`Entity::cpu`]. A task that is not scheduled by EEVDF keeps
    /// this state while it is blocked, until it is enqueued again: its run queue may not touch it
    /// after its poll has ended, because another CPU may already have woken it.
    Running,
}

/// Class of an entity without its arguments, one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Policy {
    Fair,
    Idle,
    RtFifo,
    RtRoundRobin,
}

/// Grain of the slice extremes kept in trees, in ns: 65,535 of it exceed the longest slice.
pub(crate) const SLICE_UNIT_NS: u32 = 2048;

/// Marks a task of the idle class that is throttled.
pub(crate) const PARKED: u8 = u8::MAX;

const _: () = assert!((u16::MAX as u32) * SLICE_UNIT_NS > MAX_SLICE_NS);

/// Scheduling state embedded in every task, 64 bytes for an 8-byte key with a niche.
///
/// # Access
/// `group`, `params`: written by the owner while the task is in no queue, else by the run queue.
/// Everything else: only the run queue of [`Entity::cpu`], under its lock, while the state is
/// `Queued`, `Delayed` or `Running`.
#[derive(Clone, Debug)]
pub struct Entity<K> {
    /// Tree: subtree with the smaller keys. List: the task before.
    pub(crate) left: Option<K>,
    /// Tree: subtree with the larger keys. List: the task behind.
    pub(crate) right: Option<K>,
    /// v_i of EEVDF: service received divided by weight.
    pub(crate) vruntime: i64,
    /// d_i of EEVDF; while `rel_deadline` is set, relative to `vruntime`.
    pub(crate) deadline: i64,
    /// While in a tree: least `vruntime` of the subtree. Otherwise: lag / weight at the time of
    /// leaving (kernel: `vlag`).
    pub(crate) min_vruntime_or_vlag: i64,
    /// Least slice of the subtree while in a tree, in [`SLICE_UNIT_NS`] (kernel: `min_slice`).
    pub(crate) min_slice: u16,
    /// Largest slice of the subtree while in a tree, in [`SLICE_UNIT_NS`] (kernel: `max_slice`).
    pub(crate) max_slice: u16,
    /// Requested slice in ns, never 0 once it was queued.
    pub(crate) slice: u32,
    /// Insertion number: orders equal deadlines, wraps.
    pub(crate) seq: u32,
    pub(crate) group: GroupId,
    pub(crate) cpu: u16,
    pub(crate) policy: Policy,
    pub(crate) rt_priority: u8,
    pub(crate) nice: i8,
    pub(crate) state: TaskState,
    /// Height of the subtree while in a tree, [`PARKED`] for a throttled task of the idle class,
    /// else 0.
    pub(crate) height: u8,
    pub(crate) rel_deadline: bool,
}

const _: () = assert!(size_of::<Entity<core::num::NonZeroU64>>() == 64);

impl<K> Entity<K> {
    /// Creates the entity of a task that has not been queued yet.
    ///
    /// # Panics
    /// If the class is not available, which [`TaskParams::check`] reports as an error.
    pub fn new(group: GroupId, params: TaskParams) -> Self {
        let mut entity = Entity {
            left: None,
            right: None,
            vruntime: 0,
            deadline: 0,
            min_vruntime_or_vlag: 0,
            min_slice: 0,
            max_slice: 0,
            slice: 0,
            seq: 0,
            group,
            cpu: 0,
            policy: Policy::Fair,
            rt_priority: 0,
            nice: 0,
            state: TaskState::Blocked,
            height: 0,
            rel_deadline: false,
        };
        entity.set_params(params);
        entity
    }

    /// Returns the group.
    pub fn group(&self) -> GroupId {
        self.group
    }

    /// Moves the task to another group; only while it is in no run queue.
    pub fn set_group(&mut self, group: GroupId) {
        debug_assert!(!matches!(
            self.state,
            TaskState::Queued | TaskState::Delayed
        ));
        self.group = group;
        self.min_vruntime_or_vlag = 0;
        self.rel_deadline = false;
    }

    /// Returns the CPU whose run queue enqueued the task last.
    pub fn cpu(&self) -> usize {
        self.cpu.into()
    }

    /// Returns where the task is.
    pub fn state(&self) -> TaskState {
        self.state
    }

    /// Returns the settings.
    pub fn params(&self) -> TaskParams {
        TaskParams {
            class: self.class(),
            nice: self.nice,
            slice_ns: self.slice,
        }
    }

    /// Changes the settings; only while the task is in no run queue (otherwise:
    /// [`RunQueue::set_params`](crate::RunQueue::set_params)). The lag of a sleeper is kept.
    ///
    /// # Panics
    /// If the class is not available, which [`TaskParams::check`] reports as an error.
    pub fn set_params(&mut self, params: TaskParams) {
        debug_assert!(!matches!(
            self.state,
            TaskState::Queued | TaskState::Delayed
        ));
        if let Err(error) = params.class.make_ready() {
            panic!("settings that were not checked: {error}");
        }
        let old_weight = self.weight();
        (self.policy, self.rt_priority) = match params.class {
            Class::Fair => (Policy::Fair, 0),
            Class::Idle => (Policy::Idle, 0),
            Class::RealTime {
                priority,
                policy: RtPolicy::Fifo,
            } => (Policy::RtFifo, priority),
            Class::RealTime { priority, .. } => (Policy::RtRoundRobin, priority),
        };
        self.nice = params.nice;
        self.slice = params.slice_ns;
        // vlag is lag / weight; keep the lag (kernel: reweight_entity).
        let scaled = i128::from(self.min_vruntime_or_vlag) * i128::from(old_weight);
        self.min_vruntime_or_vlag = (scaled / i128::from(self.weight())) as i64;
    }

    /// Returns the class.
    pub fn class(&self) -> Class {
        let priority = self.rt_priority;
        match self.policy {
            Policy::Fair => Class::Fair,
            Policy::Idle => Class::Idle,
            Policy::RtFifo => Class::RealTime {
                priority,
                policy: RtPolicy::Fifo,
            },
            Policy::RtRoundRobin => Class::RealTime {
                priority,
                policy: RtPolicy::RoundRobin,
            },
        }
    }

    /// Returns the weight that nice and class stand for.
    #[inline]
    pub fn weight(&self) -> u32 {
        if self.policy == Policy::Idle {
            IDLE_WEIGHT
        } else {
            nice_to_weight(self.nice)
        }
    }

    /// Returns the virtual run time in ns at nice 0; has a meaning only in a `Fair` group.
    pub fn vruntime(&self) -> i64 {
        self.vruntime
    }

    /// Returns the virtual deadline, on the scale of [`Entity::vruntime`].
    pub fn deadline(&self) -> i64 {
        self.deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_are_checked() {
        let rt = |priority| Class::RealTime {
            priority,
            policy: RtPolicy::Fifo,
        };
        let with = |class, nice, slice_ns| {
            TaskParams {
                class,
                nice,
                slice_ns,
            }
            .check()
        };
        for (result, ok) in [
            (with(Class::Fair, 0, 0), true),
            (with(rt(1), -20, 100_000), cfg!(feature = "realtime")),
            (with(rt(99), 19, 100_000_000), cfg!(feature = "realtime")),
            (with(rt(0), 0, 0), false),
            (with(rt(100), 0, 0), false),
            (with(Class::Fair, 20, 0), false),
            (with(Class::Idle, -21, 0), false),
            (with(Class::Fair, 0, 99_999), false),
            (with(Class::Fair, 0, 100_000_001), false),
        ] {
            assert_eq!(result.is_ok(), ok, "{result:?}");
        }
    }

    #[test]
    fn a_sleepers_lag_survives_a_change_of_nice() {
        let mut entity: Entity<u32> = Entity::new(GroupId::ROOT, TaskParams::default());
        entity.min_vruntime_or_vlag = 1500;
        entity.set_params(TaskParams {
            nice: 10,
            ..TaskParams::default()
        });
        assert_eq!(entity.min_vruntime_or_vlag, 1500 * 1024 / 110);
    }
}
