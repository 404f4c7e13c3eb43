//! Earliest eligible virtual deadline first over the tasks of one queue.
//!
//! Source: Stoica and Abdel-Wahab, "Earliest Eligible Virtual Deadline First", 1995, in the form of
//! Linux (`kernel/sched/fair.c`). Symbols and fields:
//!
//! | symbol | meaning | field |
//! |---|---|---|
//! | w_i | weight | `Entity::weight` (1024 at nice 0) |
//! | v_i | virtual run time: service × 1024 / w_i | `Entity::vruntime` |
//! | d_i | virtual deadline: v_i at the request + slice × 1024 / w_i | `Entity::deadline` |
//! | v0 | zero point of the sums | `zero_vruntime` |
//! | Σ w_i (v_i − v0) | over the tree | `sum_w_vruntime` |
//! | W = Σ w_i | over the tree | `sum_weight` |
//!
//! In an ideal fluid system all tasks advance together, to V. Each task's lag is the service that
//! it is owed, lag_i = w_i (V − v_i), and the lags sum to zero:
//!
//! ```text
//! Σ w_i (V − v_i) = 0   ⇒   V = Σ w_i v_i / W = v0 + Σ w_i (v_i − v0) / W
//! ```
//!
//! so V is the weighted mean, and the sums over differences from v0 stay small because v0 is moved
//! to V now and then. A task is *eligible* if lag_i ≥ 0, that is v_i ≤ V, tested without dividing:
//!
//! ```text
//! Σ w_j (v_j − v0)  ≥  (v_i − v0) W
//! ```
//!
//! The pick is the earliest deadline among the eligible. The running task is not in the tree but
//! counts in both sums.
//!
//! A queue of its own stands for one CPU. Queues of the same group on several CPUs keep their
//! virtual times comparable: a task that moves keeps its `vruntime` ([`Placement::Migrated`]), so
//! a CPU whose V is behind another's has tasks that received less, and they can be pulled.
//! The kernel re-normalises on migration instead and leaves this to load balancing.

use crate::arena::Arena;
use crate::config::Config;
use crate::entity::{Entity, TaskState};
use crate::feat;
use crate::tree::{Tree, before};
use crate::weight::calc_delta_fair;

/// How a task comes into an [`EevdfQueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// For the first time: lag 0, and half a slice (kernel: `ENQUEUE_INITIAL`).
    Initial,
    /// After sleeping: with the lag it left with.
    Wakeup,
    /// Back after a change of attributes: with its lag and its relative deadline.
    Restore,
    /// From the queue of the same group on another CPU: with its `vruntime`, clamped around V.
    Migrated,
}

/// The run queue of EEVDF (kernel: `struct cfs_rq`).
#[derive(Clone, Debug)]
pub struct EevdfQueue<K> {
    tree: Tree<K>,
    sum_w_vruntime: i64,
    sum_weight: u64,
    zero_vruntime: i64,
    curr: Option<K>,
    /// Until this virtual time `curr` may not be preempted by its equals (kernel: `vprot`).
    curr_protected_until: i64,
    /// Buddy that wins the next pick if it is eligible.
    next: Option<K>,
    nr_delayed: u32,
}

impl<K> Default for EevdfQueue<K> {
    /// Returns an empty queue whose virtual time is 0.
    fn default() -> Self {
        EevdfQueue {
            tree: Tree::default(),
            sum_w_vruntime: 0,
            sum_weight: 0,
            zero_vruntime: 0,
            curr: None,
            curr_protected_until: 0,
            next: None,
            nr_delayed: 0,
        }
    }
}

/// The two sums over all entities, the running one included.
#[derive(Clone, Copy)]
struct Sums {
    zero: i64,
    w_vruntime: i64,
    weight: u64,
}

impl Sums {
    /// V, rounded down (kernel: `avg_vruntime`).
    fn average(self) -> i64 {
        if self.weight == 0 {
            return self.zero;
        }
        self.zero
            .wrapping_add(self.w_vruntime.div_euclid(self.weight as i64))
    }

