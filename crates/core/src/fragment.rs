//! The fair class between groups: EEVDF over the fragments of one CPU.
//!
//! A *fragment* is what one leaf group has on this CPU: n runnable tasks of total weight U. The
//! leaf's fluid clock F makes it due X = U × F' / 1024 of this CPU (F' = dF/dt, the rate that the
//! coordinator published), so its lag is
//!
//! ```text
//! l(t) = ∫ X dt − service            field `lag`, accrued up to reading `fluid` of the clock
//! ```
//!
//! EEVDF needs a virtual time in which every fragment advances alike. Real time is one: a fragment
//! that is served at its due rate advances v = service / X by dt in dt. So V = now, and
//!
//! ```text
//! v = now − l / X   ("eligible at": l ≥ 0  ⇔  v ≤ now)      field `node.vruntime`
//! d = v + r / X     (r: service left of the request)       field `node.deadline`, r: `request`
//! ```
//!
//! While a fragment waits and X stays the same, l grows by X dt and v and d do not move: the tree
//! is static between changes. While it runs, it is outside the tree; l and r shrink by the service.
//! When X changes, l and r stay and v and d are computed anew (the kernel's `reweight_entity`).
//!
//! Differences from `cfs_rq` of `cfs_rq`: the kernel weighs a group on a CPU by its local part of
//! the load and averages over this CPU; here the rates come from the exact division over all
//! CPUs, so lag has the same meaning everywhere and can be compared and moved.

mod bandwidth;
mod validate;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

pub(crate) use self::bandwidth::Parked;
use self::bandwidth::Reservation;
use crate::arena::Arena;
use crate::config::Config;
use crate::eevdf::EevdfQueue;
use crate::entity::{Entity, SLICE_UNIT_NS, TaskParams};
use crate::feat;
use crate::fifo::FifoList;
use crate::group::{GroupId, Order};
use crate::leaf::{FluidClock, Leaf, NOT_RUNNING, RATE_ONE, SlotData};
use crate::tree::{Tree, before};

/// Weight of a task in a group of `Fifo` order.
pub(crate) const FIFO_UNITS: u64 = 1024;

/// Least rate that is used to compute keys: 2^-22 CPUs.
const MIN_KEY_RATE: u64 = RATE_ONE >> 22;

/// Rate that is assumed of a group which the coordinator has not seen yet.
const UNKNOWN_RATE: u64 = RATE_ONE / 2;

/// Marks an index without a fragment.
const NONE: u32 = u32::MAX;

/// The waiting tasks of a fragment.
#[derive(Debug)]
pub(crate) enum TaskQueue<K> {
    Fifo(FifoList<K>),
    Fair(EevdfQueue<K>),
}

impl<K: Copy + Eq + core::fmt::Debug> TaskQueue<K> {
    /// Number of runnable tasks that wait.
    #[inline]
    pub(crate) fn nr_waiting(&self) -> usize {
        match self {
            TaskQueue::Fifo(list) => list.len(),
            TaskQueue::Fair(queue) => queue.nr_waiting(),
        }
    }
}

/// A leaf group on this CPU.
#[derive(Debug)]
pub(crate) struct Fragment<K> {
    /// Node of the tree of fragments.
    node: Entity<u32>,
    pub(crate) leaf: Arc<Leaf>,
    pub(crate) queue: TaskQueue<K>,
    /// Runnable tasks of the fair class, the running one included.
    pub(crate) nr: u32,
    /// Runnable tasks of all classes.
    pub(crate) nr_running: u32,
    /// Total weight of the `nr` tasks.
    weight: u64,
    /// U: the part of `weight` that can be served at the present rate.
    units: u64,
    /// U when the node was keyed.
    keyed_units: u64,
    lag: i64,
    fluid: u64,
    clock: FluidClock,
    version: u32,
    /// r: service left of the present request, in ns.
    request: i64,
    /// Service of the running fragment that is not yet in `lag`, `request` and `charged`.
    pub(crate) pending: u64,
    charged: u64,
    pub(crate) usage: u64,
    /// Part of `usage` that bandwidth control does not cover, and part that it has accounted.
    pub(crate) exempt: u64,
    accounted: u64,
    /// While throttled: the tasks that would be runnable.
    parked: Option<Parked<K>>,
    runnable: u64,
    runnable_at: u64,
    /// `DomainShared::period` that `lag`, `charged` and `runnable` belong to.
    period: u32,
    generation: u32,
    /// Position in `FairClass::active`, [`NONE`] while `nr` is 0.
    active_at: u32,
    in_tree: bool,
    pub(crate) is_attached: bool,
}

