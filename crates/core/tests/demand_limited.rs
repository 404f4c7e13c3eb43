//! Groups that are limited by what they ask for, though they have to wait for much of the time:
//! what they use is theirs, and their siblings divide the rest by weight.

mod common;

use common::{Behaviour, MS, Machine, SEC, US, exact_rates};
use evenkeel_core::{GroupId, Order};

const ROOT: GroupId = GroupId::ROOT;
const POLL: Behaviour = Behaviour::Polls(100 * US, 100 * US);
const WEIGHTS: [u32; 5] = [1, 100, 900, 3000, 10_000];

/// Runs 200 ms, then 1 s, and returns the largest deviation of a group of `hogs` from the exact
/// division in CPUs, if each of the other groups in `all` is due what it used.
fn measure(machine: &mut Machine, all: &[GroupId], hogs: &[GroupId]) -> f64 {
    machine.run_until(200 * MS);
    let before: Vec<u64> = all.iter().map(|&g| machine.used_by(g)).collect();
    machine.run_until(200 * MS + SEC);
    let used: Vec<(GroupId, f64)> = (all.iter().zip(before))
        .map(|(&g, before)| (g, (machine.used_by(g) - before) as f64 / SEC as f64))
        .collect();
    let tasks: Vec<GroupId> = machine.tasks.iter().map(|task| task.group).collect();
    let demand = |id| {
        let own = used.iter().find(|(group, _)| *group == id);
        match own {
            Some((_, used)) if !hogs.contains(&id) => *used,
            _ => tasks.iter().filter(|&&group| group == id).count() as f64,
        }
    };
    let exact = exact_rates(&machine.domain, demand, machine.rqs.len() as f64);
    let mut worst: f64 = 0.0;
    for &(id, got) in &used {
        let due = exact.iter().find(|(group, _)| *group == id).unwrap().1;
        if std::env::var("VERBOSE").is_ok() {
            println!(
                "  {id:?} got {got:.4} due {due:.4} lag {:?}",
                machine.domain.lag(id)
            );
        }
        worst = worst.max((got - due).abs());
    }
    worst
}

fn check(name: &str, machine: &mut Machine, all: &[GroupId], hogs: &[GroupId]) {
    let worst = measure(machine, all, hogs);
    let cpus = machine.rqs.len();
    println!("{cpus} CPUs, {name}: worst {:.3} % of a CPU", worst * 100.0);
    assert!(
        worst <= 0.01 || std::env::var("REPORT").is_ok(),
        "{cpus} CPUs, {name}: {worst}"
    );
}

/// Bursts of 32 tasks: on a grid of timers, spread out, long, and with polls of uneven length.
fn patterns() -> [(&'static str, Behaviour); 5] {
    [
        (
            "1 ms grid",
            Behaviour::Batch((20 * US, 20 * US), 2 * MS, MS),
        ),
        (
            "3 ms grid",
            Behaviour::Batch((20 * US, 20 * US), MS, 3 * MS),
        ),
        (
            "10 ms grid",
            Behaviour::Batch((10 * US, 90 * US), 3 * MS, 10 * MS),
        ),
        (
            "50 ms grid",
            Behaviour::Batch((200 * US, 300 * US), MS, 50 * MS),
        ),
        (
            "spread",
            Behaviour::Sleeper((20 * US, 20 * US), (2 * MS, 3 * MS)),
        ),
    ]
}

#[test]
fn siblings_divide_the_rest_by_weight() {
    for cpus in [1, 2] {
        for weight in WEIGHTS {
            for (name, behaviour) in patterns() {
                let mut machine = Machine::new(cpus, 3);
                let [a, b, web] = [300, 100, weight].map(|w| machine.group(ROOT, w, Order::Fifo));
                for hog in [a, b] {
                    machine.spawn_many(2, hog, POLL);
                }
                machine.spawn_many(32, web, behaviour);
                let name = format!("web of weight {weight}, {name}");
                check(&name, &mut machine, &[a, b, web], &[a, b]);
            }
        }
    }
}

/// Hogs and a sleeper below one group, hogs and a sleeper beside it.
#[test]
fn so_do_nested_groups() {
    for cpus in [1, 2] {
        for weight in WEIGHTS {
            for (name, behaviour) in patterns() {
                let mut machine = Machine::new(cpus, 5);
                let parent = machine.group(ROOT, 200, Order::Fifo);
                let [outer, web] = [100, weight].map(|w| machine.group(ROOT, w, Order::Fifo));
                let [a, b, inner] =
                    [300, 100, weight].map(|w| machine.group(parent, w, Order::Fifo));
                for hog in [a, b, outer] {
                    machine.spawn_many(2, hog, POLL);
                }
                for sleeper in [inner, web] {
                    machine.spawn_many(8, sleeper, behaviour);
                }
                let name = format!("nested, webs of weight {weight}, {name}");
                let all = [a, b, outer, inner, web];
                check(&name, &mut machine, &all, &[a, b, outer]);
            }
        }
    }
}