    /// lag ≥ 0 by cross-multiplication (kernel: `vruntime_eligible`).
    #[inline]
    fn is_eligible(self, vruntime: i64) -> bool {
        let key = i128::from(vruntime.wrapping_sub(self.zero));
        i128::from(self.w_vruntime) >= key * i128::from(self.weight)
    }
}

impl<K: Copy + Eq + core::fmt::Debug> EevdfQueue<K> {
    /// Creates an empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of runnable tasks: waiting and running, without delayed ones.
    #[inline]
    pub fn nr_runnable(&self) -> usize {
        self.nr_waiting() + usize::from(self.curr.is_some())
    }

    /// Returns the number of runnable tasks that do not run.
    #[inline]
    pub fn nr_waiting(&self) -> usize {
        self.tree.len() - self.nr_delayed as usize
    }

    /// Returns the number of blocked tasks that are still in the tree.
    pub fn nr_delayed(&self) -> usize {
        self.nr_delayed as usize
    }

    /// Returns the running task.
    pub fn curr(&self) -> Option<K> {
        self.curr
    }

    /// Returns V, the weighted mean of all virtual run times, rounded down.
    pub fn avg_vruntime<A: Arena<Key = K>>(&self, arena: &A) -> i64 {
        self.sums(arena).average()
    }

    /// Returns whether a task of this queue has non-negative lag.
    pub fn is_eligible<A: Arena<Key = K>>(&self, arena: &A, key: K) -> bool {
        self.sums(arena).is_eligible(arena.entity(key).vruntime)
    }

    /// Moves the virtual time of a queue without tasks forward to `vruntime`, never back.
    pub fn advance_idle(&mut self, vruntime: i64) {
        if self.tree.is_empty() && self.curr.is_none() && before(self.zero_vruntime, vruntime) {
            self.zero_vruntime = vruntime;
        }
    }

    /// Visits the waiting and delayed tasks by deadline until `visit` returns `false`.
    pub fn for_each<A: Arena<Key = K>>(&self, arena: &A, visit: impl FnMut(K) -> bool) {
        self.tree.for_each(arena, visit);
    }

    /// Adds a task, or wakes one that is delayed here. Returns whether it should preempt `curr`.
    pub fn enqueue<A: Arena<Key = K>>(
        &mut self,
        arena: &mut A,
        key: K,
        placement: Placement,
        config: &Config,
    ) -> bool {
        if arena.entity(key).state == TaskState::Delayed {
            self.requeue_delayed(arena, key, config);
        } else {
            let entity = arena.entity_mut(key);
            entity.slice = config.slice(entity.slice);
            self.place(arena, key, placement, config);
            self.insert(arena, key, TaskState::Queued);
        }
        if feat!(NEXT_BUDDY) && placement == Placement::Wakeup {
            self.next = Some(key);
        }
        placement != Placement::Restore && self.check_preempt_wakeup(arena, key)
    }

    /// Removes a task that waits or is delayed; it keeps its lag and relative deadline.
    pub fn dequeue<A: Arena<Key = K>>(&mut self, arena: &mut A, key: K, config: &Config) {
        let lag = self.lag(arena, key, config);
        self.take(arena, key);
        let entity = arena.entity_mut(key);
        let delayed = entity.state == TaskState::Delayed;
        entity.state = TaskState::Blocked;
        entity.min_vruntime_or_vlag = if delayed && feat!(DELAY_ZERO) {
            lag.min(0)
        } else {
            lag
        };
        entity.rel_deadline = feat!(PLACE_REL_DEADLINE) && !delayed;
        if entity.rel_deadline {
            entity.deadline = entity.deadline.wrapping_sub(entity.vruntime);
        }
    }

