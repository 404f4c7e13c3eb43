//! Random histories with quotas.

use std::time::Duration;

use evenkeel_core::{Bandwidth, Class, GroupParams, Order, RtPolicy, TaskParams, keys};

use super::book::Book;
use super::machine::{Fault, Machine, Model};
use crate::rng::Rng;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// Length of the phase with changes.
const CHANGES_NS: u64 = 150 * MS;

/// Length of the phase without, over which the use is judged.
const STEADY_NS: u64 = 1_000 * MS;

/// Distance of the checks of the core's sums.
const CHECK_NS: u64 = MS / 2;

/// What a history did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// Switches of all CPUs.
    pub switches: u64,
    /// Virtual time in ns.
    pub elapsed_ns: u64,
    /// Groups whose use was judged.
    pub judged: u64,
}

/// Runs the history that belongs to `seed`. Keys belong to the process: one at a time.
///
/// # Errors
/// The first broken promise, in words.
pub fn check(seed: u64) -> Result<Summary, String> {
    check_with(seed, Fault::None)
}

/// Runs the history that belongs to `seed` with a careless driver.
///
/// # Errors
/// As [`check`].
pub fn check_with(seed: u64, fault: Fault) -> Result<Summary, String> {
    let rng = &mut Rng::fork(seed, 0);
    let cpus = *rng.pick(&[1, 2, 2, 3, 4, 8]);
    let mut machine = Machine::new(cpus, seed);
    machine.fault = fault;
    for group in 1..=rng.range(1, 6) as usize {
        let parent = rng.below(group as u64) as usize;
        let params = params(rng);
        machine.create_group(group, parent, params);
    }
    for _ in 0..rng.log_range(1, 30) {
        let group = rng.below(machine.groups.len() as u64) as usize;
        let model = model(rng);
        machine.spawn(group, model);
    }
    for _ in 0..rng.range(1, 60) {
        let to = machine.now + rng.log_range(US, 2 * CHANGES_NS / 30);
        advance(&mut machine, to)?;
        change(rng, &mut machine);
        check_key(&machine)?;
    }
    let judged = steady(&mut machine)?;
    for group in 0..machine.groups.len() {
        if machine.groups[group].book.is_some() {
            machine.set_bandwidth(group, Bandwidth::UNLIMITED);
        }
    }
    check_key(&machine)?;
    let to = machine.now + 5 * MS;
    advance(&mut machine, to)?;
    if machine.nr_throttled() > 0 {
        return Err("tasks are throttled although nobody has a quota".to_owned());
    }
    Ok(Summary {
        switches: machine.switches,
        elapsed_ns: machine.now,
        judged,
    })
}

fn advance(machine: &mut Machine, to: u64) -> Result<(), String> {
    while machine.now < to {
        machine.run(to.min(machine.now + CHECK_NS))?;
        machine.check()?;
    }
    Ok(())
}

/// The key is on exactly while somebody has a quota; a constant key is always on.
fn check_key(machine: &Machine) -> Result<(), String> {
    let capped = machine.groups.iter().filter(|g| g.book.is_some()).count();
    let (is_on, references) = (
        keys::BANDWIDTH.is_on(),
        keys::BANDWIDTH.references() as usize,
    );
    let is_constant = is_on && references == 0;
    if is_constant && cfg!(not(feature = "sched-debug")) {
        return Ok(());
    }
    if references != capped || is_on != (capped > 0) {
        return Err(format!(
            "{capped} groups have a quota, the key counts {references}"
        ));
    }
    Ok(())
}

/// Judges the use of each group that was throttled in every period.
fn steady(machine: &mut Machine) -> Result<u64, String> {
    let to = machine.now + 50 * MS;
    advance(machine, to)?;
    let throttled = |machine: &Machine, group: usize| {
        let id = machine.groups[group].id.expect("it has a quota");
        machine
            .domain
            .bandwidth_stat(id)
            .map_or(0, |stat| stat.nr_throttled)
    };
    let mut before = Vec::new();
    for group in 0..machine.groups.len() {
        if let Some(book) = &mut machine.groups[group].book {
            book.restart();
            before.push((group, throttled(machine, group)));
        }
    }
    let to = machine.now + STEADY_NS;
    advance(machine, to)?;
    let mut judged = 0;
    for (group, before) in before {
        let id = machine.groups[group].id.expect("it has a quota");
        let limit = machine.domain.bandwidth(id).unwrap_or_default();
        let quota = limit.quota_ns().unwrap_or(0);
        let Some((used, starts)) = machine.groups[group].book.as_ref().map(Book::count) else {
            continue;
        };
        let slack = machine.groups[group]
            .book
            .as_ref()
            .map_or(0, |b| b.slack(machine.nr_cpus() as u64));

        if throttled(machine, group) - before + 1 < starts || starts < 3 {
            continue;
        }
        judged += 1;
        let due = (starts - 1) * quota;
        if used + slack + due / 100 < due {
            return Err(format!("group {group} ({limit}) used {used} ns of {due}"));
        }
    }
    Ok(judged)
}

fn params(rng: &mut Rng) -> GroupParams {
    let order = if rng.percent(50) {
        Order::Fifo
    } else {
        Order::Fair
    };
    GroupParams {
        weight: rng.log_range(20, 1_000) as u32,
        order,
        task: TaskParams::default(),
    }
}

fn model(rng: &mut Rng) -> Model {
    let policy = RtPolicy::Fifo;
    let (class, sleep_ns) = match rng.below(12) {
        0 => (
            Class::RealTime {
                priority: 5,
                policy,
            },
            rng.range(MS, 10 * MS),
        ),
        1 => (Class::Idle, 0),
        2..=5 => (Class::Fair, rng.log_range(10 * US, 20 * MS)),
        _ => (Class::Fair, 0),
    };
    Model {
        run_ns: rng.log_range(5 * US, MS),
        sleep_ns,
        is_preemptible: rng.percent(50),
        class,
    }
}

fn limit(rng: &mut Rng, cpus: usize) -> Bandwidth {
    let period = rng.log_range(MS, 60 * MS);
    let most = (period * cpus as u64).max(MS + 1);
    let quota = rng.log_range(MS, most);
    let limit = Bandwidth::new(Duration::from_nanos(quota), Duration::from_nanos(period));
    let limit = limit.expect("valid");
    if rng.percent(60) {
        return limit;
    }
    let burst = Duration::from_nanos(rng.range(0, quota));
    limit.burst(burst).expect("at most the quota")
}

/// Makes one random change.
fn change(rng: &mut Rng, machine: &mut Machine) {
    let groups = machine.groups.len() as u64;
    let group = rng.below(groups) as usize;
    let exists = machine.groups[group].id.is_some();
    match rng.below(12) {
        0..=4 if exists => {
            let limit = limit(rng, machine.nr_cpus());
            machine.set_bandwidth(group, limit);
        }
        5 | 6 if exists => machine.set_bandwidth(group, Bandwidth::UNLIMITED),
        7 | 8 => {
            let task = rng.below(machine.nr_tasks() as u64) as usize;
            machine.move_task(task, group);
        }
        9 => machine.charge_outside(group, rng.log_range(US, 3 * MS)),
        10 if exists => {
            machine.remove_group(group);
        }
        11 if !exists => {
            let parent = machine.groups[group].parent.unwrap_or(0);
            if machine.groups[parent].id.is_some() {
                let params = params(rng);
                machine.create_group(group, parent, params);
            }
        }
        _ => {}
    }
}
