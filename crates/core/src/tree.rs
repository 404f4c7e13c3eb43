//! The augmented tree that EEVDF picks from.

use crate::arena::Arena;
use crate::entity::SLICE_UNIT_NS;

/// An intrusive AVL tree ordered by (deadline, insertion number), each node of which also knows
/// the least `vruntime` and the least slice of its subtree.
///
/// Source: the kernel's `tasks_timeline` (`__enqueue_entity`, `min_vruntime_update`). Ours is an
/// AVL tree without parent links instead of a red-black tree: height ≤ 1.45 log2(n), insertion and
/// removal recurse down once. Equal deadlines keep the order of insertion, as in the kernel.
#[derive(Clone, Debug)]
pub struct Tree<K> {
    root: Option<K>,
    len: u32,
    seq: u32,
}

impl<K> Default for Tree<K> {
    /// Returns an empty tree.
    fn default() -> Self {
        Tree {
            root: None,
            len: 0,
            seq: 0,
        }
    }
}

/// Compares virtual times that may have wrapped: a < b (kernel: `(s64)(a - b) < 0`).
#[inline]
pub(crate) fn before(a: i64, b: i64) -> bool {
    a.wrapping_sub(b) < 0
}

#[inline]
fn min_time(a: i64, b: i64) -> i64 {
    if before(b, a) { b } else { a }
}

impl<K: Copy + Eq> Tree<K> {
    /// Creates an empty tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of entities.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns whether the tree is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Inserts an entity at its deadline, behind those with the same one.
    pub fn insert<A: Arena<Key = K> + ?Sized>(&mut self, arena: &mut A, key: K) {
        self.seq = self.seq.wrapping_add(1);
        let entity = arena.entity_mut(key);
        entity.seq = self.seq;
        (entity.left, entity.right) = (None, None);
        update(arena, key);
        self.root = Some(insert(arena, self.root, key));
        self.len += 1;
    }

    /// Removes an entity, which must be in this tree with the deadline it was inserted with.
    pub fn remove<A: Arena<Key = K> + ?Sized>(&mut self, arena: &mut A, key: K) {
        self.root = remove(arena, self.root, key);
        self.len -= 1;
        arena.entity_mut(key).height = 0;
    }

    /// Returns the entity with the earliest deadline.
    pub fn first<A: Arena<Key = K> + ?Sized>(&self, arena: &A) -> Option<K> {
        let mut at = self.root?;
        while let Some(left) = arena.entity(at).left {
            at = left;
        }
        Some(at)
    }

    /// Returns the least `vruntime` in the tree.
    pub fn min_vruntime<A: Arena<Key = K> + ?Sized>(&self, arena: &A) -> Option<i64> {
        self.root
            .map(|root| arena.entity(root).min_vruntime_or_vlag)
    }

    /// Returns the least slice in the tree in ns, rounded down to 2048 ns.
    #[inline]
    pub fn min_slice<A: Arena<Key = K> + ?Sized>(&self, arena: &A) -> Option<u32> {
        self.root
            .map(|root| u32::from(arena.entity(root).min_slice) * SLICE_UNIT_NS)
    }

    /// Returns the largest slice in the tree in ns, rounded up to 2048 ns.
    #[inline]
    pub fn max_slice<A: Arena<Key = K> + ?Sized>(&self, arena: &A) -> Option<u32> {
        self.root
            .map(|root| u32::from(arena.entity(root).max_slice) * SLICE_UNIT_NS)
    }

    /// Returns the entity with the least `vruntime`.
    pub fn first_by_vruntime<A: Arena<Key = K> + ?Sized>(&self, arena: &A) -> Option<K> {
        let least = self.min_vruntime(arena)?;
        self.first_eligible(arena, |vruntime| !before(least, vruntime))
    }

    /// Returns, among the entities whose `vruntime` is eligible, the one with the earliest
    /// deadline (kernel: the heap search of `pick_eevdf`).
    ///
    /// `eligible` must be monotonic: true for every value before one for which it is true. A
    /// subtree holds an eligible entity exactly if its least `vruntime` is eligible.
    pub fn first_eligible<A: Arena<Key = K> + ?Sized>(
        &self,
        arena: &A,
        eligible: impl Fn(i64) -> bool,
    ) -> Option<K> {
        let mut at = self.root?;
        if !eligible(arena.entity(at).min_vruntime_or_vlag) {
            return None;
        }
        loop {
            let entity = arena.entity(at);
            match entity.left {
                Some(left) if eligible(arena.entity(left).min_vruntime_or_vlag) => at = left,
                _ if eligible(entity.vruntime) => return Some(at),
                _ => at = entity.right?,
            }
        }
    }

    /// Visits the entities in order until `visit` returns `false`.
    pub fn for_each<A: Arena<Key = K> + ?Sized>(
        &self,
        arena: &A,
        mut visit: impl FnMut(K) -> bool,
    ) {
        walk(arena, self.root, &mut visit);
    }

