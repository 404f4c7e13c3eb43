//! Tasks that become runnable, and tasks that leave without having run.

use super::{Migrating, Resched, RunQueue};
use crate::arena::Arena;
use crate::eevdf::Placement;
use crate::entity::{Policy, TaskState};
use crate::fragment::{FIFO_UNITS, TaskQueue};

/// Why a task is enqueued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnqueueKind<K> {
    /// For the first time.
    New,
    /// It was blocked (or delayed, see [`TaskState::Delayed`]: then on the same run queue).
    Wakeup,
    /// It was runnable all the time: after a change of its settings or group.
    Requeue,
    /// It was pulled from another CPU.
    Migrated(Migrating<K>),
}

impl<K> EnqueueKind<K> {
    fn placement(&self) -> Placement {
        match self {
            EnqueueKind::New => Placement::Initial,
            EnqueueKind::Wakeup => Placement::Wakeup,
            EnqueueKind::Requeue => Placement::Restore,
            EnqueueKind::Migrated(_) => Placement::Migrated,
        }
    }
}

impl<A: Arena> RunQueue<A> {
    /// Makes a task runnable here. Returns whether this CPU should reschedule (kernel:
    /// `enqueue_task`, `wakeup_preempt`). O(log n).
    ///
    /// # Panics
    /// If the task's group is not attached.
    #[inline]
    pub fn enqueue(
        &mut self,
        arena: &mut A,
        key: A::Key,
        kind: EnqueueKind<A::Key>,
        now: u64,
    ) -> Resched {
        let entity = arena.entity_mut(key);
        debug_assert!(
            entity.state != TaskState::Queued,
            "{key:?} is queued already"
        );
        debug_assert!(entity.state != TaskState::Delayed || entity.cpu == self.cpu as u16);
        entity.cpu = self.cpu as u16;
        let (group, policy) = (entity.group, entity.policy);
        let Some(at) = self.fair.find(group) else {
            panic!("{group:?} is not attached")
        };
        self.nr_running += 1;
        self.fair.fragment_mut(at).nr_running += 1;
        let resched = match policy {
            Policy::Fair => self.enqueue_fair(arena, key, at, kind, now),
            Policy::Idle => self.enqueue_idle(arena, key, at, now),
            Policy::RtFifo | Policy::RtRoundRobin => self.enqueue_rt(arena, key, at, now),
        };
        self.publish_counts();
        resched
    }

    fn enqueue_fair(
        &mut self,
        arena: &mut A,
        key: A::Key,
        at: u32,
        kind: EnqueueKind<A::Key>,
        now: u64,
    ) -> Resched {
        let config = &self.config;
        let fragment = self.fair.fragment_mut(at);
        let (nr, weight) = (fragment.nr + 1, fragment.weight());
        let is_throttled = fragment.is_throttled();
        let (added, wins) = match &mut fragment.queue {
            TaskQueue::Fifo(list) => {
                list.push_back(arena, key);
                arena.entity_mut(key).state = TaskState::Queued;
                (FIFO_UNITS, false)
            }
            TaskQueue::Fair(queue) => {
                if nr == 1 {
                    queue.advance_idle(fragment.leaf.vclock());
                }
                let wins = queue.enqueue(arena, key, kind.placement(), config);
                (arena.entity(key).weight().into(), wins)
            }
        };
        if is_throttled {
            if let EnqueueKind::Migrated(migrating) = kind {
                self.fair.add_lag(at, migrating.lag, now);
            }
            self.park_fair(at, added, now);
            return Resched::No;
        }
        self.fair.nr_waiting += 1;
        let is_first = self
            .fair
            .set_load(at, nr, weight + added, now, &self.config);
        if let EnqueueKind::Migrated(migrating) = kind {
            self.fair.add_lag(at, migrating.lag, now);
        }
        self.preempts_fair(at, is_first, wins, now)
    }

