//! Building a child group.

use std::time::Duration;

use evenkeel_core::GroupParams;

use super::{Class, Group, Order, Quota, params};
use crate::error::Error;
use crate::preempt::Level;

/// Builds a child group; made by [`Group::child`].
#[derive(Clone, Debug)]
#[must_use = "nothing is made before `build`"]
pub struct GroupBuilder {
    parent: Group,
    name: String,
    params: GroupParams,
    slice: Duration,
    level: Option<Level>,
    quota: Quota,
}

impl GroupBuilder {
    pub(super) fn new(parent: Group, name: String) -> Self {
        Self {
            parent,
            name,
            params: GroupParams::default(),
            slice: Duration::ZERO,
            level: None,
            quota: Quota::MAX,
        }
    }

    /// Sets the weight among the siblings, 1 to 10000. Default: 100.
    pub fn weight(mut self, weight: u32) -> Self {
        self.params.weight = weight;
        self
    }

    /// Sets in what order the tasks of the group run. Default: [`Order::Fifo`].
    pub fn order(mut self, order: Order) -> Self {
        self.params.order = order;
        self
    }

    /// Sets the class of the group's tasks. Default: [`Class::Fair`].
    pub fn class(mut self, class: Class) -> Self {
        self.params.task.class = class;
        self
    }

    /// Sets the nice value of the group's tasks among each other, −20 to 19. Default: 0. It has an
    /// effect with [`Order::Fair`].
    pub fn nice(mut self, nice: i8) -> Self {
        self.params.task.nice = nice;
        self
    }

    /// Sets the slice that the group and its tasks ask for: 0.1 to 100 ms. Default: the base slice,
    /// which zero asks for too.
    pub fn slice(mut self, slice: Duration) -> Self {
        self.slice = slice;
        self
    }

    /// Sets what happens to a poll of the group's tasks that goes on while others wait, no more
    /// than the runtime has. Default: as the parent has it.
    pub fn preempt(mut self, level: Level) -> Self {
        self.level = Some(level);
        self
    }

    /// Limits the CPU time of the group and all groups below it. Default: [`Quota::MAX`], no limit.
    pub fn quota(mut self, quota: Quota) -> Self {
        self.quota = quota;
        self
    }

    /// Makes the group.
    ///
    /// # Errors
    ///
    /// [`Error::is_invalid_value`] names the setting and its range; [`Error::is_name_taken`];
    /// [`Error::is_level`] when the level of preemption is above the runtime's;
    /// [`Error::is_removed`] when the parent was removed; [`Error::is_not_compiled`] without the
    /// cargo features `groups`, `fair-order` for [`Order::Fair`], `realtime` for
    /// [`Class::RealTime`], `bandwidth` for a quota; [`Error::is_key`] when the system refuses to
    /// have code changed.
    pub fn build(mut self) -> Result<Group, Error> {
        self.params.task.slice_ns = params::slice_ns(self.slice)?;
        params::check(&self.params)?;
        if self.name.is_empty() || self.name.contains('/') || [".", ".."].contains(&&*self.name) {
            let allowed = "not empty, not . or .., no /";
            return Err(Error::invalid("name", format!("{:?}", self.name), allowed));
        }
        let shared = &self.parent.shared;
        if let Some(level) = self.level {
            let path = format!("{}/{}", self.parent.path().trim_end_matches('/'), self.name);
            params::check_level(&path, level, shared.preempt.level())?;
        }
        let inner = shared.add_group(&self.parent.inner, self.name, &self.params, self.quota)?;
        if self.level.is_some() {
            inner.set_level(self.level);
        }
        Ok(Group::new(shared.clone(), inner))
    }
}