    /// Picks the task to run and makes it `curr`. Delayed tasks that win the pick have burnt
    /// their lag and leave the queue.
    pub fn pick<A: Arena<Key = K>>(&mut self, arena: &mut A, config: &Config) -> Option<K> {
        debug_assert!(self.curr.is_none(), "pick before put_prev");
        loop {
            let key = self.pick_eevdf(arena, true)?;
            if arena.entity(key).state == TaskState::Delayed {
                self.dequeue(arena, key, config);
                continue;
            }
            self.take(arena, key);
            self.set_curr(arena, key);
            return Some(key);
        }
    }

    /// Charges `delta_ns` of execution to `curr`. Returns whether another task should run
    /// (kernel: `update_curr`).
    pub fn update_curr<A: Arena<Key = K>>(&mut self, arena: &mut A, delta_ns: u64) -> bool {
        let Some(key) = self.curr else { return false };
        let entity = arena.entity_mut(key);
        let weight = entity.weight();
        entity.vruntime = entity
            .vruntime
            .wrapping_add(calc_delta_fair(delta_ns, weight) as i64);
        let passed = !before(entity.vruntime, entity.deadline);
        if passed {
            let vslice = calc_delta_fair(entity.slice.into(), weight) as i64;
            entity.deadline = entity.vruntime.wrapping_add(vslice);
        }
        let protected = feat!(RUN_TO_PARITY) && before(entity.vruntime, self.curr_protected_until);
        self.advance_zero(arena);
        self.nr_waiting() > 0 && (passed || !protected)
    }

    /// Puts `curr`, already charged, back among the waiting. A task that yields starts a new
    /// request, so it goes behind equals; its lag is untouched (the kernel's `yield_task_fair`
    /// likewise ends the request, and additionally forfeits the service that is left of it).
    pub fn put_prev<A: Arena<Key = K>>(&mut self, arena: &mut A, yielded: bool) {
        let Some(key) = self.curr.take() else { return };
        if yielded {
            let entity = arena.entity_mut(key);
            let vslice = calc_delta_fair(entity.slice.into(), entity.weight()) as i64;
            entity.deadline = entity.vruntime.wrapping_add(vslice);
        }
        self.insert(arena, key, TaskState::Queued);
    }

    /// Takes `curr`, already charged, out because it blocked. While it has negative lag it stays
    /// in the tree as [`TaskState::Delayed`].
    pub fn block_curr<A: Arena<Key = K>>(&mut self, arena: &mut A, config: &Config) {
        let Some(key) = self.curr else { return };
        if feat!(DELAY_DEQUEUE) && !self.is_eligible(arena, key) {
            self.curr = None;
            self.insert(arena, key, TaskState::Delayed);
            self.nr_delayed += 1;
        } else {
            self.remove_curr(arena, config);
        }
        if self.nr_runnable() == 0 {
            self.flush_delayed(arena, config);
        }
    }

    /// Takes `curr`, already charged, out because it is done or leaves this queue.
    pub fn remove_curr<A: Arena<Key = K>>(&mut self, arena: &mut A, config: &Config) {
        let Some(key) = self.curr else { return };
        let lag = self.lag(arena, key, config);
        self.curr = None;
        let entity = arena.entity_mut(key);
        entity.state = TaskState::Blocked;
        entity.min_vruntime_or_vlag = lag;
        entity.rel_deadline = false;
    }

    /// Returns the virtual time that `curr` may still run before others get their turn, in ns of
    /// execution.
    pub fn curr_remaining_ns<A: Arena<Key = K>>(&self, arena: &A) -> Option<u64> {
        let entity = arena.entity(self.curr?);
        let until = if feat!(RUN_TO_PARITY) && before(self.curr_protected_until, entity.deadline) {
            self.curr_protected_until
        } else {
            entity.deadline
        };
        let left = until.wrapping_sub(entity.vruntime).max(0) as u128;
        Some((left * u128::from(entity.weight())).div_ceil(1024) as u64)
    }

