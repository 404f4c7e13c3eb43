//! Critical sections of a task's own code (crate `evenkeel-slice`), and how they hold off the loss
//! of a CPU.
//!
//! The handler that finds its thread in one leaves a request there and returns. The end of the
//! outermost section serves it ([`on_section_end`]). If that does not come before the deadline of
//! its kind ([`evenkeel_slice::Deadlines`]), counted from the request, the monitor signals again,
//! and the handler takes the CPU there.
//!
//! The monitor learns of requests at its ticks. So a section that was asked by a waker can last a
//! tick longer than its deadline; one that was asked at a tick is forced at the deadline.
//!
//! At [`Level::Handoff`](super::Level::Handoff) sections hold off nothing: a poll whose CPU is
//! taken there goes on, and so does its section.

use std::sync::atomic::Ordering;

use evenkeel_slice::runtime::{self as slice, Kind};

use super::carrier::Carrier;
use super::switch;
use crate::clock;
use crate::context;
use crate::group::Event;

/// Returns whether this thread, whose CPU is asked for, is in a critical section and may stay there
/// for now. Async-signal-safe.
pub(super) fn holds_off(me: &Carrier) -> bool {
    let Some(kind) = slice::kind() else {
        return false;
    };
    let now_ns = clock::now_ns();
    if !slice::has_request() {
        me.section_asked_ns.store(now_ns, Ordering::Relaxed);
        if slice::request() {
            count(Event::Extended);
        }
    }
    let asked_ns = me.section_asked_ns.load(Ordering::Relaxed);
    let due_ns = due_ns(kind, asked_ns);
    if now_ns < due_ns {
        me.section_due_ns.store(due_ns, Ordering::Relaxed);
        return true;
    }
    me.section_due_ns.store(0, Ordering::Relaxed);
    if slice::force() {
        count(Event::Forced);
    }
    false
}

/// Returns when a section that was asked then is forced, `u64::MAX` for never.
fn due_ns(kind: Kind, asked_ns: u64) -> u64 {
    let deadline = kind.deadline();
    deadline.map_or(u64::MAX, |deadline| {
        asked_ns.saturating_add(deadline.as_nanos() as u64)
    })
}

fn count(event: Event) {
    context::with_raw_task(|meta| meta.group_ref().count_event(event));
}

/// The hook of `evenkeel-slice`: the outermost section has ended, and the CPU was asked for in it.
pub(super) fn on_section_end() {
    let Some(me) = context::carrier() else { return };
    me.section_due_ns.store(0, Ordering::Relaxed);
    if me.gate.is_inside() {
        // A section of the task's that began inside one of the runtime's (an allocation).
        me.gate.ask();
    } else {
        switch::at_slice_end(me);
    }
}
