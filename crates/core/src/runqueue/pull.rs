//! Pulling tasks from another CPU.

use core::sync::atomic::Ordering::Relaxed;

use super::RunQueue;
use crate::arena::Arena;
use crate::balance::{PACK_RATE, PullKind, PullRequest, Rank};
use crate::entity::{Policy, TaskState};
use crate::fragment::{FIFO_UNITS, TaskQueue};
use crate::group::{GroupId, Order};
use crate::leaf::RATE_ONE;

/// Waiting fragments that an attempt considers.
const CANDIDATES: usize = 16;

/// Weight of an even distribution of rates against one of lags: the lag that is worth as much as
/// moving one CPU's rate, in ns.
const RATE_WORTH_NS: i128 = 4_000_000;

/// Time between two attempts to even out rates, in ns.
const PACK_INTERVAL_NS: u64 = 8_000_000;

/// A task on its way from one CPU to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the task is in no queue until it is enqueued"]
pub struct Migrating<K> {
    key: K,
    group: GroupId,
    /// Part of its group's lag that goes with it, in ns.
    pub(super) lag: i64,
}

impl<K: Copy> Migrating<K> {
    /// Returns the task.
    pub fn key(&self) -> K {
        self.key
    }

    /// Returns the task's group.
    pub fn group(&self) -> GroupId {
        self.group
    }
}

impl<A: Arena> RunQueue<A> {
    /// Returns what this CPU would like to pull, if anything. To be asked at every switch, after
    /// [`RunQueue::put_prev`], and whenever the CPU is idle. Cheap: mostly one comparison.
    #[inline]
    pub fn pull_request(&mut self, now: u64) -> Option<PullRequest> {
        if self.nr_running == 0 {
            return Some(self.request(PullKind::Idle, now));
        }
        if now < self.next_pull {
            return None;
        }
        self.pull_request_slow(now)
    }

    #[inline(never)]
    fn pull_request_slow(&mut self, now: u64) -> Option<PullRequest> {
        self.next_pull = now + self.config.pull_interval_ns;
        let (lag, rate) = (self.fair.lag_total(now), self.fair.rate_total());
        self.shared.set_lag(lag, rate, now);
        if self.rank() <= Rank::IDLE {
            return Some(self.request(PullKind::Idle, now));
        }
        if let Some(kind) = self.behind_elsewhere() {
            return Some(self.request(kind, now));
        }
        let packs = rate + PACK_RATE < RATE_ONE && now >= self.next_pack;
        if packs {
            self.next_pack = now + PACK_INTERVAL_NS;
        }
        let ahead = lag < -(self.config.pull_lag_ns as i64);
        let real_time = self.rank() == Rank::FAIR;
        (ahead || packs || real_time).then(|| self.request(PullKind::Lag, now))
    }

    fn request(&self, kind: PullKind, now: u64) -> PullRequest {
        PullRequest {
            kind,
            cpu: self.cpu,
            rank: self.rank(),
            lag: self.fair.lag_total(now),
            rate: self.fair.rate_total(),
            threshold: self.config.pull_lag_ns as i64,
        }
    }

    /// Looks for a CPU on which the `Fair` group of the present turn is behind. O(CPUs).
    fn behind_elsewhere(&self) -> Option<PullKind> {
        let fragment = self.fair.fragment(self.fair.curr()?);
        if fragment.leaf.order() != Order::Fair {
            return None;
        }
        let own = fragment.leaf.slot(self.cpu).vruntime.load(Relaxed);
        fragment.leaf.advance_vclock(own);
        let ahead = |vruntime: i64| own.wrapping_sub(vruntime);
        let slots = fragment.leaf.slots().iter().enumerate();
        let (victim, most) = slots
            .filter(|(cpu, slot)| *cpu != self.cpu && slot.nr_waiting.load(Relaxed) > 0)
            .map(|(cpu, slot)| (cpu, ahead(slot.vruntime.load(Relaxed))))
            .max_by_key(|&(_, ahead)| ahead)?;
        let group = fragment.leaf.id();
        let enough = most > self.config.pull_vruntime_ns as i64;
        enough.then_some(PullKind::Vruntime { group, victim })
    }

    /// Reports how an attempt to pull ended: after a success the next may follow at once.
    pub fn pull_done(&mut self, now: u64, moved: bool) {
        if moved {
            self.next_pull = now;
        }
    }

    /// Gives a waiting task to the CPU that made `request`, if one is worth it. O(log n).
    pub fn pull_task(
        &mut self,
        arena: &mut A,
        request: &PullRequest,
        now: u64,
    ) -> Option<Migrating<A::Key>> {
        if self.rt_waits() && Rank::real_time(self.rt.top()) > request.rank {
            let key = self.rt.pop(arena)?;
            return self.release(arena, key, now);
        }
        let fair = match request.kind {
            PullKind::Vruntime { group, .. } => self.pull_behind(arena, group, request.cpu, now),
            PullKind::Lag if request.rank >= Rank::FAIR => self.pull_lag(arena, request, now),
            _ if request.rank < Rank::FAIR => self.pull_any(arena, request.cpu, now),
            _ => None,
        };
        if fair.is_some() || request.rank >= Rank::IDLE {
            return fair;
        }
        let key = self.idle.head()?;
        let at = self.fair.find(arena.entity(key).group)?;
        if !self.fair.may_move(at, request.cpu, now) {
            return None;
        }
        self.idle.remove(arena, key);
        self.release(arena, key, now)
    }

