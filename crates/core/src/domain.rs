//! The hierarchy of groups, and the coordinator that keeps their fluid clocks.
//!
//! # What the coordinator computes
//! With window W since its last tick, for each leaf group g from its slots: S_g, the service that
//! it received in W; R_g = ∫ nr dt, its runnable task-time; k_g, its runnable tasks now. It then
//! divides twice by hierarchical weighted max-min fairness ([`waterfill`](crate::waterfill)), each
//! level by weight, no child above its cap:
//!
//! 1. *What was due.* The service of all groups together, Σ S_g, is divided with caps
//!    R_g: a group with k runnable tasks could have used k CPUs. That gives due_g, exact whatever
//!    the rates were predicted to be and whatever real-time or idle tasks took, because it
//!    divides what was really served. The group's lag is L_g += due_g − S_g.
//! 2. *What will be due.* The CPUs are divided with caps k_g. That gives the rates x_g until the
//!    next tick, per unit of weight x_g / U_g, by which the fragments' lags grow between ticks.
//!
//! The fragments' lags l_gc follow the published clock; prediction errors, rounding, clamping and
//! lost updates make Σ_c l_gc drift from L_g. Each tick compares them and steps the clock by
//! (L_g − Σ_c l_gc) / U_g: a closed loop with an exact reference, so errors do not add up.
//!
//! # Difference from the "fluid" algorithm it stems from
//! There, a correction of the virtual clock's speed for all groups (dV) accounts for lost capacity,
//! and gains pull group lags back. Here division 1 is exact, so dV and its gain are not needed.
//! What is left of the gains is [`bias`]: each fragment heeds a part of its group's lag, which
//! matters for light groups with many fragments. Saturated-first order, the urgent steal and the
//! separate packing pass were tried or left out without loss at 1, 2 and 7 CPUs. Lag that a
//! group cannot use is forfeited in both: to its siblings by weight, or one level up. Here it goes
//! only to those that were due less than they could have used, and without regard to what they
//! could use in the window: a group that waits for its turn and then has little to do forfeits
//! much in one window, of which a capped sibling could not take its part. All lag together is
//! always 0.
//!
//! # Own tasks beside subgroups
//! The tasks of a group that also has children compete as an implicit child of weight 100 (where
//! cgroup v2 forbids the case except for the root, which Linux treats in this way too).

mod bandwidth;

use alloc::sync::Arc;
use alloc::vec::Vec;

use self::bandwidth::{Limit, Waiter};
use crate::account::{Account, Observation, observe};
use crate::config::Config;
use crate::entity::TaskParams;
use crate::error::{Error, Kind};
use crate::group::{GroupId, GroupParams, Order};
use crate::leaf::{DomainShared, FluidClock, Leaf, RATE_ONE, mul_div};
use crate::waterfill::{Claim, fill};
use crate::weight::{GROUP_WEIGHT_DEFAULT, GROUP_WEIGHT_RANGE, NICE_0_WEIGHT};

/// Ticks without competition after which the coordinator rests.
const QUIET_TICKS: u32 = 50;

/// Published rates are left alone while they are right within 1/128.
const RATE_TOLERANCE_SHIFT: u32 = 7;

/// A node of the hierarchy.
#[derive(Debug)]
struct Node {
    id: GroupId,
    params: GroupParams,
    parent: Option<GroupId>,
    children: Vec<GroupId>,
    /// `None`: the index is free.
    leaf: Option<Arc<Leaf>>,
    limit: Limit,
    account: Account,
    /// Caps and shares of the whole subtree: service of the last window, and rate to come.
    due_cap: u64,
    rate_cap: u64,
    due: u64,
    rate: u64,
    /// Lag that children have forfeited (or, negative, were forgiven), for their siblings.
    pool: i64,
    /// Whether a leaf in the subtree takes lag that others have forfeited.
    takes: bool,
}

impl Node {
    fn new(id: GroupId, params: GroupParams, parent: Option<GroupId>) -> Self {
        Node {
            id,
            params,
            parent,
            children: Vec::new(),
            leaf: None,
            limit: Limit::default(),
            account: Account::default(),
            due_cap: 0,
            rate_cap: 0,
            due: 0,
            rate: 0,
            pool: 0,
            takes: false,
        }
    }
}

