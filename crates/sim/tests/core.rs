//! The core under the driver: random histories from fixed seeds, and the fairness cases.

use evenkeel_sim::cases::{CASES, Case, Kind};
use evenkeel_sim::check::Bounds;
use evenkeel_sim::generate::{self, Limits};
use evenkeel_sim::history::Cut;
use evenkeel_sim::port::CorePort;
use evenkeel_sim::runner::{self, Report};

const MS: u64 = 1_000_000;

/// Seeds of the histories that run here; the program runs more.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=12;

#[test]
fn random_histories_break_no_promise() {
    println!("seeds {SEEDS:?}");
    for seed in SEEDS {
        let history = generate::from_seed(seed);
        let sched = CorePort::new(history.machine.cpus as usize);
        if let Err(failure) = runner::run(history, sched, Bounds::default(), false) {
            let command = runner::replay_command(seed, &Cut::default(), false, "");
            panic!("{failure}\nreplay: {command}");
        }
    }
}

fn measure(name: &str, cpus: u32, kind: Kind) -> Report {
    let case = Case::find(name).expect("the case exists");
    let history = case.history(cpus, kind, 200 * MS, 1_200 * MS);
    let sched = CorePort::new(cpus as usize);
    runner::run(history, sched, Bounds::UNJUDGED, false)
        .unwrap_or_else(|failure| panic!("{name} on {cpus} CPUs: {failure}"))
}

/// The project's promise: within 0.5 % of one CPU over 1 s, no CPU idle beside a waiting task.
fn check_groups(names: &[&str], kind: Kind) {
    for name in names {
        for cpus in [1, 2, 7] {
            let report = measure(name, cpus, kind);
            let error = report.errors[1];
            assert!(error.windows > 0);
            assert!(error.max <= 0.5, "{name} on {cpus} CPUs: {error:?}");
            let wasted = report.stats.judged().wasted_share();
            assert!(wasted < 0.001, "{name} on {cpus} CPUs wastes {wasted}");
        }
    }
}

/// Cases of groups that differ in weight and number of tasks.
const GROUPS: [&str; 7] = [
    "3:1",
    "1:1:1",
    "1:1:1-many",
    "100:1",
    "nested",
    "1-100",
    "n+1",
];

#[test]
fn groups_get_their_exact_shares() {
    check_groups(&GROUPS, Kind::Polls);
}

/// A task that computes without an end and runs alone on its CPU is interrupted for a pull.
#[test]
fn groups_of_threads_get_their_exact_shares() {
    check_groups(&GROUPS, Kind::Threads);
    for name in ["fair", "nice", "nice-cap"] {
        for cpus in [2, 7] {
            let error = measure(name, cpus, Kind::Threads).errors[1];
            assert!(error.task_max <= 5.0, "{name} on {cpus} CPUs: {error:?}");
        }
    }
}

#[test]
fn tasks_of_fair_groups_get_their_shares() {
    for name in ["fair", "nice", "nice-cap"] {
        for cpus in [1, 2, 7] {
            let error = measure(name, cpus, Kind::Polls).errors[1];
            assert!(error.task_max <= 5.0, "{name} on {cpus} CPUs: {error:?}");
        }
    }
}

#[test]
fn classes_go_before_weights() {
    // One RealTime period is 1 s, so only windows of that length have an answer.
    let error = measure("rt", 2, Kind::Polls).errors[1];
    assert!(error.max <= 1.0, "{error:?}");
    let error = measure("idle", 2, Kind::Polls).errors[1];
    assert!(error.max <= 0.5, "{error:?}");
}

#[test]
fn large_machines_run_too() {
    let limits = Limits {
        cpus: 64,
        tasks: 120,
        groups: 20,
        busy_ns: 20 * MS,
        judged_ns: 0,
        ..Limits::default()
    };
    for seed in 1..=3 {
        let history = generate::history(seed, &limits);
        let sched = CorePort::new(history.machine.cpus as usize);
        if let Err(failure) = runner::run(history, sched, Bounds::default(), false) {
            panic!("seed {seed}: {failure}");
        }
    }
}

#[test]
fn the_same_history_gives_the_same_run() {
    let run = || {
        let report = measure("nested", 2, Kind::Polls);
        (
            report.stats.switches,
            report.stats.migrations,
            report.errors,
        )
    };
    assert_eq!(run(), run());
}

#[test]
fn names_of_cases_are_unique() {
    for (i, case) in CASES.iter().enumerate() {
        assert!(
            CASES[..i].iter().all(|c| c.name != case.name),
            "{}",
            case.name
        );
    }
}