    /// Completes the removal of a task that is not of the fair class.
    fn release(&mut self, arena: &mut A, key: A::Key, now: u64) -> Option<Migrating<A::Key>> {
        let entity = arena.entity_mut(key);
        entity.state = TaskState::Blocked;
        let group = entity.group;
        debug_assert!(entity.policy != Policy::Fair);
        let at = self.fair.find(group)?;
        self.nr_running -= 1;
        self.fair.fragment_mut(at).nr_running -= 1;
        self.fair.publish(at, now);
        self.publish_counts();
        Some(Migrating { key, group, lag: 0 })
    }

    /// For a CPU without work: the task that would run next here, with its part of the lag.
    fn pull_any(&mut self, arena: &mut A, to: usize, now: u64) -> Option<Migrating<A::Key>> {
        if self.fair.nr_waiting == 0 {
            return None;
        }
        let at = match self.fair.best_waiting(now) {
            Some(at) => at,
            None => self.fair.curr()?,
        };
        let at = if self.fair.may_move(at, to, now) {
            at
        } else {
            self.first_movable(to, now)?
        };
        let fragment = self.fair.fragment(at);
        let lag = self.fair.lag_of(at, now) / i64::from(fragment.nr.max(1));
        self.take(arena, at, lag, now)
    }

    fn pull_behind(
        &mut self,
        arena: &mut A,
        group: GroupId,
        to: usize,
        now: u64,
    ) -> Option<Migrating<A::Key>> {
        let at = self.fair.find(group)?;
        let fragment = self.fair.fragment(at);
        let waits = fragment.nr > 0 && fragment.queue.nr_waiting() > 0;
        if !waits || !self.fair.may_move(at, to, now) {
            return None;
        }
        let lag = self.fair.lag_of(at, now) / i64::from(fragment.nr.max(1));
        self.take(arena, at, lag, now)
    }

    /// Chooses the task whose move evens out lag and rate best.
    ///
    /// Moving lag λ and rate x between CPUs that differ by g in lag and d in rate reduces
    /// g² / 4 by λ (g − λ), and d² / 4 by x (d − x). The rates are the lags of the future, so both
    /// count: λ (g − λ) + c² x (d − x), with c = [`RATE_WORTH_NS`].
    fn pull_lag(
        &mut self,
        arena: &mut A,
        request: &PullRequest,
        now: u64,
    ) -> Option<Migrating<A::Key>> {
        let gap = self.fair.lag_total(now).saturating_sub(request.lag);
        let excess = self.fair.rate_total() as i64 - request.rate as i64;
        let mut best: Option<(i128, u32, i64)> = None;
        let mut consider = |at: u32| {
            let fragment = self.fair.fragment(at);
            if fragment.queue.nr_waiting() == 0 || !self.fair.may_move(at, request.cpu, now) {
                return;
            }
            let own = self.fair.lag_of(at, now);
            // The last task takes all of the lag with it; others leave what would be too much.
            let lag = if fragment.nr == 1 {
                own
            } else {
                own.min(gap / 2).max(own.min(0))
            };
            let rate = fragment.rate_per_task() as i64;
            let score = score(lag, gap, rate, excess);
            if score > 0 && best.is_none_or(|(other, ..)| score > other) {
                best = Some((score, at, lag));
            }
        };
        let mut seen = 0;
        self.fair.for_each_waiting(|at| {
            consider(at);
            seen += 1;
            seen < CANDIDATES
        });
        if let Some(at) = self.fair.curr() {
            consider(at);
        }
        let (_, at, lag) = best?;
        self.take(arena, at, lag, now)
    }

    /// Removes the first (or the most starved) waiting task of a fragment, with `lag`.
    fn take(&mut self, arena: &mut A, at: u32, lag: i64, now: u64) -> Option<Migrating<A::Key>> {
        let fragment = self.fair.fragment_mut(at);
        let group = fragment.leaf.id();
        let (key, units) = match &mut fragment.queue {
            TaskQueue::Fifo(list) => (list.pop_front(arena)?, FIFO_UNITS),
            TaskQueue::Fair(queue) => {
                let key = queue.most_behind(arena)?;
                queue.dequeue(arena, key, &self.config);
                (key, arena.entity(key).weight().into())
            }
        };
        arena.entity_mut(key).state = TaskState::Blocked;
        self.nr_running -= 1;
        fragment.nr_running -= 1;
        self.fair.nr_waiting -= 1;
        self.fair.add_lag(at, -lag, now);
        self.reduce_load(arena, at, units, now);
        self.shared
            .set_lag(self.fair.lag_total(now), self.fair.rate_total(), now);
        self.publish_counts();
        Some(Migrating { key, group, lag })
    }
}

fn score(lag: i64, gap: i64, rate: i64, excess: i64) -> i128 {
    let lags = i128::from(lag) * i128::from(gap.saturating_sub(lag));
    let rates = (i128::from(rate) * i128::from(excess - rate)) >> 32;
    lags + ((RATE_WORTH_NS * RATE_WORTH_NS * rates) >> 32)
}