    /// Changes settings of `curr`, keeping its lag (kernel: `reweight_entity`):
    /// w (V − v) = w' (V − v'), and the same for what is left of the request.
    pub fn reweight_curr<A: Arena<Key = K>>(
        &mut self,
        arena: &mut A,
        change: impl FnOnce(&mut Entity<K>),
        config: &Config,
    ) {
        let Some(key) = self.curr else { return };
        let lag = self.lag(arena, key, config);
        let entity = arena.entity_mut(key);
        let old = i128::from(entity.weight());
        let rest = i128::from(entity.deadline.wrapping_sub(entity.vruntime));
        change(entity);
        entity.slice = config.slice(entity.slice);
        let new = i128::from(entity.weight());
        entity.min_vruntime_or_vlag = (i128::from(lag) * old / new) as i64;
        self.curr = None;
        self.place(arena, key, Placement::Wakeup, config);
        let entity = arena.entity_mut(key);
        let vslice = calc_delta_fair(entity.slice.into(), entity.weight()) as i64;
        let rest = ((rest * old / new) as i64).min(vslice);
        entity.deadline = entity.vruntime.wrapping_add(rest);
        self.set_curr(arena, key);
    }

    /// Returns the least slice among all tasks, `curr` included, in ns.
    pub fn min_slice<A: Arena<Key = K>>(&self, arena: &A) -> Option<u32> {
        let curr = self.curr.map(|key| arena.entity(key).slice);
        let waiting = self.tree.min_slice(arena);
        curr.into_iter().chain(waiting).min()
    }

    /// Returns the waiting task that received least: the best to hand to another CPU.
    pub fn most_behind<A: Arena<Key = K>>(&self, arena: &A) -> Option<K> {
        let key = self.tree.first_by_vruntime(arena)?;
        if arena.entity(key).state == TaskState::Queued {
            return Some(key);
        }
        // A delayed task never is far behind; any waiting one will do.
        let mut found = None;
        self.tree.for_each(arena, |key| {
            found = Some(key).filter(|&k| arena.entity(k).state == TaskState::Queued);
            found.is_none()
        });
        found
    }

    /// Checks the sums against the tree.
    ///
    /// # Panics
    /// If they disagree.
    pub fn validate<A: Arena<Key = K>>(&self, arena: &A) {
        self.tree.validate(arena);
        let (mut weight, mut sum, mut delayed) = (0, 0, 0);
        self.tree.for_each(arena, |key| {
            let entity = arena.entity(key);
            weight += u64::from(entity.weight());
            sum += i64::from(entity.weight()) * entity.vruntime.wrapping_sub(self.zero_vruntime);
            delayed += u32::from(entity.state == TaskState::Delayed);
            true
        });
        assert_eq!((weight, sum), (self.sum_weight, self.sum_w_vruntime));
        assert_eq!(delayed, self.nr_delayed);
    }

    fn sums<A: Arena<Key = K>>(&self, arena: &A) -> Sums {
        let (mut w_vruntime, mut weight) = (self.sum_w_vruntime, self.sum_weight);
        if let Some(curr) = self.curr {
            let entity = arena.entity(curr);
            let w = entity.weight();
            w_vruntime += i64::from(w) * entity.vruntime.wrapping_sub(self.zero_vruntime);
            weight += u64::from(w);
        }
        Sums {
            zero: self.zero_vruntime,
            w_vruntime,
            weight,
        }
    }

    /// Returns V − v_i, clamped to the largest slice and a tick (kernel: `entity_lag`). The bound
    /// is that of EEVDF: no task is owed or owes more than a request and what it overran.
    fn lag<A: Arena<Key = K>>(&self, arena: &A, key: K, config: &Config) -> i64 {
        let entity = arena.entity(key);
        let largest = self.tree.max_slice(arena).unwrap_or(0).max(entity.slice);
        let limit = calc_delta_fair(
            u64::from(largest) + u64::from(config.tick_ns),
            entity.weight(),
        );
        let lag = self.sums(arena).average().wrapping_sub(entity.vruntime);
        lag.clamp(-(limit as i64), limit as i64)
    }

