//! Finding a task that waits, whoever it is: for drivers that end, or that move a whole group.

use super::RunQueue;
use crate::arena::Arena;
use crate::entity::TaskState;
use crate::fragment::TaskQueue;
use crate::group::GroupId;

impl<A: Arena> RunQueue<A> {
    /// Returns a task of the fair class that waits here, throttled or not, of `group` if one is
    /// given; without a group, also tasks of the other classes. With [`RunQueue::dequeue`] in a
    /// loop it empties the queue. Time is proportional to the number of groups with tasks here, and
    /// to that of delayed tasks.
    pub fn any_waiting(&self, arena: &A, group: Option<GroupId>) -> Option<A::Key> {
        if group.is_none()
            && let Some(key) = self.rt.head().or_else(|| self.idle.head())
        {
            return Some(key);
        }
        let active = self.fair.active().iter();
        let fragments = active.chain(self.fair.throttled());
        let parked = |at: u32| self.fair.fragment(at).parked()?.idle.head();
        if group.is_none()
            && let Some(key) = self.fair.throttled().iter().find_map(|&at| parked(at))
        {
            return Some(key);
        }
        fragments
            .map(|&at| self.fair.fragment(at))
            .filter(|fragment| group.is_none_or(|id| id == fragment.leaf.id()))
            .find_map(|fragment| match &fragment.queue {
                TaskQueue::Fifo(list) => list.head(),
                TaskQueue::Fair(queue) => {
                    let mut found = None;
                    queue.for_each(arena, |key| {
                        let is_waiting = arena.entity(key).state() == TaskState::Queued;
                        found = found.or(is_waiting.then_some(key));
                        found.is_none()
                    });
                    found
                }
            })
    }
}
