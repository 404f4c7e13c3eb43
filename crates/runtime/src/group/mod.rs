//! Groups: nested, weighted shares of the CPU.
//!
//! [`Group`] is the handle; `GroupInner` is what tasks point to; the table of all groups of a
//! runtime, with the core's `Domain`, lies behind one lock that only changes of the hierarchy and
//! the coordinator take.
//!
//! # Removal
//!
//! A removed group loses its name and its place at once, and takes no new tasks: spawns into it go
//! to its nearest living ancestor. Its record stays until the last task has left it and every run
//! queue has let go of it, which later changes of the hierarchy look after.

mod bandwidth;
mod builder;
mod inner;
mod params;
mod quota;
mod stat;
mod table;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

pub use builder::GroupBuilder;
pub(crate) use inner::{Event, GroupInner};
pub use params::{Class, Order, RtPolicy};
pub use quota::Quota;
pub use stat::{GroupStat, Histogram};
pub(crate) use table::GroupTable;

use crate::error::{Error, Kind};
use crate::handle::Handle;
use crate::preempt::Level;
use crate::shared::Shared;
use crate::task::JoinHandle;

/// A group of tasks, and of groups, with a share of the CPU.
///
/// Semantics follow cgroup v2: siblings share what their parent gets in proportion to their
/// weights, over all CPUs together; what one does not use goes to the others. Tasks that sit in a
/// group which also has child groups compete with those as one more child of weight 100.
///
/// Cheap to clone; usable from any thread.
///
/// # Examples
///
/// ```
/// let runtime = evenkeel::Builder::new().worker_threads(1).build()?;
/// let tenants = runtime.handle().root().child("tenants").weight(300).build()?;
/// let a = tenants.child("a").build()?;
/// assert_eq!(a.path(), "/tenants/a");
/// let task = a.spawn(async { evenkeel::current_group().path() });
/// assert_eq!(runtime.block_on(task).unwrap(), "/tenants/a");
/// # Ok::<(), evenkeel::Error>(())
/// ```
#[derive(Clone)]
pub struct Group {
    shared: Arc<Shared>,
    inner: Arc<GroupInner>,
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("path", &self.inner.path())
            .field("weight", &self.weight())
            .finish_non_exhaustive()
    }
}

impl PartialEq for Group {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for Group {}

impl Group {
    pub(crate) fn new(shared: Arc<Shared>, inner: Arc<GroupInner>) -> Self {
        Self { shared, inner }
    }

    /// Returns the root group of the current runtime.
    ///
    /// # Panics
    ///
    /// Panics outside of a runtime.
    #[must_use]
    #[track_caller]
    pub fn root() -> Self {
        Handle::current().root()
    }

    /// Returns the group at `path` (`/tenants/a`) in the current runtime.
    ///
    /// # Panics
    ///
    /// Panics outside of a runtime.
    #[must_use]
    #[track_caller]
    pub fn lookup(path: &str) -> Option<Self> {
        Handle::current().group(path)
    }

    /// Starts to build a child group; names have no `/` and are not empty, `.` or `..`.
    pub fn child(&self, name: impl Into<String>) -> GroupBuilder {
        GroupBuilder::new(self.clone(), name.into())
    }

    /// Spawns a task into this group.
    ///
    /// After shutdown the future is dropped, and the handle says that it was cancelled.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        crate::handle::spawn_on(&self.shared, future, Some(Arc::as_ptr(&self.inner)))
    }

    /// Returns the name, without the path; empty for the root.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the names from the root down, each after a `/`; `/` for the root.
    #[must_use]
    pub fn path(&self) -> String {
        self.inner.path()
    }

