//! What a thread knows about where it is: the worker it carries, the task it polls, the runtime it
//! was entered into.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::ptr;
use std::sync::Arc;
use std::task::Waker;

use crate::group::GroupInner;
use crate::handle::Handle;
use crate::io::Io;
use crate::preempt;
use crate::preempt::carrier::Carrier;
use crate::preempt::gate::Entry;
use crate::preempt::{Level, switch};
use crate::shared::Shared;
use crate::task::{Meta, Runnable};
use crate::worker::Worker;

thread_local! {
    /// The worker whose virtual CPU this thread carries.
    static WORKER: Cell<*const Worker> = const { Cell::new(ptr::null()) };
    /// The same worker while what its tasks wake and spawn may be queued in the plain way, else
    /// null. While it is not, this thread is in a section: in runtime code, or in a poll without a
    /// window. See `worker`.
    static PLAIN: Cell<*const Worker> = const { Cell::new(ptr::null()) };
    /// The task being polled on this thread.
    static TASK: Cell<*const Meta> = const { Cell::new(ptr::null()) };
    /// This thread's record, if it can carry workers.
    static CARRIER: Cell<*const Carrier> = const { Cell::new(ptr::null()) };
    /// Runtimes entered on this thread, innermost last.
    static ENTERED: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
    /// How many they are, to be read without the list.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Runs `f` with the worker of this thread, if it carries one; the worker stays on this thread
/// meanwhile, unless `f` passes it on.
#[inline]
pub(crate) fn with_worker<R>(f: impl FnOnce(Option<&Worker>) -> R) -> R {
    let _section = section();
    with_raw_worker(f)
}

/// As [`with_worker`], for callers that are in a section, or read what does not belong to the
/// worker's carrier.
#[allow(unsafe_code)]
#[inline]
pub(crate) fn with_raw_worker<R>(f: impl FnOnce(Option<&Worker>) -> R) -> R {
    let worker = WORKER.with(Cell::get);
    // SAFETY: `set_worker` is called by a thread that holds the roster of all workers of the
    // runtime, and reset before it lets go of that.
    f(unsafe { worker.as_ref() })
}

/// Returns the worker of this thread if what its tasks wake and spawn may be queued in the plain
/// way. It stays on this thread while the caller runs.
#[allow(unsafe_code)]
#[inline(always)]
pub(crate) fn plain_worker<'a>() -> Option<&'a Worker> {
    // SAFETY: as in `with_raw_worker`: it is null or the worker that this thread carries.
    unsafe { PLAIN.with(Cell::get).as_ref() }
}

/// Says that what the tasks of this thread's worker wake and spawn may be queued in the plain way
/// from now on. For the worker's carrier, in a section.
pub(crate) fn set_plain(worker: &Worker) {
    debug_assert!(is_worker(worker));
    PLAIN.with(|cell| cell.set(worker));
}

/// Undoes [`set_plain`].
pub(crate) fn leave_plain() {
    PLAIN.with(|cell| cell.set(ptr::null()));
}

/// Has the worker of this thread, if it carries one, look at the keys before its next poll; what is
/// woken or spawned meanwhile is queued by what the keys are now.
pub(crate) fn look_around() {
    leave_plain();
    with_worker(|worker| {
        if let Some(worker) = worker {
            worker.look_around();
        }
    });
}

/// Says that this thread can carry workers; null at its end.
pub(crate) fn set_carrier(carrier: *const Carrier) {
    CARRIER.with(|cell| cell.set(carrier));
}

/// In a forked child: the threads that would carry on are not there, so this one carries nothing.
pub(crate) extern "C" fn forget_threads() {
    set_carrier(ptr::null());
    set_worker(ptr::null());
}

/// Returns this thread's record, if it can carry workers.
#[allow(unsafe_code)]
#[inline]
pub(crate) fn carrier<'a>() -> Option<&'a Carrier> {
    // SAFETY: the record lives as long as its runtime, which this thread keeps alive until it has
    // reset the pointer.
    unsafe { CARRIER.with(Cell::get).as_ref() }
}

/// A stretch of runtime code on a thread that carries a worker: nobody takes the worker, or parks
/// the thread, before it is dropped. Sections nest.
#[must_use]
pub(crate) struct Section(Option<&'static Carrier>);

impl Section {
    /// For callers that know that the thread is in a section.
    #[inline(always)]
    pub(crate) fn outer() -> Self {
        Self(None)
    }
}

/// Enters a section, where the runtime preempts at all.
#[inline]
pub(crate) fn section() -> Section {
    Section(if preempt::is_on() {
        enter_section()
    } else {
        None
    })
}

#[inline(never)]
fn enter_section() -> Option<&'static Carrier> {
    let carrier = carrier()?;
    enter_gate(carrier);
    Some(carrier)
}

#[inline]
fn enter_gate(carrier: &Carrier) {
    if carrier.gate.enter() == Entry::Lost {
        set_worker(ptr::null());
    }
}

impl Drop for Section {
    #[inline]
    fn drop(&mut self) {
        if let Some(carrier) = self.0
            && carrier.gate.leave()
        {
            switch::at_section_end(carrier);
        }
    }
}

/// Opens the window of `meta`'s poll, a stretch of the task's own code: the worker may be taken
/// from this thread, or the thread parked and another worker given to it, until it is closed.
///
/// Only where the task's runtime preempts: it keeps the key on, so that it is on when the window is
/// closed. And from the outermost section only: a poll inside another one's code, as at shutdown,
/// belongs to that.
pub(crate) fn open_window(meta: &Meta) {
    if preempt::is_on() && meta.shared_ref().preempt.has_windows() {
        leave_section(meta);
    }
}

fn leave_section(meta: &Meta) {
    let Some(carrier) = carrier().filter(|carrier| carrier.gate.depth() == 1) else {
        return;
    };
    leave_plain();
    carrier.set_window(meta);
    if has_reports(meta) {
        carrier.note.begin();
    }
    // If what was asked for concerns what ran before, nothing comes of it.
    if carrier.gate.leave() {
        switch::at_section_end(carrier);
    }
}

/// Returns whether polls of a task are reported when they take long.
fn has_reports(meta: &Meta) -> bool {
    meta.shared_ref().preempt.config().report_limit.is_some()
}

/// Closes the window of `meta`'s poll, if one was opened.
pub(crate) fn close_window(meta: &Meta) {
    if preempt::is_on()
        && let Some(carrier) = carrier()
        && carrier.has_window(meta)
    {
        enter_gate(carrier);
        carrier.set_window(ptr::null());
        if has_reports(meta) {
            preempt::report::end_poll(&carrier.note, meta);
        }
    }
}

/// Returns the task that this thread polls, null if there is none.
pub(crate) fn task() -> *const Meta {
    TASK.with(Cell::get)
}

/// Applies `f` to the task that this thread polls, if there is one.
pub(crate) fn with_raw_task(f: impl FnOnce(&Meta)) {
    let _ = current_task(f);
}

/// Returns whether this thread carries a worker whose current poll should make room.
pub(crate) fn need_resched() -> bool {
    with_raw_worker(|worker| worker.is_some_and(Worker::need_resched))
}

/// Returns what may happen to the poll that goes on on this thread.
pub(crate) fn current_level() -> Option<Level> {
    current_task(Meta::level)
}

/// Says which worker this thread carries; null for none.
pub(crate) fn set_worker(worker: *const Worker) {
    leave_plain();
    WORKER.with(|cell| cell.set(worker));
}

/// Returns whether this thread carries `worker`.
#[inline]
pub(crate) fn is_worker(worker: &Worker) -> bool {
    ptr::eq(WORKER.with(Cell::get), worker)
}

/// Returns the runtime of the worker that this thread carries, unless another one was entered.
#[allow(unsafe_code)]
pub(crate) fn worker_shared<'a>() -> Option<&'a Shared> {
    if DEPTH.with(Cell::get) > 0 {
        return None;
    }
    // SAFETY: as in `with_raw_worker`; this thread's roster keeps the workers alive, and they their
    // runtime, while code of a task, or of a caller, runs on this thread.
    with_raw_worker(|worker| worker.map(|w| unsafe { &*Arc::as_ptr(&w.shared) }))
}

/// The task that a thread polled before the one it polls now.
#[derive(Clone, Copy)]
pub(crate) struct Before(*const Meta);

/// Says which task this thread polls.
#[inline]
pub(crate) fn set_task(runnable: &Runnable) -> Before {
    Before(TASK.with(|cell| cell.replace(runnable.metadata())))
}

/// Undoes [`set_task`].
#[inline]
pub(crate) fn restore_task(before: Before) {
    TASK.with(|cell| cell.set(before.0));
}

/// Says that this thread polls no task, because `meta`'s has ended; nothing happens when another
/// one is being polled. After this its group and its cell may go while the thread still runs code
/// of others: the destructor of the output, the waker of whoever awaits it.
pub(crate) fn forget_task(meta: &Meta) {
    if is_current_meta(meta) {
        TASK.with(|cell| cell.set(ptr::null()));
    }
}

/// Says that this thread polls no task, after a panic that ended a poll.
pub(crate) fn leave_task() {
    TASK.with(|cell| cell.set(ptr::null()));
}

/// Returns whether `meta` is that of the task that this thread polls.
pub(crate) fn is_current_meta(meta: &Meta) -> bool {
    ptr::eq(TASK.with(Cell::get), meta)
}

/// Returns whether `runnable` is the task that this thread polls.
pub(crate) fn is_current_task(runnable: &Runnable) -> bool {
    ptr::eq(TASK.with(Cell::get), runnable.metadata())
}

/// Returns the group of the task that this thread polls, if it is a task of `shared`; valid as long
/// as that task is polled.
#[inline]
pub(crate) fn current_group(shared: &Shared) -> Option<*const GroupInner> {
    current_task(|meta| ptr::eq(meta.shared_ref(), shared).then(|| meta.group.get())).flatten()
}

/// Returns whether `waker` is the one that the task being polled was given, and so one of ours.
pub(crate) fn is_waker_of_current_task(waker: &Waker) -> bool {
    current_task(|meta| ptr::eq(waker.data(), meta.cell().as_ptr())) == Some(true)
}

/// Returns the runtime this thread is in: the innermost entered, else that of its worker, else that
/// of the task it polls (whose worker has gone to another thread, see `block_in_place`).
pub(crate) fn current_handle() -> Option<Handle> {
    ENTERED
        .try_with(|entered| entered.borrow().last().cloned())
        .ok()
        .flatten()
        .or_else(|| with_raw_worker(|worker| worker.map(|w| Handle::from_shared(w.shared.clone()))))
        .or_else(|| current_task(|meta| Handle::from_shared(meta.shared_arc())))
}

/// Applies `f` to the task that this thread polls.
#[allow(unsafe_code)]
#[inline]
fn current_task<R>(f: impl FnOnce(&Meta) -> R) -> Option<R> {
    let meta = TASK.with(Cell::get);
    // SAFETY: the task being polled is alive; `forget_task` is called before its future is gone.
    unsafe { meta.as_ref() }.map(f)
}

/// Leaves the runtime when dropped; made by [`Handle::enter`](crate::Handle::enter).
#[derive(Debug)]
#[must_use = "the runtime is left when the guard is dropped"]
pub struct EnterGuard<'a> {
    _tokio: Option<tokio::runtime::EnterGuard<'a>>,
    _entered: Entered,
}

