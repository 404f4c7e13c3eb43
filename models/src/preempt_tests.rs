//! Models of preemption: who owns a CPU, orders, spare threads.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering, fence};
use loom::thread;

use crate::gate::{CarrierId, Entry, Gate, Lease, take};
use crate::order::{Before, Mailbox, Order};
use crate::spares::Spares;

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(model);
}

fn heavy_barrier() {
    fence(Ordering::SeqCst);
}

/// A CPU whose cells are a number that only its carrier may touch; loom reports two at once.
struct Cpu {
    lease: Lease,
    cells: UnsafeCell<u32>,
    /// What the polled task keeps alive; the carrier may free it once it is in a section.
    task: UnsafeCell<u32>,
    gate: Gate,
    mailbox: Mailbox,
}

impl Cpu {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            lease: Lease::new(0),
            cells: UnsafeCell::new(0),
            task: UnsafeCell::new(0),
            gate: Gate::new(),
            mailbox: Mailbox::new(),
        })
    }

    /// What a carrier does to its CPU's cells.
    fn touch(&self) {
        self.cells.with_mut(|_| ());
    }

    /// The first carrier: out of the scheduler, a wake-up inside the poll, back into the
    /// scheduler. Returns whether it still has the CPU.
    fn poll(&self) -> bool {
        self.touch();
        let mut has_cpu = true;
        for _ in 0..2 {
            if self.gate.leave() {
                // Somebody asked: it gives the CPU up by itself.
                has_cpu &= !self.give_up(1);
            }
            has_cpu &= self.gate.enter() == Entry::Kept;
            self.task.with_mut(|_| ());
            if has_cpu {
                self.touch();
            }
        }
        has_cpu
    }

    /// The carrier gives the CPU up, as at the end of a section or in a signal handler.
    fn give_up(&self, to: CarrierId) -> bool {
        let is_kept = self.gate.enter() == Entry::Kept;
        let term = self.lease.load();
        let is_given = is_kept && term.carrier() == 0 && self.lease.pass(term, to);
        if is_given {
            self.mailbox.command(Order::Carry {
                cpu: 0,
                before: Before::Free(0),
            });
        }
        self.gate.answer();
        let _ = self.gate.leave();
        is_given || !is_kept
    }
}

#[test]
fn a_cpu_has_one_carrier_while_it_is_taken() {
    check(|| {
        let cpu = Cpu::new();
        let taker = cpu.clone();
        let taking = thread::spawn(move || {
            let term = taker.lease.load();
            let look = || taker.task.with(|_| ());
            let is_taken = take(&taker.lease, term, &taker.gate, 1, heavy_barrier, look);
            if is_taken {
                taker.touch();
            }
            is_taken
        });
        let has_cpu = cpu.poll();
        let is_taken = taking.join().unwrap();
        let carrier = cpu.lease.load().carrier();
        assert_eq!(carrier, u16::from(is_taken || !has_cpu));
    });
}

#[test]
fn a_cpu_has_one_carrier_while_it_is_taken_and_given_up_at_once() {
    check(|| {
        let cpu = Cpu::new();
        let other = cpu.clone();
        // The thread that gets the CPU is the one that takes it, or the one it was given to: both
        // are thread 1 here.
        let taking = thread::spawn(move || {
            let term = other.lease.load();
            if take(&other.lease, term, &other.gate, 1, heavy_barrier, || ()) {
                other.touch();
                return true;
            }
            false
        });
        let _ = cpu.gate.leave();
        let is_given = cpu.give_up(1);
        let has_lost = cpu.gate.enter() == Entry::Lost;
        let is_taken = taking.join().unwrap();
        assert!(is_given || is_taken);
        assert!(!(is_taken && cpu.lease.load().carrier() != 1));
        assert!(is_taken || !has_lost);
    });
}

/// The control: a taker that does not wait for a barrier finds the carrier in the cells.
#[test]
#[should_panic]
fn without_the_heavy_barrier_two_threads_meet() {
    check(|| {
        let cpu = Cpu::new();
        let taker = cpu.clone();
        let taking = thread::spawn(move || {
            let term = taker.lease.load();
            if take(&taker.lease, term, &taker.gate, 1, || (), || ()) {
                taker.touch();
            }
        });
        cpu.poll();
        taking.join().unwrap();
    });
}

#[test]
fn a_parked_thread_gets_its_order_whenever_it_is_given() {
    check(|| {
        let cpu = Cpu::new();
        let other = cpu.clone();
        let scheduler = thread::spawn(move || other.mailbox.command(Order::Resume { cpu: 3 }));
        assert_eq!(cpu.mailbox.wait(), Order::Resume { cpu: 3 });
        scheduler.join().unwrap();
    });
}

#[test]
fn orders_follow_each_other() {
    check(|| {
        let cpu = Cpu::new();
        let answered = Arc::new(AtomicUsize::new(0));
        let (other, seen) = (cpu.clone(), answered.clone());
        let scheduler = thread::spawn(move || {
            other.mailbox.command(Order::Release);
            while seen.load(Ordering::Acquire) == 0 {
                thread::yield_now();
            }
            other.mailbox.command(Order::Exit);
        });
        assert_eq!(cpu.mailbox.wait(), Order::Release);
        answered.store(1, Ordering::Release);
        assert_eq!(cpu.mailbox.wait(), Order::Exit);
        scheduler.join().unwrap();
    });
}

/// A pop that is overtaken by a pop, a pop and a push of the same number must not lose one.
#[test]
fn every_spare_thread_is_handed_out_once() {
    check(|| {
        let spares = Arc::new(Spares::new(2));
        spares.push(0);
        spares.push(1);
        let other = spares.clone();
        let thief = thread::spawn(move || {
            let first = other.pop();
            let second = other.pop();
            if let Some(first) = first {
                other.push(first);
            }
            second
        });
        let mine = spares.pop();
        let theirs = thief.join().unwrap();
        let left: Vec<_> = std::iter::from_fn(|| spares.pop()).collect();
        let mut all: Vec<_> = left.into_iter().chain(mine).chain(theirs).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1]);
    });
}
