//! The primitives of the lock-free protocols. The package `evenkeel-models` compiles those modules
//! against loom's instead.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence};

pub(crate) use parking_lot::Mutex;
