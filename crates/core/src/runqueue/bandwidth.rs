//! Throttling, and tasks of throttled groups.
//!
//! A task of a throttled fragment is `Queued` like any other, and can be dequeued or changed, but
//! is in no count of runnable or waiting tasks. Which of the two it is is decided by the
//! fragment, for a task of the idle class by a mark in its entity; never by the key, which may
//! have gone off since.

use super::{Resched, RunQueue};
use crate::arena::Arena;
use crate::entity::{PARKED, Policy, TaskState};
use crate::fragment::{FIFO_UNITS, Parked, TaskQueue};
use crate::group::GroupId;
use crate::key_on;

/// Waiting fragments that are looked at for one whose tasks may move.
const CANDIDATES: usize = 16;

impl<A: Arena> RunQueue<A> {
    /// Lets fragments go on to which [`Domain::refill`](crate::Domain::refill) has promised
    /// runtime, those with the most lag first. To be called when that names this CPU; a pick and a
    /// tick do the same. Returns whether this CPU should reschedule.
    pub fn unthrottle(&mut self, arena: &mut A, now: u64) -> Resched {
        let mut resched = false;
        while let Some(at) = self.fair.allowed() {
            let Some((mut parked, is_new)) = self.fair.unthrottle(at, now, &self.config) else {
                break;
            };
            self.nr_running += parked.nr_running();
            while let Some(key) = parked.idle.pop_front(arena) {
                arena.entity_mut(key).height = 0;
                self.idle.push_back(arena, key);
                resched |= self.curr.is_none();
            }
            resched |= is_new && self.preempts_fair(at, true, false, now).is_needed();
        }
        self.publish_counts();
        Resched::when(resched)
    }

    /// Charges a group for execution outside of a pick, such as a poll that goes on after its
    /// thread has lost this CPU: its usage, its lag here, and its bandwidth, where what exceeds
    /// the quota is debt. `ns` ended at `now`. Has no effect if the group is not attached.
    pub fn charge_outside(&mut self, group: GroupId, ns: u64, now: u64) {
        if let Some(at) = self.fair.find(group) {
            self.fair.charge_outside(at, ns, now);
        }
    }

    /// Returns the number of tasks that are throttled here.
    pub fn nr_throttled(&self) -> usize {
        let parked = |&at: &u32| {
            self.fair
                .fragment(at)
                .parked()
                .map_or(0, Parked::nr_running)
        };
        self.fair.throttled().iter().map(parked).sum::<u32>() as usize
    }

    /// Returns the runtime of capped groups that this CPU holds, in ns, as of its last switch or
    /// tick.
    pub fn reserved_runtime(&self) -> u64 {
        self.fair.reserved()
    }

    /// Picks the fragment whose turn it is, and throttles those for which there is no runtime.
    #[inline]
    pub(super) fn pick_fragment(&mut self, now: u64) -> Option<u32> {
        loop {
            let at = self.fair.pick(now, &self.config)?;
            if !self.fair.is_starved() {
                return Some(at);
            }
            self.throttle(at, now);
        }
    }

    #[inline(never)]
    fn throttle(&mut self, at: u32, now: u64) {
        if let Some(nr) = self.fair.throttle(at, now, &self.config) {
            self.nr_running -= nr;
        }
    }

    /// Returns whether a task of a fragment has to stop at the end of its slice even if nobody
    /// else wants to run.
    pub(super) fn is_limited(&self, at: u32) -> bool {
        key_on!(BANDWIDTH) && self.fair.fragment(at).leaf.is_capped()
    }

    /// Parks a task of the fair class that has just been queued in a throttled fragment, and
    /// counted.
    #[cold]
    pub(super) fn park_fair(&mut self, at: u32, weight: u64, now: u64) {
        self.nr_running -= 1;
        let fragment = self.fair.fragment_mut(at);
        fragment.nr_running -= 1;
        if let Some(parked) = fragment.parked_mut() {
            parked.nr += 1;
            parked.weight += weight;
        }
        self.fair.parked_changed(at, now);
    }

    /// Parks a task of the idle class that is counted and in no list; puts it back into the
    /// queue if its group has runtime by now.
    #[cold]
    pub(super) fn park_idle(&mut self, arena: &mut A, key: A::Key, at: u32, now: u64) {
        if !self.fair.fragment(at).is_throttled() {
            self.throttle(at, now);
        }
        arena.entity_mut(key).state = TaskState::Queued;
        if !self.fair.fragment(at).is_throttled() {
            self.idle.push_front(arena, key);
            return;
        }
        arena.entity_mut(key).height = PARKED;
        self.nr_running -= 1;
        let fragment = self.fair.fragment_mut(at);
        fragment.nr_running -= 1;
        if let Some(parked) = fragment.parked_mut() {
            parked.idle.push_back(arena, key);
        }
        self.fair.publish(at, now);
        self.fair.parked_changed(at, now);
    }

    /// Removes a task if it is parked. Returns whether it was.
    pub(super) fn dequeue_parked(&mut self, arena: &mut A, key: A::Key, at: u32, now: u64) -> bool {
        let entity = arena.entity(key);
        let (policy, mark, weight) = (entity.policy, entity.height, entity.weight());
        let is_delayed = entity.state == TaskState::Delayed;
        let fragment = self.fair.fragment_mut(at);
        if !fragment.is_throttled() || policy == Policy::Idle && mark != PARKED {
            return false;
        }
        let removed = match (policy, &mut fragment.queue) {
            (Policy::Fair, TaskQueue::Fifo(list)) => {
                list.remove(arena, key);
                FIFO_UNITS
            }
            (Policy::Fair, TaskQueue::Fair(queue)) => {
                queue.dequeue(arena, key, &self.config);
                weight.into()
            }
            (Policy::Idle, _) => 0,
            _ => return false,
        };
        if let Some(parked) = fragment.parked_mut() {
            if policy == Policy::Idle {
                parked.idle.remove(arena, key);
                arena.entity_mut(key).height = 0;
            } else if !is_delayed {
                parked.nr -= 1;
                parked.weight -= removed;
            }
        }
        if fragment.parked().is_some_and(|parked| parked.nr == 0)
            && let TaskQueue::Fair(queue) = &mut fragment.queue
        {
            // As where the last runnable task leaves a queue.
            queue.flush_delayed(arena, &self.config);
        }
        arena.entity_mut(key).state = TaskState::Blocked;
        self.fair.parked_changed(at, now);
        self.publish_counts();
        true
    }

    /// Returns a waiting fragment, by deadline, whose tasks may move to CPU `to`.
    pub(super) fn first_movable(&self, to: usize, now: u64) -> Option<u32> {
        let (mut found, mut seen) = (None, 0);
        self.fair.for_each_waiting(|at| {
            let is_movable = self.fair.fragment(at).queue.nr_waiting() > 0;
            if is_movable && self.fair.may_move(at, to, now) {
                found = Some(at);
            }
            seen += 1;
            found.is_none() && seen < CANDIDATES
        });
        found
    }
}