/// The groups of one process or machine, and their coordinator. Control plane: the driver holds
/// it exclusively for each call; CPUs meet it only through atomics ([`Leaf`], [`DomainShared`]).
#[derive(Debug)]
pub struct Domain {
    cpus: usize,
    config: Config,
    shared: Arc<DomainShared>,
    nodes: Vec<Node>,
    free: Vec<usize>,
    /// Indices of the existing groups, parents before children.
    order: Vec<usize>,
    claims: Vec<Claim>,
    waiters: Vec<Waiter>,
    last_tick: u64,
    period: u32,
    /// Whether competition has begun and the origin is not taken yet.
    warming_up: bool,
    quiet_ticks: u32,
    /// CPUs that the fair class receives, × 2^32; below `cpus` while real-time tasks run.
    capacity: u64,
}

impl Domain {
    /// Creates a hierarchy that consists of the root group, of order `Fifo`.
    ///
    /// # Panics
    /// If `cpus` is 0.
    pub fn new(cpus: usize, config: Config) -> Self {
        Self::with_root(cpus, config, GroupParams::default())
    }

    /// Creates a hierarchy whose root group has the given settings.
    ///
    /// # Panics
    /// If `cpus` is 0.
    pub fn with_root(cpus: usize, config: Config, root: GroupParams) -> Self {
        assert!(cpus > 0, "a domain needs a CPU");
        let mut domain = Domain {
            cpus,
            shared: Arc::new(DomainShared::new()),
            config,
            nodes: Vec::new(),
            free: Vec::new(),
            order: Vec::new(),
            claims: Vec::new(),
            waiters: Vec::new(),
            last_tick: 0,
            period: 0,
            warming_up: false,
            quiet_ticks: 0,
            capacity: cpus as u64 * RATE_ONE,
        };
        domain.insert(GroupId::ROOT, root, None);
        domain
    }

    /// Creates a group.
    ///
    /// # Errors
    /// [`Error::is_removed`] if there is no such parent, [`Error::is_invalid_value`] if a setting
    /// is out of range, [`Error::is_limit`] if there are too many groups.
    pub fn create(&mut self, parent: GroupId, params: GroupParams) -> Result<GroupId, Error> {
        self.node(parent)?;
        check_weight(params.weight)?;
        params.task.check()?;
        let id = match self.free.pop() {
            Some(index) => self.nodes[index].id,
            None if self.nodes.len() < GroupId::MAX_GROUPS => GroupId::new(self.nodes.len(), 0),
            None => return Err(Kind::TooMany.into()),
        };
        self.insert(id, params, Some(parent));
        Ok(id)
    }

    fn insert(&mut self, id: GroupId, params: GroupParams, parent: Option<GroupId>) {
        let mut node = Node::new(id, params, parent);
        node.leaf = Some(Arc::new(Leaf::new(
            id,
            &params,
            self.cpus,
            self.shared.clone(),
            parent.and_then(|parent| self.leaf(parent)),
        )));
        match self.nodes.get_mut(id.index()) {
            Some(free) => *free = node,
            None => self.nodes.push(node),
        }
        if let Some(parent) = parent {
            self.nodes[parent.index()].children.push(id);
        }
        // A child comes after its parent, so the end is right.
        self.order.push(id.index());
        self.claims.reserve(self.cpus.max(self.order.len() + 1));
        self.reserve_waiters();
    }

    /// Removes a group. Detach it from every run queue first.
    ///
    /// # Errors
    /// [`Error::is_busy`] while it has children, runnable or throttled tasks, or is the root;
    /// [`Error::is_removed`] if it does not exist.
    pub fn remove(&mut self, id: GroupId) -> Result<(), Error> {
        let node = self.node(id)?;
        let Some(parent) = node.parent else {
            return Err(Kind::Busy("it is the root").into());
        };
        if !node.children.is_empty() {
            return Err(Kind::Busy("it has children").into());
        }
        if node.leaf.as_ref().is_some_and(|leaf| leaf.nr_running() > 0) {
            return Err(Kind::Busy("it has runnable tasks").into());
        }
        if node
            .leaf
            .as_ref()
            .is_some_and(|leaf| leaf.nr_throttled() > 0)
        {
            return Err(Kind::Busy("it has throttled tasks").into());
        }
        let lag = node.account.lag + node.pool;
        let siblings = &mut self.nodes[parent.index()];
        siblings.children.retain(|&child| child != id);
        siblings.pool += lag;
        self.order.retain(|&index| index != id.index());
        self.nodes[id.index()] = Node::new(id.next_generation(), GroupParams::default(), None);
        self.free.push(id.index());
        Ok(())
    }

