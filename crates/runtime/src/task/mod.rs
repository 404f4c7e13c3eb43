//! Tasks: the cell (`async-task`), what the scheduler keeps in it, and the handles to it.
//!
//! One allocation holds a task: `async-task`'s header and state word, our [`Meta`], and the future
//! or its output.
//!
//! # Who may touch what
//!
//! - `flags` is atomic: anybody who keeps the cell alive may set [`ABORTED`], whoever holds the
//!   `Runnable` sets and clears [`WATCHED`]; the wrapper future reads them before a poll.
//! - `owned` (list links) belongs to the shard of the owned-task list and is touched under that
//!   shard's lock only.
//! - `shared` and `group` are written before the task is published and read-only after that; but
//!   `group` is re-pointed, under the shard's lock, by whoever holds the `Runnable` when the group
//!   was removed.
//! - `cell` is written once, when the task is made.
//! - `group_version`, `was_queued`, `woken_ns` and `entity` belong to whoever holds the `Runnable`;
//!   while the task is queued, to the holder of that queue's lock; and while `is_picked`, `entity`
//!   belongs to the run queue that picked it, whoever polls the task.

mod future;
mod join;
pub(crate) mod outcome;
pub(crate) mod owned;

pub(crate) use future::TaskFuture;
pub use join::{AbortHandle, JoinError, JoinHandle};

use std::cell::{Cell, UnsafeCell};
use std::future::Future;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, Ordering};
use std::task::{RawWakerVTable, Waker};

use async_task::{Builder, ScheduleInfo, WithInfo};
use evenkeel_core::{EnqueueKind, Entity, TaskState};

use crate::context;
use crate::group::GroupInner;
use crate::keys;
use crate::preempt::Level;
use crate::preempt::gate::CarrierId;
use crate::shared::Shared;
use crate::worker::leave_fair_task;
use crate::worker::slot::Item;

/// The right to poll a task once.
pub(crate) type Runnable = async_task::Runnable<Meta>;

impl Item for Runnable {
    #[inline]
    fn into_raw(self) -> NonNull<()> {
        Runnable::into_raw(self)
    }

    #[allow(unsafe_code)]
    #[inline]
    fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: the slot gives back what `into_raw` gave it, once.
        unsafe { Runnable::from_raw(raw) }
    }
}

/// Flag of a task: it was aborted, by its handle or by shutdown. Set once.
const ABORTED: u8 = 1;
/// Flag of a task: its polls ask before they begin whether they can be preempted.
const WATCHED: u8 = 2;

/// What the scheduler keeps in a task's cell.
pub(crate) struct Meta {
    /// The runtime. A plain pointer, since a counted one would make every spawn write the same
    /// cache line. It is read only while the task's future has not been dropped, and `Shared`
    /// outlives all such tasks: shutdown frees it last.
    shared: *const Shared,
    /// The group the task belongs to; kept alive by the runtime's table of groups while it has
    /// tasks.
    pub(crate) group: Cell<*const GroupInner>,
    /// `async-task`'s pointer to the cell and the functions of its wakers. The task keeps one
    /// counted reference to itself until its future is dropped: without it `async-task` would free
    /// a detached task that nobody can wake, and leak what is in its future.
    cell: Cell<Option<(NonNull<()>, &'static RawWakerVTable)>>,
    owned: owned::Links,
    /// Which shard of the owned list the task is in.
    pub(crate) shard: u32,
    /// [`ABORTED`] and [`WATCHED`].
    flags: AtomicU8,
    /// The version of the group that the entity knows, see [`GroupInner::version`].
    group_version: Cell<u32>,
    /// It was in a run queue before.
    was_queued: Cell<bool>,
    /// For tasks of fair order: a run queue believes it to be running. Cleared under the lock of
    /// that queue, once it no longer does.
    pub(crate) is_picked: AtomicBool,
    /// The thread on which its poll is parked, by number plus one; 0 for none.
    parked: AtomicU16,
    /// The worker whose run queue it last left; a task of fair order may still be in the tree
    /// there.
    pub(crate) home: AtomicU32,
    /// When it became ready, in ns; 0 when that is not recorded.
    pub(crate) woken_ns: Cell<u64>,
    entity: UnsafeCell<Entity<TaskRef>>,
}

// SAFETY: see the access rules in the module's documentation: every non-atomic field is either
// read-only after publication, or guarded by a lock, or owned by the holder of the `Runnable`.
#[allow(unsafe_code)]
unsafe impl Send for Meta {}
// SAFETY: as for `Send`.
#[allow(unsafe_code)]
unsafe impl Sync for Meta {}

impl Meta {
    /// Returns the runtime.
    #[allow(unsafe_code)]
    #[inline]
    pub(crate) fn shared_ref(&self) -> &Shared {
        // SAFETY: callers act for a task whose future has not been dropped; `Shared` outlives
        // those.
        unsafe { &*self.shared }
    }

