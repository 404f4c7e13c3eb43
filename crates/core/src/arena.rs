//! Where tasks live: the driver's own storage, reached by key.

use core::fmt::Debug;

use alloc::vec::Vec;

use crate::entity::Entity;

/// Gives access to the entities of the driver's tasks.
///
/// Queues link entities through their keys, so a task stays where its driver keeps it and nothing
/// is allocated to queue it. An implementation must return the same entity for the same key for
/// as long as the task is in a queue. `Option<Key>` should be as small as `Key` (use a key with a
/// niche such as `NonNull` or `NonZeroU32`).
pub trait Arena {
    /// Names a task.
    type Key: Copy + Eq + Debug;

    /// Returns the entity of a task.
    fn entity(&self, key: Self::Key) -> &Entity<Self::Key>;

    /// Returns the entity of a task for writing.
    fn entity_mut(&mut self, key: Self::Key) -> &mut Entity<Self::Key>;
}

/// An arena for tests, examples and simple drivers: entities in a vector, keyed by index.
#[derive(Clone, Debug, Default)]
pub struct VecArena(Vec<Entity<u32>>);

impl VecArena {
    /// Creates an empty arena.
    pub fn new() -> Self {
        VecArena(Vec::new())
    }

    /// Adds an entity and returns its key.
    pub fn insert(&mut self, entity: Entity<u32>) -> u32 {
        self.0.push(entity);
        (self.0.len() - 1) as u32
    }

    /// Returns the number of entities.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Arena for VecArena {
    type Key = u32;

    #[inline]
    fn entity(&self, key: u32) -> &Entity<u32> {
        &self.0[key as usize]
    }

    #[inline]
    fn entity_mut(&mut self, key: u32) -> &mut Entity<u32> {
        &mut self.0[key as usize]
    }
}
