//! Names and settings of groups.

use crate::entity::TaskParams;
use crate::weight::GROUP_WEIGHT_DEFAULT;

/// Identifies a group. A dense index with a generation, so that an identifier that outlived its
/// group is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(u32);

impl GroupId {
    const INDEX_BITS: u32 = 22;

    /// Number of groups that can exist at a time.
    pub const MAX_GROUPS: usize = 1 << Self::INDEX_BITS;

    /// The root of the hierarchy.
    pub const ROOT: GroupId = GroupId(0);

    pub(crate) fn new(index: usize, generation: u32) -> Self {
        debug_assert!(index < Self::MAX_GROUPS);
        GroupId(generation << Self::INDEX_BITS | index as u32)
    }

    /// Returns it as a number, for places that hold only those.
    pub fn to_bits(self) -> u32 {
        self.0
    }

    /// Undoes [`GroupId::to_bits`]. Any other number is a group that does not exist, or the wrong
    /// one.
    pub fn from_bits(bits: u32) -> Self {
        GroupId(bits)
    }

    /// Returns the index: small, and unique among the groups that exist.
    #[inline]
    pub fn index(self) -> usize {
        (self.0 & (Self::MAX_GROUPS as u32 - 1)) as usize
    }

    /// Returns the identifier of the next group that uses this index.
    pub(crate) fn next_generation(self) -> Self {
        GroupId(self.0.wrapping_add(1 << Self::INDEX_BITS))
    }
}

/// Order in which the tasks of one group run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// First come, first served; per-task nice has no effect.
    #[default]
    Fifo,
    /// EEVDF per task, with nice and slice.
    Fair,
}

/// Settings of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupParams {
    /// Share among the siblings, 1 to 10,000 (cgroup v2 `cpu.weight`).
    pub weight: u32,
    /// Order of the group's own tasks; fixed at creation.
    pub order: Order,
    /// Defaults for the group's tasks. The slice also is that of the group against others.
    pub task: TaskParams,
}

impl Default for GroupParams {
    /// Returns weight 100, [`Order::Fifo`], and [`TaskParams::default`].
    fn default() -> Self {
        let (order, task) = (Order::Fifo, TaskParams::default());
        GroupParams {
            weight: GROUP_WEIGHT_DEFAULT,
            order,
            task,
        }
    }
}
