//! Fairness over several CPUs in virtual time, judged by exact hierarchical water-filling.

mod common;

use common::{Behaviour, MS, Machine, SEC, US, exact_rates};
use evenkeel_core::{GroupId, Order, TaskParams};

const ROOT: GroupId = GroupId::ROOT;

/// Runs `warm_up`, then 1 s, and returns the largest deviation of a group in CPUs.
fn measure(machine: &mut Machine, groups: &[GroupId], warm_up: u64) -> f64 {
    let start = machine.now;
    machine.run_until(start + warm_up);
    let before: Vec<u64> = groups.iter().map(|&g| machine.used_by(g)).collect();
    let (busy, idle) = (machine.busy(), machine.idle_while_waiting());
    machine.run_until(start + warm_up + SEC);
    let cpus = machine.rqs.len();
    let tasks: Vec<GroupId> = machine.tasks.iter().map(|task| task.group).collect();
    let demand = |id| tasks.iter().filter(|&&group| group == id).count() as f64;
    let rates = exact_rates(&machine.domain, demand, cpus as f64);
    let mut worst: f64 = 0.0;
    for (&group, before) in groups.iter().zip(before) {
        let got = (machine.used_by(group) - before) as f64 / SEC as f64;
        let exact = rates.iter().find(|(id, _)| *id == group).unwrap().1;
        if std::env::var("VERBOSE").is_ok() {
            println!(
                "  {group:?} got {got:.4} exact {exact:.4} lag {:?}",
                machine.domain.lag(group)
            );
        }
        worst = worst.max((got - exact).abs());
    }
    let idle = machine.idle_while_waiting() - idle;
    let expected = (demand_total(&tasks).min(cpus as f64) * SEC as f64) as u64;
    let busy = machine.busy() - busy;
    assert!(
        idle as f64 <= 0.001 * SEC as f64 * cpus as f64,
        "idle while waiting: {idle} ns"
    );
    assert!(
        busy as f64 >= expected as f64 * 0.999,
        "busy {busy} of {expected}"
    );
    let charged = machine.charged(groups);
    assert_eq!(charged, machine.busy());
    worst
}

fn demand_total(tasks: &[GroupId]) -> f64 {
    tasks.len() as f64
}

/// Builds groups under the root: (weight, tasks) each.
fn flat(cpus: usize, groups: &[(u32, usize)], behaviour: Behaviour) -> (Machine, Vec<GroupId>) {
    let mut machine = Machine::new(cpus, 42);
    let ids: Vec<GroupId> = groups
        .iter()
        .map(|&(weight, _)| machine.group(ROOT, weight, Order::Fifo))
        .collect();
    for (&id, &(_, tasks)) in ids.iter().zip(groups) {
        machine.spawn_many(tasks, id, behaviour);
    }
    (machine, ids)
}

fn check(name: &str, machine: &mut Machine, groups: &[GroupId], limit: f64) {
    let worst = measure(machine, groups, 100 * MS);
    println!(
        "{name:44} {:2} CPUs: worst {:6.3} % of a CPU, {} migrations, {} switches",
        machine.rqs.len(),
        worst * 100.0,
        machine.migrations,
        machine.switches
    );
    assert!(
        worst <= limit || std::env::var("REPORT").is_ok(),
        "{name}: {worst}"
    );
}

fn cases() -> Vec<(&'static str, Vec<(u32, usize)>)> {
    vec![
        ("3:1, many tasks", vec![(300, 12), (100, 12)]),
        ("3:1, one task each", vec![(300, 1), (100, 1)]),
        ("1:1:1, one task each", vec![(100, 1), (100, 1), (100, 1)]),
        ("1:1:1, many tasks", vec![(100, 9), (100, 9), (100, 9)]),
        ("100:1", vec![(10_000, 12), (100, 12)]),
        ("100:1, one against many", vec![(10_000, 1), (100, 12)]),
        ("one task against a hundred", vec![(100, 1), (100, 100)]),
        ("two tasks against three", vec![(100, 2), (100, 3)]),
        (
            "uneven",
            vec![(700, 3), (100, 1), (350, 2), (20, 9), (100, 4)],
        ),
    ]
}

#[test]
fn flat_groups_of_hogs() {
    for cpus in [1, 2, 7] {
        for (name, groups) in cases() {
            let (mut machine, ids) = flat(cpus, &groups, Behaviour::Hog);
            check(name, &mut machine, &ids, 0.005);
        }
    }
}

#[test]
fn one_group_more_than_cpus() {
    for cpus in [1, 2, 3, 7] {
        let (mut machine, ids) = flat(cpus, &vec![(100, 1); cpus + 1], Behaviour::Hog);
        check("N+1 groups of one task", &mut machine, &ids, 0.005);
    }
}

#[test]
fn nested_groups() {
    for cpus in [1, 2, 7] {
        let mut machine = Machine::new(cpus, 7);
        let a = machine.group(ROOT, 100, Order::Fifo);
        let b = machine.group(ROOT, 100, Order::Fifo);
        let mut ids = Vec::new();
        for parent in [a, b] {
            for weight in [100, 300] {
                let id = machine.group(parent, weight, Order::Fifo);
                machine.spawn_many(7, id, Behaviour::Hog);
                ids.push(id);
            }
        }
        check("1:1 over 1:3", &mut machine, &ids, 0.005);
    }
}

#[test]
fn cooperative_polls() {
    for cpus in [1, 2, 7] {
        for (name, groups) in cases() {
            let (mut machine, ids) = flat(cpus, &groups, Behaviour::Polls(50 * US, 500 * US));
            check(name, &mut machine, &ids, 0.005);
        }
    }
}

