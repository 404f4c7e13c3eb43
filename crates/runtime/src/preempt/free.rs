//! Polls that go on without a CPU: what they use is charged to their group, and at
//! [`Level::Park`] they are called back after a slice.
//!
//! At [`Level::Handoff`] every poll that loses its CPU goes on. At `Park` it is the one that was
//! blocked in the kernel when its CPU was taken, and runs again. The monitor looks at the CPU
//! clocks of their threads every few ticks; the rest is charged when the poll ends.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use evenkeel_core::GroupId;

use super::carrier::Carrier;
use super::{Level, sys};
use crate::clock;
use crate::context;
use crate::group::Event;
use crate::shared::Shared;

/// CPU time that a poll called back at [`Level::Park`] may use without a CPU, in ns: a slice.
const ALLOWANCE_NS: u64 = 3_000_000;
/// Ticks between two looks at their clocks.
const CHARGE_TICKS: u32 = 2;
/// What is charged at once at least, in ns.
const MIN_CHARGE_NS: u64 = 500_000;

/// What is known of the poll that goes on on a thread without a CPU.
pub(crate) struct Loss {
    /// CPU time of the thread up to which its group was charged, in ns; 0 while no poll goes on
    /// without a CPU.
    charged_until_ns: AtomicU64,
    /// CPU time of the thread when the poll lost its CPU, in ns.
    lost_at_ns: AtomicU64,
    /// The poll's group, as bits.
    group: AtomicU32,
    /// The CPU that it had.
    cpu: AtomicU32,
    /// It has used what it may, and is to wait for its turn.
    is_called_back: AtomicBool,
}

impl Loss {
    pub(super) fn new() -> Self {
        Self {
            charged_until_ns: AtomicU64::new(0),
            lost_at_ns: AtomicU64::new(0),
            group: AtomicU32::new(0),
            cpu: AtomicU32::new(0),
            is_called_back: AtomicBool::new(false),
        }
    }

    /// Takes note that a poll of `group` goes on without `cpu`. While that poll can neither end nor
    /// be here twice: on its thread, or while that is held up.
    ///
    /// `cpu_time_ns`: of the thread, now.
    fn begin(&self, group: GroupId, cpu_time_ns: u64) {
        self.group.store(group.to_bits(), Ordering::Relaxed);
        self.lost_at_ns.store(cpu_time_ns, Ordering::Relaxed);
        self.is_called_back.store(false, Ordering::Relaxed);
        let since = cpu_time_ns.max(1);
        self.charged_until_ns.store(since, Ordering::Release);
    }

    /// Says on which CPU the next loss is charged.
    pub(super) fn set_cpu(&self, cpu: usize) {
        self.cpu.store(cpu as u32, Ordering::Relaxed);
    }

    /// Returns whether a poll goes on without a CPU.
    pub(super) fn is_there(&self) -> bool {
        self.charged_until_ns.load(Ordering::Relaxed) != 0
    }

    /// Ends what [`Loss::begin`] began; returns what is still to be charged, to which group and on
    /// which CPU. For the thread itself.
    fn end(&self, cpu_time_ns: u64) -> Option<(GroupId, usize, u64)> {
        let until_ns = self.charged_until_ns.swap(0, Ordering::AcqRel);
        let used_ns = cpu_time_ns.saturating_sub(until_ns);
        (until_ns != 0).then(|| self.charge(used_ns))
    }

    /// Returns what is to be charged before the end, if that is worth it. For the monitor.
    fn part(&self, cpu_time_ns: u64) -> Option<(GroupId, usize, u64)> {
        let until_ns = self.charged_until_ns.load(Ordering::Acquire);
        let used_ns = cpu_time_ns.saturating_sub(until_ns);
        if until_ns == 0 || used_ns < MIN_CHARGE_NS {
            return None;
        }
        let charge = self.charge(used_ns);
        let (set, get) = (Ordering::AcqRel, Ordering::Relaxed);
        // If it fails, the thread has come to the end of its poll, and charges that itself.
        self.charged_until_ns
            .compare_exchange(until_ns, cpu_time_ns, set, get)
            .is_ok()
            .then_some(charge)
    }

    fn charge(&self, used_ns: u64) -> (GroupId, usize, u64) {
        let group = GroupId::from_bits(self.group.load(Ordering::Relaxed));
        (group, self.cpu.load(Ordering::Relaxed) as usize, used_ns)
    }

    /// Returns whether the poll has used what it may. For the monitor.
    fn is_over(&self, cpu_time_ns: u64) -> bool {
        let since_ns = self.lost_at_ns.load(Ordering::Relaxed);
        self.is_there() && cpu_time_ns.saturating_sub(since_ns) >= ALLOWANCE_NS
    }

    /// Returns whether the poll is to wait for its turn.
    fn is_called_back(&self) -> bool {
        self.is_called_back.load(Ordering::Relaxed)
    }
}

/// Takes note that the poll on a thread goes on without a CPU; see [`Loss::begin`].
pub(super) fn begin(shared: &Shared, carrier: &Carrier, group: GroupId, cpu_time_ns: u64) {
    let preempt = &shared.preempt;
    if !carrier.loss.is_there() {
        preempt.counters.free.fetch_add(1, Ordering::SeqCst);
    }
    carrier.loss.begin(group, cpu_time_ns);
    preempt.monitor.post();
}

