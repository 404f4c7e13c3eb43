//! Global allocators: one that counts what is alive, for the `memory` program, and one whose calls
//! can be made critical sections, for the `locks` program.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use evenkeel_slice::SliceAlloc;

static REQUESTED: AtomicI64 = AtomicI64::new(0);
static USABLE: AtomicI64 = AtomicI64::new(0);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// The system allocator with counters. Each program that wants it names it as its
/// `#[global_allocator]`.
pub struct Counting;

/// What the counters say. Read while other threads allocate, the fields need not agree.
#[derive(Clone, Copy, Debug)]
pub struct Heap {
    /// Bytes that are alive, as the program requested them.
    pub requested: i64,
    /// Bytes that are alive, as the allocator rounded them up.
    pub usable: i64,
    /// Allocations made since the program's start; monotonic.
    pub allocation_count: u64,
}

impl Heap {
    /// Reads the counters. They stay at 0 when [`Counting`] is not the global allocator.
    pub fn now() -> Heap {
        Heap {
            requested: REQUESTED.load(Ordering::Relaxed),
            usable: USABLE.load(Ordering::Relaxed),
            allocation_count: ALLOCATIONS.load(Ordering::Relaxed),
        }
    }
}

/// Books one block; `sign` is 1 when it was allocated and -1 before it is freed.
///
/// # Safety
///
/// `block` is null or a live block of the system allocator.
unsafe fn book(block: *mut u8, size: usize, sign: i64) {
    if block.is_null() {
        return;
    }
    // SAFETY: the block is alive and the system allocator's, as the caller promises.
    let usable = unsafe { libc::malloc_usable_size(block.cast()) };
    REQUESTED.fetch_add(sign * size as i64, Ordering::Relaxed);
    USABLE.fetch_add(sign * usable as i64, Ordering::Relaxed);
}

// SAFETY: every call is handed on to the system allocator; the counters do not allocate. `realloc`
// is the provided one, which calls `alloc` and `dealloc`.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the promises of this same function.
        let block = unsafe { System.alloc(layout) };
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: `block` was just returned by the system allocator.
        unsafe { book(block, layout.size(), 1) };
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller passes a live block of `alloc`, so of the system allocator.
        unsafe { book(block, layout.size(), -1) };
        // SAFETY: the caller keeps the promises of this same function.
        unsafe { System.dealloc(block, layout) }
    }
}

static HAS_SECTIONS: AtomicBool = AtomicBool::new(false);

/// The system allocator, whose calls are critical sections ([`SliceAlloc`]) while that is switched
/// on with [`set_sections`]. So one process can compare both; either way a call pays a load and a
/// branch for the choice.
pub struct Switched;

/// Switches whether the calls of [`Switched`] are critical sections. Blocks do not remember how
/// they were allocated, so this may be done at any time; a call that has begun ends as it began.
pub fn set_sections(is_on: bool) {
    HAS_SECTIONS.store(is_on, Ordering::Relaxed);
}

const SECTIONED: SliceAlloc = SliceAlloc::system();

// SAFETY: every call is handed on to the system allocator, by `SliceAlloc` or directly; both are
// that same allocator, so it does not matter which of them a block came from.
unsafe impl GlobalAlloc for Switched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if HAS_SECTIONS.load(Ordering::Relaxed) {
            // SAFETY: the caller keeps the promises of this same function.
            unsafe { SECTIONED.alloc(layout) }
        } else {
            // SAFETY: as above.
            unsafe { System.alloc(layout) }
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if HAS_SECTIONS.load(Ordering::Relaxed) {
            // SAFETY: the caller passes a live block of `alloc`, so of the system allocator.
            unsafe { SECTIONED.dealloc(block, layout) }
        } else {
            // SAFETY: as above.
            unsafe { System.dealloc(block, layout) }
        }
    }
}
