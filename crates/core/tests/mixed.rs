//! Sleepers, classes, changes at run time and random mixtures on the virtual machine.

mod common;

use common::{Behaviour, MS, Machine, SEC, US, exact_rates};
use evenkeel_core::{Class, GroupId, Order, RtPolicy, TaskParams};

const ROOT: GroupId = GroupId::ROOT;

fn used(machine: &Machine, groups: &[GroupId]) -> Vec<u64> {
    groups.iter().map(|&group| machine.used_by(group)).collect()
}

/// Runs for 1 s and returns what each group used, in CPUs.
fn one_second(machine: &mut Machine, groups: &[GroupId]) -> Vec<f64> {
    let before = used(machine, groups);
    machine.run_until(machine.now + SEC);
    let after = used(machine, groups);
    after
        .iter()
        .zip(before)
        .map(|(a, b)| (a - b) as f64 / SEC as f64)
        .collect()
}

/// Groups of hogs beside a group of sleepers. Whatever the sleepers used counts as their demand;
/// the rest must be divided exactly.
fn beside_sleepers(cpus: usize, name: &str, sleeper: Behaviour, limit: f64) {
    let mut machine = Machine::new(cpus, 5);
    let a = machine.group(ROOT, 300, Order::Fifo);
    let b = machine.group(ROOT, 100, Order::Fifo);
    let s = machine.group(ROOT, 100, Order::Fifo);
    machine.spawn_many(2 * cpus, a, Behaviour::Hog);
    machine.spawn_many(2 * cpus, b, Behaviour::Hog);
    machine.spawn_many(2 * cpus, s, sleeper);
    machine.run_until(200 * MS);
    let idle = machine.idle_while_waiting();
    let got = one_second(&mut machine, &[a, b, s]);
    let hogs = 2.0 * cpus as f64;
    let demand = |id| {
        if id == s {
            got[2]
        } else if id == ROOT {
            0.0
        } else {
            hogs
        }
    };
    let rates = exact_rates(&machine.domain, demand, cpus as f64);
    let exact = |id| rates.iter().find(|(other, _)| *other == id).unwrap().1;
    let worst = (got[0] - exact(a)).abs().max((got[1] - exact(b)).abs());
    println!(
        "{name:30} {cpus} CPUs: {got:.4?} worst {:.3} % of a CPU",
        worst * 100.0
    );
    assert!(
        worst < limit || std::env::var("REPORT").is_ok(),
        "{name}: {got:?}"
    );
    assert!(machine.idle_while_waiting() - idle < SEC / 1000 * cpus as u64);
    assert_eq!(machine.charged(&[ROOT, a, b, s]), machine.busy());
}

#[test]
fn hogs_beside_sleepers() {
    let sleepers = [
        (
            "20 us on, 20 us off",
            (20 * US, 20 * US),
            (20 * US, 20 * US),
        ),
        ("5 us on, 95 us off", (5 * US, 5 * US), (95 * US, 95 * US)),
        ("1 ms on, 3 ms off", (MS, MS), (3 * MS, 3 * MS)),
        ("bursts of up to 10 ms", (US, 10 * MS), (US, 10 * MS)),
        ("bursts of up to 100 ms", (MS, 100 * MS), (MS, 50 * MS)),
    ];
    for cpus in [1, 2, 7] {
        for (name, run, sleep) in sleepers {
            beside_sleepers(cpus, name, Behaviour::Sleeper(run, sleep), 0.02);
        }
    }
}

/// A sleeper that wants less than its share waits less than a slice for each burst.
#[test]
fn light_sleepers_get_what_they_want() {
    for cpus in [1, 2, 7] {
        let mut machine = Machine::new(cpus, 3);
        let hogs = machine.group(ROOT, 100, Order::Fifo);
        let light = machine.group(ROOT, 100, Order::Fifo);
        machine.spawn_many(3 * cpus, hogs, Behaviour::Hog);
        let key = machine.spawn(
            light,
            Behaviour::Sleeper((100 * US, 100 * US), (9 * MS, 9 * MS)),
            TaskParams::default(),
        );
        machine.run_until(200 * MS);
        machine.tasks[key as usize].longest_wait = 0;
        machine.run_until(2 * SEC);
        let wait = machine.tasks[key as usize].longest_wait;
        let slice = 700 * US * (1 + u64::from(cpus.min(8).ilog2()));
        println!(
            "{cpus} CPUs: longest wait of a light sleeper {} us, slice {} us",
            wait / US,
            slice / US
        );
        assert!(wait <= slice + 100 * US, "{wait}");
    }
}

