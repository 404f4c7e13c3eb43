//! Events of the scheduler for `tracing`.
//!
//! While a [`TraceGuard`] lives, the workers of every runtime in this process report, as events of
//! level TRACE and target `evenkeel::sched` with the names of the kernel's:
//!
//! | name | fields | when |
//! |---|---|---|
//! | `sched_wakeup` | `task`, `group` | a task became ready: it was spawned or woken |
//! | `sched_switch` | `cpu`, `task`, `group` | a worker, by number, is about to poll a task |
//! | `sched_process_exit` | `task`, `group` | a task's future was dropped |
//!
//! `task` is a number that no other task has at the same time; `group` is a path. A task that
//! yields does not wake up. A busy worker begins and ends to report at its next look at the clock,
//! or after a few polls; once it has begun it leaves nothing out.
//!
//! The subscriber runs on the workers. What it wakes or spawns is not reported, a panic of it ends
//! there, and at [`Level::Park`](crate::Level::Park) it can be interrupted like a task.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::Error;
use crate::keys::{self, Use};
use crate::task::Meta;
use crate::task::outcome::forget_payload;

/// The target of all events.
const TARGET: &str = "evenkeel::sched";

/// Keeps the events on; made by [`enable`].
#[must_use = "the events end when the guard is dropped"]
#[derive(Debug)]
pub struct TraceGuard(Use);

/// Turns the events on, for as long as any guard lives and a moment longer.
///
/// # Errors
///
/// [`Error::is_not_compiled`] without the cargo feature `trace`; [`Error::is_key`] when the system
/// refuses to have code changed.
///
/// # Examples
///
/// ```
/// let guard = evenkeel::trace::enable()?;
/// // Tasks run; a subscriber gets the events.
/// drop(guard);
/// # Ok::<(), evenkeel::Error>(())
/// ```
pub fn enable() -> Result<TraceGuard, Error> {
    let guard = TraceGuard(Use::of(&keys::TRACING));
    guard.0.begin()?;
    Ok(guard)
}

thread_local! {
    /// This thread is in a subscriber.
    static IS_REPORTING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `report`, unless a report of this thread goes on.
fn report(report: impl FnOnce()) {
    if IS_REPORTING.replace(true) {
        return;
    }
    if let Err(payload) = catch_unwind(AssertUnwindSafe(report)) {
        forget_payload(payload);
    }
    IS_REPORTING.set(false);
}

/// Reports that a task became ready.
#[inline]
pub(crate) fn wakeup(meta: &Meta) {
    if keys::tracing_on() {
        report_wakeup(meta);
    }
}

#[cold]
fn report_wakeup(meta: &Meta) {
    report(|| {
        let (task, group) = (meta.number(), meta.group_ref());
        tracing::trace!(name: "sched_wakeup", target: TARGET, task, group = group.path());
    });
}

/// Reports that a worker is about to poll a task.
#[inline]
pub(crate) fn switch(meta: &Meta, cpu: usize) {
    if keys::tracing_on() {
        report_switch(meta, cpu);
    }
}

#[cold]
fn report_switch(meta: &Meta, cpu: usize) {
    report(|| {
        let (task, group) = (meta.number(), meta.group_ref());
        tracing::trace!(name: "sched_switch", target: TARGET, cpu, task, group = group.path());
    });
}

/// Reports that a task's future was dropped.
#[inline]
pub(crate) fn exit(meta: &Meta) {
    if keys::tracing_on() {
        report_exit(meta);
    }
}

#[cold]
fn report_exit(meta: &Meta) {
    report(|| {
        let (task, group) = (meta.number(), meta.group_ref());
        tracing::trace!(name: "sched_process_exit", target: TARGET, task, group = group.path());
    });
}
