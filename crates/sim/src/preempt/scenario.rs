//! Random histories.

use evenkeel_core::{Class, GroupId, GroupParams, Order, TaskParams};

use super::machine::{Fault, Level, Machine, Stats};
use super::plan::Model;
use super::promise::Broken;
use crate::rng::Rng;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// Shortest and longest time for which tasks run, in ns.
const LENGTHS_NS: (u64, u64) = (20 * MS, 200 * MS);

/// Longest way of a signal where signals are late, in ns.
const LATE_SIGNAL_NS: u64 = 3_000_000;

/// Runs the history that belongs to `seed`.
///
/// # Errors
/// The first broken promise.
pub fn check(seed: u64) -> Result<Stats, Broken> {
    check_with(seed, Fault::None)
}

/// Runs the history that belongs to `seed` with a careless driver.
///
/// # Errors
/// As [`check`].
pub fn check_with(seed: u64, fault: Fault) -> Result<Stats, Broken> {
    let rng = &mut Rng::fork(seed, 10);
    let cpus = *rng.pick(&[1, 1, 2, 2, 3, 4]);
    let extra = rng.log_range(1, 20) as usize;
    let extension_ns = if rng.percent(75) {
        rng.range(5 * US, 50 * US)
    } else {
        0
    };
    let mut machine = Machine::new(seed, cpus, extra, extension_ns);
    machine.set_fault(fault);
    if rng.percent(30) {
        // A loaded host: some signals come after the thread has got something else to do.
        machine.set_signal_ns(LATE_SIGNAL_NS);
    }
    let mut groups = vec![(GroupId::ROOT, Level::Park, Class::Fair)];
    for _ in 0..rng.range(0, 4) {
        let (parent, ..) = *rng.pick(&groups);
        let class = if rng.percent(10) {
            Class::Idle
        } else {
            Class::Fair
        };
        let id = machine.create_group(parent, group_params(rng, class));
        let levels = [
            Level::Off,
            Level::Lazy,
            Level::Handoff,
            Level::Park,
            Level::Park,
        ];
        groups.push((id, *rng.pick(&levels), class));
    }
    for _ in 0..rng.log_range(1, 16) {
        let (group, level, class) = *rng.pick(&groups);
        let params = TaskParams {
            class,
            nice: rng.range(0, 10) as i8 - 5,
            slice_ns: 0,
        };
        let at = rng.below(5 * MS);
        machine.spawn(group, params, level, model(rng), at);
    }
    let (least, most) = LENGTHS_NS;
    machine.run(rng.range(least, most))
}

fn group_params(rng: &mut Rng, class: Class) -> GroupParams {
    let order = if rng.percent(50) {
        Order::Fifo
    } else {
        Order::Fair
    };
    GroupParams {
        weight: rng.log_range(20, 1_000) as u32,
        order,
        task: TaskParams {
            class,
            ..TaskParams::default()
        },
    }
}

fn model(rng: &mut Rng) -> Model {
    let (least_ns, most_ns) = match rng.below(10) {
        0..=2 => (MS, u64::MAX),
        3..=6 => (500 * US, 30 * MS),
        _ => (5 * US, 500 * US),
    };
    let sleeps = most_ns != u64::MAX && rng.percent(50);
    Model {
        least_ns,
        most_ns,
        sleep_ns: if sleeps {
            rng.log_range(50 * US, 5 * MS)
        } else {
            0
        },
        sections_percent: rng.range(0, 90),
        has_points: rng.percent(40),
    }
}