impl<K> Fragment<K> {
    fn new(leaf: Arc<Leaf>) -> Self {
        let queue = match leaf.order() {
            Order::Fifo => TaskQueue::Fifo(FifoList::default()),
            Order::Fair => TaskQueue::Fair(EevdfQueue::default()),
        };
        Fragment {
            node: Entity::new(leaf.id(), TaskParams::default()),
            leaf,
            queue,
            nr: 0,
            nr_running: 0,
            weight: 0,
            units: 0,
            keyed_units: 0,
            lag: 0,
            fluid: 0,
            clock: FluidClock::default(),
            version: u32::MAX,
            request: 0,
            pending: 0,
            charged: 0,
            usage: 0,
            exempt: 0,
            accounted: 0,
            parked: None,
            runnable: 0,
            runnable_at: 0,
            period: 0,
            generation: 0,
            active_at: NONE,
            in_tree: false,
            is_attached: true,
        }
    }

    /// X: CPUs that this fragment is due, × 2^32.
    #[inline]
    pub(crate) fn rate(&self) -> u64 {
        FluidClock::rate_of(self.clock.rate, self.units)
    }

    /// X as used for keys: not 0, and not above the one CPU that it can have here.
    fn key_rate(&self) -> u64 {
        if self.clock.rate == 0 {
            UNKNOWN_RATE
        } else {
            self.rate().clamp(MIN_KEY_RATE, RATE_ONE)
        }
    }

    /// Total weight of the runnable tasks of the fair class.
    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    fn set_weight(&mut self, nr: u32, weight: u64) {
        (self.nr, self.weight) = (nr, weight);
        self.units = FluidClock::servable(self.clock.rate, weight, nr);
    }

    /// Lag at `now`, without accruing it, and without what it runs uncharged.
    fn lag_at(&self, now: u64) -> i64 {
        let due = FluidClock::due(self.fluid, self.clock.at(now), self.units);
        self.lag + due - self.pending as i64
    }

    /// Rate that one average task carries, × 2^32.
    pub(crate) fn rate_per_task(&self) -> u64 {
        self.rate() / u64::from(self.nr.max(1))
    }

    /// v and d of the tree.
    fn keys(&self, now: u64) -> (i64, i64) {
        let rate = self.key_rate() as i64;
        let scale = |service: i64| (service << 32) / rate;
        let vruntime = (now as i64).wrapping_sub(scale(self.lag + self.clock.bias));
        (vruntime, vruntime.wrapping_add(scale(self.request)))
    }
}

/// The fragments, as the arena of their tree.
#[derive(Debug)]
pub(crate) struct Slab<K>(Vec<Fragment<K>>);

impl<K> Arena for Slab<K> {
    type Key = u32;

    #[inline]
    fn entity(&self, key: u32) -> &Entity<u32> {
        &self.0[key as usize].node
    }

    #[inline]
    fn entity_mut(&mut self, key: u32) -> &mut Entity<u32> {
        &mut self.0[key as usize].node
    }
}

