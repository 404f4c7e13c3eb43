//! A program whose allocator is `SliceAlloc` around one that looks whether it is in a section.
//!
//! Unsafe is allowed in this file: it has an allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use evenkeel_slice::runtime::Kind;
use evenkeel_slice::{SliceAlloc, enter, runtime};

static INSIDE: AtomicUsize = AtomicUsize::new(0);
static OUTSIDE: AtomicUsize = AtomicUsize::new(0);

struct Looks;

fn look() {
    let inside = runtime::kind() == Some(Kind::Lock);
    let counter = if inside { &INSIDE } else { &OUTSIDE };
    counter.fetch_add(1, Ordering::Relaxed);
}

// SAFETY: the system's allocator, called one for one.
unsafe impl GlobalAlloc for Looks {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        look();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        look();
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) };
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        look();
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        look();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: SliceAlloc<Looks> = SliceAlloc::new(Looks);

#[test]
fn every_call_of_the_allocator_is_a_section() {
    let work = || {
        let mut list = vec![0_u8; 100];
        for number in 0..10_000_u32 {
            list.push(number as u8);
        }
        assert_eq!(list.len(), 10_100);
        // The section of a call ends within that call.
        assert!(!runtime::is_in_section());
        let section = enter();
        drop(vec![1, 2, 3]);
        assert_eq!(runtime::kind(), Some(Kind::Slice));
        assert!(runtime::request());
        let counts = runtime::counts();
        drop(Box::new(7));
        assert_eq!(runtime::counts(), counts, "a nested end does not serve");
        drop(section);
        assert_eq!(runtime::counts().extended, counts.extended + 1);
    };
    let threads: Vec<_> = (0..4).map(|_| thread::spawn(work)).collect();
    for thread in threads {
        thread.join().expect("no assertion fails");
    }
    assert_eq!(OUTSIDE.load(Ordering::Relaxed), 0);
    assert!(INSIDE.load(Ordering::Relaxed) > 100);
}