    /// Checks order, balance and augmentation of every node.
    ///
    /// # Panics
    /// If one is wrong.
    pub fn validate<A: Arena<Key = K> + ?Sized>(&self, arena: &A) {
        assert_eq!(validate(arena, self.root), self.len);
    }
}

/// Orders by deadline, then by insertion.
#[inline]
fn precedes<A: Arena + ?Sized>(arena: &A, a: A::Key, b: A::Key) -> bool {
    let (a, b) = (arena.entity(a), arena.entity(b));
    match a.deadline.wrapping_sub(b.deadline) {
        0 => (a.seq.wrapping_sub(b.seq) as i32) < 0,
        difference => difference < 0,
    }
}

#[inline]
fn height<A: Arena + ?Sized>(arena: &A, node: Option<A::Key>) -> u8 {
    node.map_or(0, |key| arena.entity(key).height)
}

/// Recomputes height and augmentation of a node from its children.
#[inline]
fn update<A: Arena + ?Sized>(arena: &mut A, key: A::Key) {
    let entity = arena.entity(key);
    let (mut height, mut vruntime) = (0, entity.vruntime);
    let (mut least, mut largest) = own_slice(entity.slice);
    for child in [entity.left, entity.right].into_iter().flatten() {
        let child = arena.entity(child);
        height = height.max(child.height);
        vruntime = min_time(vruntime, child.min_vruntime_or_vlag);
        least = least.min(child.min_slice);
        largest = largest.max(child.max_slice);
    }
    let entity = arena.entity_mut(key);
    entity.height = height + 1;
    entity.min_vruntime_or_vlag = vruntime;
    entity.min_slice = least;
    entity.max_slice = largest;
}

/// Returns a slice in units, rounded down and up.
#[inline]
fn own_slice(slice_ns: u32) -> (u16, u16) {
    let (down, up) = (slice_ns / SLICE_UNIT_NS, slice_ns.div_ceil(SLICE_UNIT_NS));
    (
        down.min(u16::MAX.into()) as u16,
        up.min(u16::MAX.into()) as u16,
    )
}

fn rotate_right<A: Arena + ?Sized>(arena: &mut A, key: A::Key) -> A::Key {
    let Some(up) = arena.entity(key).left else {
        return key;
    };
    arena.entity_mut(key).left = arena.entity(up).right;
    update(arena, key);
    arena.entity_mut(up).right = Some(key);
    update(arena, up);
    up
}

fn rotate_left<A: Arena + ?Sized>(arena: &mut A, key: A::Key) -> A::Key {
    let Some(up) = arena.entity(key).right else {
        return key;
    };
    arena.entity_mut(key).right = arena.entity(up).left;
    update(arena, key);
    arena.entity_mut(up).left = Some(key);
    update(arena, up);
    up
}

/// Updates a node after a child changed and restores |height(left) − height(right)| ≤ 1.
fn balance<A: Arena + ?Sized>(arena: &mut A, key: A::Key) -> A::Key {
    let (left, right) = (arena.entity(key).left, arena.entity(key).right);
    let (left_height, right_height) = (height(arena, left), height(arena, right));
    if left_height > right_height + 1
        && let Some(child) = left
    {
        let (outer, inner) = (arena.entity(child).left, arena.entity(child).right);
        if height(arena, outer) < height(arena, inner) {
            arena.entity_mut(key).left = Some(rotate_left(arena, child));
        }
        return rotate_right(arena, key);
    }
    if right_height > left_height + 1
        && let Some(child) = right
    {
        let (inner, outer) = (arena.entity(child).left, arena.entity(child).right);
        if height(arena, outer) < height(arena, inner) {
            arena.entity_mut(key).right = Some(rotate_right(arena, child));
        }
        return rotate_left(arena, key);
    }
    update(arena, key);
    key
}

fn insert<A: Arena + ?Sized>(arena: &mut A, node: Option<A::Key>, key: A::Key) -> A::Key {
    let Some(at) = node else { return key };
    if precedes(arena, key, at) {
        let left = arena.entity(at).left;
        arena.entity_mut(at).left = Some(insert(arena, left, key));
    } else {
        let right = arena.entity(at).right;
        arena.entity_mut(at).right = Some(insert(arena, right, key));
    }
    balance(arena, at)
}

fn remove<A: Arena + ?Sized>(arena: &mut A, node: Option<A::Key>, key: A::Key) -> Option<A::Key> {
    let Some(at) = node else {
        debug_assert!(false, "{key:?} is not in the tree");
        return None;
    };
    let (left, right) = (arena.entity(at).left, arena.entity(at).right);
    if at == key {
        let (Some(left), Some(right)) = (left, right) else {
            return left.or(right);
        };
        let (rest, successor) = remove_first(arena, right);
        let entity = arena.entity_mut(successor);
        (entity.left, entity.right) = (Some(left), rest);
        return Some(balance(arena, successor));
    }
    if precedes(arena, key, at) {
        arena.entity_mut(at).left = remove(arena, left, key);
    } else {
        arena.entity_mut(at).right = remove(arena, right, key);
    }
    Some(balance(arena, at))
}

