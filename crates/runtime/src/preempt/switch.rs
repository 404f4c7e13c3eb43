//! How a CPU changes hands: from a poll to a spare thread, and back to a parked poll.
//!
//! [`on_signal`] and what it calls run in a signal handler, in the middle of code of a task. They
//! use atomic words, thread-locals without destructors, and system calls; they never allocate,
//! print, or take a lock.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use libc::c_int;

use super::carrier::Carrier;
use super::crew::{Crew, Roster};
use super::gate::Entry;
use super::order::{Before, Order};
use super::sys::KernelSlice;
use super::{Level, free, report, section, sys};
use crate::context;
use crate::group::Event;
use crate::shared::Shared;
use crate::task::Meta;
use crate::worker::Worker;

/// What becomes of the poll that runs on a CPU which its carrier gives up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manner {
    /// It waits until the scheduler picks its task again.
    Park,
    /// It goes on without the CPU.
    Free,
}

/// The handler: gives this thread's CPU up if that was asked for.
pub(super) extern "C" fn on_signal(_signal: c_int) {
    let _errno = sys::KeepErrno::new();
    let Some(me) = context::carrier() else { return };
    if report::write_note(&me.note) {
        return;
    }
    if me.gate.is_inside() {
        me.gate.ask();
        return;
    }
    if !section::holds_off(me) {
        give_up(me);
    }
}

/// Gives this thread's CPU up, at the end of a section in which it was asked for.
#[cold]
pub(crate) fn at_section_end(me: &Carrier) {
    me.gate.answer();
    if !section::holds_off(me) {
        give_up(me);
    }
}

/// Gives this thread's CPU up, at the end of a critical section of the task's in which it was asked
/// for.
#[cold]
pub(super) fn at_slice_end(me: &Carrier) {
    give_up(me);
}

/// Gives the CPU up, if somebody wants it, in the manner that the task's group allows. Outside of
/// sections.
fn give_up(me: &Carrier) {
    if me.gate.enter() == Entry::Lost {
        context::set_worker(ptr::null());
    }
    context::with_raw_worker(|worker| {
        let Some(worker) = worker else {
            return context::with_raw_task(|meta| {
                let shared = meta.shared_ref();
                free::come_back(me, shared, || stay_parked(me, shared));
            });
        };
        let request = worker.shared.preempt.crew.request(worker.index);
        if request.wanted().is_none() {
            return;
        }
        match context::current_level() {
            Some(Level::Park) => pass_on(me, worker, Manner::Park),
            Some(Level::Handoff) => pass_on(me, worker, Manner::Free),
            _ => {}
        }
    });
    // Who asked meanwhile is served now, or by the monitor at its next tick.
    let _ = me.gate.leave();
}

/// Passes the CPU to a spare thread, and waits to get one back if the poll is to be parked. Inside
/// a section.
fn pass_on(me: &Carrier, worker: &Worker, manner: Manner) {
    let preempt = &worker.shared.preempt;
    let lease = preempt.crew.lease(worker.index);
    let term = lease.load();
    let task = context::task();
    if term.carrier() != me.id || task.is_null() {
        return;
    }
    let Some(next) = preempt.crew.take_spare() else {
        preempt.counters.refused.fetch_add(1, Ordering::Relaxed);
        return preempt.monitor.call();
    };
    me.interrupted.store(task.cast_mut(), Ordering::Relaxed);
    me.loss.set_cpu(worker.index);
    if manner == Manner::Park {
        context::with_raw_task(|meta| meta.set_parked(Some(me.id)));
    }
    context::set_worker(ptr::null());
    if !lease.pass(term, next.id) {
        context::with_raw_task(|meta| meta.set_parked(None));
        context::set_worker(worker);
        return preempt.crew.put_spare(next);
    }
    let before = match manner {
        Manner::Park => Before::Parked(me.id),
        Manner::Free => Before::Free(me.id),
    };
    let cpu = worker.index as u16;
    preempt.placement.bring_here(next);
    if manner == Manner::Free {
        free::begin_here(&worker.shared, me);
    }
    preempt.counters.preempted.fetch_add(1, Ordering::Relaxed);
    context::with_raw_task(|meta| meta.group_ref().count_event(Event::Preempted));
    if manner == Manner::Park {
        preempt.counters.parked.fetch_add(1, Ordering::Relaxed);
    }
    next.mailbox.command(Order::Carry { cpu, before });
    if manner == Manner::Park {
        stay_parked(me, &worker.shared);
    }
}