/// The fair class of one CPU.
#[derive(Debug)]
pub(crate) struct FairClass<K> {
    cpu: usize,
    slab: Slab<K>,
    /// Active fragments but `curr`.
    tree: Tree<u32>,
    /// Position in `slab` by `GroupId::index`.
    index: Vec<u32>,
    /// Positions of the fragments with runnable tasks.
    active: Vec<u32>,
    /// The fragment whose turn it is. It keeps its turn while real-time tasks run.
    curr: Option<u32>,
    /// `pending` at which the turn of `curr` ends.
    budget: u64,
    /// Λ and L, the total lag and rate of the active fragments, as of `at`.
    lag_sum: i64,
    rate_sum: u64,
    at: u64,
    epoch: u32,
    lag_limit: i64,
    /// Fair-class tasks that wait.
    pub(crate) nr_waiting: u32,
    /// Whether a task of the fair class runs.
    is_running: bool,
    /// Time up to which `curr` is charged. May be ahead of the driver's clock by least charges.
    pub(crate) clock: u64,
    reservation: Reservation,
    /// Fragments that are throttled.
    throttled: Vec<u32>,
}

impl<K: Copy + Eq + core::fmt::Debug> FairClass<K> {
    pub(crate) fn new(cpu: usize, config: &Config) -> Self {
        FairClass {
            cpu,
            slab: Slab(Vec::new()),
            tree: Tree::new(),
            index: Vec::new(),
            active: Vec::new(),
            curr: None,
            budget: 0,
            lag_sum: 0,
            rate_sum: 0,
            at: 0,
            epoch: 0,
            lag_limit: config.lag_limit_ns as i64,
            nr_waiting: 0,
            is_running: false,
            clock: 0,
            reservation: Reservation::NONE,
            throttled: Vec::new(),
        }
    }

    /// Makes room for a leaf. The only function here that allocates.
    pub(crate) fn attach(&mut self, leaf: Arc<Leaf>) {
        let index = leaf.id().index();
        if self.index.len() <= index {
            self.index.resize(index + 1, NONE);
        }
        if self.index[index] != NONE {
            return;
        }
        let free = self
            .slab
            .0
            .iter()
            .position(|fragment| !fragment.is_attached);
        let at = free.unwrap_or(self.slab.0.len());
        self.index[index] = at as u32;
        match self.slab.0.get_mut(at) {
            Some(fragment) => *fragment = Fragment::new(leaf),
            None => self.slab.0.push(Fragment::new(leaf)),
        }
        let wanted = self.slab.0.len();
        self.active.reserve(wanted - self.active.len());
        self.throttled.reserve(wanted - self.throttled.len());
    }

    /// Forgets a leaf. Returns whether it was attached and without tasks.
    pub(crate) fn detach(&mut self, group: GroupId) -> bool {
        let Some(at) = self.find(group) else {
            return false;
        };
        let fragment = self.fragment_mut(at);
        let delayed = matches!(&fragment.queue, TaskQueue::Fair(queue) if queue.nr_delayed() > 0);
        if fragment.nr_running > 0 || delayed || fragment.is_throttled() {
            return false;
        }
        fragment.is_attached = false;
        self.index[group.index()] = NONE;
        true
    }

    /// Returns the position of a group's fragment.
    #[inline]
    pub(crate) fn find(&self, group: GroupId) -> Option<u32> {
        let at = *self.index.get(group.index())?;
        (at != NONE && self.slab.0[at as usize].leaf.id() == group).then_some(at)
    }

    #[inline]
    pub(crate) fn fragment(&self, at: u32) -> &Fragment<K> {
        &self.slab.0[at as usize]
    }

    #[inline]
    pub(crate) fn fragment_mut(&mut self, at: u32) -> &mut Fragment<K> {
        &mut self.slab.0[at as usize]
    }

    pub(crate) fn curr(&self) -> Option<u32> {
        self.curr
    }

    pub(crate) fn nr_active(&self) -> usize {
        self.active.len()
    }

    pub(crate) fn active(&self) -> &[u32] {
        &self.active
    }

