//! Polls that lose their CPU: the model holds its promises, and each careless driver breaks the one
//! that it should.

use evenkeel_sim::preempt::{self, Fault, Promise, Stats};

/// Few enough for a test build; the command `check --preempt` runs more.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=150;

#[test]
fn promises_hold_and_everything_comes_up() {
    let mut total = Stats::default();
    for seed in SEEDS {
        let run = || preempt::check(seed).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        let stats = run();
        if seed % 10 == 0 {
            assert_eq!(run(), stats, "not a function of the seed");
        }
        total.add(&stats);
    }
    let Stats {
        parked,
        freed,
        ended_early,
        refused,
        requests,
        forced,
        grants,
        yielded,
        wakeup_preemptions,
        ..
    } = total;
    let seen = [
        parked,
        freed,
        ended_early,
        refused,
        requests,
        forced,
        grants,
        yielded,
        wakeup_preemptions,
    ];
    assert!(seen.iter().all(|&count| count > 20), "{total:?}");
    assert!(requests > forced && grants > yielded, "{total:?}");
}

/// Runs a careless driver until somebody objects.
fn check_noticed(fault: Fault, expected: Promise) {
    let mut others = Vec::new();
    for seed in SEEDS {
        match preempt::check_with(seed, fault) {
            Err(broken) if broken.promise == expected => return,
            Err(broken) => others.push(broken),
            Ok(_) => {}
        }
    }
    panic!("{fault:?} is not noticed by {expected:?}, only by {others:?}");
}

#[test]
fn careless_grants_are_noticed() {
    check_noticed(Fault::KeepGrant, Promise::GrantEnds);
    check_noticed(Fault::NoExpiry, Promise::GrantEnds);
    check_noticed(Fault::AskAgain, Promise::OneGrant);
}

#[test]
fn careless_requests_are_noticed() {
    check_noticed(Fault::LookFirst, Promise::NoRequestLost);
    check_noticed(Fault::ForceAndKeep, Promise::NoRequestTwice);
    check_noticed(Fault::StaleRequest, Promise::NoRequestTwice);
}

#[test]
fn careless_sections_are_noticed() {
    check_noticed(Fault::ForceRuntime, Promise::NeverForced);
    check_noticed(Fault::SkipEnd, Promise::Balance);
}

#[test]
fn late_switches_are_noticed() {
    check_noticed(Fault::NeverForce, Promise::Delay);
    check_noticed(Fault::NoSignal, Promise::Delay);
}

#[test]
fn careless_switches_are_noticed() {
    check_noticed(Fault::IgnoreTerm, Promise::OneCarrier);
    check_noticed(Fault::PollAnew, Promise::OnePoll);
    check_noticed(Fault::DropParked, Promise::NothingLost);
    check_noticed(Fault::NoLimit, Promise::Threads);
    check_noticed(Fault::KeepNeedResched, Promise::NeedResched);
}
