//! Each checker can fail: a scheduler with one fault is caught, and by the right checker.

use evenkeel_sim::cases::{Case, Kind};
use evenkeel_sim::check::Bounds;
use evenkeel_sim::fault::{Fault, Faulty};
use evenkeel_sim::generate::{self, Limits};
use evenkeel_sim::history::History;
use evenkeel_sim::naive::Naive;
use evenkeel_sim::port::CorePort;
use evenkeel_sim::runner;
use evenkeel_sim::sched::Scheduler;

const MS: u64 = 1_000_000;

/// A history with enough tasks that every fault has its opportunity.
fn history(seed: u64) -> History {
    let limits = Limits {
        busy_ns: 50 * MS,
        judged_ns: 0,
        ..Limits::default()
    };
    let mut seeds = (seed..).map(|seed| generate::history(seed, &limits));
    seeds
        .find(|h| h.machine.cpus >= 2 && h.tasks.len() >= 10 && h.busy_ns > 20 * MS)
        .expect("there is no end of seeds")
}

/// Runs a history with a fault; returns the kind of violation found.
fn kind<S: Scheduler>(
    history: History,
    inner: S,
    bounds: Bounds,
    fault: Fault,
    at: u32,
) -> Option<&'static str> {
    let sched = Faulty::new(inner, history.machine.cpus as usize, fault, at);
    let result = runner::run(history, sched, bounds, false);
    result.err().map(|failure| failure.violation.kind())
}

/// Faults in the bookkeeping, with the checkers that may notice; the core's own assertions
/// ("panic") come first for some.
const STRUCTURAL: [(Fault, &[&str]); 11] = [
    (Fault::DropWakeup, &["wrong-count", "wrong-state", "lost"]),
    (
        Fault::DoubleEnqueue,
        &["wrong-count", "wrong-pull", "wrong-pick", "panic"],
    ),
    (Fault::LoseYielded, &["wrong-count", "wrong-state", "lost"]),
    (Fault::SkipCharge, &["wrong-charge"]),
    (Fault::RunTwice, &["wrong-pick"]),
    (Fault::PickNothing, &["lost"]),
    (Fault::PullRunning, &["wrong-pull"]),
    (Fault::MiscountGroup, &["wrong-group-count"]),
    (Fault::MisreportUsage, &["wrong-charge"]),
    (Fault::Panic, &["panic"]),
    (Fault::NeverPull, &["idle-while-waiting"]),
];

#[test]
fn structural_faults_are_caught() {
    for (fault, allowed) in STRUCTURAL {
        for at in [0, 7, 40] {
            let h = history(at.into());
            let naive = Naive::new(h.machine.cpus as usize, h.groups.len());
            let core = CorePort::new(h.machine.cpus as usize);
            let found = [
                kind(h.clone(), naive, Bounds::UNJUDGED, fault, at),
                kind(h, core, Bounds::UNJUDGED, fault, at),
            ];
            for kind in found {
                let is_caught = kind.is_some_and(|kind| allowed.contains(&kind));
                assert!(is_caught, "{fault:?} at {at} gave {kind:?}");
            }
        }
    }
}

#[test]
fn unfairness_is_caught() {
    let tight = Bounds {
        group_percent: 0.5,
        turns: 1,
        task_percent: 5.0,
        idle_ns: 0,
    };
    for (fault, case, expected) in [
        (None, "3:1", None),
        (Some(Fault::IgnoreWeights), "3:1", Some("lag")),
        (Some(Fault::IgnoreWeights), "nested", Some("lag")),
        (None, "nice", None),
        (Some(Fault::IgnoreNice), "nice", Some("task-share")),
    ] {
        let case = Case::find(case).expect("the case exists");
        let history = case.history(2, Kind::Polls, 200 * MS, 1_000 * MS);
        let core = CorePort::new(2);
        let found = match fault {
            Some(fault) => kind(history, core, tight, fault, 0),
            None => {
                let result = runner::run(history, core, tight, false);
                result.err().map(|f| f.violation.kind())
            }
        };
        assert_eq!(found, expected, "{fault:?} in {}", case.name);
    }
}

#[test]
fn starvation_is_caught() {
    let case = Case::find("3:1").expect("the case exists");
    let mut history = case.history(2, Kind::Polls, 10 * MS, 3_000 * MS);
    history.keeps_models = false;
    history.groups[0].weight = 10_000;
    let loose = Bounds {
        group_percent: 1e6,
        turns: 0,
        task_percent: 1e6,
        idle_ns: 0,
    };
    let found = kind(history, CorePort::new(2), loose, Fault::Starve, 0);
    assert_eq!(found, Some("starved"));
}
