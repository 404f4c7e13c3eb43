//! Quotas under random live changes. One test only: the key belongs to the process.

use evenkeel_core::keys;
use evenkeel_sim::bandwidth::{self, Fault};

/// Few enough for a test build; the command `check --bandwidth` runs more.
const SEEDS: std::ops::Range<u64> = 1..9;

#[test]
fn quotas_hold_and_careless_drivers_are_noticed() {
    let mut judged = 0;
    for seed in SEEDS {
        let run = || bandwidth::check(seed).unwrap_or_else(|text| panic!("seed {seed}: {text}"));
        let summary = run();
        judged += summary.judged;
        assert_eq!(
            run().switches,
            summary.switches,
            "not a function of the seed"
        );
    }
    assert!(judged > 5, "{judged} groups had demand");
    assert_eq!(keys::BANDWIDTH.references(), 0);
    for fault in [Fault::FreshQuota, Fault::NoRefill] {
        let noticed = SEEDS.filter(|&seed| bandwidth::check_with(seed, fault).is_err());
        assert!(noticed.count() > 1, "{fault:?}");
    }
    let row = bandwidth::large(16, 1).expect("no promise is broken");
    assert!(
        row.used_percent >= 99.0 && row.stranded_ns <= 1_000_000,
        "{row:?}"
    );
}