/// Makes a runtime, and its Tokio runtime, the current one of this thread.
pub(crate) fn enter(handle: &Handle) -> EnterGuard<'_> {
    let driver = &handle.shared.driver;
    EnterGuard {
        _tokio: (driver.mode() != Io::Off).then(|| driver.handle().enter()),
        _entered: enter_only(handle.clone()),
    }
}

/// Keeps a runtime on this thread's stack of entered runtimes.
#[derive(Debug)]
pub(crate) struct Entered {
    depth: usize,
    _not_send: std::marker::PhantomData<*const ()>,
}

/// Makes a runtime the current one of this thread, and leaves Tokio's context alone.
pub(crate) fn enter_only(handle: Handle) -> Entered {
    let depth = ENTERED.with(|entered| {
        let mut entered = entered.borrow_mut();
        entered.push(handle);
        DEPTH.with(|depth| depth.set(entered.len()));
        entered.len()
    });
    Entered {
        depth,
        _not_send: std::marker::PhantomData,
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let left = ENTERED.try_with(|entered| {
            let mut entered = entered.borrow_mut();
            let out_of_order = entered.len() != self.depth;
            let popped = entered.pop();
            DEPTH.with(|depth| depth.set(entered.len()));
            (popped, out_of_order)
        });
        if let Ok((_, out_of_order)) = left
            && !std::thread::panicking()
        {
            assert!(
                !out_of_order,
                "`EnterGuard` values dropped out of order: drop the one made last first"
            );
        }
    }
}