    /// Sets a group's weight; takes effect at the next tick.
    ///
    /// # Errors
    /// [`Error::is_invalid_value`] unless 1 to 10,000; [`Error::is_removed`].
    pub fn set_weight(&mut self, id: GroupId, weight: u32) -> Result<(), Error> {
        check_weight(weight)?;
        self.node_mut(id)?.params.weight = weight;
        Ok(())
    }

    /// Sets the defaults for a group's new tasks. The slice becomes the group's at its next turn.
    ///
    /// # Errors
    /// [`Error::is_invalid_value`], [`Error::is_removed`].
    pub fn set_task_defaults(&mut self, id: GroupId, task: TaskParams) -> Result<(), Error> {
        task.check()?;
        let node = self.node_mut(id)?;
        node.params.task = task;
        if let Some(leaf) = &node.leaf {
            leaf.set_task_defaults(&task);
        }
        Ok(())
    }

    /// Returns a group's settings.
    pub fn params(&self, id: GroupId) -> Option<GroupParams> {
        self.node(id).ok().map(|node| node.params)
    }

    /// Returns a group's parent; `None` for the root.
    pub fn parent(&self, id: GroupId) -> Option<GroupId> {
        self.node(id).ok()?.parent
    }

    /// Returns a group's children, in order of creation.
    pub fn children(&self, id: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        self.node(id)
            .ok()
            .into_iter()
            .flat_map(|node| node.children.iter().copied())
    }

    /// Returns what the CPUs share of a group.
    pub fn leaf(&self, id: GroupId) -> Option<Arc<Leaf>> {
        self.node(id).ok()?.leaf.clone()
    }

    /// Returns what CPUs ask at their switches.
    pub fn shared(&self) -> Arc<DomainShared> {
        self.shared.clone()
    }

    /// Returns the number of CPUs.
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// Returns the lag of a group's own tasks as of the last tick, all CPUs together, in ns:
    /// positive if they are owed service.
    pub fn lag(&self, id: GroupId) -> Option<i64> {
        self.node(id).ok().map(|node| node.account.lag)
    }

    /// Returns the rate that the last tick gave to a group's own tasks, in CPUs.
    pub fn rate(&self, id: GroupId) -> Option<f64> {
        self.node(id)
            .ok()
            .map(|node| node.account.rate as f64 / RATE_ONE as f64)
    }

    fn node(&self, id: GroupId) -> Result<&Node, Error> {
        let node = self
            .nodes
            .get(id.index())
            .filter(|node| node.id == id && node.leaf.is_some());
        node.ok_or_else(|| Kind::NoSuchGroup.into())
    }

    fn node_mut(&mut self, id: GroupId) -> Result<&mut Node, Error> {
        self.node(id)?;
        Ok(&mut self.nodes[id.index()])
    }

    /// Runs the coordinator. Call it when [`DomainShared::tick_due`] says so, from any CPU or
    /// thread. Returns when it wants to run again; `None` while fewer than two groups compete.
    /// O(groups × CPUs + groups log groups); does not allocate.
    pub fn tick(&mut self, now: u64) -> Option<u64> {
        self.observe(now);
        if self.period != self.shared.period() {
            return self.begin_period(now);
        }
        if self.warming_up {
            return self.take_origin(now);
        }
        let window = now.saturating_sub(self.last_tick);
        if window == 0 {
            return self.reschedule(now);
        }
        self.last_tick = now;
        let (active, sole) = self.measure(window);
        self.quiet_ticks = if active > 1 { 0 } else { self.quiet_ticks + 1 };
        if self.quiet_ticks > QUIET_TICKS || !self.shared.is_competing() {
            return self.rest(sole, now);
        }
        self.collect_caps(window);
        self.divide(window);
        self.settle(window);
        self.publish(now);
        self.reschedule(now)
    }

    /// Reads every slot.
    fn observe(&mut self, now: u64) {
        let period = self.shared.period();
        for &index in &self.order {
            let node = &mut self.nodes[index];
            let Some(leaf) = &node.leaf else { continue };
            node.account.now =
                observe(leaf, &node.account.clock, period, now).unwrap_or(Observation {
                    nr: 0,
                    units: 0,
                    ..node.account.last
                });
        }
    }

    /// Competition has just begun: let every CPU report at its next switch.
    fn begin_period(&mut self, now: u64) -> Option<u64> {
        self.period = self.shared.period();
        self.warming_up = true;
        self.shared.advance_epoch();
        Some(
            self.shared
                .schedule_tick(now, self.config.coordinator_ns / 4),
        )
    }

