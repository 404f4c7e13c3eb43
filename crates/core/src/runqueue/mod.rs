//! The run queue of one CPU: three classes, one running task.
//!
//! # Protocol
//! The driver holds the run queue exclusively (`&mut`) for every call. Between
//! [`RunQueue::pick_next`] and [`RunQueue::put_prev`] the picked task runs and is in no list or
//! tree; whatever the queue needs to charge it is in `curr`. So `put_prev(Blocked | Exited)` does
//! not touch the entity of a task that is not scheduled by [`EevdfQueue`](crate::EevdfQueue):
//! another CPU may already have woken it, and queued it elsewhere.
//!
//! # Fast path
//! While one fragment's turn goes on, `put_prev(Yielded)` followed by `pick_next` charges by two
//! additions, appends to the list and pops its head. No tree, no division, no shared line.

mod bandwidth;
mod drain;
mod enqueue;
mod params;
mod pick;
mod pull;
mod turn;

use alloc::sync::Arc;

use crate::arena::Arena;
use crate::balance::{CpuShared, Rank};
use crate::config::Config;
use crate::entity::Policy;
use crate::error::{Error, Kind};
use crate::fragment::{FairClass, TaskQueue};
use crate::group::GroupId;
use crate::idle::IdleQueue;
use crate::key_on;
use crate::keys;
use crate::leaf::Leaf;
use crate::rt::RtQueue;

pub use enqueue::EnqueueKind;
pub use pull::Migrating;

/// Tells whether the CPU should reschedule: put its task back and pick again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Resched {
    /// The running task goes on.
    No,
    /// Another task should run. If nothing runs, the CPU should be woken.
    Yes,
}

impl Resched {
    /// Returns whether this is [`Resched::Yes`].
    pub fn is_needed(self) -> bool {
        self == Resched::Yes
    }

    fn when(condition: bool) -> Self {
        if condition { Resched::Yes } else { Resched::No }
    }
}

/// Why the running task stops running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The scheduler wanted the CPU; the task is still runnable.
    Preempted,
    /// It gave way, and is still runnable: it goes behind its equals.
    Yielded,
    /// It waits for something.
    Blocked,
    /// It is done.
    Exited,
}

/// The result of a pick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picked<K> {
    /// The task to run.
    pub key: K,
    /// Its group.
    pub group: GroupId,
    /// When [`RunQueue::tick`] should be called at the latest, in ns; `u64::MAX`: never.
    pub slice_end: u64,
}

/// What the queue knows of the running task without looking at its entity.
#[derive(Clone, Copy, Debug)]
struct Curr<K> {
    key: K,
    fragment: u32,
    policy: Policy,
    rt_priority: u8,
    weight: u32,
    /// Real-time round robin and idle class: what is left of its slice, in ns.
    slice_left: u64,
    /// Up to here its execution is in `usage`.
    since: u64,
    /// Charging clock at the pick: the least charge counts from here.
    picked_at: u64,
}

/// The run queue of one CPU.
///
/// Kernel counterpart: `struct rq`. All times are ns on one clock that does not run backwards.
#[derive(Debug)]
pub struct RunQueue<A: Arena> {
    cpu: usize,
    config: Config,
    rt: RtQueue<A::Key>,
    fair: FairClass<A::Key>,
    idle: IdleQueue<A::Key>,
    curr: Option<Curr<A::Key>>,
    /// Runnable tasks of all classes, the running one included.
    nr_running: u32,
    shared: Arc<CpuShared>,
    /// Waiting tasks as last published: fair, idle, and the highest real-time priority.
    published: (u32, u32, u32, u8),
    next_pull: u64,
    next_pack: u64,
}

impl<A: Arena> RunQueue<A> {
    /// Creates the run queue of CPU `cpu` among `cpus`.
    ///
    /// # Panics
    /// If `cpu` is not below `cpus`, or above 65,535.
    pub fn new(cpu: usize, cpus: usize, config: Config) -> Self {
        assert!(
            cpu < cpus && cpu <= usize::from(u16::MAX),
            "CPU {cpu} of {cpus}"
        );
        RunQueue {
            cpu,
            rt: RtQueue::new(),
            fair: FairClass::new(cpu, &config),
            idle: IdleQueue::new(),
            config,
            curr: None,
            nr_running: 0,
            shared: Arc::new(CpuShared::default()),
            published: (0, 0, 0, 0),
            next_pull: 0,
            next_pack: 0,
        }
    }

    /// Makes a group known here. Must happen before a task of it is enqueued. Allocates; has no
    /// effect if the group is known already.
    pub fn attach(&mut self, leaf: Arc<Leaf>) {
        self.fair.attach(leaf);
    }

    /// Forgets a group. Do so on every CPU before the group is removed.
    ///
    /// # Errors
    /// [`Error::is_busy`] while tasks of it are runnable or delayed here; [`Error::is_removed`] if
    /// it is not attached.
    pub fn detach(&mut self, group: GroupId) -> Result<(), Error> {
        if self.fair.find(group).is_none() {
            return Err(Kind::NoSuchGroup.into());
        }
        if !self.fair.detach(group) {
            return Err(Kind::Busy("tasks are queued").into());
        }
        Ok(())
    }

