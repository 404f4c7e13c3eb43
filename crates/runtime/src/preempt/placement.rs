//! On which CPUs of the machine a carrier thread may run, and how one is brought to a certain CPU.
//!
//! After a wake-up the kernel likes to put the woken thread on another CPU than the one whose
//! thread is about to sleep, and so leaves that one idle. So the successor's affinity mask is
//! narrowed to this CPU before it is woken, and the thread itself sets its real mask again first of
//! all.

use std::sync::atomic::{AtomicU64, Ordering};

use super::carrier::Carrier;
use super::sys::{self, Mask};

const WORDS: usize = size_of::<Mask>() / 8;

/// The masks of a runtime's carriers.
pub(crate) struct Placement {
    /// Successors are brought to the CPU of the thread that wakes them.
    is_on: bool,
    /// The mask of every carrier, unless they are pinned.
    allowed: [AtomicU64; WORDS],
    /// CPU of the machine for each virtual CPU; empty where they are not pinned.
    pins: Box<[usize]>,
}

impl Placement {
    pub(crate) fn new(is_on: bool, pins: Box<[usize]>) -> Self {
        let placement = Self {
            is_on,
            allowed: [const { AtomicU64::new(0) }; WORDS],
            pins,
        };
        placement.read_mask();
        placement
    }

    /// Reads the calling thread's mask, in case somebody has changed those of all threads.
    pub(crate) fn read_mask(&self) {
        let Some(mask) = sys::affinity(0) else { return };
        for (word, value) in self.allowed.iter().zip(sys::mask_words(&mask)) {
            word.store(value, Ordering::Relaxed);
        }
    }

    fn allowed(&self) -> Mask {
        sys::mask_of(std::array::from_fn(|at| {
            self.allowed[at].load(Ordering::Relaxed)
        }))
    }

    /// Makes a thread that is about to be woken start on the CPU of this one.
    pub(crate) fn bring_here(&self, thread: &Carrier) {
        if !self.is_on || !self.pins.is_empty() {
            return;
        }
        if let (Some(tid), Some(here)) = (thread.tid(), sys::this_cpu(&self.allowed())) {
            sys::set_affinity(tid, &here);
        }
    }

    /// Gives the calling thread the mask of those that carry virtual CPU `cpu`.
    pub(crate) fn settle(&self, cpu: usize) {
        match self.pins.get(cpu) {
            Some(&pin) => sys::set_affinity(0, &sys::mask_with(pin)),
            None => self.roam(),
        }
    }

    /// Gives the calling thread the mask of those that carry no virtual CPU.
    pub(crate) fn roam(&self) {
        if self.is_on || !self.pins.is_empty() {
            sys::set_affinity(0, &self.allowed());
        }
    }
}