    /// Visits the waiting fragments by deadline until `visit` returns `false`.
    pub(crate) fn for_each_waiting(&self, visit: impl FnMut(u32) -> bool) {
        self.tree.for_each(&self.slab, visit);
    }

    /// Λ: total lag of this CPU's fragments.
    pub(crate) fn lag_total(&self, now: u64) -> i64 {
        let pending = self.curr.map_or(0, |at| self.fragment(at).pending);
        self.lag_sum + self.grown(now) - pending as i64 - self.uncharged(now)
    }

    /// Time that `curr` has run and is not charged for yet.
    fn uncharged(&self, now: u64) -> i64 {
        if self.is_running {
            now.saturating_sub(self.clock) as i64
        } else {
            0
        }
    }

    /// Lag of a fragment at `now`.
    pub(crate) fn lag_of(&self, at: u32, now: u64) -> i64 {
        let uncharged = if self.curr == Some(at) {
            self.uncharged(now)
        } else {
            0
        };
        self.fragment(at).lag_at(now) - uncharged
    }

    /// L: total rate of this CPU's fragments, × 2^32.
    pub(crate) fn rate_total(&self) -> u64 {
        self.rate_sum
    }

    /// Returns whether the turn of `curr` goes on: no tree work is needed to pick from it.
    #[inline]
    pub(crate) fn turn_goes_on(&self, at: u32) -> bool {
        let fragment = self.fragment(at);
        // Only if the fair class ran last: otherwise the slot says that the fragment does not run.
        self.is_running
            && fragment.pending < self.budget
            && self.epoch == fragment.leaf.domain().epoch()
    }

    /// Service that is left of the turn of `curr`, in ns.
    #[inline]
    pub(crate) fn turn_left(&self, at: u32) -> u64 {
        self.budget.saturating_sub(self.fragment(at).pending)
    }

    /// Ends the turn of `curr` at the next pick.
    pub(crate) fn end_turn(&mut self) {
        self.budget = 0;
    }

    fn grown(&self, now: u64) -> i64 {
        let elapsed = u128::from(now.saturating_sub(self.at));
        ((u128::from(self.rate_sum) * elapsed) >> 32) as i64
    }

    fn advance(&mut self, now: u64) {
        if now > self.at {
            self.lag_sum += self.grown(now);
            self.at = now;
        }
    }

    /// Brings the lag of an active fragment up to `now`, and charges what is pending.
    fn settle(&mut self, at: u32, now: u64) {
        if self.fragment(at).pending > 0 {
            self.account(at, now);
        }
        self.advance(now);
        let limit = self.lag_limit;
        let fragment = &mut self.slab.0[at as usize];
        let pending = core::mem::take(&mut fragment.pending);
        fragment.charged += pending;
        fragment.request -= pending as i64;
        self.lag_sum -= pending as i64;
        if self.curr == Some(at) {
            self.budget = self.budget.saturating_sub(pending);
        }
        fragment.lag -= pending as i64;
        let fluid = fragment.clock.at(now);
        let lag = fragment.lag + FluidClock::due(fragment.fluid, fluid, fragment.units);
        fragment.fluid = fluid;
        fragment.lag = lag.clamp(-limit, limit);
        self.lag_sum += fragment.lag - lag;
    }

    /// Reads the leaf's clock if it has changed, and brings the lag up to date under it.
    fn refresh(&mut self, at: u32, now: u64) -> bool {
        let fragment = self.fragment_mut(at);
        let version = fragment.leaf.version();
        if version == fragment.version {
            return false;
        }
        let Some(clock) = fragment.leaf.clock() else {
            return false;
        };
        fragment.version = version;
        let old_rate = if fragment.nr > 0 { fragment.rate() } else { 0 };
        let first = fragment.clock == FluidClock::default();
        fragment.clock = clock;
        if first {
            fragment.fluid = clock.at(now);
        }
        if fragment.nr > 0 {
            self.settle(at, now);
            let rate = {
                let fragment = self.fragment_mut(at);
                fragment.set_weight(fragment.nr, fragment.weight);
                fragment.rate()
            };
            self.rate_sum = self.rate_sum + rate - old_rate;
        }
        true
    }

