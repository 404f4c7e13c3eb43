//! All groups of a runtime.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_core::{Domain, DomainShared, GroupId, GroupParams, Order, TaskParams};
use parking_lot::Mutex;

use super::bandwidth::Quotas;
use super::quota::Quota;
use super::stat::Histogram;
use super::{Event, Group, GroupInner, GroupStat, params};
use crate::clock;
use crate::context;
use crate::error::{Error, Kind};
use crate::keys::{self, Use};
use crate::shared::Shared;
use crate::worker::TaskArena;

/// The hierarchy, as the names see it and as the core sees it.
pub(super) struct Tree {
    pub(super) domain: Domain,
    children: HashMap<GroupId, BTreeMap<String, Arc<GroupInner>>>,
    /// Removed groups that tasks or run queues still refer to.
    dying: Vec<Arc<GroupInner>>,
    /// For each worker, whether the refill that goes on lets tasks go on there.
    pub(super) kicked: Box<[bool]>,
}

/// All groups of a runtime.
pub(crate) struct GroupTable {
    pub(super) tree: Mutex<Tree>,
    pub(super) domain: Arc<DomainShared>,
    root: Arc<GroupInner>,
    /// Shards of the owned list, and workers.
    sizes: (usize, usize),
    /// Tasks are queued through the core; set once, with the key `groups` on.
    is_grouped: AtomicBool,
    /// Wait and run times are recorded; set once, with the key `statistics` on.
    has_times: AtomicBool,
    /// Some group has fair order; set once, with the key `fair_order` on.
    has_fair_order: AtomicBool,
    /// Groups that have a quota, and who wakes up for them.
    pub(super) quotas: Quotas,
    /// The keys that this runtime holds on.
    groups: Use,
    times: Use,
    fair_order: Use,
}

impl GroupTable {
    pub(crate) fn new(domain: Domain, shards: usize, workers: usize) -> Self {
        let sizes = (shards, workers);
        let leaf = domain.leaf(GroupId::ROOT);
        let leaf = leaf.unwrap_or_else(|| unreachable!("the root can hold tasks"));
        let params = GroupParams::default();
        let root = GroupInner::new(GroupId::ROOT, String::new(), None, leaf, &params, sizes);
        Self {
            domain: domain.shared(),
            tree: Mutex::new(Tree {
                domain,
                children: HashMap::from([(GroupId::ROOT, BTreeMap::new())]),
                dying: Vec::new(),
                kicked: vec![false; workers].into(),
            }),
            root: Arc::new(root),
            sizes,
            is_grouped: AtomicBool::new(false),
            has_times: AtomicBool::new(false),
            has_fair_order: AtomicBool::new(false),
            quotas: Quotas::new(),
            groups: Use::of(&keys::GROUPS),
            times: Use::of(&keys::STATISTICS),
            fair_order: Use::of(&keys::FAIR_ORDER),
        }
    }

    pub(crate) fn root(&self) -> &Arc<GroupInner> {
        &self.root
    }