    /// Returns a counted reference to the runtime.
    #[allow(unsafe_code)]
    pub(crate) fn shared_arc(&self) -> Arc<Shared> {
        // SAFETY: `shared` points into the `Arc` that the runtime's handles and workers hold, which
        // outlives this task.
        unsafe {
            Arc::increment_strong_count(self.shared);
            Arc::from_raw(self.shared)
        }
    }

    /// Returns the group the task belongs to.
    #[allow(unsafe_code)]
    #[inline]
    pub(crate) fn group_ref(&self) -> &GroupInner {
        // SAFETY: an unfinished task is counted in its group, and the table of groups keeps a group
        // that counts tasks.
        unsafe { &*self.group.get() }
    }

    /// Returns a number that no other task has at the same time.
    pub(crate) fn number(&self) -> u64 {
        self.cell().addr().get() as u64
    }

    /// Returns whether there is anything to do before a poll, see [`Meta::begin_unusual`].
    #[inline(always)]
    fn is_unusual(&self) -> bool {
        self.flags.load(Ordering::Acquire) != 0
    }

    /// Does what is to be done before a poll; true when the task was aborted, so that there is to
    /// be none.
    #[cold]
    #[inline(never)]
    fn begin_unusual(&self) -> bool {
        if keys::preempt_on() {
            context::open_window(self);
        } else {
            self.flags.fetch_and(!WATCHED, Ordering::Relaxed);
        }
        self.flags.load(Ordering::Acquire) & ABORTED != 0
    }

    /// Has the polls of this task ask whether they can be preempted. For whoever holds the
    /// `Runnable`.
    #[inline]
    pub(crate) fn watch(&self) {
        if self.flags.load(Ordering::Relaxed) & WATCHED == 0 {
            self.flags.fetch_or(WATCHED, Ordering::Relaxed);
        }
    }

    /// Does what optional parts do at the end of a poll, before anybody can wake the task.
    ///
    /// `has_ended`: its future will not be polled again.
    #[cold]
    #[inline(never)]
    fn end_watched(&self, has_ended: bool) {
        context::close_window(self);
        leave_fair_task(self, has_ended);
    }

    /// Returns the version of its group that the entity knows. For whoever holds the `Runnable`.
    #[inline]
    pub(crate) fn known_version(&self) -> u32 {
        self.group_version.get()
    }

    /// Returns whether the entity may not know its group, or its group's settings, as they are now.
    /// For whoever holds the `Runnable`.
    #[inline]
    pub(crate) fn is_outdated(&self) -> bool {
        self.group_version.get() != self.group_ref().version()
    }

    /// Returns `async-task`'s pointer to the cell.
    #[inline]
    pub(crate) fn cell(&self) -> NonNull<()> {
        self.cell_and_vtable().0
    }

    #[inline]
    fn cell_and_vtable(&self) -> (NonNull<()>, &'static RawWakerVTable) {
        self.cell.get().expect("set when the task was made")
    }

    /// Returns a number that tasks with the same type of future share.
    pub(crate) fn site(&self) -> usize {
        ptr::from_ref(self.cell_and_vtable().1).addr()
    }

    /// Returns what may happen to a poll of this task that goes on.
    pub(crate) fn level(&self) -> Level {
        self.group_ref()
            .level()
            .unwrap_or(self.shared_ref().preempt.level())
    }