    /// Follows the coordinator: reads every clock that has changed since the last time. O(active).
    fn follow_epoch(&mut self, epoch: u32, now: u64) {
        self.epoch = epoch;
        self.advance(now);
        for i in 0..self.active.len() {
            let at = self.active[i];
            if self.refresh(at, now) {
                self.rekey(at, now);
            }
            self.publish(at, now);
        }
        self.resum(now);
    }

    /// Follows the coordinator if it has changed something.
    pub(crate) fn follow(&mut self, now: u64) {
        let Some(&first) = self.active.first() else {
            return;
        };
        let epoch = self.fragment(first).leaf.domain().epoch();
        if epoch != self.epoch {
            self.follow_epoch(epoch, now);
        }
    }

    /// Computes Λ and L anew, which also removes rounding errors.
    fn resum(&mut self, now: u64) {
        let (mut lag, mut rate) = (0, 0);
        for &at in &self.active {
            let fragment = self.fragment(at);
            lag += fragment.lag_at(now) + fragment.pending as i64;
            rate += fragment.rate();
        }
        (self.lag_sum, self.rate_sum, self.at) = (lag, rate, now);
    }

    /// Gives a waiting fragment its place in the tree anew.
    fn rekey(&mut self, at: u32, now: u64) {
        if self.fragment(at).in_tree {
            self.tree.remove(&mut self.slab, at);
            self.insert(at, now);
        }
    }

    fn insert(&mut self, at: u32, now: u64) {
        self.settle(at, now);
        let fragment = self.fragment_mut(at);
        (fragment.node.vruntime, fragment.node.deadline) = fragment.keys(now);
        fragment.keyed_units = fragment.units;
        fragment.in_tree = true;
        self.tree.insert(&mut self.slab, at);
    }

    fn remove(&mut self, at: u32) {
        self.tree.remove(&mut self.slab, at);
        self.fragment_mut(at).in_tree = false;
    }

    /// Changes number and weight of a fragment's runnable tasks. Returns whether it has just
    /// become active.
    pub(crate) fn set_load(
        &mut self,
        at: u32,
        nr: u32,
        weight: u64,
        now: u64,
        config: &Config,
    ) -> bool {
        let fragment = self.fragment_mut(at);
        fragment.runnable += u64::from(fragment.nr) * now.saturating_sub(fragment.runnable_at);
        fragment.runnable_at = fragment.runnable_at.max(now);
        let (was_active, becomes_active) = (fragment.nr > 0, nr > 0);
        if was_active && becomes_active {
            self.change_weight(at, nr, weight, now);
        } else if becomes_active {
            self.activate(at, nr, weight, now, config);
        } else if was_active {
            self.deactivate(at, now);
        }
        self.publish(at, now);
        becomes_active && !was_active
    }

    fn change_weight(&mut self, at: u32, nr: u32, weight: u64, now: u64) {
        let fragment = self.fragment_mut(at);
        if fragment.clock.rate == 0 {
            fragment.set_weight(nr, weight);
            return;
        }
        let old_rate = fragment.rate();
        self.settle(at, now);
        let fragment = self.fragment_mut(at);
        fragment.set_weight(nr, weight);
        let (rate, units, keyed) = (fragment.rate(), fragment.units, fragment.keyed_units);
        self.rate_sum = self.rate_sum + rate - old_rate;
        // Keys follow the rate roughly: an error of a third delays a turn by a third.
        if 4 * units > 5 * keyed || 5 * units < 4 * keyed {
            self.rekey(at, now);
        }
    }

