//! Random histories from a seed.

use crate::history::{Class, GroupSpec, History, MachineSpec, Op, Order, RtPolicy, TaskSpec};
use crate::model::Model;
use crate::rng::Rng;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// Bounds what [`history`] draws.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most CPUs.
    pub cpus: u32,
    /// Most tasks.
    pub tasks: u64,
    /// Most groups.
    pub groups: u64,
    /// Most live operations.
    pub ops: u64,
    /// Longest busy phase in ns.
    pub busy_ns: u64,
    /// Length of the judged phase in ns.
    pub judged_ns: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cpus: 8,
            tasks: 40,
            groups: 12,
            ops: 60,
            busy_ns: 200 * MS,
            judged_ns: 1_000 * MS,
        }
    }
}

/// Distance of the seeds that get a large machine.
const LARGE_EVERY: u64 = 16;

/// Draws the history that belongs to `seed` alone: mostly small, now and then large.
pub fn from_seed(seed: u64) -> History {
    let limits = if seed.is_multiple_of(LARGE_EVERY) {
        Limits {
            cpus: 64,
            tasks: 300,
            groups: 60,
            ops: 200,
            busy_ns: 50 * MS,
            ..Limits::default()
        }
    } else {
        Limits::default()
    };
    history(seed, &limits)
}

/// Draws the history that belongs to `seed` inside `limits`.
pub fn history(seed: u64, limits: &Limits) -> History {
    let rng = &mut Rng::fork(seed, 0);
    let mut machine = machine(rng, limits);
    // Choices that were added later have generators of their own, so that old seeds stay.
    machine.ticks_polls = Rng::fork(seed, 2).percent(50);
    let groups: Vec<GroupSpec> = (0..rng.range(1, limits.groups))
        .map(|i| group(rng, i as usize))
        .collect();
    let n_tasks = rng.log_range(1, limits.tasks);
    let busy_ns = rng.log_range(MS, limits.busy_ns);
    let mut tasks: Vec<TaskSpec> = (0..n_tasks)
        .map(|_| task(rng, groups.len(), busy_ns))
        .collect();
    pair_partners(rng, &mut tasks);
    let mut ops: Vec<(u64, Op)> = (0..rng.range(0, limits.ops))
        .map(|_| (rng.range(0, busy_ns), op(rng, tasks.len(), groups.len())))
        .collect();
    ops.sort_by_key(|&(at, _)| at);
    History {
        seed,
        machine,
        groups,
        tasks,
        ops,
        busy_ns,
        settle_ns: 300 * MS,
        judged_ns: limits.judged_ns,
        poll_ns: rng.range(20 * US, 200 * US),
        keeps_models: false,
    }
}

fn machine(rng: &mut Rng, limits: &Limits) -> MachineSpec {
    let sizes: Vec<u32> = [1, 2, 2, 3, 4, 7, 8, 16, 64]
        .into_iter()
        .filter(|&n| n <= limits.cpus && n >= limits.cpus / 8)
        .collect();
    MachineSpec {
        kick_ns: rng.range(0, 5 * US),
        early_wake_percent: *rng.pick(&[0, 50]),
        ..MachineSpec::new(*rng.pick(&sizes))
    }
}

fn weight(rng: &mut Rng) -> u32 {
    if rng.percent(40) {
        100
    } else {
        rng.log_range(20, 2_000) as u32
    }
}

fn group(rng: &mut Rng, index: usize) -> GroupSpec {
    let parent = rng.below(index as u64 + 1) as usize;
    let order = if rng.percent(50) {
        Order::Fifo
    } else {
        Order::Fair
    };
    let class = match rng.below(20) {
        0 => real_time(rng),
        1 | 2 => Class::Idle,
        _ => Class::Fair,
    };
    GroupSpec {
        // Index 0 stands for the root here, so that shallow trees are the more frequent.
        parent: parent.checked_sub(1),
        weight: weight(rng),
        order,
        class,
        from_start: rng.percent(80),
    }
}

