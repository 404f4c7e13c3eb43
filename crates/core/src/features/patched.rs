//! The twin with features that can be switched, one static key each.

use evenkeel_static_key::StaticKey;

use super::Feature;
use crate::error::Error;

/// Whether this build can switch features: [`set`](super::set) fails otherwise.
pub const CAN_SET: bool = true;

/// The key of a feature.
#[derive(Debug)]
pub(super) struct Switch(pub(super) &'static StaticKey);

impl Switch {
    pub(super) fn is_on(&self) -> bool {
        self.0.is_enabled()
    }
}

/// Switches a feature. On failure it is as it was.
pub(super) fn change(feature: &'static Feature, on: bool) -> Result<(), Error> {
    let key = feature.switch.0;
    Ok(if on { key.enable() } else { key.disable() }?)
}

/// Defines the key of each feature and the branch on it: the branch falls through for the default.
macro_rules! features {
    ($($name:ident = $default:tt, [$($doc:literal)+];)+) => {
        mod word {
            $(pub(super) static $name: evenkeel_static_key::StaticKey =
                $crate::features::twin::new!($default, stringify!($name));)+
        }

        /// The branch of every feature, one function each.
        #[allow(non_snake_case, reason = "a branch has the name of its feature")]
        pub mod value {
            $($(#[doc = $doc])+
            #[inline(always)]
            pub fn $name() -> bool {
                $crate::features::twin::branch!($default, super::word::$name)
            })+
        }
    };
}
pub(super) use features;

macro_rules! new {
    (true, $name:expr) => {
        evenkeel_static_key::StaticKey::new_true($name)
    };
    (false, $name:expr) => {
        evenkeel_static_key::StaticKey::new_false($name)
    };
}
pub(super) use new;

macro_rules! branch {
    (true, $key:path) => {
        evenkeel_static_key::static_branch_likely!($key)
    };
    (false, $key:path) => {
        evenkeel_static_key::static_branch_unlikely!($key)
    };
}
pub(super) use branch;

macro_rules! switch {
    ($name:ident, $default:tt) => {
        twin::Switch(&word::$name)
    };
}
pub(super) use switch;

/// Tests whether a scheduler [feature](crate::features) is on.
///
/// A constant, unless the cargo feature `sched-debug` makes it a branch that costs one instruction
/// while the feature has its default.
///
/// # Examples
/// ```
/// assert!(evenkeel_core::feat!(PLACE_LAG) && !evenkeel_core::feat!(NEXT_BUDDY));
/// ```
#[macro_export]
macro_rules! feat {
    ($name:ident) => {
        $crate::features::value::$name()
    };
}