    /// Takes the readings as the origin of the account. A CPU that has not reported yet, because
    /// its task does not end, counts from its first report on.
    fn take_origin(&mut self, now: u64) -> Option<u64> {
        self.warming_up = false;
        self.last_tick = now;
        self.quiet_ticks = 0;
        self.capacity = self.cpus as u64 * RATE_ONE;
        for &index in &self.order {
            let node = &mut self.nodes[index];
            node.pool = 0;
            node.account.lag = 0;
            node.account.last = node.account.now;
        }
        self.reschedule(now)
    }

    fn reschedule(&self, now: u64) -> Option<u64> {
        Some(self.shared.schedule_tick(now, self.config.coordinator_ns))
    }

    /// Competition has ended: stop all clocks.
    fn rest(&mut self, sole: Option<GroupId>, now: u64) -> Option<u64> {
        for &index in &self.order {
            let Node {
                account,
                leaf: Some(leaf),
                ..
            } = &mut self.nodes[index]
            else {
                continue;
            };
            account.lag = 0;
            if account.clock.rate != 0 {
                account.clock = FluidClock {
                    f0: account.clock.at(now),
                    t0: now,
                    rate: 0,
                    bias: 0,
                };
                leaf.set_clock(account.clock);
            }
        }
        self.shared.settle(sole);
        self.shared.advance_epoch();
        None
    }

    /// Derives the window's S and R. Returns the number of active leaves and the last of them.
    fn measure(&mut self, window: u64) -> (usize, Option<GroupId>) {
        let (mut active, mut sole) = (0, None);
        for &index in &self.order {
            let node = &mut self.nodes[index];
            let account = &mut node.account;
            account.served = account.now.charged.saturating_sub(account.last.charged);
            account.runnable = account.now.runnable.saturating_sub(account.last.runnable);
            // Least charges may exceed the time in which they were made.
            account.runnable = account.runnable.max(account.served);
            let mean = mul_div(account.runnable, RATE_ONE, window);
            let present = account.now.nr << 32;
            account.tasks = if account.now.nr > 0 {
                (mean + present) / 2
            } else {
                mean
            };
            if let Some(weight) = account.now.weight.checked_div(account.now.nr) {
                account.unit_weight = weight;
            }
            account.slept = account.now.generation != account.last.generation;
            account.last = account.now;
            if account.is_active() {
                (active, sole) = (active + 1, Some(node.id));
            }
        }
        (active, sole)
    }

    /// Sums up the caps, children before parents.
    fn collect_caps(&mut self, window: u64) {
        let cpus = self.cpus as u64;
        for &index in &self.order {
            let node = &mut self.nodes[index];
            node.due_cap = node.account.due_cap(cpus * window);
            node.rate_cap = node.account.tasks.min(cpus * RATE_ONE);
        }
        for &index in self.order.iter().rev() {
            let node = &mut self.nodes[index];
            node.rate_cap = node.rate_cap.min(cpus * RATE_ONE);
            let (due_cap, rate_cap) = (node.due_cap, node.rate_cap);
            if let Some(parent) = node.parent {
                let parent = &mut self.nodes[parent.index()];
                parent.due_cap += due_cap;
                parent.rate_cap += rate_cap;
            }
        }
    }

    /// Divides service and rates, parents before children.
    fn divide(&mut self, window: u64) {
        let served: u64 = self
            .order
            .iter()
            .map(|&i| self.nodes[i].account.served)
            .sum();
        self.update_capacity(served, window);
        let root = &mut self.nodes[GroupId::ROOT.index()];
        root.due = served;
        root.rate = self.capacity.min(root.rate_cap);
        for i in 0..self.order.len() {
            let index = self.order[i];
            self.divide_due(index, window);
            self.divide_rate(index);
        }
    }

    /// Estimates the CPUs that are left to the fair class. Only a window in which tasks had to wait
    /// says something about it.
    fn update_capacity(&mut self, served: u64, window: u64) {
        let all = self.cpus as u64 * RATE_ONE;
        let wanted = self.nodes[GroupId::ROOT.index()].due_cap;
        let contended = wanted > served + served / 8;
        let measured = mul_div(served, RATE_ONE, window);
        let target = if contended {
            measured.clamp(RATE_ONE / 64, all)
        } else {
            all
        };
        self.capacity = (3 * self.capacity + target) / 4;
    }

