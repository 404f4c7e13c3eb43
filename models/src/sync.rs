//! Loom's primitives under the names that the runtime uses.

pub(crate) use loom::hint::spin_loop;
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

/// A lock without poisoning, as `parking_lot`'s.
#[derive(Debug)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        match self.0.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }
}

/// Together with a heavy barrier this acts as a full one, so it is modelled as such.
pub(crate) fn light_barrier() {
    fence(Ordering::SeqCst);
}

/// Where one thread sleeps; a wake-up is remembered.
pub(crate) struct Bed(loom::sync::Notify);

impl Bed {
    pub(crate) fn new() -> Self {
        Self(loom::sync::Notify::new())
    }

    pub(crate) fn sleep(&self) {
        self.0.wait();
    }

    pub(crate) fn wake(&self) {
        self.0.notify();
    }
}