    /// Says on which thread the task's poll is parked. While it is, the task's `Runnable` is an
    /// entry in a queue that stands for the right to resume that poll.
    pub(crate) fn set_parked(&self, thread: Option<CarrierId>) {
        let parked = thread.map_or(0, |id| id + 1);
        self.parked.store(parked, Ordering::Release);
    }

    /// Returns whether the task's poll is parked, so that it is to be resumed and not polled.
    #[inline]
    pub(crate) fn is_parked(&self) -> bool {
        self.parked.load(Ordering::Relaxed) != 0
    }

    /// Takes the right to give an order to the thread on which the poll is parked.
    pub(crate) fn take_parked(&self) -> Option<CarrierId> {
        self.parked.swap(0, Ordering::AcqRel).checked_sub(1)
    }

    /// Gives up the reference that the task keeps to itself. Once, when its future is dropped.
    #[allow(unsafe_code)]
    fn release_itself(&self) {
        let (cell, vtable) = self.cell_and_vtable();
        // SAFETY: `create` forgot a waker with these parts; this is that waker, and it is made
        // again only here.
        drop(unsafe { Waker::new(cell.as_ptr(), vtable) });
    }
}

/// A pointer to a task's metadata, valid as long as somebody keeps the cell alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TaskRef(NonNull<Meta>);

// SAFETY: it points to a `Meta`, which is `Send` and `Sync`; what it gives access to is ruled by
// the access rules of this module.
#[allow(unsafe_code)]
unsafe impl Send for TaskRef {}
// SAFETY: as for `Send`.
#[allow(unsafe_code)]
unsafe impl Sync for TaskRef {}

impl TaskRef {
    pub(crate) fn new(meta: &Meta) -> Self {
        Self(NonNull::from(meta))
    }

    /// Makes one of a pointer, unless it is null.
    pub(crate) fn from_pointer(meta: *mut Meta) -> Option<Self> {
        NonNull::new(meta).map(Self)
    }

    #[allow(unsafe_code)]
    pub(crate) fn meta(&self) -> &Meta {
        // SAFETY: whoever holds a `TaskRef` keeps the cell alive (a handle, a waker, the owned
        // list's lock, or a queue).
        unsafe { self.0.as_ref() }
    }

    /// Returns the group the task belongs to.
    #[inline]
    pub(crate) fn group(&self) -> &GroupInner {
        self.meta().group_ref()
    }

    /// Turns the right to poll the task into a key for a run queue.
    #[inline]
    pub(crate) fn from_runnable(runnable: Runnable) -> Self {
        let task = Self::new(runnable.metadata());
        let _ = runnable.into_raw();
        task
    }

    /// Turns a key that a run queue gave back into the right to poll the task.
    #[allow(unsafe_code)]
    #[inline]
    pub(crate) fn into_runnable(self) -> Runnable {
        // SAFETY: `cell` is what `into_raw` gave; `from_runnable` took the runnable apart when the
        // key was queued, and a run queue gives a key back once.
        unsafe { Runnable::from_raw(self.meta().cell()) }
    }

    #[allow(unsafe_code)]
    #[inline]
    pub(crate) fn entity<'a>(self) -> &'a Entity<TaskRef> {
        // SAFETY: callers own the entity, see the access rules of this module.
        unsafe { &*(*self.0.as_ptr()).entity.get() }
    }

    #[allow(unsafe_code)]
    #[allow(clippy::mut_from_ref)]
    #[inline]
    pub(crate) fn entity_mut<'a>(self) -> &'a mut Entity<TaskRef> {
        // SAFETY: callers own the entity, see the access rules of this module; the core holds one
        // such reference at a time.
        unsafe { &mut *(*self.0.as_ptr()).entity.get() }
    }

    /// Brings the entity up to date with its group; it is in no queue. For whoever holds the
    /// `Runnable`.
    #[inline]
    pub(crate) fn learn_group(self) {
        let meta = self.meta();
        let group = meta.group_ref();
        // Before the settings: a change in between is then seen the next time.
        meta.group_version.set(group.version());
        let entity = self.entity_mut();
        if entity.group() != group.id {
            entity.set_group(group.id);
        }
        if entity.params() != group.task_params() {
            entity.set_params(group.task_params());
        }
    }

