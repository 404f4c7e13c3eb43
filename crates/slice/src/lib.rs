#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod alloc;
mod deadline;
mod error;
pub mod kernel;
pub mod locks;
pub mod runtime;
mod section;
mod state;
mod sync;

pub use alloc::SliceAlloc;
pub use deadline::{DEADLINE_MAX, DEADLINE_MIN, Deadlines, deadlines, set_deadlines};
pub use error::Error;
pub use locks::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, Sectioned, SpinLock,
    SpinLockGuard,
};
pub use section::{Kind, Section, enter, enter_lock};
