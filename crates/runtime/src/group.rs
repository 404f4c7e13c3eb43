//! Groups (temporary, plain mode only).
pub(crate) struct GroupInner {}
pub(crate) struct GroupTable { root: Box<GroupInner> }
impl GroupTable {
    pub(crate) fn new() -> Self { Self { root: Box::new(GroupInner {}) } }
    pub(crate) fn root(&self) -> *const GroupInner { &*self.root }
}
