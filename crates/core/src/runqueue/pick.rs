//! The switch: put the previous task back, pick the next.

use super::{Curr, EnqueueKind, Outcome, Picked, Resched, RunQueue};
use crate::arena::Arena;
use crate::balance::Rank;
use crate::entity::{Policy, TaskState};
use crate::fragment::{FIFO_UNITS, TaskQueue};
use crate::key_on;

impl<A: Arena> RunQueue<A> {
    /// Picks the task to run and makes it current (kernel: `pick_next_task`, `set_next_task`).
    /// Returns `None` if nothing is runnable here. Constant time while a fragment's turn goes on,
    /// otherwise O(log n).
    #[inline]
    pub fn pick_next(&mut self, arena: &mut A, now: u64) -> Option<Picked<A::Key>> {
        debug_assert!(self.curr.is_none(), "pick_next before put_prev");
        if !self.rt_waits()
            && let Some(at) = self.fair.curr()
            && self.fair.turn_goes_on(at)
            && let TaskQueue::Fifo(list) = &mut self.fair.fragment_mut(at).queue
            && let Some(key) = list.pop_front(arena)
        {
            arena.entity_mut(key).state = TaskState::Running;
            self.fair.nr_waiting -= 1;
            self.fair.clock = self.fair.clock.max(now);
            let slice_end = now + self.fair.turn_left(at);
            return Some(self.start(key, at, Policy::Fair, FIFO_UNITS as u32, now, slice_end));
        }
        self.pick_slow(arena, now)
    }

    #[inline]
    fn start(
        &mut self,
        key: A::Key,
        fragment: u32,
        policy: Policy,
        weight: u32,
        now: u64,
        slice_end: u64,
    ) -> Picked<A::Key> {
        self.curr = Some(Curr {
            key,
            fragment,
            policy,
            rt_priority: 0,
            weight,
            slice_left: 0,
            since: now,
            picked_at: self.fair.clock,
        });
        self.publish_fair_counts();
        let group = self.fair.fragment(fragment).leaf.id();
        Picked {
            key,
            group,
            slice_end,
        }
    }

    #[inline(never)]
    fn pick_slow(&mut self, arena: &mut A, now: u64) -> Option<Picked<A::Key>> {
        self.fair.clock = now;
        self.fair.follow(now);
        if self.fair.has_throttled() {
            let _ = self.unthrottle(arena, now);
        }
        let picked = if self.rt_may_run(now) {
            self.pick_rt(arena, now)
        } else if let Some(at) = self.pick_fragment(now) {
            self.pick_fair(arena, at, now)
        } else {
            self.pick_idle(arena, now)
        };
        let rank = match self.curr {
            None => Rank::NOTHING,
            Some(curr) if curr.rt_priority > 0 => Rank::real_time(curr.rt_priority),
            Some(curr) if curr.policy == Policy::Idle => Rank::IDLE,
            Some(_) => Rank::FAIR,
        };
        self.fair.set_running(rank == Rank::FAIR, now);
        self.shared
            .set_running(rank, picked.map_or(u64::MAX, |picked| picked.slice_end));
        self.shared
            .set_lag(self.fair.lag_total(now), self.fair.rate_total(), now);
        self.publish_counts();
        picked
    }

    /// Returns whether a real-time task waits and is not throttled in favour of lower classes.
    fn rt_may_run(&mut self, now: u64) -> bool {
        if !self.rt_waits() {
            return false;
        }
        let has_lower = self.fair.nr_active() > 0 || !self.idle.is_empty();
        !has_lower || !self.rt.is_throttled(now, &self.config)
    }

    fn pick_rt(&mut self, arena: &mut A, now: u64) -> Option<Picked<A::Key>> {
        let key = self.rt.pop(arena)?;
        if key_on!(BANDWIDTH) {
            self.fair.interrupt_turn(now);
        }
        let entity = arena.entity_mut(key);
        entity.state = TaskState::Running;
        let (group, policy, priority) = (entity.group, entity.policy, entity.rt_priority);
        let slice_left = entity.deadline.max(0) as u64;
        let at = self.fair.find(group)?;
        let throttled_at = self.rt.throttled_at(now, &self.config);
        let slice_end = match policy {
            Policy::RtRoundRobin => throttled_at.min(now + slice_left),
            _ => throttled_at,
        };
        let picked = self.start(key, at, policy, 0, now, slice_end);
        if let Some(curr) = &mut self.curr {
            (curr.rt_priority, curr.slice_left) = (priority, slice_left);
        }
        Some(picked)
    }