    /// Queues tasks through the core from now on.
    ///
    /// # Errors
    ///
    /// [`Error::is_not_compiled`], [`Error::is_key`]; nothing has changed then.
    pub(crate) fn use_groups(&self) -> Result<(), Error> {
        self.groups.begin()?;
        self.is_grouped.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Returns whether anything of this table is in use, whatever the keys say.
    fn is_in_use(&self) -> [bool; 3] {
        let flags = [&self.is_grouped, &self.has_times, &self.has_fair_order];
        flags.map(|flag| flag.load(Ordering::SeqCst))
    }

    /// Has the workers look after tasks of groups of fair order from now on. Errors as in
    /// [`GroupTable::use_groups`].
    fn use_fair_order(&self) -> Result<(), Error> {
        self.fair_order.begin()?;
        self.has_fair_order.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Records wait and run times from now on. Errors as in [`GroupTable::use_groups`].
    pub(crate) fn use_times(&self) -> Result<(), Error> {
        keys::STATISTICS.check_compiled()?;
        self.use_groups()?;
        self.times.begin()?;
        self.has_times.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Returns whether tasks are queued through the core.
    #[inline(always)]
    pub(crate) fn is_grouped(&self) -> bool {
        keys::groups_on() && self.is_grouped.load(Ordering::Relaxed)
    }

    /// Returns whether wait and run times are recorded.
    #[inline(always)]
    pub(crate) fn has_times(&self) -> bool {
        keys::statistics_on() && self.has_times.load(Ordering::Relaxed)
    }

    /// Returns whether any group of fair order was ever made.
    #[inline(always)]
    pub(crate) fn has_fair_order(&self) -> bool {
        keys::fair_order_on() && self.has_fair_order.load(Ordering::Relaxed)
    }

    /// Runs the coordinator if it is due and nobody else does.
    #[inline]
    pub(crate) fn tick(&self, now_ns: u64) {
        if self.domain.tick_due(now_ns) {
            self.tick_now(now_ns);
        }
    }

    #[cold]
    fn tick_now(&self, now_ns: u64) {
        if let Some(mut tree) = self.tree.try_lock() {
            tree.domain.tick(now_ns);
        }
    }

    /// Returns every group but the root and removed ones.
    pub(super) fn all(&self, tree: &Tree) -> Vec<Arc<GroupInner>> {
        let children = tree.children.values();
        children.flat_map(BTreeMap::values).cloned().collect()
    }

    pub(super) fn children(&self, inner: &GroupInner) -> Vec<Arc<GroupInner>> {
        let _section = context::section();
        let tree = self.tree.lock();
        let children = tree.children.get(&inner.id);
        children.map_or(Vec::new(), |children| children.values().cloned().collect())
    }

    /// Finds a group by its path.
    pub(crate) fn lookup(&self, path: &str) -> Option<Arc<GroupInner>> {
        let _section = context::section();
        let tree = self.tree.lock();
        let names = path.strip_prefix('/')?;
        let mut at = &self.root;
        for name in names.split('/').filter(|_| !names.is_empty()) {
            at = tree.children.get(&at.id)?.get(name)?;
        }
        Some(at.clone())
    }

    pub(super) fn set_weight(&self, inner: &GroupInner, weight: u32) -> Result<(), Error> {
        if inner.parent.is_none() {
            return Err(Error::new(Kind::Root));
        }
        self.change(inner, |params| params.weight = weight)
    }

    pub(super) fn set_task_params(
        &self,
        inner: &GroupInner,
        set: impl FnOnce(&mut TaskParams),
    ) -> Result<(), Error> {
        self.change(inner, |params| set(&mut params.task))
    }

    fn change(&self, inner: &GroupInner, set: impl FnOnce(&mut GroupParams)) -> Result<(), Error> {
        let _section = context::section();
        let mut tree = self.tree.lock();
        if inner.is_removed() {
            return Err(Group::removed_error(inner));
        }
        let mut params = inner.params();
        set(&mut params);
        params::check(&params)?;
        let refused = |error| Error::core("group setting", error);
        if inner.parent.is_some() {
            tree.domain
                .set_weight(inner.id, params.weight)
                .map_err(refused)?;
        }
        tree.domain
            .set_task_defaults(inner.id, params.task)
            .map_err(refused)?;
        inner.store_params(&params);
        Ok(())
    }
}

impl Shared {
    /// Makes a child group and shows it to every run queue. From the first one on, tasks are queued
    /// through the core.
    pub(super) fn add_group(
        &self,
        parent: &Arc<GroupInner>,
        name: String,
        params: &GroupParams,
        quota: Quota,
    ) -> Result<Arc<GroupInner>, Error> {
        let _section = context::section();
        let table = &self.groups;
        let mut tree = table.tree.lock();
        self.bury(&mut tree);
        if parent.is_removed() {
            return Err(Group::removed_error(parent));
        }
        let siblings = tree.children.get(&parent.id);
        if siblings.is_some_and(|siblings| siblings.contains_key(&name)) {
            let parent = parent.path();
            let path = format!("{}/{name}", parent.trim_end_matches('/'));
            return Err(Error::new(Kind::NameTaken { path }));
        }
        let refused = |error| Error::core("group", error);
        let id = tree.domain.create(parent.id, *params).map_err(refused)?;
        // Before anybody can see the group.
        let turned_on = self.use_parts(|table| {
            table.use_groups()?;
            match params.order {
                Order::Fair => table.use_fair_order(),
                Order::Fifo => Ok(()),
            }
        });
        let limited = turned_on.and_then(|()| self.limit(&mut tree, id, quota));
        if let Err(error) = limited {
            let removed = tree.domain.remove(id);
            debug_assert!(removed.is_ok(), "{removed:?}");
            return Err(error);
        }
        let leaf = tree.domain.leaf(id);
        let leaf = leaf.unwrap_or_else(|| unreachable!("a new group can hold tasks"));
        for queue in &self.queues {
            queue.lock().attach(leaf.clone());
        }
        let inner = GroupInner::new(
            id,
            name.clone(),
            Some(parent.clone()),
            leaf,
            params,
            table.sizes,
        );
        let inner = Arc::new(inner);
        tree.children
            .entry(parent.id)
            .or_default()
            .insert(name, inner.clone());
        tree.children.insert(id, BTreeMap::new());
        Ok(inner)
    }

    /// Begins to use parts of the table, and lets the workers know if any of them is new.
    pub(super) fn use_parts(
        &self,
        begin: impl FnOnce(&GroupTable) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let before = self.groups.is_in_use();
        let begun = begin(&self.groups);
        if self.groups.is_in_use() != before {
            self.look_around();
        }
        begun
    }

    /// Removes a group; with `moves_tasks` its tasks go to the parent, otherwise there must be
    /// none.
    pub(super) fn remove_group(
        &self,
        inner: &Arc<GroupInner>,
        moves_tasks: bool,
    ) -> Result<(), Error> {
        let Some(parent) = &inner.parent else {
            return Err(Error::new(Kind::Root));
        };
        let _section = context::section();
        let mut tree = self.groups.tree.lock();
        if inner.is_removed() {
            return Err(Group::removed_error(inner));
        }
        let children = tree.children.get(&inner.id).map_or(0, BTreeMap::len);
        let (tasks, is_busy) = self.owned.with_count(inner, |tasks| {
            let is_busy = children > 0 || (tasks > 0 && !moves_tasks);
            if !is_busy {
                // New tasks go to the parent from here on.
                inner.set_removed();
            }
            (tasks, is_busy)
        });
        if is_busy {
            let path = inner.path();
            return Err(Error::new(Kind::Busy {
                path,
                tasks,
                children,
            }));
        }
        tree.children.remove(&inner.id);
        if let Some(siblings) = tree.children.get_mut(&parent.id) {
            siblings.remove(&inner.name);
        }
        tree.dying.push(inner.clone());
        // Nobody waits for the runtime of a group that is no more.
        let lifted = self.limit(&mut tree, inner.id, Quota::MAX);
        debug_assert!(lifted.is_ok(), "{lifted:?}");
        // What waits in the run queues is queued again, and finds its group removed; the rest does
        // so when it is next woken.
        for queue in &self.queues {
            while let Some(runnable) = queue.take_waiting(Some(inner.id)) {
                self.inject(runnable);
            }
        }
        self.bury(&mut tree);
        drop(tree);
        self.call_timekeeper();
        Ok(())
    }

    /// Frees the removed groups that nothing refers to any more.
    fn bury(&self, tree: &mut Tree) {
        for inner in std::mem::take(&mut tree.dying) {
            if !self.try_bury(tree, &inner) {
                tree.dying.push(inner);
            }
        }
    }

    fn try_bury(&self, tree: &mut Tree, inner: &Arc<GroupInner>) -> bool {
        if self.owned.with_count(inner, |tasks| tasks > 0) {
            return false;
        }
        for queue in &self.queues {
            let mut queue = queue.lock();
            queue.publish(&mut TaskArena, clock::now_ns());
            // A queue that let go of it at an earlier attempt no longer knows it.
            if queue
                .detach(inner.id)
                .is_err_and(|error| !error.is_removed())
            {
                return false;
            }
        }
        if tree.domain.remove(inner.id).is_err() {
            return false;
        }
        if let Some(parent) = &inner.parent {
            let used = inner.leaf.usage_ns() + inner.inherited_ns.load(Ordering::Relaxed);
            parent
                .living()
                .inherited_ns
                .fetch_add(used, Ordering::Relaxed);
        }
        true
    }

    /// Sums up a group; the first call starts the recording of wait and run times.
    pub(super) fn group_stat(&self, inner: &Arc<GroupInner>) -> GroupStat {
        let _section = context::section();
        let table = &self.groups;
        let turned_on = self.use_parts(|table| table.use_times().or_else(|_| table.use_groups()));
        if let Err(error) = turned_on {
            tracing::debug!(%error, "usage of groups is not accounted for");
        }
        for queue in &self.queues {
            queue.lock().publish(&mut TaskArena, clock::now_ns());
        }
        let tree = table.tree.lock();
        let (mut wait, mut run) = (Histogram::new(), Histogram::new());
        for times in inner.all_times() {
            times.lock().add_to(&mut wait, &mut run);
        }
        let limit = tree.domain.bandwidth_stat(inner.id).unwrap_or_default();
        GroupStat {
            nr_periods: limit.nr_periods,
            nr_throttled: limit.nr_throttled,
            throttled_usec: limit.throttled_usec,
            nr_bursts: limit.nr_bursts,
            burst_usec: limit.burst_usec,
            usage_usec: usage_ns(&tree, inner) / 1000,
            own_usage_usec: inner.leaf.usage_ns() / 1000,
            nr_running: inner.leaf.nr_running() as u64,
            nr_preempted: inner.nr_events(Event::Preempted),
            nr_extended: inner.nr_events(Event::Extended),
            nr_forced: inner.nr_events(Event::Forced),
            nr_over_limit: inner.nr_events(Event::OverLimit),
            nr_tasks: inner.nr_tasks(),
            wait,
            run,
        }
    }
}

/// Returns the CPU time of a group and of all below it.
fn usage_ns(tree: &Tree, inner: &GroupInner) -> u64 {
    let own = inner.leaf.usage_ns() + inner.inherited_ns.load(Ordering::Relaxed);
    let children = tree.children.get(&inner.id).into_iter().flatten();
    let dying = tree.dying.iter().filter(|dead| {
        dead.parent
            .as_ref()
            .is_some_and(|parent| std::ptr::eq(parent.living(), inner))
    });
    let below = children.map(|(_, child)| usage_ns(tree, child));
    own + below.sum::<u64>() + dying.map(|dead| usage_ns(tree, dead)).sum::<u64>()
}
