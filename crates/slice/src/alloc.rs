//! An allocator whose calls are sections.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};

use crate::section::enter_lock;

/// An allocator that calls `A` inside a [lock section](crate::enter_lock): a thread is not taken
/// off its CPU while it holds the allocator's locks, but for the deadline.
///
/// Covers what Rust code allocates. C code that calls `malloc` is not covered.
///
/// # Examples
///
/// ```
/// use evenkeel_slice::SliceAlloc;
///
/// #[global_allocator]
/// static ALLOCATOR: SliceAlloc = SliceAlloc::system();
///
/// assert_eq!(vec![1, 2, 3].len(), 3);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct SliceAlloc<A = System>(A);

impl SliceAlloc {
    /// Returns the system's allocator, with sections.
    pub const fn system() -> Self {
        Self(System)
    }
}

impl<A> SliceAlloc<A> {
    /// Returns `allocator`, with sections.
    pub const fn new(allocator: A) -> Self {
        Self(allocator)
    }
}

// SAFETY: what is returned and taken is `A`'s, called one for one. A section neither allocates nor
// unwinds, and a hook, which may run at its end, cannot unwind out of it.
unsafe impl<A: GlobalAlloc> GlobalAlloc for SliceAlloc<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _section = enter_lock();
        // SAFETY: the caller's promise is `A`'s condition.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        let _section = enter_lock();
        // SAFETY: the caller's promise is `A`'s condition.
        unsafe { self.0.dealloc(ptr, layout) };
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let _section = enter_lock();
        // SAFETY: the caller's promise is `A`'s condition.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let _section = enter_lock();
        // SAFETY: the caller's promise is `A`'s condition.
        unsafe { self.0.realloc(ptr, layout, new_size) }
    }
}