#[test]
fn a_change_of_weight_takes_effect_at_once() {
    for cpus in [1, 2, 7] {
        let mut machine = Machine::new(cpus, 1);
        let a = machine.group(ROOT, 100, Order::Fifo);
        let b = machine.group(ROOT, 100, Order::Fifo);
        machine.spawn_many(10, a, Behaviour::Hog);
        machine.spawn_many(10, b, Behaviour::Hog);
        machine.run_until(300 * MS);
        machine.domain.set_weight(a, 900).unwrap();
        machine.run_until(machine.now + 5 * MS);
        let got = one_second(&mut machine, &[a, b]);
        assert!((got[0] - 0.9 * cpus as f64).abs() < 0.01, "{got:?}");
    }
}

fn real_time(priority: u8, policy: RtPolicy) -> TaskParams {
    TaskParams {
        class: Class::RealTime { priority, policy },
        ..TaskParams::default()
    }
}

#[test]
fn real_time_is_throttled_at_95_percent() {
    for cpus in [1, 2] {
        let mut machine = Machine::new(cpus, 1);
        let fair = machine.group(ROOT, 100, Order::Fifo);
        let rt = machine.group(ROOT, 100, Order::Fifo);
        machine.spawn_many(3, fair, Behaviour::Hog);
        for _ in 0..cpus {
            machine.spawn(rt, Behaviour::Hog, real_time(50, RtPolicy::Fifo));
        }
        machine.run_until(SEC);
        let got = one_second(&mut machine, &[fair, rt]);
        assert!((got[1] - 0.95 * cpus as f64).abs() < 0.01, "{got:?}");
        assert!((got[0] - 0.05 * cpus as f64).abs() < 0.01, "{got:?}");
    }
}

/// With real-time load on some CPUs, what is left is still divided exactly.
#[test]
fn fair_groups_share_what_real_time_leaves() {
    let mut machine = Machine::new(3, 1);
    let a = machine.group(ROOT, 200, Order::Fifo);
    let b = machine.group(ROOT, 100, Order::Fifo);
    let rt = machine.group(ROOT, 100, Order::Fifo);
    machine.spawn_many(9, a, Behaviour::Hog);
    machine.spawn_many(9, b, Behaviour::Hog);
    let burst = Behaviour::Sleeper((3 * MS, 6 * MS), (3 * MS, 6 * MS));
    machine.spawn(rt, burst, real_time(10, RtPolicy::Fifo));
    machine.spawn(rt, burst, real_time(20, RtPolicy::RoundRobin));
    machine.run_until(300 * MS);
    let got = one_second(&mut machine, &[a, b, rt]);
    println!("beside real-time load: {got:.4?}");
    assert!((got.iter().sum::<f64>() - 3.0).abs() < 0.003, "{got:?}");
    assert!((got[0] - 2.0 * got[1]).abs() < 0.02, "{got:?}");
}

#[test]
fn higher_priority_runs_first_and_round_robin_takes_turns() {
    let mut machine = Machine::new(1, 1);
    let keys: Vec<u32> = [
        (30, RtPolicy::RoundRobin),
        (30, RtPolicy::RoundRobin),
        (20, RtPolicy::Fifo),
    ]
    .map(|(priority, policy)| machine.spawn(ROOT, Behaviour::Hog, real_time(priority, policy)))
    .into();
    machine.run_until(2 * SEC);
    let used: Vec<u64> = keys
        .iter()
        .map(|&key| machine.tasks[key as usize].used)
        .collect();
    assert_eq!(used, [SEC, SEC, 0]);
}

