//! What a driver may do on its own while one group's turn goes on.
//!
//! A driver whose tasks run for less time than reading its clock takes need not switch through the
//! queue each time. While
//! [`RunQueue::turn_goes_on`] says so, two things keep every count as it is:
//!
//! - `put_prev(Yielded)` and `pick_next` with the time of an earlier switch: the next task is of
//!   the same group, and the execution in between is charged to that group by the next call with
//!   the present time;
//! - letting another task of the same group, which is runnable and in no queue, take the place of
//!   the running one, which blocks ([`RunQueue::replace_current`]).
//!
//! The error in the end of the turn is the time since that earlier switch.

use super::RunQueue;
use crate::arena::Arena;
use crate::entity::{Policy, TaskState};
use crate::fragment::TaskQueue;

impl<A: Arena> RunQueue<A> {
    /// Returns whether a task of a `Fifo` group runs in the fair class, and its group would be
    /// picked again as of the last time that this queue was charged.
    #[inline]
    pub fn turn_goes_on(&self) -> bool {
        !self.rt_waits()
            && self.curr.as_ref().is_some_and(|curr| {
                curr.policy == Policy::Fair
                    && self.fair.curr() == Some(curr.fragment)
                    && matches!(self.fair.fragment(curr.fragment).queue, TaskQueue::Fifo(_))
                    && self.fair.turn_goes_on(curr.fragment)
            })
    }

    /// Makes `key` the running task instead of the present one, which is no longer runnable. Both
    /// are of the same `Fifo` group and of the fair class, and `key` is in no queue.
    #[inline]
    pub fn replace_current(&mut self, arena: &mut A, key: A::Key) {
        if let Some(curr) = &mut self.curr {
            let entity = arena.entity_mut(key);
            debug_assert_eq!(entity.policy, Policy::Fair);
            entity.state = TaskState::Running;
            entity.cpu = self.cpu as u16;
            curr.key = key;
        }
    }
}
