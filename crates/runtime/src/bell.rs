//! How one worker is called out of its sleep.
//!
//! A worker sleeps in one of two places: on its parker, or in the I/O driver, which is woken in
//! another way.
//!
//! # Protocol
//!
//! The caller sets `is_notified`; **fence A**; reads `is_in_driver` and wakes the place it says.
//! The sleeper sets `is_in_driver`; **fence B**; reads `is_notified`, and does not sleep if it is
//! set. The fences are `SeqCst`, so one of the two sees the other. A call to the parker is
//! remembered there, so nothing more is needed for a sleeper that is not in the driver.

use crate::sync::{AtomicBool, Ordering, fence};

/// Where to wake a worker that was called.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wake {
    /// On its parker.
    Parker,
    /// In the I/O driver.
    Driver,
}

/// The flags by which one worker is called.
pub(crate) struct Bell {
    is_notified: AtomicBool,
    is_in_driver: AtomicBool,
}

impl Bell {
    pub(crate) fn new() -> Self {
        Self {
            is_notified: AtomicBool::new(false),
            is_in_driver: AtomicBool::new(false),
        }
    }

    /// Calls the worker and says where to wake it.
    pub(crate) fn ring(&self) -> Wake {
        self.is_notified.store(true, Ordering::Release);
        fence(Ordering::SeqCst); // A
        if self.is_in_driver.load(Ordering::Acquire) {
            Wake::Driver
        } else {
            Wake::Parker
        }
    }

    /// Returns whether the worker was called since it last answered. A sleeper asks this before it
    /// sleeps.
    pub(crate) fn is_ringing(&self) -> bool {
        self.is_notified.load(Ordering::Acquire)
    }

    /// The worker is up and knows of all calls so far.
    pub(crate) fn answer(&self) {
        self.is_notified.store(false, Ordering::Release);
    }

    /// The worker is about to sleep in the driver, or has left it.
    pub(crate) fn set_in_driver(&self, is_in_driver: bool) {
        self.is_in_driver.store(is_in_driver, Ordering::Release);
        fence(Ordering::SeqCst); // B
    }
}
