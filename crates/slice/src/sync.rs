//! What the word of the spin lock uses. The loom model, `tests/loom.rs`, compiles the word a second
//! time with loom's types under the same names.

pub(crate) use std::sync::atomic::{AtomicBool, Ordering};
pub(crate) use std::thread::yield_now;

/// Does nothing for a short time.
#[inline]
pub(crate) fn spin(hints: u32) {
    for _ in 0..hints {
        std::hint::spin_loop();
    }
}