#[test]
fn the_idle_class_takes_only_what_is_left() {
    for cpus in [1, 2, 7] {
        let mut machine = Machine::new(cpus, 8);
        let fair = machine.group(ROOT, 1, Order::Fifo);
        let idle = machine.group(ROOT, 10_000, Order::Fifo);
        let class = TaskParams {
            class: Class::Idle,
            ..TaskParams::default()
        };
        for _ in 0..2 * cpus {
            machine.spawn(idle, Behaviour::Hog, class);
        }
        let keys = machine.spawn_many(cpus, fair, Behaviour::Hog);
        machine.run_until(100 * MS);
        let got = one_second(&mut machine, &[fair, idle]);
        assert!(
            got[1] < 0.001,
            "idle tasks ran beside waiting ones: {got:?}"
        );
        assert!((got[0] - cpus as f64).abs() < 0.001);
        // One fair task fewer: its CPU goes to the idle class.
        let half = Behaviour::Sleeper((MS, MS), (MS, MS));
        machine.tasks[keys[0] as usize].behaviour = half;
        machine.finish_burst(keys[0]);
        machine.run_until(machine.now + 10 * MS);
        let got = one_second(&mut machine, &[fair, idle]);
        println!("{cpus} CPUs: fair and idle use {got:.4?}");
        assert!((got[1] - 0.5).abs() < 0.01, "{got:?}");
    }
}

/// Twelve fixed seeds, or as many as `SEEDS` says.
fn seeds() -> std::ops::Range<u64> {
    0..std::env::var("SEEDS")
        .ok()
        .and_then(|seeds| seeds.parse().ok())
        .unwrap_or(12)
}

/// Random mixtures of everything, with every count checked at every switch.
#[test]
fn random_mixtures_keep_every_invariant() {
    for seed in seeds() {
        let cpus = [1, 2, 3, 7][seed as usize % 4];
        let mut machine = Machine::new(cpus, seed);
        machine.validate = true;
        let mut groups = vec![ROOT];
        for _ in 0..8 {
            let parent = groups[machine.rng.below(groups.len() as u64) as usize];
            let weight = 1 + machine.rng.below(1000) as u32;
            let order = if machine.rng.below(2) == 0 {
                Order::Fifo
            } else {
                Order::Fair
            };
            groups.push(machine.group(parent, weight, order));
        }
        for _ in 0..40 {
            let group = groups[machine.rng.below(groups.len() as u64) as usize];
            let behaviour = match machine.rng.below(4) {
                0 => Behaviour::Hog,
                1 => Behaviour::Polls(10 * US, 2 * MS),
                2 => Behaviour::Sleeper((US, 100 * US), (US, 300 * US)),
                _ => Behaviour::Sleeper((US, 5 * MS), (US, 20 * MS)),
            };
            let nice = machine.rng.below(40) as i8 - 20;
            let sleeps = matches!(behaviour, Behaviour::Sleeper((_, 0..MS), _));
            let class = match machine.rng.below(12) {
                0 => Class::Idle,
                1 if sleeps => Class::RealTime {
                    priority: 5,
                    policy: RtPolicy::RoundRobin,
                },
                _ => Class::Fair,
            };
            machine.spawn(
                group,
                behaviour,
                TaskParams {
                    nice,
                    class,
                    slice_ns: 0,
                },
            );
        }
        machine.run_until(400 * MS);
        assert_eq!(machine.charged(&groups), machine.busy(), "seed {seed}");
        let idle = machine.idle_while_waiting() as f64 / (400 * MS * cpus as u64) as f64;
        assert!(idle < 0.001, "seed {seed}: idle {idle}");
        for (key, task) in machine.tasks.iter().enumerate() {
            // At this rate each of the at most 40 tasks of a Fifo group has had a turn of 5 ms by
            // now. (In a Fair group a nice task may wait for longer beside one of nice -20.)
            let is_fifo = machine.domain.params(task.group).unwrap().order == Order::Fifo;
            let rate = machine.domain.rate(task.group).unwrap();
            let due = is_fifo && rate > 0.5 && !machine.is_low(key as u32);
            let starved = task.used == 0 && !matches!(task.behaviour, Behaviour::Sleeper(..));
            assert!(
                !(due && starved),
                "seed {seed}: task {key} never ran: {:?}",
                machine.describe(key as u32)
            );
        }
    }
}