    /// Sets `vruntime` and `deadline` of a task that is about to join (kernel: `place_entity`).
    ///
    /// Adding a task with lag moves V: with W the weight of those present,
    ///
    /// ```text
    /// V' = (W V + w (V − l)) / (W + w) = V − w l / (W + w)
    /// l' = V' − v = l − w l / (W + w) = l W / (W + w)
    /// ```
    ///
    /// so that l' becomes the lag it left with, it is placed with l = l' (W + w) / W.
    fn place<A: Arena<Key = K>>(
        &mut self,
        arena: &mut A,
        key: K,
        placement: Placement,
        config: &Config,
    ) {
        let sums = self.sums(arena);
        let average = sums.average();
        let entity = arena.entity_mut(key);
        let weight = entity.weight();
        let mut vslice = calc_delta_fair(entity.slice.into(), weight) as i64;
        entity.vruntime = match placement {
            Placement::Migrated if sums.weight > 0 => {
                let limit = 4 * config.pull_vruntime_ns.max(entity.slice.into());
                let limit = calc_delta_fair(limit, weight) as i64;
                let lag = average.wrapping_sub(entity.vruntime).clamp(-limit, limit);
                average.wrapping_sub(lag)
            }
            Placement::Migrated if before(average, entity.vruntime) => {
                self.zero_vruntime = entity.vruntime;
                entity.vruntime
            }
            Placement::Wakeup | Placement::Restore if feat!(PLACE_LAG) && sums.weight > 0 => {
                let (load, w) = (i128::from(sums.weight), i128::from(weight));
                let lag = i128::from(entity.min_vruntime_or_vlag) * (load + w) / load;
                average.wrapping_sub(lag as i64)
            }
            _ => average,
        };
        if core::mem::take(&mut entity.rel_deadline)
            && matches!(placement, Placement::Restore | Placement::Migrated)
        {
            entity.deadline = entity.vruntime.wrapping_add(entity.deadline.min(vslice));
            return;
        }
        if feat!(PLACE_DEADLINE_INITIAL) && placement == Placement::Initial {
            vslice /= 2;
        }
        entity.deadline = entity.vruntime.wrapping_add(vslice);
    }

    /// Makes a delayed task runnable again where it is; lag that it gained meanwhile is cut
    /// (kernel: `requeue_delayed_entity`).
    fn requeue_delayed<A: Arena<Key = K>>(&mut self, arena: &mut A, key: K, config: &Config) {
        if feat!(DELAY_ZERO) && self.sums(arena).average() > arena.entity(key).vruntime {
            self.take(arena, key);
            arena.entity_mut(key).min_vruntime_or_vlag = 0;
            self.place(arena, key, Placement::Wakeup, config);
            self.insert(arena, key, TaskState::Queued);
        } else {
            arena.entity_mut(key).state = TaskState::Queued;
            self.nr_delayed -= 1;
        }
    }

    /// Removes all delayed tasks: nobody runs here any more, so their lag would never burn.
    /// Every task that was delayed leaves once, so this costs as much as leaving at once did.
    pub(crate) fn flush_delayed<A: Arena<Key = K>>(&mut self, arena: &mut A, config: &Config) {
        while let Some(key) = self.pick_eevdf(arena, false) {
            self.dequeue(arena, key, config);
        }
    }

    /// Adds a task to tree and sums (kernel: `__enqueue_entity`).
    fn insert<A: Arena<Key = K>>(&mut self, arena: &mut A, key: K, state: TaskState) {
        let entity = arena.entity_mut(key);
        entity.state = state;
        let weight = entity.weight();
        let key_vruntime = entity.vruntime.wrapping_sub(self.zero_vruntime);
        self.sum_w_vruntime += i64::from(weight) * key_vruntime;
        self.sum_weight += u64::from(weight);
        self.tree.insert(arena, key);
        self.advance_zero(arena);
    }