    /// Fills `claims` with a node's own tasks (id: its own index) and its children.
    fn claim(&mut self, index: usize, cap: impl Fn(&Node) -> u64, own_cap: u64) {
        self.claims.clear();
        let node = &self.nodes[index];
        if own_cap > 0 {
            let weight = GROUP_WEIGHT_DEFAULT.into();
            self.claims.push(Claim {
                weight,
                cap: own_cap,
                share: 0,
                id: index as u32,
            });
        }
        for child in &node.children {
            let child = &self.nodes[child.index()];
            if cap(child) > 0 {
                let (weight, id) = (child.params.weight.into(), child.id.index() as u32);
                self.claims.push(Claim {
                    weight,
                    cap: cap(child),
                    share: 0,
                    id,
                });
            }
        }
    }

    fn divide_due(&mut self, index: usize, window: u64) {
        let most = self.cpus as u64 * window;
        let account = &self.nodes[index].account;
        let own_cap = account.due_cap(most);
        let amount = self.nodes[index].due;
        self.claim(index, |child| child.due_cap, own_cap);
        self.nodes[index].account.due = 0;
        fill(amount, &mut self.claims);
        for claim in &self.claims {
            let target = &mut self.nodes[claim.id as usize];
            if claim.id as usize == index {
                target.account.due = claim.share;
            } else {
                target.due = claim.share;
            }
        }
        for child in 0..self.nodes[index].children.len() {
            let child = self.nodes[index].children[child].index();
            if self.nodes[child].due_cap == 0 {
                self.nodes[child].due = 0;
            }
        }
    }

    fn divide_rate(&mut self, index: usize) {
        let all = self.cpus as u64 * RATE_ONE;
        let (amount, own_cap) = {
            let node = &self.nodes[index];
            (node.rate, node.account.tasks.min(all))
        };
        self.claim(index, |child| child.rate_cap, own_cap);
        fill(amount, &mut self.claims);
        for claim in &self.claims {
            let target = &mut self.nodes[claim.id as usize];
            if claim.id as usize == index {
                target.account.rate = claim.share;
            } else {
                target.rate = claim.share;
            }
        }
    }

    /// Brings each leaf's lag up to date, takes back what it cannot use, and gives that to others.
    fn settle(&mut self, window: u64) {
        let most = self.cpus as u64 * window;
        for i in 0..self.order.len() {
            let index = self.order[i];
            let node = &mut self.nodes[index];
            let slice = self.config.group_slice(node.params.task.slice_ns);
            let forfeited = node.account.settle(slice.into(), most, &self.config);
            node.takes = node.account.takes;
            // Siblings of a leaf are the children of its parent; beside its own children it is
            // one of them.
            let among = match node.parent {
                Some(parent) if node.children.is_empty() => parent.index(),
                _ => index,
            };
            self.nodes[among].pool += forfeited;
        }
        for i in (0..self.order.len()).rev() {
            self.pass_up(self.order[i]);
        }
        for i in 0..self.order.len() {
            self.hand_down(self.order[i]);
        }
        debug_assert_eq!(
            self.imbalance(),
            0,
            "lag is passed on, neither made nor lost"
        );
    }

    /// Lets the parent pass on what nobody in this subtree can use.
    fn pass_up(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let Some(parent) = node.parent else { return };
        let (takes, pool) = (node.takes, if node.takes { 0 } else { node.pool });
        node.pool -= pool;
        let parent = &mut self.nodes[parent.index()];
        parent.takes |= takes;
        parent.pool += pool;
    }

    /// Divides a node's pool by weight, and only by weight, among those who were due less than
    /// they could have used. Caps do not apply: they limit the service that was due in the window,
    /// and what is handed on here is lag, which is repaid in windows to come.
    ///
    /// What nobody takes, or what exceeds the limit, waits at the root for the next tick.
    fn hand_down(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        if node.pool == 0 || !node.takes {
            return;
        }
        let mut rest = core::mem::take(&mut node.pool);
        let own = if node.account.takes {
            GROUP_WEIGHT_DEFAULT
        } else {
            0
        };
        let mut weights = i64::from(own);
        for i in 0..self.nodes[index].children.len() {
            let child = &self.nodes[self.nodes[index].children[i].index()];
            weights += i64::from(if child.takes { child.params.weight } else { 0 });
        }
        let mut part = |weight: u32| {
            let share = i128::from(rest) * i128::from(weight) / i128::from(weights.max(1));
            rest -= share as i64;
            weights -= i64::from(weight);
            share as i64
        };
        let lag = self.nodes[index].account.lag + part(own);
        for i in 0..self.nodes[index].children.len() {
            let child = self.nodes[index].children[i].index();
            let child = &mut self.nodes[child];
            if child.takes {
                child.pool += part(child.params.weight);
            }
        }
        let limit = self.config.lag_limit_ns as i64;
        self.nodes[index].account.lag = lag.clamp(-limit, limit);
        self.nodes[GroupId::ROOT.index()].pool += lag - lag.clamp(-limit, limit);
    }