/// The same for the calling thread's own poll.
pub(super) fn begin_here(shared: &Shared, me: &Carrier) {
    let cpu_time_ns = sys::own_cpu_time_ns();
    context::with_raw_task(|meta| begin(shared, me, meta.group_ref().id, cpu_time_ns));
}

fn charge(shared: &Shared, (group, cpu, ns): (GroupId, usize, u64)) {
    if let Some(queue) = shared.queues.get(cpu) {
        queue.lock().charge_outside(group, ns, clock::now_ns());
    }
}

/// Charges what the poll that ends on this thread, or gets a CPU again, has used without one. For
/// the thread itself, in a section.
pub(super) fn settle(shared: &Shared, me: &Carrier) {
    if me.loss.is_there() {
        end(shared, me, sys::own_cpu_time_ns());
    }
}

/// Charges the rest to a thread that does nothing else meanwhile.
fn end(shared: &Shared, carrier: &Carrier, cpu_time_ns: u64) {
    if let Some(rest) = carrier.loss.end(cpu_time_ns) {
        shared.preempt.counters.free.fetch_sub(1, Ordering::Relaxed);
        charge(shared, rest);
    }
}

/// Charges polls that go on without a CPU, and calls those back that have used what they may; then
/// queues those that have come back. For the monitor, at its ticks.
pub(super) fn look_after(shared: &Shared, tick: u32) {
    let preempt = &shared.preempt;
    if preempt.crew.nr_returning() > 0 {
        queue_returned(shared);
    }
    if preempt.counters.free.load(Ordering::Relaxed) == 0 || !tick.is_multiple_of(CHARGE_TICKS) {
        return;
    }
    for carrier in preempt.crew.carriers().filter(|c| c.loss.is_there()) {
        let Some(tid) = carrier.tid() else { continue };
        let Some(cpu_time_ns) = sys::cpu_time_ns(tid) else {
            continue;
        };
        if let Some(part) = carrier.loss.part(cpu_time_ns) {
            charge(shared, part);
        }
        if preempt.is_parking() && carrier.loss.is_over(cpu_time_ns) && !carrier.gate.is_inside() {
            carrier.loss.is_called_back.store(true, Ordering::Relaxed);
            if sys::is_blocked(tid) == Some(false) {
                sys::send_signal(tid, preempt.config().signal);
            }
        }
    }
}

/// Queues the tasks whose polls have come back, as if they had been woken.
fn queue_returned(shared: &Shared) {
    while let Some(carrier) = shared.preempt.crew.take_returning() {
        if let Some(cpu_time_ns) = carrier.tid().and_then(sys::cpu_time_ns) {
            end(shared, carrier, cpu_time_ns);
        }
        if let Some(task) = carrier.interrupted() {
            let cpu = carrier.loss.cpu.load(Ordering::Relaxed) as usize;
            shared.enqueue_any(task.into_runnable(), cpu, clock::now_ns());
            shared.notify_one();
        }
    }
}

/// Lets the polls that have come back go on without a CPU after all, where nobody queues them any
/// more. Async-signal-safe.
pub(super) fn release_returned(shared: &Shared) {
    while let Some(carrier) = shared.preempt.crew.take_returning() {
        if let Some(task) = carrier.interrupted() {
            super::switch::release(shared, task.meta());
        }
    }
}

/// Makes a poll without a CPU wait for its turn, in its thread's signal handler and in a section.
/// `wait` waits for the order to go on.
pub(super) fn come_back(me: &Carrier, shared: &Shared, wait: impl FnOnce()) {
    if !me.loss.is_called_back() || context::current_level() != Some(Level::Park) {
        return;
    }
    me.loss.is_called_back.store(false, Ordering::Relaxed);
    me.interrupted
        .store(context::task().cast_mut(), Ordering::Relaxed);
    context::with_raw_task(|meta| {
        meta.set_parked(Some(me.id));
        meta.group_ref().count_event(Event::Preempted);
    });
    let preempt = &shared.preempt;
    preempt.counters.preempted.fetch_add(1, Ordering::Relaxed);
    preempt.counters.parked.fetch_add(1, Ordering::Relaxed);
    preempt.crew.put_returning(me);
    // Whoever ends the runtime looks for returned polls after it has said so, or it is seen here.
    if shared.life.is_abandoned.load(Ordering::SeqCst) {
        release_returned(shared);
    }
    wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_was_used_is_charged_once() {
        let loss = Loss::new();
        assert!(!loss.is_there());
        assert_eq!(loss.part(5_000_000), None);
        loss.set_cpu(1);
        loss.begin(GroupId::ROOT, 1_000_000);
        assert_eq!(loss.part(1_000_001), None, "too little");
        assert_eq!(loss.part(3_000_000), Some((GroupId::ROOT, 1, 2_000_000)));
        assert!(!loss.is_over(3_999_999));
        assert!(loss.is_over(4_000_000));
        assert_eq!(loss.end(3_400_000), Some((GroupId::ROOT, 1, 400_000)));
        assert_eq!(loss.end(9_000_000), None);
        assert!(!loss.is_over(9_000_000));
    }
}