    /// Takes a task out of tree and sums (kernel: `__dequeue_entity`); sets no lag.
    fn take<A: Arena<Key = K>>(&mut self, arena: &mut A, key: K) {
        self.tree.remove(arena, key);
        let entity = arena.entity(key);
        let weight = entity.weight();
        let key_vruntime = entity.vruntime.wrapping_sub(self.zero_vruntime);
        self.sum_w_vruntime -= i64::from(weight) * key_vruntime;
        self.sum_weight -= u64::from(weight);
        self.nr_delayed -= u32::from(entity.state == TaskState::Delayed);
        if self.next == Some(key) {
            self.next = None;
        }
        if self.tree.is_empty() && self.curr.is_none() {
            // Keep V where the last task was, for whoever comes next.
            self.zero_vruntime = entity.vruntime;
        }
    }

    fn set_curr<A: Arena<Key = K>>(&mut self, arena: &mut A, key: K) {
        self.curr = Some(key);
        let slice = self.min_slice(arena).unwrap_or(0);
        let entity = arena.entity_mut(key);
        entity.state = TaskState::Running;
        self.curr_protected_until = entity.deadline;
        if slice < entity.slice {
            let until = calc_delta_fair(slice.into(), entity.weight()) as i64;
            let until = entity.vruntime.wrapping_add(until);
            if before(until, entity.deadline) {
                self.curr_protected_until = until;
            }
        }
    }

    /// Moves v0 to V, which keeps the differences from v0 small:
    /// Σ w (v − v0 − δ) = Σ w (v − v0) − W δ (kernel: `update_zero_vruntime`).
    fn advance_zero<A: Arena<Key = K>>(&mut self, arena: &A) {
        let average = self.sums(arena).average();
        let delta = average.wrapping_sub(self.zero_vruntime);
        self.sum_w_vruntime -= delta * self.sum_weight as i64;
        self.zero_vruntime = average;
    }

    /// Chooses between the tree and `curr` (kernel: `pick_eevdf`).
    fn pick_eevdf<A: Arena<Key = K>>(&self, arena: &A, protect: bool) -> Option<K> {
        let sums = self.sums(arena);
        let curr = self
            .curr
            .filter(|&key| sums.is_eligible(arena.entity(key).vruntime));
        if let Some(next) = self.next
            && feat!(PICK_BUDDY)
            && sums.is_eligible(arena.entity(next).vruntime)
        {
            return Some(next);
        }
        if let Some(key) = curr
            && feat!(RUN_TO_PARITY)
            && protect
            && before(arena.entity(key).vruntime, self.curr_protected_until)
        {
            return curr;
        }
        let best = self
            .tree
            .first_eligible(arena, |vruntime| sums.is_eligible(vruntime));
        match (best, curr) {
            (Some(a), Some(b)) if before(arena.entity(b).deadline, arena.entity(a).deadline) => {
                curr
            }
            (None, None) => self.curr.or_else(|| self.tree.first(arena)),
            _ => best.or(curr),
        }
    }

    /// Decides whether a task that just arrived takes the CPU from `curr`
    /// (kernel: `check_preempt_wakeup_fair`).
    fn check_preempt_wakeup<A: Arena<Key = K>>(&mut self, arena: &A, key: K) -> bool {
        let Some(curr) = self.curr else { return false };
        if !feat!(WAKEUP_PREEMPTION) {
            return false;
        }
        let short = feat!(PREEMPT_SHORT) && arena.entity(key).slice < arena.entity(curr).slice;
        let wins = self.pick_eevdf(arena, !short) == Some(key);
        if wins && short {
            self.curr_protected_until = arena.entity(curr).vruntime;
        }
        wins
    }
}