/// Takes the first node out of the subtree at `at`; returns the rest and that node.
fn remove_first<A: Arena + ?Sized>(arena: &mut A, at: A::Key) -> (Option<A::Key>, A::Key) {
    let Some(left) = arena.entity(at).left else {
        return (arena.entity(at).right, at);
    };
    let (rest, first) = remove_first(arena, left);
    arena.entity_mut(at).left = rest;
    (Some(balance(arena, at)), first)
}

fn walk<A: Arena + ?Sized>(
    arena: &A,
    node: Option<A::Key>,
    visit: &mut impl FnMut(A::Key) -> bool,
) -> bool {
    let Some(at) = node else { return true };
    walk(arena, arena.entity(at).left, visit)
        && visit(at)
        && walk(arena, arena.entity(at).right, visit)
}

fn validate<A: Arena + ?Sized>(arena: &A, node: Option<A::Key>) -> u32 {
    let Some(at) = node else { return 0 };
    let entity = arena.entity(at);
    let mut least = entity.vruntime;
    let (mut low, mut high) = own_slice(entity.slice);
    for child in [entity.left, entity.right].into_iter().flatten() {
        let child = arena.entity(child);
        least = min_time(least, child.min_vruntime_or_vlag);
        (low, high) = (low.min(child.min_slice), high.max(child.max_slice));
    }
    let (left, right) = (height(arena, entity.left), height(arena, entity.right));
    assert!(left.abs_diff(right) <= 1, "unbalanced at {at:?}");
    assert_eq!(entity.height, left.max(right) + 1);
    assert_eq!(entity.min_vruntime_or_vlag, least);
    assert_eq!((entity.min_slice, entity.max_slice), (low, high));
    assert!(entity.left.is_none_or(|child| precedes(arena, child, at)));
    assert!(entity.right.is_none_or(|child| precedes(arena, at, child)));
    1 + validate(arena, entity.left) + validate(arena, entity.right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Entity, GroupId, TaskParams, VecArena};
    use proptest::prelude::*;
    use std::vec::Vec;

    /// One step: which task to toggle, its new deadline, vruntime and slice.
    fn step() -> impl Strategy<Value = (u32, i64, i64, u32)> {
        (
            0u32..40,
            -20i64..20,
            -20i64..20,
            (1u32..9).prop_map(|s| s * SLICE_UNIT_NS),
        )
    }

    proptest! {
        #[test]
        fn behaves_as_a_sorted_list(
            steps in prop::collection::vec(step(), 1..300),
            base in prop_oneof![Just(0i64), Just(i64::MAX - 5), any::<i64>()],
        ) {
            let mut arena = VecArena::new();
            for _ in 0..40 {
                arena.insert(Entity::new(GroupId::ROOT, TaskParams::default()));
            }
            let mut tree = Tree::new();
            // (deadline, insertion number, vruntime, slice, key), all relative to the base.
            let mut model: Vec<(i64, usize, i64, u32, u32)> = Vec::new();
            for (number, (key, deadline, vruntime, slice)) in steps.into_iter().enumerate() {
                if let Some(at) = model.iter().position(|m| m.4 == key) {
                    model.remove(at);
                    tree.remove(&mut arena, key);
                } else {
                    let entity = arena.entity_mut(key);
                    entity.deadline = base.wrapping_add(deadline);
                    entity.vruntime = base.wrapping_add(vruntime);
                    entity.slice = slice;
                    tree.insert(&mut arena, key);
                    model.push((deadline, number, vruntime, slice, key));
                    model.sort();
                }
                tree.validate(&arena);
                let mut order = Vec::new();
                tree.for_each(&arena, |k| { order.push(k); true });
                prop_assert_eq!(order, model.iter().map(|m| m.4).collect::<Vec<_>>());
                prop_assert_eq!(tree.first(&arena), model.first().map(|m| m.4));
                prop_assert_eq!(tree.min_slice(&arena), model.iter().map(|m| m.3).min());
                prop_assert_eq!(tree.max_slice(&arena), model.iter().map(|m| m.3).max());
                let least = model.iter().map(|m| m.2).min();
                prop_assert_eq!(tree.min_vruntime(&arena), least.map(|v| base.wrapping_add(v)));
                let starved = model.iter().find(|m| Some(m.2) == least).map(|m| m.4);
                prop_assert_eq!(tree.first_by_vruntime(&arena), starved);
                for limit in [-21, -7, 0, 7, 21] {
                    let expected = model.iter().find(|m| m.2 <= limit).map(|m| m.4);
                    let limit = base.wrapping_add(limit);
                    let got = tree.first_eligible(&arena, |v| !before(limit, v));
                    prop_assert_eq!(got, expected);
                }
            }
        }
    }
}
