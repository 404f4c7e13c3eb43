//! Enqueue, dequeue, pick, put, tick, pull and the coordinator's tick do not allocate.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::{Behaviour, MS, Machine, US};
use evenkeel_core::{GroupId, Order};

/// The system allocator, counting this thread's allocations while told to.
struct Counting;

thread_local! {
    static COUNT: Cell<Option<u64>> = const { Cell::new(None) };
}

// SAFETY: every request is passed on unchanged to the system allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get().map(|n| n + 1)));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: `ptr` came from `System.alloc` with this layout.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(run: impl FnOnce()) -> u64 {
    COUNT.set(Some(0));
    run();
    COUNT.take().unwrap()
}

#[test]
fn the_counter_counts() {
    assert!(count(|| drop(std::hint::black_box(vec![1]))) > 0);
}

#[test]
fn hot_paths_do_not_allocate() {
    let mut machine = Machine::new(3, 11);
    let mut groups = vec![GroupId::ROOT];
    for i in 0..12 {
        let parent = groups[i / 3];
        let order = if i % 2 == 0 { Order::Fifo } else { Order::Fair };
        groups.push(machine.group(parent, 1 + 37 * i as u32, order));
    }
    for &group in &groups {
        machine.spawn_many(3, group, Behaviour::Hog);
        machine.spawn_many(2, group, Behaviour::Polls(20 * US, 900 * US));
        machine.spawn_many(3, group, Behaviour::Sleeper((US, 200 * US), (US, 900 * US)));
    }
    machine.run_until(100 * MS);
    let (switches, migrations) = (machine.switches, machine.migrations);
    let allocations = count(|| machine.run_until(300 * MS));
    assert!(machine.switches > switches + 1000 && machine.migrations > migrations + 10);
    assert_eq!(
        allocations, 0,
        "the machine itself has room for 1024 wake-ups"
    );
}
