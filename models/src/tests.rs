//! The models.

use std::ptr::NonNull;

use loom::sync::Arc;
use loom::sync::Notify;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::bell::{Bell, Wake};
use crate::idle::{Idle, Woken};
use crate::slot::{Item, LifoSlot};

/// A runtime reduced to its sleepers: a count of queued tasks, and a bed for each worker.
struct Model {
    idle: Idle,
    queued: AtomicUsize,
    beds: Vec<Bed>,
}

struct Bed {
    bell: Bell,
    parker: Notify,
    driver: Notify,
}

impl Model {
    fn new(workers: usize) -> Arc<Self> {
        let bed = || Bed {
            bell: Bell::new(),
            parker: Notify::new(),
            driver: Notify::new(),
        };
        Arc::new(Self {
            idle: Idle::new(workers),
            queued: AtomicUsize::new(0),
            beds: (0..workers).map(|_| bed()).collect(),
        })
    }

    /// Queues a task as the runtime does: push, then look for a sleeper.
    fn push(&self) {
        self.queued.fetch_add(1, Ordering::Release);
        self.notify_one();
    }

    fn notify_one(&self) {
        if let Some(worker) = self.idle.worker_to_notify() {
            let bed = &self.beds[worker];
            match bed.bell.ring() {
                Wake::Driver => bed.driver.notify(),
                Wake::Parker => bed.parker.notify(),
            }
        }
    }

    fn pop(&self) -> bool {
        let taken = self
            .queued
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1));
        taken.is_ok()
    }

    /// Takes one task, sleeping as the runtime's workers do until there is one.
    fn take_one(&self, worker: usize, in_driver: bool) {
        let bed = &self.beds[worker];
        let mut is_searching = false;
        loop {
            if self.pop() {
                if is_searching && self.idle.end_search() && self.queued.load(Ordering::Acquire) > 0
                {
                    self.notify_one();
                }
                return;
            }
            self.idle.park(worker, std::mem::take(&mut is_searching));
            if self.queued.load(Ordering::Acquire) == 0 {
                self.sleep(bed, in_driver);
            }
            is_searching = self.idle.unpark(worker) == Woken::Notified;
            bed.bell.answer();
        }
    }

    fn sleep(&self, bed: &Bed, in_driver: bool) {
        if !in_driver {
            bed.parker.wait();
            return;
        }
        bed.bell.set_in_driver(true);
        if !bed.bell.is_ringing() {
            bed.driver.wait();
        }
        bed.bell.set_in_driver(false);
    }
}

/// Bounds the number of preemptions, so that a model with three threads ends in seconds;
/// `LOOM_MAX_PREEMPTIONS` sets another bound (3 takes two minutes).
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.check(model);
}

/// A lost wake-up shows as a deadlock, which loom reports.
#[test]
fn a_task_pushed_while_a_worker_falls_asleep_is_taken() {
    for in_driver in [false, true] {
        check(move || {
            let model = Model::new(1);
            let producer = model.clone();
            let pushing = thread::spawn(move || producer.push());
            model.take_one(0, in_driver);
            pushing.join().unwrap();
        });
    }
}

#[test]
fn two_tasks_from_one_producer_reach_two_sleepers() {
    check(|| {
        let model = Model::new(2);
        let other = model.clone();
        let worker = thread::spawn(move || other.take_one(1, false));
        let producer = model.clone();
        let pushing = thread::spawn(move || {
            producer.push();
            producer.push();
        });
        model.take_one(0, true);
        worker.join().unwrap();
        pushing.join().unwrap();
    });
}

#[test]
fn two_producers_wake_one_sleeper_for_both_tasks() {
    check(|| {
        let model = Model::new(1);
        let pushing: Vec<_> = (0..2)
            .map(|_| {
                let producer = model.clone();
                thread::spawn(move || producer.push())
            })
            .collect();
        model.take_one(0, true);
        model.take_one(0, true);
        for thread in pushing {
            thread.join().unwrap();
        }
    });
}

/// A producer and a sleeper that does not really sleep; afterwards a sleeper that would be asleep
/// must have been called.
fn check_order(notifies_first: bool) {
    check(move || {
        let model = Model::new(1);
        let producer = model.clone();
        let pushing = thread::spawn(move || {
            if notifies_first {
                producer.notify_one();
                producer.queued.fetch_add(1, Ordering::Release);
            } else {
                producer.push();
            }
        });
        model.idle.park(0, false);
        let is_asleep = model.queued.load(Ordering::Acquire) == 0;
        pushing.join().unwrap();
        let is_called = model.beds[0].bell.is_ringing();
        assert!(!is_asleep || is_called, "slept on with a task queued");
    });
}

#[test]
fn the_right_order_calls_the_sleeper() {
    check_order(false);
}

/// The control: a producer that looks for sleepers before it pushes loses a wake-up, and the model
/// finds it.
#[test]
#[should_panic(expected = "slept on with a task queued")]
fn the_wrong_order_is_found() {
    check_order(true);
}

/// An item for the slot: a number disguised as a pointer.
#[derive(Debug, PartialEq)]
struct Number(usize);

impl Item for Number {
    fn into_raw(self) -> NonNull<()> {
        NonNull::new(std::ptr::without_provenance_mut(self.0)).unwrap()
    }

    fn from_raw(raw: NonNull<()>) -> Self {
        Self(raw.addr().get())
    }
}

#[test]
fn every_task_leaves_the_slot_once() {
    check(|| {
        let slot = Arc::new(LifoSlot::new());
        let theirs = slot.clone();
        let thief = thread::spawn(move || theirs.take());
        let mut taken: Vec<Number> = Vec::new();
        for n in [8, 16] {
            taken.extend(slot.put(Number(n)));
        }
        taken.extend(slot.take());
        taken.extend(thief.join().unwrap());
        let mut numbers: Vec<usize> = taken.into_iter().map(|n| n.0).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [8, 16]);
    });
}