    fn activate(&mut self, at: u32, nr: u32, weight: u64, now: u64, config: &Config) {
        self.advance(now);
        self.refresh(at, now);
        let (slot_taken, position) = (self.slot_taken(at), self.active.len() as u32);
        let fragment = self.fragment_mut(at);
        if slot_taken {
            fragment.lag = 0;
        }
        fragment.set_weight(nr, weight);
        fragment.fluid = fragment.clock.at(now);
        fragment.node.slice = config.group_slice(fragment.leaf.slice_ns());
        fragment.request = fragment.node.slice.into();
        fragment.active_at = position;
        let fragment = self.fragment(at);
        let (lag, rate, id) = (fragment.lag, fragment.rate(), fragment.leaf.id());
        fragment.leaf.domain().announce(id, now);
        self.lag_sum += lag;
        self.rate_sum += rate;
        self.active.push(at);
        if self.curr != Some(at) {
            self.insert(at, now);
        }
    }

    /// Returns whether the coordinator took back the lag that the fragment went to sleep with.
    fn slot_taken(&self, at: u32) -> bool {
        let fragment = self.fragment(at);
        fragment.leaf.slot(self.cpu).taken.load(Relaxed) == fragment.generation
    }

    fn deactivate(&mut self, at: u32, now: u64) {
        self.settle(at, now);
        self.release_of(at, now);
        if self.fragment(at).in_tree {
            self.remove(at);
        }
        if self.curr == Some(at) {
            self.curr = None;
        }
        let fragment = self.fragment_mut(at);
        fragment.generation = fragment.generation.wrapping_add(1);
        let (lag, rate, hole) = (fragment.lag, fragment.rate(), fragment.active_at);
        fragment.set_weight(0, 0);
        fragment.active_at = NONE;
        self.lag_sum -= lag;
        self.rate_sum -= rate;
        self.active.swap_remove(hole as usize);
        if let Some(&moved) = self.active.get(hole as usize) {
            self.fragment_mut(moved).active_at = hole;
        }
        if self.active.is_empty() {
            (self.lag_sum, self.rate_sum) = (0, 0);
        }
    }

    /// Moves lag into (positive) or out of a fragment, along with a task.
    pub(crate) fn add_lag(&mut self, at: u32, lag: i64, now: u64) {
        let fragment = self.fragment_mut(at);
        fragment.lag += lag;
        if fragment.nr > 0 {
            self.lag_sum += lag;
            self.rekey(at, now);
        }
        self.publish(at, now);
    }

    /// Chooses the fragment whose turn it is. At most O(log n) but for a change of epoch.
    pub(crate) fn pick(&mut self, now: u64, config: &Config) -> Option<u32> {
        let old = self.curr;
        if let Some(at) = old {
            self.settle(at, now);
            let ends = self.budget == 0;
            let fragment = self.fragment_mut(at);
            if fragment.request <= 0 {
                fragment.request = fragment.node.slice.into();
            }
            if !ends {
                return Some(at);
            }
            if !self.tree.is_empty() {
                self.insert(at, now);
                self.curr = None;
            }
        }
        let at = match self.curr {
            Some(at) => at,
            None => self.take_best(now)?,
        };
        self.begin_turn(at, old, now, config);
        Some(at)
    }

    fn take_best(&mut self, now: u64) -> Option<u32> {
        let best = self.best(now)?;
        self.remove(best);
        self.settle(best, now);
        Some(best)
    }

    /// Returns the waiting fragment that would be picked.
    pub(crate) fn best_waiting(&self, now: u64) -> Option<u32> {
        self.best(now)
    }

    fn best(&self, now: u64) -> Option<u32> {
        let eligible = |vruntime| !before(now as i64, vruntime);
        self.tree
            .first_eligible(&self.slab, eligible)
            .or_else(|| self.tree.first(&self.slab))
    }