#[test]
fn long_cooperative_polls() {
    for cpus in [1, 2, 7] {
        for (name, groups) in cases() {
            let (mut machine, ids) = flat(cpus, &groups, Behaviour::Polls(50 * US, 5 * MS));
            check(name, &mut machine, &ids, 0.01);
        }
    }
}

/// Random trees of groups with random numbers of hogs.
#[test]
fn random_nested_groups() {
    for (cpus, seed) in [(1, 1), (2, 2), (2, 3), (7, 4), (7, 5), (7, 6)] {
        let mut machine = Machine::new(cpus, seed);
        let mut all = vec![ROOT];
        for _ in 0..30 {
            let at = machine.rng.below(all.len() as u64) as usize;
            let weight = [1, 10, 50, 100, 100, 200, 1000][machine.rng.below(7) as usize];
            all.push(machine.group(all[at], weight, Order::Fifo));
        }
        for &id in &all {
            let n = [0, 1, 1, 2, 5, 20][machine.rng.below(6) as usize];
            machine.spawn_many(n, id, Behaviour::Hog);
        }
        check("30 random nested groups", &mut machine, &all, 0.005);
    }
}

#[test]
fn tasks_of_a_fair_group() {
    for (cpus, nices) in [
        (1, vec![0, 0, 0]),
        (2, vec![0, 0, 0]),
        (2, vec![0, 5, 0, 5, 3]),
        (2, vec![-5, 0, 0]),
        (7, vec![0; 10]),
        (7, vec![0, 0, 0, 5, 5, 5, 5, 5, 5, 5, 5, -3]),
    ] {
        let mut machine = Machine::new(cpus, 9);
        let group = machine.group(ROOT, 100, Order::Fair);
        let keys: Vec<u32> = nices
            .iter()
            .map(|&nice| {
                let params = TaskParams {
                    nice,
                    ..TaskParams::default()
                };
                machine.spawn(group, Behaviour::Hog, params)
            })
            .collect();
        machine.run_until(200 * MS);
        let before: Vec<u64> = keys
            .iter()
            .map(|&k| machine.tasks[k as usize].used)
            .collect();
        machine.run_until(200 * MS + SEC);
        let mut claims: Vec<evenkeel_core::waterfill::Claim> = (0..)
            .zip(&nices)
            .map(|(id, &nice)| evenkeel_core::waterfill::Claim {
                weight: evenkeel_core::weight::nice_to_weight(nice).into(),
                cap: SEC,
                share: 0,
                id,
            })
            .collect();
        evenkeel_core::waterfill::fill(cpus as u64 * SEC, &mut claims);
        let mut worst: f64 = 0.0;
        for claim in claims {
            let got = machine.tasks[claim.id as usize].used - before[claim.id as usize];
            let error = (got as f64 - claim.share as f64).abs() / claim.share as f64;
            worst = worst.max(error);
        }
        println!(
            "{cpus} CPUs {nices:?}: worst {:.2} % of the share",
            worst * 100.0
        );
        assert!(
            worst < 0.05 || std::env::var("REPORT").is_ok(),
            "{nices:?}: {worst}"
        );
    }
}

/// A `Fair` group with tasks that are due a whole CPU, and light ones, beside another group.
#[test]
fn heavy_tasks_of_a_fair_group_beside_others() {
    for (cpus, nices) in [
        (2, vec![-10, 0, 0, 5]),
        (4, vec![-15, 0]),
        (4, vec![-15, 0, 0, 0, 0, 0, 0, 0]),
        (7, vec![-10, 0, 0, 5]),
        (7, vec![-20, -20, 0, 0, 3, 3, 10]),
    ] {
        let mut machine = Machine::new(cpus, 21);
        let fair = machine.group(ROOT, 100, Order::Fair);
        let other = machine.group(ROOT, 100, Order::Fifo);
        machine.spawn_many(2 * cpus, other, Behaviour::Hog);
        for &nice in &nices {
            let params = TaskParams {
                nice,
                ..TaskParams::default()
            };
            machine.spawn(fair, Behaviour::Hog, params);
        }
        machine.run_until(300 * MS);
        let first = 2 * cpus;
        let used = |machine: &Machine| -> Vec<u64> {
            machine.tasks[first..]
                .iter()
                .map(|task| task.used)
                .collect()
        };
        let (before, others) = (used(&machine), machine.used_by(other));
        machine.run_until(1300 * MS);
        let others = (machine.used_by(other) - others) as f64 / SEC as f64;
        let got: Vec<f64> = used(&machine)
            .iter()
            .zip(before)
            .map(|(after, before)| (after - before) as f64 / SEC as f64)
            .collect();
        let share = (cpus as f64 / 2.0).min(nices.len() as f64);
        let exact = shares_by_nice(share, &nices);
        let worst = got
            .iter()
            .zip(&exact)
            .map(|(g, e)| (g - e).abs())
            .fold(0.0, f64::max);
        println!("{cpus} CPUs {nices:?}: got {got:.4?} exact {exact:.4?}, other {others:.4}");
        let report = std::env::var("REPORT").is_ok();
        assert!(
            report || (others - (cpus as f64 - share)).abs() < 0.01,
            "{others}"
        );
        assert!(report || worst < 0.02, "{worst}");
    }
}

/// Divides CPUs among tasks by weight, none above one.
fn shares_by_nice(cpus: f64, nices: &[i8]) -> Vec<f64> {
    let weights: Vec<f64> = nices
        .iter()
        .map(|&n| f64::from(evenkeel_core::weight::nice_to_weight(n)))
        .collect();
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let level = (low + high) / 2.0;
        let total: f64 = weights.iter().map(|w| (w * level).min(1.0)).sum();
        if total < cpus {
            low = level
        } else {
            high = level
        }
    }
    weights.iter().map(|w| (w * high).min(1.0)).collect()
}
