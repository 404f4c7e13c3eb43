//! Branches patched in running code.
#![deny(unsafe_code)]

mod error;
mod key;
mod state;
mod sync;

#[cfg_attr(
    all(
        target_os = "linux",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(any(miri, loom, feature = "portable")),
    ),
    path = "linux/mod.rs"
)]
#[cfg_attr(
    not(all(
        target_os = "linux",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(any(miri, loom, feature = "portable")),
    )),
    path = "portable.rs"
)]
mod patch;

pub use crate::error::Error;
pub use crate::key::{
    KeyInfo, Keys, REARM_INTERVAL, SiteInfo, StaticKey, arm_all, disarm_all, keys, run_deferred,
};
pub use crate::state::MAX_REFERENCES;

/// Tests a key that is mostly off. Gives the key's value.
///
/// Armed, a site costs one instruction while the key is off. The argument is the path of a `static`
/// item of type [`StaticKey`]; the expression cannot stand in a `const fn`.
///
/// Put what belongs to the key into a cold function and return its result, so that the compiler
/// need not save registers for it: `if static_branch_unlikely!(KEY) { return cold(x) }`. A site
/// keeps a loop from being vectorised: hoist it out of inner loops.
///
/// # Examples
/// ```
/// use evenkeel_static_key::{StaticKey, static_branch_unlikely};
///
/// static STATS: StaticKey = StaticKey::new_false("stats");
///
/// fn is_counting() -> bool {
///     static_branch_unlikely!(STATS)
/// }
/// assert!(!is_counting());
/// ```
///
/// Only statics are accepted:
/// ```compile_fail
/// use evenkeel_static_key::{StaticKey, static_branch_unlikely};
///
/// const NOT_STATIC: StaticKey = StaticKey::new_false("not static");
/// fn f() -> bool {
///     static_branch_unlikely!(NOT_STATIC)
/// }
/// ```
#[macro_export]
macro_rules! static_branch_unlikely {
    ($key:path) => {
        $crate::__static_branch!($key, false)
    };
}

/// Tests a key that is mostly on. Gives the key's value.
///
/// Armed, a site costs one instruction while the key is on. Such a site makes switching the key
/// *off* something that can fail, see [`StaticKey::disable`]. For the rest see
/// [`static_branch_unlikely!`].
///
/// # Examples
/// ```
/// use evenkeel_static_key::{StaticKey, static_branch_likely};
///
/// static CHECKS: StaticKey = StaticKey::new_true("checks");
///
/// fn is_checking() -> bool {
///     static_branch_likely!(CHECKS)
/// }
/// assert!(is_checking());
/// CHECKS.disable()?;
/// assert!(!is_checking());
/// # Ok::<(), evenkeel_static_key::Error>(())
/// ```
#[macro_export]
macro_rules! static_branch_likely {
    ($key:path) => {
        $crate::__static_branch!($key, true)
    };
}