    /// Returns the CPU number.
    pub fn cpu(&self) -> usize {
        self.cpu
    }

    /// Returns the hints that this CPU publishes, to be read by any thread.
    pub fn shared(&self) -> &Arc<CpuShared> {
        &self.shared
    }

    /// Returns the running task.
    pub fn curr(&self) -> Option<A::Key> {
        self.curr.map(|curr| curr.key)
    }

    /// Returns the number of runnable tasks, the running one included.
    #[inline]
    pub fn nr_running(&self) -> usize {
        self.nr_running as usize
    }

    /// Returns the number of runnable tasks that do not run.
    #[inline]
    pub fn nr_waiting(&self) -> usize {
        self.nr_running as usize - usize::from(self.curr.is_some())
    }

    /// Returns the CPU time that tasks of a group have used here, all classes, in ns, up to the
    /// last switch or tick; 0 for a group that is not attached.
    pub fn usage(&self, group: GroupId) -> u64 {
        self.fair
            .find(group)
            .map_or(0, |at| self.fair.fragment(at).usage)
    }

    /// Returns the total lag of the groups on this CPU at `now`, in ns.
    pub fn lag_total(&self, now: u64) -> i64 {
        self.fair.lag_total(now)
    }

    /// Returns the lag of a group on this CPU at `now`, in ns; `None` while it has no runnable
    /// task of the fair class here.
    pub fn group_lag(&self, group: GroupId, now: u64) -> Option<i64> {
        let at = self.fair.find(group)?;
        (self.fair.fragment(at).nr > 0).then(|| self.fair.lag_of(at, now))
    }

    /// Charges the running task up to `now` and writes what other threads may read, so that
    /// [`Leaf::usage_ns`] and [`Leaf::nr_running`] are exact.
    pub fn publish(&mut self, arena: &mut A, now: u64) {
        self.charge(arena, now, false);
        for i in 0..self.fair.active().len() {
            let at = self.fair.active()[i];
            self.fair.publish(at, now);
        }
        if let Some(curr) = self.curr {
            self.fair.publish(curr.fragment, now);
        }
        self.shared
            .set_lag(self.fair.lag_total(now), self.fair.rate_total(), now);
    }

    /// Checks every count and sum of this queue.
    ///
    /// # Panics
    /// If they disagree.
    pub fn validate(&self, arena: &A) {
        self.fair.validate();
        assert!(keys::REALTIME.is_on() || self.rt.is_empty());
        let mut running = self.rt.len() + self.idle.len();
        for &at in self.fair.active() {
            let fragment = self.fair.fragment(at);
            running += fragment.nr as usize;
            if let TaskQueue::Fair(queue) = &fragment.queue {
                queue.validate(arena);
                assert_eq!(queue.nr_runnable(), fragment.nr as usize);
            }
        }
        running += usize::from(self.curr.is_some_and(|curr| curr.policy != Policy::Fair));
        assert_eq!(running, self.nr_running as usize);
    }

    /// Returns whether a real-time task waits here: none does while the class's key is off.
    #[inline(always)]
    fn rt_waits(&self) -> bool {
        key_on!(REALTIME) && !self.rt.is_empty()
    }

    /// Rank of the best task that this CPU can run without pulling, `curr` included.
    fn rank(&self) -> Rank {
        if self.rt_waits() {
            return Rank::real_time(self.rt.top());
        }
        let own = match self.curr {
            Some(curr) if curr.rt_priority > 0 => Rank::real_time(curr.rt_priority),
            Some(curr) if curr.policy == Policy::Idle => Rank::IDLE,
            _ => Rank::NOTHING,
        };
        let queued = match (self.fair.nr_active(), self.idle.len()) {
            (0, 0) => Rank::NOTHING,
            (0, _) => Rank::IDLE,
            _ => Rank::FAIR,
        };
        own.max(queued)
    }

    /// Publishes the counts if those of the fair class have changed: enough where no task of
    /// another class has come or gone.
    #[inline]
    fn publish_fair_counts(&mut self) {
        let (nr_running, fair_waiting, ..) = self.published;
        if nr_running != self.nr_running || fair_waiting != self.fair.nr_waiting {
            self.publish_counts();
        }
    }

    /// Publishes the counts if they have changed.
    fn publish_counts(&mut self) {
        let now = (
            self.nr_running,
            self.fair.nr_waiting,
            self.idle.len() as u32,
            if self.rt_waits() { self.rt.top() } else { 0 },
        );
        if now != self.published {
            self.published = now;
            let rt = if now.3 == 0 {
                Rank::NOTHING
            } else {
                Rank::real_time(now.3)
            };
            self.shared.set_counts(now.0, now.1, now.2, rt);
        }
    }
}