/// Waits until the scheduler has picked this thread's task again, or lets it go on without a CPU.
///
/// `shared` stays alive: this thread holds the roster of its workers.
fn stay_parked(me: &Carrier, shared: &Shared) {
    me.note.set_parked(true);
    let order = me.mailbox.wait();
    me.gate.start_anew();
    me.note.set_parked(false);
    let preempt = &shared.preempt;
    preempt.counters.parked.fetch_sub(1, Ordering::Relaxed);
    match order {
        Order::Resume { cpu } => {
            preempt.placement.settle(usize::from(cpu));
            context::set_worker(preempt.crew.worker(usize::from(cpu)));
        }
        _ => {
            preempt.placement.roam();
            free::begin_here(shared, me);
        }
    }
}

impl Worker {
    /// Passes this worker to the thread on which `meta`'s poll is parked. Inside a section; the
    /// worker is gone from this thread afterwards.
    #[cold]
    pub(crate) fn resume(&self, meta: &Meta) {
        let crew = &self.shared.preempt.crew;
        let Some(parked) = meta.take_parked().and_then(|id| crew.carrier(id)) else {
            return;
        };
        let lease = crew.lease(self.index);
        context::set_worker(ptr::null());
        let is_passed = lease.pass(lease.load(), parked.id);
        debug_assert!(
            is_passed,
            "nobody takes a CPU whose carrier is in a section"
        );
        let preempt = &self.shared.preempt;
        preempt.placement.bring_here(parked);
        parked.mailbox.command(Order::Resume {
            cpu: self.index as u16,
        });
        // Who asked before the CPU was passed on may have told this thread.
        if crew.request(self.index).wanted().is_some() {
            preempt.remind(self.index);
        }
    }
}

/// Lets a parked poll go on without a CPU; its task is in no queue any more.
#[cold]
pub(crate) fn release(shared: &Shared, meta: &Meta) {
    let parked = meta.take_parked();
    if let Some(parked) = parked.and_then(|id| shared.preempt.crew.carrier(id)) {
        parked.mailbox.command(Order::Release);
    }
}

/// Puts this thread among the spare ones and waits for an order.
fn wait_as_spare(crew: &Crew, me: &Carrier) -> Order {
    crew.put_spare(me);
    me.mailbox.wait()
}

/// Carries CPUs on this thread until the runtime ends.
pub(super) fn carry(me: &Carrier, roster: &Arc<Roster>, first: Option<Order>) {
    let shared = &roster[0].shared;
    let crew = &shared.preempt.crew;
    me.started();
    context::set_carrier(me);
    if shared.preempt.level() == Level::Handoff {
        // It is woken to carry on where polls without a CPU compete with it.
        sys::set_kernel_slice(0, KernelSlice::Short);
    }
    let mut order = first.unwrap_or_else(|| wait_as_spare(crew, me));
    while let Order::Carry { cpu, before } = order {
        me.gate.start_anew();
        shared.preempt.placement.settle(usize::from(cpu));
        let mut worker = &roster[usize::from(cpu)];
        context::set_worker(Arc::as_ptr(worker));
        worker.take_over(before);
        loop {
            worker.carry();
            match context::with_raw_worker(|now| now.map(|now| now.index)) {
                Some(index) => worker = &roster[index],
                None => break,
            }
        }
        free::settle(shared, me);
        if shared.preempt.level() == Level::Handoff {
            sys::set_kernel_slice(0, KernelSlice::Short);
        }
        order = wait_as_spare(crew, me);
    }
    context::set_carrier(ptr::null());
    me.ended();
}