    /// Returns the sum of all lag, which is 0: what is due is what was served, divided anew.
    fn imbalance(&self) -> i64 {
        let nodes = self.order.iter().map(|&index| &self.nodes[index]);
        nodes.map(|node| node.account.lag + node.pool).sum()
    }

    /// Publishes clocks where they have changed, and takes back the lag of empty fragments.
    fn publish(&mut self, now: u64) {
        let mut changed = false;
        for &index in &self.order {
            let Node {
                account,
                leaf: Some(leaf),
                ..
            } = &mut self.nodes[index]
            else {
                continue;
            };
            if account.tasks == 0 {
                continue;
            }
            let clock = &account.clock;
            let units = (u128::from(account.tasks) * u128::from(account.unit_weight)) >> 32;
            let units = (units as u64).max(NICE_0_WEIGHT as u64 / 64);
            let mut rate = FluidClock::rate_per_unit(account.rate, units).max(1);
            if leaf.order() == Order::Fair && account.now.nr > 0 {
                rate = spread(
                    leaf,
                    &mut self.claims,
                    self.period,
                    rate,
                    account.now.weight,
                );
            }
            let mut f0 = clock.at(now);
            let error = account.lag - account.now.lag;
            let off = account.now.units > 0 && error.unsigned_abs() > self.config.lag_slack_ns;
            if off {
                f0 = f0.wrapping_add(FluidClock::step(error, account.now.units) as u64);
            }
            let bias = bias(account.lag, account.rate);
            let biased = bias.abs_diff(clock.bias) > 5 * self.config.lag_slack_ns;
            if off || biased || rate.abs_diff(clock.rate) > clock.rate >> RATE_TOLERANCE_SHIFT {
                account.clock = FluidClock {
                    f0,
                    t0: now,
                    rate,
                    bias,
                };
                leaf.set_clock(account.clock);
                changed = true;
            }
        }
        if changed {
            self.shared.advance_epoch();
        }
    }
}

/// Returns the rate per unit at which a leaf's fragments together are due what `rate` means for
/// all their weight, although none is due more CPUs than it has tasks: λ with
/// Σ_c min(nr_c, λ weight_c) = λ₀ Σ_c weight_c.
///
/// That is exact if no two tasks that are each due a whole CPU sit on the same one, to which the
/// pulling of tasks leads.
fn spread(leaf: &Leaf, claims: &mut Vec<Claim>, period: u32, rate: u64, weight: u64) -> u64 {
    claims.clear();
    for slot in leaf.slots() {
        let Some(data) = slot.read().filter(|data| data.period == period) else {
            continue;
        };
        if data.nr > 0 && data.weight > 0 {
            let cap = u64::from(data.nr) * RATE_ONE;
            claims.push(Claim {
                weight: data.weight,
                cap,
                share: 0,
                id: claims.len() as u32,
            });
        }
    }
    fill(FluidClock::rate_of(rate, weight), claims);
    let open = claims.iter().filter(|claim| claim.share < claim.cap);
    let (share, weight) = open.fold((0, 0), |(share, weight), claim| {
        (share + claim.share, weight + claim.weight)
    });
    if weight > 0 {
        return FluidClock::rate_per_unit(share, weight).max(1);
    }
    // All are due as many CPUs as they have tasks: the lightest needs the highest level.
    let level = claims
        .iter()
        .map(|claim| FluidClock::rate_per_unit(claim.cap, claim.weight));
    level.max().unwrap_or(rate)
}

/// Returns the part β of its group's lag that each fragment heeds: β = 1 / (1/2 + x), clamped to
/// 1/20 … 1/2. A light group's fragments are few and slow to correct the group's lag by their own.
fn bias(lag: i64, rate: u64) -> i64 {
    let inverse = u64::MAX / (RATE_ONE / 2 + rate);
    let beta = inverse.clamp(RATE_ONE / 20, RATE_ONE / 2);
    ((i128::from(lag) * i128::from(beta)) >> 32) as i64
}

fn check_weight(weight: u32) -> Result<(), Error> {
    if GROUP_WEIGHT_RANGE.contains(&weight) {
        return Ok(());
    }
    Err(Error::invalid("weight", weight.into(), "1 to 10000"))
}
