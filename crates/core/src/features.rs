//! Scheduler features: the kernel's `sched_feat` list, with the names and defaults of
//! `kernel/sched/features.h` where the feature is the kernel's.
//!
//! Each feature is a compile-time constant, so a feature that is off leaves no code behind. Code
//! asks with `feat!(NAME)` only, so the representation can change here and nowhere else.

macro_rules! features {
    ($($(#[doc = $doc:literal])+ $name:ident = $default:literal;)+) => {
        /// The value of every feature, one constant each.
        pub mod value {
            $($(#[doc = $doc])+ pub const $name: bool = $default;)+
        }

        /// Lists every feature: name, default, one line of doc.
        pub const FEATURES: &[(&str, bool, &str)] = &[
            $((stringify!($name), $default, concat!($($doc),+).trim_ascii()),)+
        ];
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

/// Reads a scheduler feature by name.
macro_rules! feat {
    ($name:ident) => {
        $crate::features::value::$name
    };
}
pub(crate) use feat;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_documented() {
        for (i, (name, _, doc)) in FEATURES.iter().enumerate() {
            assert!(!doc.is_empty(), "{name}");
            assert!(
                FEATURES[..i].iter().all(|(other, ..)| other != name),
                "{name}"
            );
        }
    }
}