    fn pick_fair(&mut self, arena: &mut A, at: u32, now: u64) -> Option<Picked<A::Key>> {
        let mut left = self.fair.turn_left(at);
        let fragment = self.fair.fragment_mut(at);
        let (key, weight) = match &mut fragment.queue {
            TaskQueue::Fifo(list) => {
                let key = list.pop_front(arena)?;
                arena.entity_mut(key).state = TaskState::Running;
                (key, FIFO_UNITS as u32)
            }
            TaskQueue::Fair(queue) => {
                let key = queue.pick(arena, &self.config)?;
                left = left.min(queue.curr_remaining_ns(arena).unwrap_or(left));
                (key, arena.entity(key).weight())
            }
        };
        self.fair.nr_waiting -= 1;
        self.publish_vruntime(arena, at);
        Some(self.start(key, at, Policy::Fair, weight, now, now + left))
    }

    fn pick_idle(&mut self, arena: &mut A, now: u64) -> Option<Picked<A::Key>> {
        let base = u64::from(self.config.base_slice_ns);
        let (key, at, slice) = loop {
            let key = self.idle.pop_front(arena)?;
            let at = self.fair.find(arena.entity(key).group)?;
            if !key_on!(BANDWIDTH) {
                break (key, at, base);
            }
            match self.fair.reserve(at, base, now) {
                0 => self.park_idle(arena, key, at, now),
                slice => break (key, at, slice),
            }
        };
        arena.entity_mut(key).state = TaskState::Running;
        let picked = self.start(key, at, Policy::Idle, 0, now, now + slice);
        if let Some(curr) = &mut self.curr {
            curr.slice_left = slice;
        }
        Some(picked)
    }

    /// Tells pullers how far a `Fair` group has come here.
    pub(super) fn publish_vruntime(&self, arena: &A, at: u32) {
        let fragment = self.fair.fragment(at);
        if let TaskQueue::Fair(queue) = &fragment.queue {
            let average = queue.avg_vruntime(arena);
            let slot = fragment.leaf.slot(self.cpu);
            slot.vruntime
                .store(average, core::sync::atomic::Ordering::Relaxed);
        }
    }

    /// Charges the current task for its execution up to `now`. Returns whether its queue wants
    /// another task.
    #[inline]
    pub(super) fn charge(&mut self, arena: &mut A, now: u64, is_switch: bool) -> bool {
        let Some(curr) = &mut self.curr else {
            return false;
        };
        let ran = now.saturating_sub(curr.since);
        curr.since += ran;
        let least = if is_switch {
            u64::from(self.config.min_charge_ns)
        } else {
            0
        };
        let end = now.max(curr.picked_at + least).max(self.fair.clock);
        let charge = end - self.fair.clock;
        self.fair.clock = end;
        let fragment = self.fair.fragment_mut(curr.fragment);
        fragment.usage += ran;
        if curr.policy != Policy::Fair {
            curr.slice_left = curr.slice_left.saturating_sub(charge);
            if curr.rt_priority > 0 {
                fragment.exempt += ran;
                self.rt.charge(ran, now, &self.config);
            }
            return false;
        }
        fragment.pending += charge;
        match &mut fragment.queue {
            TaskQueue::Fifo(_) => false,
            TaskQueue::Fair(queue) => queue.update_curr(arena, charge),
        }
    }

    /// Charges the current task up to `now` and takes it off the CPU (kernel: `put_prev_task`).
    ///
    /// With [`Outcome::Blocked`] or [`Outcome::Exited`] the entity is not touched unless the task
    /// is of the fair class in a group of [`Order::Fair`](crate::Order::Fair).
    #[inline]
    pub fn put_prev(&mut self, arena: &mut A, now: u64, outcome: Outcome) {
        self.charge(arena, now, true);
        // Field by field: copying the whole of `curr` would wait for the stores of the last pick.
        let Some(Curr {
            key,
            fragment,
            policy,
            ..
        }) = self.curr
        else {
            return;
        };
        if outcome == Outcome::Yielded
            && policy == Policy::Fair
            && let TaskQueue::Fifo(list) = &mut self.fair.fragment_mut(fragment).queue
            && arena.entity(key).policy == Policy::Fair
        {
            self.curr = None;
            list.push_back(arena, key);
            arena.entity_mut(key).state = TaskState::Queued;
            self.fair.nr_waiting += 1;
            return;
        }
        self.put_prev_slow(arena, now, outcome);
    }

    #[inline(never)]
    fn put_prev_slow(&mut self, arena: &mut A, now: u64, outcome: Outcome) {
        let Some(curr) = self.curr.take() else { return };
        if curr.policy == Policy::Idle {
            self.fair.account(curr.fragment, now);
            self.fair.release(now);
        }
        match outcome {
            Outcome::Blocked | Outcome::Exited => self.leave(arena, curr, now, outcome),
            _ if arena.entity(curr.key).policy != curr.policy => {
                // Its class was changed while it ran.
                self.leave(arena, curr, now, Outcome::Exited);
                let _ = self.enqueue(arena, curr.key, EnqueueKind::Requeue, now);
            }
            _ => self.put_back(arena, curr, outcome == Outcome::Yielded),
        }
    }