    /// Returns the parent; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let parent = self.inner.parent.clone()?;
        Some(Self::new(self.shared.clone(), parent))
    }

    /// Returns the child groups, ordered by name.
    #[must_use]
    pub fn children(&self) -> Vec<Self> {
        let children = self.shared.groups.children(&self.inner);
        let wrap = |inner| Self::new(self.shared.clone(), inner);
        children.into_iter().map(wrap).collect()
    }

    /// Returns the weight, 1 to 10000.
    #[must_use]
    pub fn weight(&self) -> u32 {
        self.inner.params().weight
    }

    /// Sets the weight, 1 to 10000, of the live group.
    ///
    /// # Errors
    ///
    /// [`Error::is_invalid_value`] out of range, [`Error::is_root`] for the root, which has no
    /// siblings, [`Error::is_removed`].
    pub fn set_weight(&self, weight: u32) -> Result<(), Error> {
        self.shared.groups.set_weight(&self.inner, weight)
    }

    /// Returns the order in which tasks of this group run.
    #[must_use]
    pub fn order(&self) -> Order {
        self.inner.params().order
    }

    /// Returns the class of this group's tasks.
    #[must_use]
    pub fn class(&self) -> Class {
        self.inner.params().task.class
    }

    /// Sets the class of this group's tasks, which each takes on when it next becomes ready.
    ///
    /// # Errors
    ///
    /// [`Error::is_invalid_value`] for a priority outside 1 to 99, [`Error::is_removed`].
    pub fn set_class(&self, class: Class) -> Result<(), Error> {
        let groups = &self.shared.groups;
        groups.set_task_params(&self.inner, |task| task.class = class)
    }

    /// Returns the nice value of this group's tasks among each other, −20 to 19.
    #[must_use]
    pub fn nice(&self) -> i8 {
        self.inner.params().task.nice
    }

    /// Sets the nice value of this group's tasks among each other (groups of [`Order::Fair`]), −20
    /// to 19.
    ///
    /// # Errors
    ///
    /// [`Error::is_invalid_value`] out of range, [`Error::is_removed`].
    pub fn set_nice(&self, nice: i8) -> Result<(), Error> {
        let groups = &self.shared.groups;
        groups.set_task_params(&self.inner, |task| task.nice = nice)
    }

    /// Sets the slice that the group and its tasks ask for: 0.1 to 100 ms, or zero for the base
    /// slice.
    ///
    /// # Errors
    ///
    /// [`Error::is_invalid_value`] out of range, [`Error::is_removed`].
    pub fn set_slice(&self, slice: Duration) -> Result<(), Error> {
        let slice_ns = params::slice_ns(slice)?;
        let groups = &self.shared.groups;
        groups.set_task_params(&self.inner, |task| task.slice_ns = slice_ns)
    }

    /// Returns the limit on the CPU time of the group and all groups below it; [`Quota::MAX`]
    /// without one, and for a group that was removed.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.shared.groups.quota(&self.inner)
    }

    /// Limits the CPU time of the live group and all groups below it, or changes or removes the
    /// limit (`None`, [`Quota::MAX`]).
    ///
    /// A limit begins with a whole quota. A change keeps what the present period has left, or owes,
    /// as far as the new limit allows; the new quota is given from the next period start on, at
    /// most a new period away. Without a limit, throttled tasks go on at once, and debt is
    /// forgotten. After shutdown this has no effect.
    ///
    /// A throttled task that is aborted is dropped when its group goes on.
    ///
    /// # Errors
    ///
    /// [`Error::is_root`] for the root group, [`Error::is_removed`], [`Error::is_not_compiled`]
    /// without the cargo feature `bandwidth`, [`Error::is_key`] when the system refuses to have
    /// code changed. Nothing has changed then.
    pub fn set_quota(&self, quota: impl Into<Option<Quota>>) -> Result<(), Error> {
        let quota = quota.into().unwrap_or_default();
        self.shared.set_quota(&self.inner, quota)
    }

    /// Returns what happens to a poll of the group's tasks that goes on while others wait.
    #[must_use]
    pub fn preempt(&self) -> Level {
        let level = self.inner.level();
        level.unwrap_or_else(|| self.shared.preempt.level())
    }

    /// Sets what happens to a poll of the group's tasks that goes on while others wait, no more
    /// than the runtime has. Polls that have begun go by the new level at the next tick. Child
    /// groups keep theirs.
    ///
    /// # Errors
    ///
    /// [`Error::is_level`] above the level of the runtime, [`Error::is_removed`].
    pub fn set_preempt(&self, level: Level) -> Result<(), Error> {
        if self.inner.is_removed() {
            return Err(Self::removed_error(&self.inner));
        }
        params::check_level(&self.path(), level, self.shared.preempt.level())?;
        self.inner.set_level(Some(level));
        Ok(())
    }

    /// Returns what the group has used and how its tasks fared.
    ///
    /// Accounting starts with the first child group or the first call of this, wait and run times
    /// with the first call of this. Where that cannot start (see [`Group::start_times`]), usage and
    /// times stay at zero.
    #[must_use]
    pub fn stat(&self) -> GroupStat {
        self.shared.group_stat(&self.inner)
    }

    /// Starts the recording of wait and run times in this runtime, as the first call of
    /// [`Group::stat`] does, and says whether that is possible.
    ///
    /// # Errors
    ///
    /// [`Error::is_not_compiled`] without the cargo feature `statistics`; [`Error::is_key`] when
    /// the system refuses to have code changed.
    pub fn start_times(&self) -> Result<(), Error> {
        self.shared.use_parts(GroupTable::use_times)
    }

    /// Removes the group.
    ///
    /// # Errors
    ///
    /// [`Error::is_busy`] while tasks or child groups remain in it, [`Error::is_root`],
    /// [`Error::is_removed`].
    pub fn remove(&self) -> Result<(), Error> {
        self.shared.remove_group(&self.inner, false)
    }

    /// Removes the group; its tasks move to the parent.
    ///
    /// # Errors
    ///
    /// [`Error::is_busy`] while child groups remain in it, [`Error::is_root`],
    /// [`Error::is_removed`].
    pub fn remove_to_parent(&self) -> Result<(), Error> {
        self.shared.remove_group(&self.inner, true)
    }

    /// Returns whether the group was removed.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.inner.is_removed()
    }

    fn removed_error(inner: &GroupInner) -> Error {
        Error::new(Kind::Removed { path: inner.path() })
    }
}
