//! A lock-free stack of thread numbers.
//!
//! Pushing and popping may happen in a signal handler, in the middle of another push or pop. A tag
//! that changes with every operation keeps a pop from mistaking a number that has left and come
//! back for one that stayed.

use super::gate::CarrierId;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The stack. A number is in it at most once.
pub(crate) struct Spares {
    /// The first one's number plus one (0: none) in the lower half, the tag in the upper.
    top: AtomicU64,
    /// For each number that is in the stack, the one below it, plus one.
    below: Box<[AtomicU32]>,
    len: AtomicU32,
}

impl Spares {
    /// Makes an empty stack for numbers below `limit`.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            top: AtomicU64::new(0),
            below: (0..limit).map(|_| AtomicU32::new(0)).collect(),
            len: AtomicU32::new(0),
        }
    }

    /// Returns how many numbers are in it, or a few more.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed) as usize
    }

    pub(crate) fn push(&self, id: CarrierId) {
        self.len.fetch_add(1, Ordering::Relaxed);
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            self.below[usize::from(id)].store(top as u32, Ordering::Relaxed);
            match self.exchange(top, u64::from(id) + 1) {
                Ok(()) => return,
                Err(now) => top = now,
            }
        }
    }

    pub(crate) fn pop(&self) -> Option<CarrierId> {
        let mut top = self.top.load(Ordering::Acquire);
        loop {
            let id = (top as u32).checked_sub(1)?;
            let below = self.below[id as usize].load(Ordering::Relaxed);
            match self.exchange(top, u64::from(below)) {
                Ok(()) => {
                    self.len.fetch_sub(1, Ordering::Relaxed);
                    return Some(id as CarrierId);
                }
                Err(now) => top = now,
            }
        }
    }

    fn exchange(&self, top: u64, first: u64) -> Result<(), u64> {
        let tag = (top >> 32).wrapping_add(1) << 32;
        let (set, get) = (Ordering::AcqRel, Ordering::Acquire);
        let exchanged = self.top.compare_exchange(top, tag | first, set, get);
        exchanged.map(drop)
    }
}