    fn begin_turn(&mut self, at: u32, old: Option<u32>, now: u64, config: &Config) {
        self.curr = Some(at);
        let shortest = self.tree.min_slice(&self.slab).unwrap_or(u32::MAX);
        let fragment = self.fragment_mut(at);
        fragment.node.slice = config.group_slice(fragment.leaf.slice_ns());
        let request = fragment.request.max(1) as u64;
        // `shortest` is rounded down: do not leave a rest for a turn of its own.
        let whole = request < u64::from(shortest) + u64::from(SLICE_UNIT_NS);
        let budget = if whole {
            request
        } else {
            shortest.max(1).into()
        };
        fragment.leaf.domain().announce(fragment.leaf.id(), now);
        self.budget = self.reserve_turn(at, budget, now);
        if let Some(old) = old.filter(|&old| old != at) {
            self.publish(old, now);
        }
        self.publish(at, now);
    }

    /// Records whether a task of the fair class runs from `now` on.
    pub(crate) fn set_running(&mut self, running: bool, now: u64) {
        if self.is_running != running {
            self.is_running = running;
            if let Some(at) = self.curr {
                self.publish(at, now);
            }
        }
    }

    /// Returns whether a fragment that just became active takes the CPU from `curr`.
    pub(crate) fn should_preempt(&mut self, at: u32, now: u64) -> bool {
        let Some(curr) = self.curr else { return true };
        if curr == at || !feat!(WAKEUP_PREEMPTION) {
            return false;
        }
        let (new, old) = (self.fragment(at), self.fragment(curr));
        let short = feat!(PREEMPT_SHORT) && new.node.slice < old.node.slice;
        let protected = feat!(RUN_TO_PARITY) && old.pending < self.budget;
        if protected && !short || self.best(now) != Some(at) {
            return false;
        }
        self.settle(curr, now);
        let (v, deadline) = self.fragment(curr).keys(now);
        let wins = before(now as i64, v) || before(self.fragment(at).node.deadline, deadline);
        if wins {
            self.end_turn();
        }
        wins
    }

    /// Writes the fragment's slot: for the coordinator, for statistics, for pullers.
    pub(crate) fn publish(&mut self, at: u32, now: u64) {
        let fragment = self.fragment(at);
        let slot = fragment.leaf.slot(self.cpu);
        slot.nr_running.store(fragment.nr_running, Relaxed);
        slot.usage.store(fragment.usage, Relaxed);
        let waiting = fragment.queue.nr_waiting() as u32;
        slot.nr_waiting.store(waiting, Relaxed);
        if !fragment.leaf.domain().is_competing() {
            return;
        }
        if fragment.period != fragment.leaf.domain().period() {
            self.begin_period(at, now);
        }
        let fragment = self.fragment(at);
        let slot = fragment.leaf.slot(self.cpu);
        let runs = self.is_running && self.curr == Some(at);
        slot.write(&SlotData {
            lag: fragment.lag - fragment.pending as i64,
            fluid: fragment.fluid,
            units: fragment.units,
            weight: fragment.weight,
            running_since: if runs { self.clock } else { NOT_RUNNING },
            charged: fragment.charged + fragment.pending,
            runnable: fragment.runnable,
            runnable_at: fragment.runnable_at,
            nr: fragment.nr,
            generation: fragment.generation,
            period: fragment.period,
        });
    }

    /// Begins to count for the coordinator where its last period of competition ended: what
    /// happened while one group was alone is nobody's debt.
    #[cold]
    fn begin_period(&mut self, at: u32, now: u64) {
        if self.fragment(at).nr > 0 {
            self.settle(at, now);
        }
        let fragment = self.fragment(at);
        let (slot, clock) = (fragment.leaf.slot(self.cpu).read(), fragment.clock);
        let last = slot.unwrap_or_default();
        let fragment = self.fragment_mut(at);
        fragment.period = fragment.leaf.domain().period();
        (fragment.charged, fragment.runnable) = (last.charged, last.runnable);
        fragment.generation = last.generation;
        fragment.runnable_at = now;
        fragment.fluid = clock.at(now);
        let lag = core::mem::take(&mut fragment.lag);
        if fragment.nr > 0 {
            self.lag_sum -= lag;
        }
    }
}
