//! Scheduler features: the kernel's `sched_feat` list, with the names and defaults of
//! `kernel/sched/features.h` where the feature is the kernel's.
//!
//! **Guarantee.** Code asks with [`feat!`](crate::feat) only. By default every feature is a
//! compile-time constant, so that one that is off leaves no code behind. With the cargo feature
//! `sched-debug` (which needs the standard library) each is a static key that starts at its
//! default, and [`set`] switches it while tasks are queued and running. No setting, and no change
//! of it at any moment, loses a task or unbalances a count; what changes is order and latency.
//!
//! The text form is that of the kernel's `/sys/kernel/debug/sched/features`:
//!
//! ```
//! use evenkeel_core::features;
//!
//! // One line: the name of each feature, with `NO_` in front if it is off.
//! let before = features::state().to_string();
//! assert!(before.contains("NO_NEXT_BUDDY") && before.contains("RUN_TO_PARITY"));
//!
//! match features::set("NEXT_BUDDY NO_RUN_TO_PARITY") {
//!     Ok(()) => assert!(evenkeel_core::feat!(NEXT_BUDDY)),
//!     Err(error) => assert!(error.is_not_compiled() && !features::CAN_SET),
//! }
//!
//! let error = features::set("NEXT_BUDY").expect_err("no such feature");
//! assert!(error.to_string().contains("NEXT_BUDDY"));
//! # features::set(&before)?;
//! # Ok::<(), evenkeel_core::Error>(())
//! ```

mod text;
#[cfg_attr(feature = "sched-debug", path = "patched.rs")]
#[cfg_attr(not(feature = "sched-debug"), path = "constant.rs")]
mod twin;

pub(crate) use text::write_unknown;
pub use text::{State, set, state};
pub use twin::CAN_SET;

/// One scheduler feature.
#[derive(Debug)]
pub struct Feature {
    name: &'static str,
    default: bool,
    doc: &'static str,
    switch: twin::Switch,
}

impl Feature {
    /// Returns the name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns whether it is on at the start.
    pub fn default(&self) -> bool {
        self.default
    }

    /// Returns one line of documentation.
    pub fn doc(&self) -> &'static str {
        self.doc
    }

    /// Returns whether it is on. Code paths ask with [`feat!`](crate::feat).
    pub fn is_on(&self) -> bool {
        self.switch.is_on()
    }
}

macro_rules! features {
    ($($(#[doc = $doc:literal])+ $name:ident = $default:tt;)+) => {
        twin::features! { $($name = $default, [$($doc)+];)+ }

        /// Lists every feature.
        pub static FEATURES: &[Feature] = &[$(Feature {
            name: stringify!($name),
            default: $default,
            doc: concat!($($doc),+).trim_ascii(),
            switch: twin::switch!($name, $default),
        },)+];
    };
}

features! {
    /// Keep a task's lag while it sleeps and place it with that lag.
    PLACE_LAG = true;
    /// Give a new task half a slice only, so that it cannot crowd out those already there.
    PLACE_DEADLINE_INITIAL = true;
    /// Keep the relative deadline of a task that moves to another queue.
    PLACE_REL_DEADLINE = true;
    /// Protect the running task until its deadline or the shortest queued slice has passed.
    RUN_TO_PARITY = true;
    /// Let a waking task with a strictly shorter slice cancel that protection.
    PREEMPT_SHORT = true;
    /// Let the `next` buddy win the pick if it is eligible.
    PICK_BUDDY = true;
    /// Make the task that was just woken the `next` buddy.
    NEXT_BUDDY = false;
    /// Keep an ineligible sleeper queued until its lag has returned to zero.
    DELAY_DEQUEUE = true;
    /// Cut lag that was gained during a delayed dequeue at zero.
    DELAY_ZERO = true;
    /// Let woken tasks preempt the running one.
    WAKEUP_PREEMPTION = true;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_documented() {
        for (i, feature) in FEATURES.iter().enumerate() {
            let name = feature.name();
            assert!(!feature.doc().is_empty(), "{name}");
            assert!(!name.starts_with("NO_"), "{name}");
            let mut before = FEATURES[..i].iter();
            assert!(before.all(|other| other.name() != name), "{name}");
        }
    }
}
