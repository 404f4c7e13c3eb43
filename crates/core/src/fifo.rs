//! The intrusive first-in, first-out list.

use crate::arena::Arena;

/// A doubly linked list through [`Entity`](crate::Entity) links.
///
/// The link before the head and the link behind the tail are stale by design, so that popping
/// writes nothing but the list itself and pushing writes only the new and the old tail.
#[derive(Clone, Debug)]
pub struct FifoList<K> {
    head: Option<K>,
    /// Has no meaning while `head` is `None`.
    tail: Option<K>,
    len: u32,
}

impl<K> Default for FifoList<K> {
    /// Returns an empty list.
    fn default() -> Self {
        FifoList {
            head: None,
            tail: None,
            len: 0,
        }
    }
}

impl<K: Copy + Eq> FifoList<K> {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of tasks.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns whether the list is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the first task.
    #[inline]
    pub fn head(&self) -> Option<K> {
        self.head
    }

    /// Appends a task.
    #[inline]
    pub fn push_back<A: Arena<Key = K> + ?Sized>(&mut self, arena: &mut A, key: K) {
        match self.tail {
            Some(tail) if self.len > 0 => {
                arena.entity_mut(tail).right = Some(key);
                arena.entity_mut(key).left = Some(tail);
            }
            _ => self.head = Some(key),
        }
        self.tail = Some(key);
        self.len += 1;
    }

    /// Puts a task first.
    pub fn push_front<A: Arena<Key = K> + ?Sized>(&mut self, arena: &mut A, key: K) {
        match self.head {
            Some(head) if self.len > 0 => {
                arena.entity_mut(head).left = Some(key);
                arena.entity_mut(key).right = Some(head);
            }
            _ => self.tail = Some(key),
        }
        self.head = Some(key);
        self.len += 1;
    }

    /// Removes and returns the first task.
    #[inline]
    pub fn pop_front<A: Arena<Key = K> + ?Sized>(&mut self, arena: &A) -> Option<K> {
        if self.len == 0 {
            return None;
        }
        let key = self.head?;
        self.len -= 1;
        self.head = if self.len == 0 {
            None
        } else {
            arena.entity(key).right
        };
        Some(key)
    }

    /// Removes a task, which must be in this list.
    pub fn remove<A: Arena<Key = K> + ?Sized>(&mut self, arena: &mut A, key: K) {
        debug_assert!(self.len > 0);
        let (left, right) = (arena.entity(key).left, arena.entity(key).right);
        let (is_head, is_tail) = (self.head == Some(key), self.tail == Some(key));
        match (is_head, is_tail) {
            (true, true) => (self.head, self.tail) = (None, None),
            (true, false) => self.head = right,
            (false, true) => self.tail = left,
            (false, false) => {
                if let (Some(left), Some(right)) = (left, right) {
                    arena.entity_mut(left).right = Some(right);
                    arena.entity_mut(right).left = Some(left);
                }
            }
        }
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Entity, GroupId, TaskParams, VecArena};
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn behaves_as_a_deque(ops in prop::collection::vec((0u8..4, 0usize..24), 1..400)) {
            let mut arena = VecArena::new();
            for _ in 0..24 {
                arena.insert(Entity::new(GroupId::ROOT, TaskParams::default()));
            }
            let (mut list, mut model) = (FifoList::new(), VecDeque::new());
            for (op, pick) in ops {
                let key = pick as u32;
                match op {
                    0 if !model.contains(&key) => {
                        list.push_back(&mut arena, key);
                        model.push_back(key);
                    }
                    1 if !model.contains(&key) => {
                        list.push_front(&mut arena, key);
                        model.push_front(key);
                    }
                    2 if model.contains(&key) => {
                        list.remove(&mut arena, key);
                        model.retain(|&k| k != key);
                    }
                    _ => prop_assert_eq!(list.pop_front(&arena), model.pop_front()),
                }
                prop_assert_eq!(list.len(), model.len());
                prop_assert_eq!(list.head(), model.front().copied());
            }
            let rest: Vec<u32> = core::iter::from_fn(|| list.pop_front(&arena)).collect();
            prop_assert_eq!(rest, Vec::from(model));
        }
    }
}
