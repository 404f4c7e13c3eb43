//! The twin with compile-time constants.

use super::Feature;
use crate::error::Error;

/// Whether this build can switch features: [`set`](super::set) fails otherwise.
pub const CAN_SET: bool = false;

/// The value of a feature.
#[derive(Debug)]
pub(super) struct Switch(pub(super) bool);

impl Switch {
    pub(super) fn is_on(&self) -> bool {
        self.0
    }
}

/// Does nothing: only called with the value that the feature has.
pub(super) fn change(_: &'static Feature, _: bool) -> Result<(), Error> {
    Ok(())
}

macro_rules! features {
    ($($name:ident = $default:tt, [$($doc:literal)+];)+) => {
        /// The value of every feature, one constant each.
        pub mod value {
            $($(#[doc = $doc])+ pub const $name: bool = $default;)+
        }
    };
}
pub(super) use features;

macro_rules! switch {
    ($name:ident, $default:tt) => {
        twin::Switch($default)
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
        $crate::features::value::$name
    };
}
