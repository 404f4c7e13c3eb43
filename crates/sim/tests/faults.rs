//! Each checker can fail: a scheduler with one fault is caught, and by the right checker.

use evenkeel_sim::check::Bounds;
use evenkeel_sim::fault::{Fault, Faulty};
use evenkeel_sim::generate::{self, Limits};
use evenkeel_sim::history::History;
use evenkeel_sim::naive::Naive;
use evenkeel_sim::runner;

/// A history with enough tasks that every fault has its opportunity.
fn history(seed: u64) -> History {
    let limits = Limits {
        busy_ns: 50_000_000,
        judged_ns: 0,
        ..Limits::default()
    };
    let mut seeds = (seed..).map(|seed| generate::history(seed, &limits));
    seeds
        .find(|h| h.machine.cpus >= 2 && h.tasks.len() >= 10 && h.busy_ns > 20_000_000)
        .expect("there is no end of seeds")
}

/// Runs the fault in the naive scheduler; returns the kind of violation found.
fn naive_kind(fault: Fault, at: u32) -> Option<&'static str> {
    let history = history(u64::from(at));
    let cpus = history.machine.cpus as usize;
    let inner = Naive::new(cpus, history.groups.len());
    let sched = Faulty::new(inner, cpus, fault, at);
    let result = runner::run(history, sched, Bounds::UNJUDGED, false);
    result.err().map(|failure| failure.violation.kind())
}

#[test]
fn structural_faults_are_caught() {
    let cases: [(Fault, &[&str]); 6] = [
        (Fault::DropWakeup, &["wrong-count", "lost"]),
        (
            Fault::DoubleEnqueue,
            &["wrong-count", "wrong-pull", "wrong-pick"],
        ),
        (Fault::LoseYielded, &["wrong-count", "lost"]),
        (Fault::SkipCharge, &["wrong-charge"]),
        (Fault::RunTwice, &["wrong-pick"]),
        (Fault::NeverPull, &["idle-while-waiting"]),
    ];
    for (fault, allowed) in cases {
        for at in [0, 7, 40] {
            let kind = naive_kind(fault, at);
            let is_caught = kind.is_some_and(|kind| allowed.contains(&kind));
            assert!(is_caught, "{fault:?} at {at} gave {kind:?}");
        }
    }
}
