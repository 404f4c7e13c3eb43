//! What the monitor and wakers outside do to a worker's queues.
//!
//! They act while the worker is in a poll, under its run queue's lock, which nobody holds while it
//! can be parked.

use std::sync::atomic::{Ordering, fence};

use crossbeam_deque::Steal;
use evenkeel_core::{EnqueueKind, PullRequest};

use super::TaskArena;
use super::grouped::enqueue;
use crate::clock;
use crate::preempt::Level;
use crate::shared::Shared;
use crate::task::{Meta, Runnable, TaskRef};

/// Whether the poll that goes on on a worker should make room.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    GoOn,
    MakeRoom,
}

/// Most tasks moved from the shared queue to a run queue at a tick.
const MAX_INTAKE: usize = 32;
/// Most CPUs that are asked whether a woken task preempts there.
const MAX_CANDIDATES: usize = 4;
/// Most tasks looked at when parked polls are let go.
const MAX_RESCUED: usize = 64;

impl Shared {
    /// Decides about a poll that has gone on for a tick at least.
    pub(crate) fn tick_cpu(&self, cpu: usize, now_ns: u64) -> Verdict {
        if !self.is_grouped() {
            let has_work = self.has_work() || !self.remotes[cpu].slot.is_empty();
            return if has_work {
                Verdict::MakeRoom
            } else {
                Verdict::GoOn
            };
        }
        self.tick_grouped(cpu, now_ns)
    }

    /// Takes in what lies where the worker would find it after its poll, and asks the core.
    fn tick_grouped(&self, cpu: usize, now_ns: u64) -> Verdict {
        self.groups.tick(now_ns);
        if self.groups.is_refill_due(now_ns) {
            self.try_refill(now_ns, None);
        }
        let preempts = self.take_in(cpu, now_ns);
        let mut rq = self.queues[cpu].lock();
        if rq.curr().is_none() {
            // A poll that the queue does not know of: it ran before groups came into use, or goes
            // on while another thread takes the CPU over.
            return if rq.nr_waiting() > 0 {
                Verdict::MakeRoom
            } else {
                Verdict::GoOn
            };
        }
        if rq.tick(&mut TaskArena, now_ns).is_needed() || preempts {
            return Verdict::MakeRoom;
        }
        if self.remotes[cpu].level() != Some(Level::Park) {
            return Verdict::GoOn;
        }
        match rq.pull_request(now_ns) {
            None => Verdict::GoOn,
            Some(request) => {
                drop(rq);
                self.pull_to(cpu, &request, now_ns)
            }
        }
    }

    /// Queues what lies where the worker would find it after its poll; returns whether any of it
    /// takes the place of what runs there.
    fn take_in(&self, cpu: usize, now_ns: u64) -> bool {
        let mut preempts = false;
        let mut queue = |runnable: Runnable| {
            if runnable.metadata().group_ref().is_fair_order {
                self.enqueue_any(runnable, cpu, now_ns);
            } else {
                let mut rq = self.queues[cpu].lock();
                preempts |= enqueue(&mut rq, self, runnable, now_ns).is_needed();
            }
        };
        if let Some(woken) = self.remotes[cpu].slot.take() {
            queue(woken);
        }
        // A worker's own plain queue may hold tasks since before groups came into use, taken
        // together with the one whose poll goes on.
        for _ in 0..MAX_INTAKE {
            match self.remotes[cpu].stealer.steal() {
                Steal::Success(runnable) => queue(runnable),
                Steal::Empty => break,
                Steal::Retry => {}
            }
        }
        for _ in 0..MAX_INTAKE {
            match self.injector.steal() {
                Steal::Success(runnable) => queue(runnable),
                Steal::Empty => break,
                Steal::Retry => {}
            }
        }
        preempts
    }

    /// Wakes the workers that fell asleep in front of their own work: what the monitor moves is in
    /// no queue for a moment, and whoever looks then finds nothing. For the monitor, after its
    /// ticks; it takes no lock.
    ///
    /// Whoever falls asleep announces that before its last look, and this looks after the move, so
    /// that one of the two sees the other.
    pub(crate) fn wake_overlooked(&self) {
        fence(Ordering::SeqCst);
        if !self.idle.has_parked() || !self.is_grouped() {
            return;
        }
        for (cpu, queue) in self.queues.iter().enumerate() {
            if queue.hints.nr_waiting() > 0 {
                self.unpark(cpu);
            }
        }
    }

    /// Pulls a task to a CPU whose task is ahead of others elsewhere.
    #[cold]
    fn pull_to(&self, cpu: usize, request: &PullRequest, now_ns: u64) -> Verdict {
        let hints = |at: usize| &*self.queues[at].hints;
        let victim = evenkeel_core::balance::select_victim(
            request,
            hints,
            self.queues.len(),
            now_ns,
            now_ns ^ cpu as u64,
        );
        let pulled = victim
            .and_then(|victim| self.queues[victim].try_lock())
            .and_then(|mut rq| rq.pull_task(&mut TaskArena, request, now_ns));
        let mut rq = self.queues[cpu].lock();
        rq.pull_done(now_ns, pulled.is_some());
        let Some(task) = pulled else {
            return Verdict::GoOn;
        };
        let kind = EnqueueKind::Migrated(task);
        if rq
            .enqueue(&mut TaskArena, task.key(), kind, now_ns)
            .is_needed()
        {
            Verdict::MakeRoom
        } else {
            Verdict::GoOn
        }
    }

    /// Queues a woken task on a CPU where it takes the place of what runs there, which it returns
    /// with the turn that is to end; where there is none, on the CPU on which it ran last.
    pub(crate) fn enqueue_where_it_preempts(&self, runnable: Runnable) -> Option<(usize, u64)> {
        let now_ns = clock::now_ns();
        let n = self.queues.len();
        let meta = runnable.metadata();
        let home = meta.home.load(Ordering::Relaxed) as usize % n;
        let candidates = if meta.group_ref().is_fair_order {
            1
        } else {
            n.min(MAX_CANDIDATES)
        };
        let mut runnable = runnable;
        for step in (0..candidates).rev() {
            let cpu = (home + step) % n;
            let mut rq = self.queues[cpu].lock();
            let key = TaskRef::new(runnable.metadata());
            if enqueue(&mut rq, self, runnable, now_ns).is_needed() {
                return Some((cpu, self.preempt.crew.request(cpu).turn()));
            }
            if step == 0 {
                return None;
            }
            rq.dequeue(&mut TaskArena, key, now_ns);
            runnable = key.into_runnable();
        }
        None
    }

    /// Takes the tasks whose polls are parked out of the run queues, as far as they can be locked.
    pub(crate) fn take_parked_out(&self, mut release: impl FnMut(&Meta)) {
        let now_ns = clock::now_ns();
        for queue in &self.queues {
            let Some(mut rq) = queue.try_lock() else {
                continue;
            };
            let mut others = [const { None }; MAX_RESCUED];
            for other in &mut others {
                let Some(key) = rq.any_waiting(&TaskArena, None) else {
                    break;
                };
                rq.dequeue(&mut TaskArena, key, now_ns);
                if key.meta().is_parked() {
                    release(key.meta());
                } else {
                    *other = Some(key);
                }
            }
            for key in others.into_iter().flatten() {
                let _ = rq.enqueue(&mut TaskArena, key, key.prepare(), now_ns);
            }
        }
    }
}
