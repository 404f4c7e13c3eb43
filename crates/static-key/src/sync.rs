//! The atomics that the flip protocol uses. The loom model, `tests/loom.rs`, compiles
//! the protocol a second time with loom's types under the same names.

pub(crate) use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
