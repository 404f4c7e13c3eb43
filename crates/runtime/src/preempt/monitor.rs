//! The thread that ticks: it looks, once a millisecond while no worker sleeps, for polls that
//! should make room.
//!
//! It sleeps for good when some worker sleeps (then no task waits, or the sentry of `worker::park`
//! sees to it), and is called by the worker that leaves the last one's bed. Where groups have
//! quotas it ticks while any worker is awake: what runs there may use up its quota. So an idle
//! process has no tick.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::crew::Roster;
use super::gate::{Term, take};
use super::order::{Before, Order};
use super::sys::KernelSlice;
use super::{Level, free, switch, sys};
use crate::clock;
use crate::group::Event;
use crate::keys;
use crate::shared::Shared;
use crate::worker::Verdict;

/// Time between two ticks, in ns.
const TICK_NS: u64 = 1_000_000;
/// Ticks without a reason to tick after which the monitor sleeps.
const QUIET_TICKS: u32 = 16;
/// A thread that used less CPU time than this since the last tick may be blocked, in ns.
const STANDSTILL_NS: u64 = 20_000;
/// Ticks for which a CPU must be blocked inside the runtime before all parked polls are let go.
const RESCUE_TICKS: u32 = 3;
/// Time without a turn of the I/O driver after which the attendant is called, in ns.
const UNATTENDED_NS: u64 = 900_000;
/// Ticks between two readings of the affinity mask.
const MASK_TICKS: u32 = 256;

/// Where the monitor sleeps, and how it is called.
pub(crate) struct Monitor {
    /// 1 while it ticks, or was called.
    awake: CachePadded<AtomicU32>,
    /// 1 when spare threads may be missing.
    spawner: AtomicU32,
    cpus: usize,
}

impl Monitor {
    pub(super) fn new(cpus: usize) -> Self {
        Self {
            awake: CachePadded::new(AtomicU32::new(1)),
            spawner: AtomicU32::new(0),
            cpus,
        }
    }

    /// Makes it tick; for a worker that has left its bed when no other one sleeps.
    #[inline]
    pub(super) fn post(&self) {
        if self.awake.load(Ordering::SeqCst) == 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if self.awake.swap(1, Ordering::SeqCst) == 0 {
            sys::futex_wake(&self.awake);
        }
    }

    /// Makes it tick, and look whether spare threads are missing.
    pub(super) fn call(&self) {
        if self.spawner.swap(1, Ordering::AcqRel) == 0 {
            sys::futex_wake(&self.spawner);
        }
        self.wake();
    }

