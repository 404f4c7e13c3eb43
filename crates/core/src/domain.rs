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
//! group cannot use is forfeited in the same way in both: to its siblings first, then one level up.
//!
//! # Own tasks beside subgroups
//! The tasks of a group that also has children compete as an implicit child of weight 100 (where
//! cgroup v2 forbids the case except for the root, which Linux treats in this way too).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use crate::config::Config;
use crate::entity::TaskParams;
use crate::error::{Error, Kind};
use crate::group::{GroupId, GroupParams, Order};
use crate::leaf::{DomainShared, FluidClock, Leaf, RATE_ONE, mul_div};
use crate::waterfill::{Claim, fill};
use crate::weight::{GROUP_WEIGHT_DEFAULT, GROUP_WEIGHT_RANGE, NICE_0_WEIGHT};

/// Ticks without competition after which the coordinator rests.
const QUIET_TICKS: u32 = 50;

/// Share of an idle group's lag that is forfeited at a tick: 1/64.
const IDLE_DECAY_SHIFT: u32 = 6;

/// Published rates are left alone while they are right within 1/128.
const RATE_TOLERANCE_SHIFT: u32 = 7;

/// Positive lag that a group keeps although it already may run all its tasks, in ns.
const SATURATED_LAG_NS: i64 = 2_000_000;

/// What one reading of a leaf's slots says.
#[derive(Clone, Copy, Debug, Default)]
struct Observation {
    /// S, cumulative.
    charged: u64,
    /// ∫ nr dt, cumulative.
    runnable: u64,
    nr: u64,
    /// Σ U, and the weight that it is the servable part of.
    units: u64,
    weight: u64,
    /// Σ_c l_c.
    lag: i64,
    /// Counts the times that a fragment became empty.
    generation: u32,
}

/// The coordinator's account of one leaf group.
#[derive(Debug, Default)]
struct Account {
    /// L, in ns.
    lag: i64,
    /// Total of due and of served ns, for statistics and checks.
    clock: FluidClock,
    last: Observation,
    now: Observation,
    /// S and R in the present window.
    served: u64,
    runnable: u64,
    /// Whether a fragment was empty at some time in the window.
    slept: bool,
    /// Expected number of runnable tasks, × 2^32, and their mean weight.
    tasks: u64,
    unit_weight: u64,
    due: u64,
    rate: u64,
}

impl Account {
    /// Returns the most lag that the group can be owed.
    ///
    /// More than a little cannot be repaid if it already may run all its tasks: it would have to
    /// use more CPUs than it has tasks. And a group that slept had no more to do: as in EEVDF, it
    /// keeps a slice and a tick, and gathers no hoard.
    fn most_lag(&self, slice: i64, config: &Config) -> i64 {
        let limit = config.lag_limit_ns as i64;
        if self.slept {
            limit.min(slice + i64::from(config.tick_ns))
        } else if self.due >= self.runnable {
            limit.min(SATURATED_LAG_NS)
        } else {
            limit
        }
    }

    fn is_active(&self) -> bool {
        self.runnable > 0 || self.now.nr > 0 || self.served > 0
    }
}

/// A node of the hierarchy.
#[derive(Debug)]
struct Node {
    id: GroupId,
    params: GroupParams,
    parent: Option<GroupId>,
    children: Vec<GroupId>,
    /// `None`: the index is free.
    leaf: Option<Arc<Leaf>>,
    account: Account,
    /// Caps and shares of the whole subtree: service of the last window, and rate to come.
    due_cap: u64,
    rate_cap: u64,
    due: u64,
    rate: u64,
    /// Lag that children have forfeited (or, negative, were forgiven), for their siblings.
    pool: i64,
}

impl Node {
    fn new(id: GroupId, params: GroupParams, parent: Option<GroupId>) -> Self {
        Node {
            id,
            params,
            parent,
            children: Vec::new(),
            leaf: None,
            account: Account::default(),
            due_cap: 0,
            rate_cap: 0,
            due: 0,
            rate: 0,
            pool: 0,
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
    }

    /// Removes a group. Detach it from every run queue first.
    ///
    /// # Errors
    /// [`Error::is_busy`] while it has children or runnable tasks, or if it is the root;
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
        let lag = node.account.lag;
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
        self.settle();
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
            node.due_cap = node
                .account
                .runnable
                .min(cpus * window)
                .max(node.account.served);
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
        let own_cap = account.runnable.min(most).max(account.served);
        let pool = core::mem::take(&mut self.nodes[index].pool);
        let amount = self.nodes[index].due as i64 + pool;
        let (amount, mut rest) = (amount.max(0) as u64, amount.min(0));
        self.claim(index, |child| child.due_cap, own_cap);
        self.nodes[index].account.due = 0;
        rest += fill(amount, &mut self.claims) as i64;
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
        // What nobody here can use (or what they still owe) goes one level up, for the next tick.
        let limit = self.config.lag_limit_ns as i64;
        if let Some(parent) = self.nodes[index].parent {
            let pool = &mut self.nodes[parent.index()].pool;
            *pool = (*pool + rest).clamp(-limit, limit);
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

    /// Brings each leaf's lag up to date and takes back what it cannot use.
    fn settle(&mut self) {
        let limit = self.config.lag_limit_ns as i64;
        for &index in &self.order {
            let node = &mut self.nodes[index];
            let slice = i64::from(self.config.group_slice(node.params.task.slice_ns));
            let account = &mut node.account;
            let lag = account.lag + account.due as i64 - account.served as i64;
            account.lag = if !account.is_active() {
                lag.min(limit) - lag.min(limit) / (1 << IDLE_DECAY_SHIFT)
            } else {
                lag.clamp(-limit, account.most_lag(slice, &self.config))
            };
            let forfeited = lag - account.lag;
            // Siblings of a leaf are the children of its parent; beside its own children it is
            // one of them.
            let has_children = !node.children.is_empty();
            let among = if has_children {
                Some(node.id)
            } else {
                node.parent
            };
            if let Some(among) = among {
                self.nodes[among.index()].pool += forfeited;
            }
        }
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

/// Sums up a leaf's slots at `now`; `None` if a writer stood still in the middle of one.
fn observe(leaf: &Leaf, clock: &FluidClock, period: u32, now: u64) -> Option<Observation> {
    let mut sum = Observation::default();
    for slot in leaf.slots() {
        let data = slot.read()?;
        if data.period != period {
            // Not heard of since competition began: what it published last stands.
            sum.charged += data.charged;
            sum.runnable += data.runnable;
            sum.generation = sum.generation.wrapping_add(data.generation);
            continue;
        }
        sum.charged += data.charged_at(now);
        sum.runnable += data.runnable_at(now);
        sum.nr += u64::from(data.nr);
        sum.units += data.units;
        sum.weight += data.weight;
        sum.generation = sum.generation.wrapping_add(data.generation);
        if data.nr > 0 {
            sum.lag += data.lag_at(clock, now);
        }
    }
    if sum.nr > 0 {
        take_back(leaf);
    }
    Some(sum)
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

/// Tells empty fragments that their lag has gone to those of the group's that are not empty.
fn take_back(leaf: &Leaf) {
    for slot in leaf.slots() {
        if let Some(data) = slot.read()
            && data.nr == 0
        {
            slot.taken.store(data.generation, Relaxed);
        }
    }
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
