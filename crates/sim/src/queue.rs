//! The event queue of virtual time: earliest first, and in order of insertion at equal times,
//! so that a history depends on nothing but its seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Holds future events of type `T`.
#[derive(Debug)]
pub struct EventQueue<T> {
    heap: BinaryHeap<Reverse<(u64, u64, Slot<T>)>>,
    inserted: u64,
}

/// Keeps an event out of the comparison: time and sequence number already decide.
#[derive(Debug)]
struct Slot<T>(T);

impl<T> PartialEq for Slot<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for Slot<T> {}

impl<T> PartialOrd for Slot<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Slot<T> {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl<T> EventQueue<T> {
    /// Makes an empty queue.
    pub const fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            inserted: 0,
        }
    }

    /// Adds an event due at `at` ns.
    pub fn push(&mut self, at: u64, event: T) {
        self.inserted += 1;
        self.heap.push(Reverse((at, self.inserted, Slot(event))));
    }

    /// Takes the next event and its time.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        self.heap.pop().map(|Reverse((at, _, slot))| (at, slot.0))
    }

    /// Returns the time of the next event.
    pub fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }
}

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_of_time_then_insertion() {
        let mut q = EventQueue::new();
        for (at, name) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd')] {
            q.push(at, name);
        }
        assert_eq!(q.next_at(), Some(3));
        let order: String = std::iter::from_fn(|| q.pop()).map(|(_, c)| c).collect();
        assert_eq!(order, "bdac");
    }
}