    /// Puts a task that is still runnable back into its queue.
    fn put_back(&mut self, arena: &mut A, curr: Curr<A::Key>, yielded: bool) {
        let key = curr.key;
        let entity = arena.entity_mut(key);
        entity.state = TaskState::Queued;
        let slice_over = curr.slice_left == 0;
        match curr.policy {
            Policy::Fair => {
                let turn_over = self.fair.turn_left(curr.fragment) == 0;
                self.fair.nr_waiting += 1;
                match &mut self.fair.fragment_mut(curr.fragment).queue {
                    TaskQueue::Fair(queue) => queue.put_prev(arena, yielded),
                    TaskQueue::Fifo(list) if turn_over || yielded => list.push_back(arena, key),
                    TaskQueue::Fifo(list) => list.push_front(arena, key),
                }
            }
            Policy::Idle if yielded || slice_over => self.idle.push_back(arena, key),
            Policy::Idle => self.idle.push_front(arena, key),
            Policy::RtRoundRobin if slice_over => {
                entity.deadline = self.config.rr_slice_ns as i64;
                self.rt.push(arena, key, false);
            }
            Policy::RtRoundRobin | Policy::RtFifo => {
                entity.deadline = curr.slice_left as i64;
                self.rt.push(arena, key, !yielded);
            }
        }
    }

    /// Takes a task that is no longer runnable out of all counts.
    fn leave(&mut self, arena: &mut A, curr: Curr<A::Key>, now: u64, outcome: Outcome) {
        let at = curr.fragment;
        self.nr_running -= 1;
        let fragment = self.fair.fragment_mut(at);
        fragment.nr_running -= 1;
        if curr.policy != Policy::Fair {
            self.fair.publish(at, now);
            return;
        }
        if let TaskQueue::Fair(queue) = &mut fragment.queue {
            if outcome == Outcome::Blocked {
                queue.block_curr(arena, &self.config);
            } else {
                queue.remove_curr(arena, &self.config);
            }
        }
        self.reduce_load(arena, at, curr.weight.into(), now);
    }

    /// Charges the current task up to `now` and decides whether another should run (kernel:
    /// `task_tick`). To be called at [`Picked::slice_end`] and about every [`Config::tick_ns`].
    ///
    /// [`Config::tick_ns`]: crate::Config::tick_ns
    pub fn tick(&mut self, arena: &mut A, now: u64) -> Resched {
        let queue_wants = self.charge(arena, now, false);
        if self.fair.has_throttled() && self.unthrottle(arena, now).is_needed() {
            return Resched::Yes;
        }
        let Some(curr) = self.curr else {
            return Resched::when(self.nr_running > 0);
        };
        self.fair.follow(now);
        let resched = match curr.policy {
            Policy::RtFifo | Policy::RtRoundRobin => self.tick_rt(now),
            Policy::Idle => {
                let ends = !self.idle.is_empty() || self.is_limited(curr.fragment);
                let over = curr.slice_left == 0 && ends;
                over || self.fair.nr_active() > 0 || self.rt_waits()
            }
            Policy::Fair => self.tick_fair(curr.fragment, queue_wants, now),
        };
        self.fair.publish(curr.fragment, now);
        self.publish_vruntime(arena, curr.fragment);
        self.shared
            .set_lag(self.fair.lag_total(now), self.fair.rate_total(), now);
        Resched::when(resched)
    }

    fn tick_rt(&mut self, now: u64) -> bool {
        let Some(curr) = self.curr else { return false };
        let has_lower = self.fair.nr_active() > 0 || !self.idle.is_empty();
        let over = curr.policy == Policy::RtRoundRobin && curr.slice_left == 0;
        self.rt.top() > curr.rt_priority
            || over && self.rt.has_equals(curr.rt_priority)
            || has_lower && self.rt.is_throttled(now, &self.config)
    }

    fn tick_fair(&mut self, at: u32, queue_wants: bool, now: u64) -> bool {
        if self.rt_waits() && !self.rt.is_throttled(now, &self.config) {
            return true;
        }
        if key_on!(BANDWIDTH) && self.fair.lacks_reservation(at) {
            self.fair.end_turn();
            return true;
        }
        if self.fair.turn_left(at) > 0 {
            return queue_wants;
        }
        let in_fragment = matches!(&self.fair.fragment(at).queue,
            TaskQueue::Fifo(list) if !list.is_empty());
        if self.fair.nr_active() > 1 || in_fragment {
            return true;
        }
        self.fair.pick(now, &self.config);
        queue_wants || self.fair.is_starved()
    }
}
