//! The loops on a run queue of the core.

use std::hint::black_box;

use evenkeel_core::{
    Config, Domain, EnqueueKind, Entity, GroupId, GroupParams, Outcome, RunQueue, VecArena,
};

/// Virtual time between two steps, in ns.
const STEP_NS: u64 = 1_000;

/// A run queue with one task, in a group of its own.
pub(super) struct CoreLoop {
    arena: VecArena,
    rq: RunQueue<VecArena>,
    task: u32,
    now: u64,
}

impl CoreLoop {
    /// Sets it up: the task is blocked.
    pub(super) fn new() -> Self {
        let config = Config::for_cpus(1);
        let mut domain = Domain::new(1, config.clone());
        let params = GroupParams::default();
        let group = domain.create(GroupId::ROOT, params);
        let group = group.expect("the settings are the defaults");
        let mut rq = RunQueue::new(0, 1, config);
        rq.attach(domain.leaf(group).expect("it was just made"));
        let mut arena = VecArena::new();
        let task = arena.insert(Entity::new(group, params.task));
        let _ = rq.enqueue(&mut arena, task, EnqueueKind::New, 0);
        let mut this = CoreLoop {
            arena,
            rq,
            task,
            now: 0,
        };
        this.pick();
        this.leave(Outcome::Blocked);
        this
    }

    /// Wakes, picks and blocks the task.
    pub(super) fn wake(&mut self, times: u64) {
        for _ in 0..times {
            let kind = EnqueueKind::Wakeup;
            let _ = black_box(self.rq.enqueue(&mut self.arena, self.task, kind, self.now));
            self.pick();
            self.leave(Outcome::Blocked);
        }
    }

    /// Starts the task, then puts it back and picks it again.
    pub(super) fn yields(&mut self, times: u64) {
        let kind = EnqueueKind::Wakeup;
        let _ = self.rq.enqueue(&mut self.arena, self.task, kind, self.now);
        self.pick();
        for _ in 0..times {
            self.leave(Outcome::Yielded);
            self.pick();
        }
        self.leave(Outcome::Blocked);
    }

    #[inline]
    fn pick(&mut self) {
        let picked = black_box(self.rq.pick_next(&mut self.arena, self.now));
        debug_assert_eq!(picked.map(|picked| picked.key), Some(self.task));
        self.now += STEP_NS;
    }

    #[inline]
    fn leave(&mut self, outcome: Outcome) {
        self.rq.put_prev(&mut self.arena, self.now, outcome);
        self.now += STEP_NS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_task_is_picked_every_time_and_the_queue_ends_empty() {
        let mut this = CoreLoop::new();
        this.wake(100);
        this.yields(100);
        assert_eq!(this.rq.nr_running(), 0);
        this.rq.validate(&this.arena);
        // The first pick, a hundred wakes, and a hundred yields after one: each ran for a step.
        assert_eq!(this.now, STEP_NS * 2 * (1 + 100 + 101));
    }
}