    /// Brings the entity up to date with its group before it is queued, and says how it enters the
    /// queue.
    pub(crate) fn prepare(self) -> EnqueueKind<TaskRef> {
        let meta = self.meta();
        if self.entity().state() != TaskState::Delayed {
            self.learn_group();
        }
        if meta.was_queued.replace(true) {
            EnqueueKind::Wakeup
        } else {
            EnqueueKind::New
        }
    }

    pub(crate) fn mark_aborted(&self) {
        self.meta().flags.fetch_or(ABORTED, Ordering::Release);
    }

    /// Asks the task to stop.
    pub(crate) fn abort(self) {
        self.mark_aborted();
        self.waker().wake();
    }

    /// Makes a counted reference to the task.
    #[allow(unsafe_code)]
    pub(crate) fn waker(self) -> Waker {
        let (cell, vtable) = self.meta().cell_and_vtable();
        // SAFETY: these are the parts of a waker of this task, whose cell is alive; the view is not
        // dropped, only cloned.
        let view = ManuallyDrop::new(unsafe { Waker::new(cell.as_ptr(), vtable) });
        Waker::clone(&view)
    }
}

/// Builds the cell of a task that workers run, without scheduling it. Its entity knows nothing of
/// its group yet, see [`TaskRef::learn_group`].
#[allow(unsafe_code)]
#[inline(always)]
pub(crate) fn create<F>(
    future: F,
    shared: &Shared,
    group: *const GroupInner,
    shard: u32,
) -> (Runnable, JoinHandle<F::Output>)
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let meta = Meta::new(shared, group, shard);
    // SAFETY: future and output are `Send + 'static`; `schedule` is a function without captures,
    // hence `Send + Sync + 'static`. The metadata borrowed by the wrapper lies in the same cell.
    let (runnable, task) = unsafe {
        Builder::new()
            .propagate_panic(false)
            .metadata(meta)
            .spawn_unchecked(
                |meta| TaskFuture::new(future, meta),
                WithInfo(|runnable: Runnable, info: ScheduleInfo| {
                    crate::worker::schedule(runnable, info.woken_while_running);
                }),
            )
    };
    (keep_itself(runnable), JoinHandle::new(task))
}

/// Builds the cell of a closure that the blocking pool runs.
#[allow(unsafe_code)]
pub(crate) fn create_blocking<F, T>(
    work: F,
    shared: &Shared,
    group: *const GroupInner,
) -> (Runnable, JoinHandle<T>)
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let meta = Meta::new(shared, group, 0);
    let mut work = Some(work);
    let future = std::future::poll_fn(move |_| {
        let work = work.take().expect("a blocking task is polled once");
        std::task::Poll::Ready(work())
    });
    // SAFETY: as in `create`. The schedule function is reached only by an abort of a task whose
    // runnable is already with the pool, in which state `async-task` does not call it; were it
    // called, the runnable is dropped, which cancels the task.
    let (runnable, task) = unsafe {
        Builder::new()
            .propagate_panic(false)
            .metadata(meta)
            .spawn_unchecked(|meta| TaskFuture::new(future, meta), drop::<Runnable>)
    };
    (keep_itself(runnable), JoinHandle::new(task))
}

impl Meta {
    #[inline(always)]
    fn new(shared: &Shared, group: *const GroupInner, shard: u32) -> Self {
        Self {
            shared,
            group: Cell::new(group),
            cell: Cell::new(None),
            owned: owned::Links::new(),
            shard,
            flags: AtomicU8::new(0),
            was_queued: Cell::new(false),
            is_picked: AtomicBool::new(false),
            parked: AtomicU16::new(0),
            group_version: Cell::new(0),
            home: AtomicU32::new(shard),
            woken_ns: Cell::new(0),
            entity: UnsafeCell::new(shared.new_entity.clone()),
        }
    }
}

/// Gives a new task the reference that it keeps to itself.
fn keep_itself(runnable: Runnable) -> Runnable {
    let waker = ManuallyDrop::new(runnable.waker());
    let cell = NonNull::new(waker.data().cast_mut()).expect("a waker of a task points to it");
    runnable.metadata().cell.set(Some((cell, waker.vtable())));
    runnable
}
