//! Changes of settings while a task is runnable.

use super::{EnqueueKind, Resched, RunQueue};
use crate::arena::Arena;
use crate::entity::{Policy, TaskParams, TaskState};
use crate::fragment::TaskQueue;

impl<A: Arena> RunQueue<A> {
    /// Changes the settings of a task that waits, is delayed, or runs here (kernel:
    /// `__sched_setscheduler`, `set_user_nice`: out, change, in again). Lag is kept. A change of
    /// class of the running task takes effect when it is put back. Returns whether to reschedule.
    pub fn set_params(
        &mut self,
        arena: &mut A,
        key: A::Key,
        params: TaskParams,
        now: u64,
    ) -> Resched {
        if self.curr.is_some_and(|curr| curr.key == key) {
            return self.set_curr_params(arena, key, params, now);
        }
        let state = arena.entity(key).state;
        if matches!(state, TaskState::Queued | TaskState::Delayed) {
            self.dequeue(arena, key, now);
        }
        arena.entity_mut(key).set_params(params);
        if state == TaskState::Queued {
            return self.enqueue(arena, key, EnqueueKind::Requeue, now);
        }
        Resched::No
    }

    fn set_curr_params(
        &mut self,
        arena: &mut A,
        key: A::Key,
        params: TaskParams,
        now: u64,
    ) -> Resched {
        self.charge(arena, now, false);
        let Some(curr) = &mut self.curr else {
            return Resched::No;
        };
        let fragment = self.fair.fragment_mut(curr.fragment);
        match &mut fragment.queue {
            TaskQueue::Fair(queue) if curr.policy == Policy::Fair => {
                queue.reweight_curr(arena, |entity| entity.set_params(params), &self.config);
                let entity = arena.entity(key);
                if entity.policy == Policy::Fair {
                    let weight = entity.weight();
                    let total = fragment.weight() - u64::from(curr.weight) + u64::from(weight);
                    curr.weight = weight;
                    let (at, nr) = (curr.fragment, fragment.nr);
                    self.fair.set_load(at, nr, total, now, &self.config);
                }
            }
            _ => arena.entity_mut(key).set_params(params),
        }
        let changed = self
            .curr
            .is_some_and(|curr| curr.policy != arena.entity(key).policy);
        Resched::when(changed || self.nr_waiting() > 0)
    }
}
