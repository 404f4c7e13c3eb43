//! The record of a group, which its tasks point to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use evenkeel_core::{GroupId, GroupParams, Leaf, Order, TaskParams};
use parking_lot::Mutex;

use super::params;
use super::stat::PollTimes;
use crate::preempt::Level;

/// Returns a version that no group has had. (They repeat after 2³² changes of groups, which a task
/// would have to sleep through exactly to be mistaken.)
fn next_version() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The level of a group that has none of its own.
const NO_LEVEL: u8 = u8::MAX;

/// What preemption did to a poll of a group's own task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// It lost its CPU.
    Preempted,
    /// It was let go on to the end of a critical section.
    Extended,
    /// It lost its CPU in a critical section, whose deadline had passed.
    Forced,
    /// It took longer than the limit for reports.
    OverLimit,
}

/// A group as its tasks and the workers see it.
pub(crate) struct GroupInner {
    pub(crate) id: GroupId,
    pub(super) name: String,
    pub(super) parent: Option<Arc<GroupInner>>,
    pub(super) leaf: Arc<Leaf>,
    pub(crate) is_fair_order: bool,
    weight: AtomicU64,
    /// Task settings, see `params::pack`.
    task: AtomicU64,
    /// A [`Level`], or [`NO_LEVEL`].
    level: AtomicU8,
    version: AtomicU32,
    is_removed: AtomicBool,
    /// CPU time of child groups that were removed, in ns.
    pub(super) inherited_ns: AtomicU64,
    /// By [`Event`].
    events: [AtomicU64; 4],
    /// Unfinished tasks, one count for each shard of the owned list and written under that shard's
    /// lock.
    counts: Box<[CachePadded<AtomicU64>]>,
    /// Wait and run times, one record for each worker.
    times: Box<[CachePadded<Mutex<PollTimes>>]>,
}

impl GroupInner {
    pub(super) fn new(
        id: GroupId,
        name: String,
        parent: Option<Arc<GroupInner>>,
        leaf: Arc<Leaf>,
        params: &GroupParams,
        (shards, workers): (usize, usize),
    ) -> Self {
        let level = parent.as_ref().map_or(NO_LEVEL, |parent: &Arc<Self>| {
            parent.level.load(Ordering::Relaxed)
        });
        Self {
            id,
            name,
            level: AtomicU8::new(level),
            parent,
            leaf,
            is_fair_order: params.order == Order::Fair,
            weight: AtomicU64::new(u64::from(params.weight)),
            task: AtomicU64::new(params::pack(params.task)),
            version: AtomicU32::new(next_version()),
            is_removed: AtomicBool::new(false),
            inherited_ns: AtomicU64::new(0),
            events: Default::default(),
            counts: (0..shards).map(|_| Default::default()).collect(),
            times: (0..workers).map(|_| Default::default()).collect(),
        }
    }

    pub(crate) fn path(&self) -> String {
        match &self.parent {
            None => "/".to_owned(),
            Some(parent) if parent.parent.is_none() => format!("/{}", self.name),
            Some(parent) => format!("{}/{}", parent.path(), self.name),
        }
    }

    pub(crate) fn leaf(&self) -> &Arc<Leaf> {
        &self.leaf
    }

    pub(super) fn params(&self) -> GroupParams {
        GroupParams {
            weight: self.weight.load(Ordering::Relaxed) as u32,
            order: if self.is_fair_order {
                Order::Fair
            } else {
                Order::Fifo
            },
            task: self.task_params(),
        }
    }

    /// Returns the settings that tasks of this group have.
    #[inline]
    pub(crate) fn task_params(&self) -> TaskParams {
        params::unpack(self.task.load(Ordering::Relaxed))
    }

    pub(super) fn store_params(&self, params: &GroupParams) {
        self.weight
            .store(u64::from(params.weight), Ordering::Relaxed);
        self.task
            .store(params::pack(params.task), Ordering::Relaxed);
        self.change_version();
    }

    /// Returns a number that no other group has, and that this one had never before it was last
    /// changed or removed: a task that knows it knows its group and its settings.
    #[inline]
    pub(crate) fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    fn change_version(&self) {
        self.version.store(next_version(), Ordering::Release);
    }

    /// Returns what may happen to a poll that goes on, if the group differs from its runtime.
    #[inline]
    pub(crate) fn level(&self) -> Option<Level> {
        Level::from_u8(self.level.load(Ordering::Relaxed))
    }

    pub(super) fn set_level(&self, level: Option<Level>) {
        let level = level.map_or(NO_LEVEL, |level| level as u8);
        self.level.store(level, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_removed(&self) -> bool {
        self.is_removed.load(Ordering::SeqCst)
    }

    pub(super) fn set_removed(&self) {
        self.is_removed.store(true, Ordering::SeqCst);
        self.change_version();
    }

    /// Returns this group, or its nearest ancestor that was not removed.
    pub(crate) fn living(&self) -> &Self {
        let mut at = self;
        while at.is_removed() {
            match &at.parent {
                Some(parent) => at = parent,
                None => break,
            }
        }
        at
    }

    /// Counts an event. Async-signal-safe.
    pub(crate) fn count_event(&self, event: Event) {
        self.events[event as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how often something happened.
    pub(super) fn nr_events(&self, event: Event) -> u64 {
        self.events[event as usize].load(Ordering::Relaxed)
    }

    /// Counts a task in; the caller holds the lock of `shard`.
    #[inline]
    pub(crate) fn count_in(&self, shard: u32) {
        let count = &self.counts[shard as usize];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Counts a task out; the caller holds the lock of `shard`.
    #[inline]
    pub(crate) fn count_out(&self, shard: u32) {
        let count = &self.counts[shard as usize];
        count.store(count.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    /// Returns the unfinished tasks counted in one shard; exact under that shard's lock.
    pub(crate) fn count(&self, shard: usize) -> u64 {
        self.counts[shard].load(Ordering::Relaxed)
    }

    pub(super) fn nr_tasks(&self) -> u64 {
        (0..self.counts.len()).map(|shard| self.count(shard)).sum()
    }

    /// The wait and run times that one worker has recorded.
    pub(crate) fn times(&self, worker: usize) -> &Mutex<PollTimes> {
        &self.times[worker]
    }

    pub(super) fn all_times(&self) -> impl Iterator<Item = &Mutex<PollTimes>> {
        self.times.iter().map(|times| &**times)
    }
}
