//! temporary
use super::Worker;
use crate::task::{Meta, Runnable};
#[derive(Default)]
pub(super) struct Current {}
pub(crate) struct CpuQueue {}
pub(crate) fn leave_fair_task(_: &Meta) {}
impl Worker {
    pub(super) fn next_grouped(&self) -> Option<Runnable> { None }
    pub(super) fn wake_grouped(&self, _: Runnable) {}
    pub(super) fn enqueue_grouped(&self, _: Runnable) {}
    pub(super) fn detach_current(&self) {}
}