    /// Sleeps until called, unless `is_needed` after that was announced.
    fn sleep(&self, is_needed: impl Fn() -> bool) {
        self.awake.store(0, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if is_needed() {
            self.awake.store(1, Ordering::SeqCst);
            return;
        }
        while self.awake.load(Ordering::Acquire) == 0 {
            sys::futex_wait(&self.awake, 0);
        }
    }
}

/// The body of the thread that starts spare threads, where the monitor may not.
pub(super) fn spawn_on_call(roster: &Arc<Roster>) {
    let shared = &roster[0].shared;
    let bed = &shared.preempt.monitor.spawner;
    while !shared.life.is_abandoned.load(Ordering::Acquire) {
        if bed.swap(0, Ordering::AcqRel) == 1 {
            super::top_up(roster);
        } else {
            sys::futex_wait(bed, 0);
        }
    }
}

/// What the monitor saw of a CPU at its last tick.
#[derive(Clone, Copy)]
struct Seen {
    polls: u32,
    term: Option<Term>,
    cpu_time_ns: u64,
    /// Ticks for which its thread stood still in the same poll.
    blocked_ticks: u32,
}

/// The body of the monitor's thread.
pub(super) fn watch(roster: &Arc<Roster>) {
    let shared = &roster[0].shared;
    let monitor = &shared.preempt.monitor;
    sys::become_punctual();
    let unseen = Seen {
        polls: 0,
        term: None,
        cpu_time_ns: 0,
        blocked_ticks: 0,
    };
    let mut seen = vec![unseen; monitor.cpus];
    let is_over = || shared.life.is_abandoned.load(Ordering::Acquire);
    let never = AtomicU32::new(0);
    let (mut quiet, mut ticks) = (0, 0u32);
    let mut due_ns = clock::now_ns() + TICK_NS;
    while !is_over() {
        let now_ns = clock::now_ns();
        if now_ns < due_ns {
            let until_ns = due_ns.min(force_due_sections(shared, now_ns));
            let wait = Duration::from_nanos(until_ns.saturating_sub(now_ns));
            sys::futex_wait_for(&never, 0, Some(wait));
            continue;
        }
        due_ns = now_ns + TICK_NS;
        ticks = ticks.wrapping_add(1);
        if ticks.is_multiple_of(MASK_TICKS) {
            shared.preempt.placement.read_mask();
            if !shared.preempt.is_parking() {
                // It takes a lock that a task may hold while it flips a key of its own.
                keys::run_deferred();
            }
        }
        if !shared.wants_ticks() {
            quiet += 1;
            if quiet >= QUIET_TICKS {
                monitor.sleep(|| shared.wants_ticks() || is_over());
                quiet = 0;
            }
            continue;
        }
        quiet = 0;
        if shared.preempt.level() == Level::Handoff && monitor.spawner.load(Ordering::Relaxed) == 1
        {
            monitor.spawner.store(0, Ordering::Relaxed);
            super::top_up(roster);
        }
        tick(shared, &mut seen);
        free::look_after(shared, ticks);
        shared.wake_overlooked();
    }
    free::release_returned(shared);
}

/// Asks again for CPUs whose carriers were asked in critical sections and have been there for too
/// long; returns when the next one will have, in ns.
fn force_due_sections(shared: &Shared, now_ns: u64) -> u64 {
    let preempt = &shared.preempt;
    let mut next_ns = u64::MAX;
    for cpu in 0..shared.remotes.len() {
        let carrier = preempt
            .crew
            .carrier(preempt.crew.lease(cpu).load().carrier());
        let due = carrier.map(|carrier| &carrier.section_due_ns);
        let Some(due) = due else { continue };
        match due.load(Ordering::Relaxed) {
            0 => {}
            // The handler decides, and sets a new time where it finds that it is too early.
            past if past <= now_ns => {
                due.store(0, Ordering::Relaxed);
                preempt.remind(cpu);
            }
            future => next_ns = next_ns.min(future),
        }
    }
    next_ns
}

fn tick(shared: &Shared, seen: &mut [Seen]) {
    let now_ns = clock::now_ns();
    let mut is_stuck = false;
    let mut has_long_poll = true;
    for (cpu, seen) in seen.iter_mut().enumerate() {
        if shared.preempt.is_parking() {
            remind(shared, cpu);
        }
        let is_long = is_same_poll(shared, cpu, seen) && !shared.remotes[cpu].is_asleep();
        has_long_poll &= is_long;
        if is_long {
            look_at(shared, cpu, seen, now_ns);
            is_stuck |= seen.blocked_ticks >= RESCUE_TICKS;
        }
    }
    if is_stuck && shared.preempt.counters.parked.load(Ordering::Relaxed) > 0 {
        rescue(shared);
    }
    if has_long_poll
        && shared.driver.is_seat_free()
        && now_ns.saturating_sub(shared.driver.last_turn_ns()) >= UNATTENDED_NS
    {
        shared.preempt.attendant.call();
    }
}

/// Returns whether a CPU is in the same poll, on the same thread, as at the last tick.
fn is_same_poll(shared: &Shared, cpu: usize, seen: &mut Seen) -> bool {
    let polls = shared.remotes[cpu].polls.load(Ordering::Relaxed);
    let term = Some(shared.preempt.crew.lease(cpu).load());
    let is_same = seen.polls == polls && seen.term == term;
    if !is_same {
        *seen = Seen {
            polls,
            term,
            cpu_time_ns: 0,
            blocked_ticks: 0,
        };
    }
    is_same
}

/// Tells a carrier again that its CPU was asked for: it may have left a section in the moment in
/// which it was told.
fn remind(shared: &Shared, cpu: usize) {
    let preempt = &shared.preempt;
    let is_wanted = preempt.crew.request(cpu).wanted().is_some();
    if is_wanted && shared.remotes[cpu].level() >= Some(Level::Handoff) {
        preempt.remind(cpu);
    }
}

/// Decides about a poll that has gone on for a tick at least.
fn look_at(shared: &Shared, cpu: usize, seen: &mut Seen, now_ns: u64) {
    let turn = shared.preempt.crew.request(cpu).turn();
    let verdict = shared.tick_cpu(cpu, now_ns);
    if verdict == Verdict::GoOn || !shared.preempt.is_ready(|| shared.look_around()) {
        return;
    }
    // A poll that began before preemption went on has no level.
    let level = shared.remotes[cpu].level().unwrap_or(Level::Off);
    if level == Level::Off {
        return;
    }
    shared.remotes[cpu].set_need_resched();
    let preempt = &shared.preempt;
    let Some(carrier) = seen
        .term
        .and_then(|term| preempt.crew.carrier(term.carrier()))
    else {
        return;
    };
    let is_blocked = carrier.tid().is_some_and(|tid| stands_still(tid, seen));
    if carrier.gate.is_inside() {
        seen.blocked_ticks = if is_blocked {
            seen.blocked_ticks + 1
        } else {
            0
        };
    }
    match level {
        Level::Off | Level::Lazy => {}
        Level::Handoff => take_from(shared, cpu, seen),
        Level::Park if is_blocked => take_from(shared, cpu, seen),
        Level::Park => preempt.ask_for_turn(cpu, turn),
    }
}

/// Returns whether a thread waits in the kernel and has done next to nothing since the last tick.
fn stands_still(tid: i32, seen: &mut Seen) -> bool {
    let Some(now_ns) = sys::cpu_time_ns(tid) else {
        return false;
    };
    let used_ns = now_ns.saturating_sub(seen.cpu_time_ns);
    seen.cpu_time_ns = now_ns;
    used_ns < STANDSTILL_NS && sys::is_blocked(tid) == Some(true)
}

/// Takes a CPU from a poll, which goes on without it.
fn take_from(shared: &Shared, cpu: usize, seen: &Seen) {
    let preempt = &shared.preempt;
    let Some(term) = seen.term else { return };
    let Some(carrier) = preempt.crew.carrier(term.carrier()) else {
        return;
    };
    let Some(next) = preempt.crew.take_spare() else {
        preempt.counters.refused.fetch_add(1, Ordering::Relaxed);
        return preempt.monitor.call();
    };
    let lease = preempt.crew.lease(cpu);
    let cpu_time_ns = carrier.tid().and_then(sys::cpu_time_ns);
    let on_taken = || {
        let group = shared.remotes[cpu].count_event(Event::Preempted);
        if let (Some(group), Some(cpu_time_ns)) = (group, cpu_time_ns) {
            carrier.loss.set_cpu(cpu);
            free::begin(shared, carrier, group, cpu_time_ns);
        }
    };
    if take(
        lease,
        term,
        &carrier.gate,
        next.id,
        sys::barrier_everywhere,
        on_taken,
    ) {
        preempt.counters.preempted.fetch_add(1, Ordering::Relaxed);
        if let Some(tid) = carrier.tid() {
            sys::set_kernel_slice(tid, KernelSlice::Usual);
        }
        let before = Before::Free(carrier.id);
        let cpu = cpu as u16;
        next.mailbox.command(Order::Carry { cpu, before });
    } else {
        preempt.crew.put_spare(next);
    }
}

/// Lets every parked poll go on without a CPU: one of them may hold the lock for which a CPU
/// waits inside the runtime.
#[cold]
fn rescue(shared: &Shared) {
    shared
        .preempt
        .counters
        .rescues
        .fetch_add(1, Ordering::Relaxed);
    shared.take_parked_out(|meta| switch::release(shared, meta));
}