/// Returns whether this thread may wait: it carries no worker, and is in no `block_on`.
pub(crate) fn may_wait_here() -> bool {
    with_worker(|worker| worker.is_none())
        && IS_BLOCKING.with(|b| !b.get())
        && tokio::runtime::Handle::try_current().is_err()
}

thread_local! {
    /// This thread is in a `block_on` of a runtime without I/O.
    static IS_BLOCKING: Cell<bool> = const { Cell::new(false) };
    /// This is a companion thread that drives I/O.
    static IS_COMPANION: Cell<bool> = const { Cell::new(false) };
}

/// Says that this thread drives I/O and does nothing else.
pub(crate) fn set_companion() {
    IS_COMPANION.with(|cell| cell.set(true));
}

/// Returns whether this thread drives I/O and does nothing else.
pub(crate) fn is_companion() -> bool {
    IS_COMPANION.with(Cell::get)
}

/// Runs a future on this thread, without Tokio.
///
/// # Panics
///
/// Panics on a worker, and inside another such call, as Tokio's `block_on` does.
pub(crate) fn block_on_without_io<F: Future>(future: F) -> F::Output {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            IS_BLOCKING.with(|b| b.set(false));
        }
    }
    let is_nested = IS_BLOCKING.with(Cell::get) || with_worker(|w| w.is_some());
    assert!(
        !is_nested,
        "cannot `block_on` from within a runtime: this thread drives tasks already"
    );
    IS_BLOCKING.with(|b| b.set(true));
    let _leave = Leave;
    futures_lite::future::block_on(future)
}
