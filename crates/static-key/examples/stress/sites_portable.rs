//! Branches of two keys where no code is patched.

use evenkeel_static_key::{StaticKey, static_branch_likely, static_branch_unlikely};

/// The first key.
pub(crate) static A: StaticKey = StaticKey::new_false("A");
/// The second key.
pub(crate) static B: StaticKey = StaticKey::new_false("B");

/// Gives what two branches on each key gave, by key.
pub(crate) type Function = fn() -> [[bool; 2]; 2];

fn branches() -> [[bool; 2]; 2] {
    let a = [static_branch_unlikely!(A), static_branch_likely!(A)];
    let b = [static_branch_unlikely!(B), static_branch_likely!(B)];
    [a, b]
}

/// All functions that contain branches.
pub(crate) static FUNCTIONS: &[Function] = &[branches];

/// Does nothing: this build has no code to tear.
pub(crate) fn torn_writes(_go_on: impl Fn() -> bool) {}
