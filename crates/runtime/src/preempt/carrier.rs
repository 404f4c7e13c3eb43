//! One OS thread that carries virtual CPUs.

use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};

use super::free::Loss;
use super::gate::{CarrierId, Gate};
use super::order::Mailbox;
use super::report::Note;
use super::sys;
use crate::task::{Meta, TaskRef};

/// A thread that carries CPUs, as the others see it.
///
/// Everything here may be used in a signal handler.
pub(crate) struct Carrier {
    pub(crate) id: CarrierId,
    pub(crate) gate: Gate,
    pub(crate) mailbox: Mailbox,
    /// The kernel's number of the thread; 0 until it has started and after it has ended.
    tid: AtomicI32,
    /// The task whose poll was interrupted when this thread last gave a CPU up, while it is parked
    /// or goes on without a CPU.
    pub(crate) interrupted: AtomicPtr<Meta>,
    /// What is reported about its poll.
    pub(crate) note: Note,
    /// The task whose poll has a window open on this thread, null if there is none. For the thread
    /// itself.
    window: AtomicPtr<Meta>,
    /// When the critical section in which the thread is was asked for its CPU, in ns.
    pub(super) section_asked_ns: AtomicU64,
    /// When it is to be forced, in ns; 0 while nothing is pending.
    pub(super) section_due_ns: AtomicU64,
    /// What is known of its poll when that goes on without a CPU.
    pub(super) loss: Loss,
}

impl Carrier {
    pub(super) fn new(id: CarrierId) -> Self {
        Self {
            id,
            gate: Gate::new(),
            mailbox: Mailbox::new(),
            tid: AtomicI32::new(0),
            interrupted: AtomicPtr::new(ptr::null_mut()),
            note: Note::new(),
            window: AtomicPtr::new(ptr::null_mut()),
            section_asked_ns: AtomicU64::new(0),
            section_due_ns: AtomicU64::new(0),
            loss: Loss::new(),
        }
    }

    /// Takes note of the thread; called by it, first of all.
    pub(super) fn started(&self) {
        self.tid.store(sys::thread_id(), Ordering::Release);
    }

    /// Takes note that the thread is about to end.
    pub(super) fn ended(&self) {
        self.tid.store(0, Ordering::Release);
    }

    /// Returns the kernel's number of the thread, while it runs.
    pub(crate) fn tid(&self) -> Option<i32> {
        Some(self.tid.load(Ordering::Acquire)).filter(|&tid| tid != 0)
    }

    /// Says whose poll has a window open on this thread; null for nobody's. For the thread itself.
    pub(crate) fn set_window(&self, meta: *const Meta) {
        self.window.store(meta.cast_mut(), Ordering::Relaxed);
    }

    /// Returns whether it is `meta`'s poll that has a window open on this thread. For the thread
    /// itself.
    pub(crate) fn has_window(&self, meta: &Meta) -> bool {
        ptr::eq(self.window.load(Ordering::Relaxed), meta)
    }

    /// Takes the task whose poll is parked on this thread; for the one that carries its CPU now.
    pub(crate) fn interrupted(&self) -> Option<TaskRef> {
        TaskRef::from_pointer(self.interrupted.load(Ordering::Acquire))
    }
}
