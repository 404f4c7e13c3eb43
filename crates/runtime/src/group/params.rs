//! Settings of groups and of the tasks in them.

use std::time::Duration;

use evenkeel_core::{GroupParams, TaskParams};

use crate::error::{Error, Kind};
use crate::preempt::Level;

pub use evenkeel_core::{Class, Order, RtPolicy};

/// What a slice may be, for error messages.
const SLICE_RANGE: &str = "0 (the base slice), or 0.1 to 100 ms";

/// Turns a slice into ns.
pub(super) fn slice_ns(slice: Duration) -> Result<u32, Error> {
    let ns = slice.as_nanos();
    let is_allowed = ns == 0 || (100_000..=100_000_000).contains(&ns);
    match u32::try_from(ns) {
        Ok(ns) if is_allowed => Ok(ns),
        _ => Err(Error::invalid("slice", format!("{slice:?}"), SLICE_RANGE)),
    }
}

/// Turns an error of the core about a value into ours.
pub(super) fn check(params: &GroupParams) -> Result<(), Error> {
    let task = params.task;
    if !(1..=10_000).contains(&params.weight) {
        return Err(Error::invalid("weight", params.weight, "1 to 10000"));
    }
    if !(-20..=19).contains(&task.nice) {
        return Err(Error::invalid("nice", task.nice, "-20 to 19"));
    }
    if let Class::RealTime { priority, .. } = task.class
        && !(1..=99).contains(&priority)
    {
        return Err(Error::invalid("priority", priority, "1 to 99"));
    }
    Ok(())
}

/// Refuses a level of preemption above the runtime's.
pub(super) fn check_level(path: &str, given: Level, allowed: Level) -> Result<(), Error> {
    if given > allowed {
        let path = path.to_owned();
        return Err(Error::new(Kind::Level {
            path,
            given,
            allowed,
        }));
    }
    Ok(())
}

/// Task settings in one word, so that a spawn reads them with one load.
///
/// Bits: 0–31 slice in ns, 32–39 nice, 40–46 real-time priority, 47 round robin, 48–49 class.
pub(super) fn pack(task: TaskParams) -> u64 {
    let (class, priority, round_robin) = match task.class {
        Class::Fair => (0, 0, false),
        Class::Idle => (1, 0, false),
        Class::RealTime { priority, policy } => (2, priority, policy == RtPolicy::RoundRobin),
    };
    u64::from(task.slice_ns)
        | u64::from(task.nice.cast_unsigned()) << 32
        | u64::from(priority) << 40
        | u64::from(round_robin) << 47
        | class << 48
}

/// Undoes [`pack`].
pub(super) fn unpack(word: u64) -> TaskParams {
    let byte = |at: u32| (word >> at) as u8;
    let policy = if word >> 47 & 1 == 1 {
        RtPolicy::RoundRobin
    } else {
        RtPolicy::Fifo
    };
    let class = match word >> 48 {
        0 => Class::Fair,
        1 => Class::Idle,
        _ => Class::RealTime {
            priority: byte(40) & 0x7f,
            policy,
        },
    };
    TaskParams {
        class,
        nice: byte(32).cast_signed(),
        slice_ns: word as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_loses_nothing() {
        let classes = [
            Class::Fair,
            Class::Idle,
            Class::RealTime {
                priority: 99,
                policy: RtPolicy::Fifo,
            },
            Class::RealTime {
                priority: 1,
                policy: RtPolicy::RoundRobin,
            },
        ];
        for class in classes {
            for (nice, slice_ns) in [(-20, 0), (19, 100_000_000), (0, 100_000)] {
                let task = TaskParams {
                    class,
                    nice,
                    slice_ns,
                };
                assert_eq!(unpack(pack(task)), task);
            }
        }
    }
}
