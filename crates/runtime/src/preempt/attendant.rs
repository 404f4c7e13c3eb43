//! The thread that sits in the I/O driver while every worker is in a long poll.
//!
//! Workers turn the driver between polls. When none has done so for a while, because each of them
//! is in a long poll, the monitor calls this thread, which sits down until polls are short again or
//! a worker has nothing to do. Tasks that it wakes are queued as from any thread outside.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::crew::Roster;
use super::sys;
use crate::context;
use crate::shared::Shared;
use crate::task::outcome::forget_payload;

/// How long it sits before it looks whether it is still needed.
const SHIFT: Duration = Duration::from_millis(5);
/// Polls of one worker during a shift above which that worker could turn the driver itself.
const SHORT_POLLS: u32 = 50;

/// Where it waits to be called.
pub(crate) struct Attendant {
    bed: AtomicU32,
}

impl Attendant {
    pub(super) fn new() -> Self {
        Self {
            bed: AtomicU32::new(0),
        }
    }

    /// Calls it to its seat.
    pub(super) fn call(&self) {
        if self.bed.swap(1, Ordering::AcqRel) == 0 {
            sys::futex_wake(&self.bed);
        }
    }

    fn wait(&self) {
        while self.bed.load(Ordering::Acquire) == 0 {
            sys::futex_wait(&self.bed, 0);
        }
        self.bed.store(0, Ordering::Release);
    }
}

/// The body of the thread.
pub(super) fn attend(roster: &Arc<Roster>) {
    let shared = &roster[0].shared;
    context::set_companion();
    sys::become_punctual();
    while !shared.life.is_abandoned.load(Ordering::Acquire) {
        sit_while_needed(shared);
        shared.preempt.attendant.wait();
    }
}

/// Sits in the driver until that is not needed; then whoever sleeps elsewhere because the seat was
/// taken is woken to take it.
fn sit_while_needed(shared: &Shared) {
    sit(shared);
    if shared.idle.has_parked() {
        shared.notify_one();
    }
}

fn sit(shared: &Shared) {
    let is_over = || shared.life.is_shutdown.load(Ordering::Acquire);
    while !shared.idle.has_parked() && !is_over() {
        let Some(seat) = shared.driver.try_sit() else {
            return;
        };
        let before: u32 = polls(shared);
        let wait = || shared.driver.wait(&seat, is_over, Some(SHIFT));
        if let Err(payload) = catch_unwind(AssertUnwindSafe(wait)) {
            forget_payload(payload);
            return shared.driver.give_up();
        }
        drop(seat);
        if polls(shared).wrapping_sub(before) > SHORT_POLLS {
            return;
        }
    }
}

fn polls(shared: &Shared) -> u32 {
    let polls = shared.remotes.iter();
    polls.fold(0, |sum, remote| {
        sum.wrapping_add(remote.polls.load(Ordering::Relaxed))
    })
}