    pub(super) fn preempts_fair(
        &mut self,
        at: u32,
        is_first: bool,
        wins: bool,
        now: u64,
    ) -> Resched {
        match self.curr {
            None => Resched::Yes,
            Some(curr) => match curr.policy {
                Policy::Idle => Resched::Yes,
                Policy::Fair if curr.fragment == at => Resched::when(wins),
                Policy::Fair => Resched::when(is_first && self.fair.should_preempt(at, now)),
                Policy::RtFifo | Policy::RtRoundRobin => {
                    Resched::when(self.rt.is_throttled(now, &self.config))
                }
            },
        }
    }

    fn enqueue_idle(&mut self, arena: &mut A, key: A::Key, at: u32, now: u64) -> Resched {
        if self.fair.fragment(at).is_throttled() {
            self.park_idle(arena, key, at, now);
            return Resched::No;
        }
        arena.entity_mut(key).state = TaskState::Queued;
        self.idle.push_back(arena, key);
        self.fair.publish(at, now);
        Resched::when(self.curr.is_none())
    }

    fn enqueue_rt(&mut self, arena: &mut A, key: A::Key, at: u32, now: u64) -> Resched {
        let entity = arena.entity_mut(key);
        entity.state = TaskState::Queued;
        entity.deadline = self.config.rr_slice_ns as i64;
        let priority = entity.rt_priority;
        self.rt.push(arena, key, false);
        self.fair.publish(at, now);
        let Some(curr) = self.curr else {
            return Resched::Yes;
        };
        let throttled = self.rt.is_throttled(now, &self.config);
        Resched::when(curr.rt_priority < priority && (curr.rt_priority > 0 || !throttled))
    }

    /// Removes a task that waits or is delayed here; afterwards it is `Blocked` (kernel:
    /// `dequeue_task`). A task that runs leaves by [`RunQueue::put_prev`]. O(log n).
    pub fn dequeue(&mut self, arena: &mut A, key: A::Key, now: u64) {
        let entity = arena.entity(key);
        let (group, policy, state) = (entity.group, entity.policy, entity.state);
        debug_assert!(
            matches!(state, TaskState::Queued | TaskState::Delayed),
            "{key:?}: {state:?}"
        );
        let Some(at) = self.fair.find(group) else {
            return;
        };
        if self.dequeue_parked(arena, key, at, now) {
            return;
        }
        if state == TaskState::Queued {
            self.nr_running -= 1;
            self.fair.fragment_mut(at).nr_running -= 1;
        }
        match policy {
            Policy::Fair => self.dequeue_fair(arena, key, at, now),
            Policy::Idle => self.idle.remove(arena, key),
            Policy::RtFifo | Policy::RtRoundRobin => self.rt.remove(arena, key),
        }
        arena.entity_mut(key).state = TaskState::Blocked;
        self.fair.publish(at, now);
        self.publish_counts();
    }

    fn dequeue_fair(&mut self, arena: &mut A, key: A::Key, at: u32, now: u64) {
        let fragment = self.fair.fragment_mut(at);
        let delayed = arena.entity(key).state == TaskState::Delayed;
        let removed = match &mut fragment.queue {
            TaskQueue::Fifo(list) => {
                list.remove(arena, key);
                FIFO_UNITS
            }
            TaskQueue::Fair(queue) => {
                queue.dequeue(arena, key, &self.config);
                arena.entity(key).weight().into()
            }
        };
        if delayed {
            return;
        }
        self.fair.nr_waiting -= 1;
        self.reduce_load(arena, at, removed, now);
    }

    /// Takes a task's weight out of a fragment that it has left.
    pub(super) fn reduce_load(&mut self, arena: &mut A, at: u32, removed: u64, now: u64) {
        let fragment = self.fair.fragment_mut(at);
        let (nr, weight) = (fragment.nr - 1, fragment.weight() - removed);
        if nr == 0
            && let TaskQueue::Fair(queue) = &mut fragment.queue
        {
            queue.flush_delayed(arena, &self.config);
        }
        self.fair.set_load(at, nr, weight, now, &self.config);
    }
}
