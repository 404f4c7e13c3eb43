//! The list of all tasks that a runtime has and has not finished, so that shutdown can cancel them.
//!
//! Sharded: a task is linked into the shard of the thread that spawned it and leaves the same shard
//! when its future is dropped, so workers write different locks and lines. The links lie in the
//! task's [`Meta`]; nothing is allocated.
//!
//! # Invariants
//!
//! - A linked task's future has not been dropped, hence its cell is alive (see
//!   [`TaskFuture`](super::TaskFuture)).
//! - A closed shard links nothing more.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::Ordering;

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use std::task::Waker;

use super::{Meta, TaskRef};
use crate::group::GroupInner;
use crate::keys;
use crate::trace;

/// Links of one task in its shard; touched under that shard's lock only.
pub(crate) struct Links(UnsafeCell<LinksInner>);

struct LinksInner {
    prev: *const Meta,
    next: *const Meta,
    linked: bool,
}

impl Links {
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new(LinksInner {
            prev: ptr::null(),
            next: ptr::null(),
            linked: false,
        }))
    }
}

struct Shard {
    head: *const Meta,
    len: usize,
    is_closed: bool,
}

// SAFETY: the pointers lead to `Meta`s, which are `Sync`, of tasks that are alive while linked.
#[allow(unsafe_code)]
unsafe impl Send for Shard {}

/// All unfinished tasks of a runtime.
pub(crate) struct OwnedTasks {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
}

impl OwnedTasks {
    pub(crate) fn new(shards: usize) -> Self {
        let shard = || {
            CachePadded::new(Mutex::new(Shard {
                head: ptr::null(),
                len: 0,
                is_closed: false,
            }))
        };
        Self {
            shards: (0..shards).map(|_| shard()).collect(),
        }
    }

    /// Links a new task into its shard; false when the runtime no longer takes tasks.
    #[allow(unsafe_code)]
    #[must_use]
    pub(crate) fn insert(&self, meta: &Meta) -> bool {
        let mut shard = self.shards[meta.shard as usize].lock();
        if shard.is_closed {
            return false;
        }
        let group = meta.group_ref().living();
        meta.group.set(group);
        group.count_in(meta.shard);
        // SAFETY: the shard's lock is held, and the links of `meta` and of `head` belong to this
        // shard.
        unsafe {
            let links = &mut *meta.owned.0.get();
            links.next = shard.head;
            links.linked = true;
            if let Some(head) = shard.head.as_ref() {
                (*head.owned.0.get()).prev = meta;
            }
        }
        shard.head = meta;
        shard.len += 1;
        true
    }

    /// Unlinks a task; nothing happens when it never was linked.
    #[allow(unsafe_code)]
    #[inline(always)]
    fn remove(&self, meta: &Meta) {
        let mut shard = self.shards[meta.shard as usize].lock();
        // SAFETY: the shard's lock is held; neighbours in the list are linked, hence alive.
        unsafe {
            let links = &mut *meta.owned.0.get();
            if !links.linked {
                return;
            }
            links.linked = false;
            match links.prev.as_ref() {
                Some(prev) => (*prev.owned.0.get()).next = links.next,
                None => shard.head = links.next,
            }
            if let Some(next) = links.next.as_ref() {
                (*next.owned.0.get()).prev = links.prev;
            }
        }
        shard.len -= 1;
        meta.group_ref().count_out(meta.shard);
    }

    /// Moves a task whose group was removed to the nearest ancestor that was not. For whoever holds
    /// the task's runnable.
    pub(crate) fn move_to_living(&self, meta: &Meta) {
        let _shard = self.shards[meta.shard as usize].lock();
        let group = meta.group_ref().living();
        meta.group_ref().count_out(meta.shard);
        group.count_in(meta.shard);
        meta.group.set(group);
    }

    /// Counts the unfinished tasks of a group and passes the count on while every shard is locked,
    /// so that no task enters or leaves meanwhile.
    pub(crate) fn with_count<R>(&self, group: &GroupInner, decide: impl FnOnce(u64) -> R) -> R {
        // Nobody else holds the locks of two shards.
        let _shards: Vec<_> = self.shards.iter().map(|shard| shard.lock()).collect();
        let counts = (0..self.shards.len()).map(|shard| group.count(shard));
        decide(counts.sum())
    }

    /// Returns the number of unfinished tasks.
    pub(crate) fn len(&self) -> usize {
        let _section = crate::context::section();
        self.shards.iter().map(|shard| shard.lock().len).sum()
    }

    /// Closes every shard, marks each task aborted and wakes it, so that a worker drops it.
    #[allow(unsafe_code)]
    pub(crate) fn close_and_abort(&self) {
        for shard in &self.shards {
            let wakers: Vec<Waker> = {
                let mut shard = shard.lock();
                shard.is_closed = true;
                let mut wakers = Vec::with_capacity(shard.len);
                let mut at = shard.head;
                // SAFETY: the shard's lock is held, so every task reached is linked, hence alive.
                while let Some(meta) = unsafe { at.as_ref() } {
                    let task = TaskRef::new(meta);
                    task.mark_aborted();
                    wakers.push(task.waker());
                    // SAFETY: the links are read under the shard's lock.
                    at = unsafe { (*meta.owned.0.get()).next };
                }
                wakers
            };
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

/// Unlinks a task from its runtime's list, if it is in it.
#[inline(never)]
pub(crate) fn remove(meta: &Meta) {
    if keys::any_on() {
        return remove_watched(meta);
    }
    remove_here(meta);
}

#[cold]
#[inline(never)]
fn remove_watched(meta: &Meta) {
    let _section = crate::context::section();
    trace::exit(meta);
    remove_here(meta);
}

#[inline(always)]
fn remove_here(meta: &Meta) {
    let shared = meta.shared_ref();
    shared.owned.remove(meta);
    if shared.life.is_abandoned.load(Ordering::SeqCst) {
        // The task's runtime may be gone after this.
        drop(shared.let_go());
    }
}
