//! Shows that `evenkeel-core` needs no standard library.
//!
//! This library defines its own panic handler and allocator. If `evenkeel-core`, or anything it
//! depends on, linked `std`, the panic handler would be defined twice and rustc would refuse.
#![no_std]

extern crate evenkeel_core as _;

use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;

struct NoMemory;

// SAFETY: every allocation fails, which the trait allows at any time.
unsafe impl GlobalAlloc for NoMemory {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ALLOCATOR: NoMemory = NoMemory;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