fn real_time(rng: &mut Rng) -> Class {
    Class::RealTime {
        priority: rng.range(1, 99) as u8,
        policy: if rng.percent(50) {
            RtPolicy::RoundRobin
        } else {
            RtPolicy::Fifo
        },
    }
}

fn task(rng: &mut Rng, groups: usize, busy_ns: u64) -> TaskSpec {
    let class = match rng.below(30) {
        0 => Some(real_time(rng)),
        1 => Some(Class::Idle),
        _ => None,
    };
    TaskSpec {
        group: (rng.below(groups as u64 + 1) as usize).checked_sub(1),
        model: model(rng),
        is_preemptible: rng.percent(30),
        nice: if rng.percent(70) {
            0
        } else {
            rng.range(0, 39) as i8 - 20
        },
        slice_ns: rng
            .percent(30)
            .then(|| rng.log_range(100 * US, 100 * MS) as u32),
        class,
        start: if rng.percent(50) {
            0
        } else {
            rng.range(0, busy_ns)
        },
    }
}

fn model(rng: &mut Rng) -> Model {
    let run = rng.log_range(US, 2 * MS);
    let sleep = rng.log_range(10 * US, 20 * MS);
    match rng.below(8) {
        0 | 1 => Model::Hog {
            poll: rng.log_range(5 * US, 2 * MS),
        },
        2 => Model::Periodic {
            run,
            period: run + sleep,
        },
        3 => Model::Bursty { run, sleep },
        4 => Model::Spawner {
            run,
            sleep: sleep.max(MS),
            child: rng.log_range(US, 5 * MS),
        },
        5 => Model::Once {
            run: rng.log_range(10 * US, 50 * MS),
            poll: run,
        },
        6 => Model::Partner {
            run: rng.range(US, 100 * US),
            peer: 0,
            serves: true,
        },
        _ => Model::Mixed { run, sleep },
    }
}

/// Gives every two neighbouring partners each other; one that is left over becomes a hog.
fn pair_partners(rng: &mut Rng, tasks: &mut [TaskSpec]) {
    let who: Vec<usize> = (0..tasks.len())
        .filter(|&i| matches!(tasks[i].model, Model::Partner { .. }))
        .collect();
    for pair in who.chunks(2) {
        if let &[a, b] = pair {
            let run = rng.range(US, 100 * US);
            for (me, peer, serves) in [(a, b, true), (b, a, false)] {
                tasks[me].model = Model::Partner { run, peer, serves };
            }
        } else {
            tasks[pair[0]].model = Model::Hog { poll: 100 * US };
        }
    }
}

fn op(rng: &mut Rng, tasks: usize, groups: usize) -> Op {
    let task = rng.below(tasks as u64) as usize;
    let group = rng.below(groups as u64) as usize;
    match rng.below(10) {
        0 | 1 => Op::SetWeight {
            group,
            weight: weight(rng),
        },
        2 => Op::SetNice {
            task,
            nice: rng.range(0, 39) as i8 - 20,
        },
        3 => Op::SetSlice {
            task,
            slice_ns: rng.log_range(100 * US, 100 * MS) as u32,
        },
        4 | 5 => Op::Move {
            task,
            group: (rng.below(groups as u64 + 1) as usize).checked_sub(1),
        },
        6 => Op::Abort { task },
        7 => Op::Wake { task },
        8 => Op::CreateGroup { group },
        _ => Op::RemoveGroup { group },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_history() {
        let text = |seed| format!("{:?}", history(seed, &Limits::default()));
        assert_eq!(text(9), text(9));
        assert_ne!(text(9), text(10));
    }

    #[test]
    fn parents_stand_before_children() {
        for seed in 0..200 {
            let h = history(seed, &Limits::default());
            for (i, g) in h.groups.iter().enumerate() {
                assert!(g.parent.is_none_or(|p| p < i), "seed {seed} group {i}");
            }
        }
    }
}
