//! Features and keys that are flipped at random moments change no promise that does not depend on
//! them. One test only: features and keys belong to the process.

use evenkeel_sim::check::Bounds;
use evenkeel_sim::flip::{self, Flipping};
use evenkeel_sim::generate;
use evenkeel_sim::history::{Cut, History};
use evenkeel_sim::port::CorePort;
use evenkeel_sim::runner;
use evenkeel_sim::violation::Violation;

/// Few enough for a test build; the command `check --flip-features` runs more.
const SEEDS: std::ops::Range<u64> = 1..13;

fn history(seed: u64) -> History {
    let mut history = generate::from_seed(seed);
    history.apply(&Cut {
        is_unjudged: true,
        ..Cut::default()
    });
    history
}

fn port(history: &History) -> CorePort {
    CorePort::new(history.machine.cpus as usize)
}

#[test]
fn flips_at_random_moments_break_nothing_and_careless_ones_are_noticed() {
    for seed in SEEDS {
        let run = || {
            let history = history(seed);
            let sched = Flipping::new(port(&history), seed);
            runner::run(history, sched, Bounds::UNJUDGED, false)
        };
        let report = run().unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        flip::check_balance().expect("every reference was dropped");
        let again = run().expect("as before");
        assert_eq!(
            again.stats.switches, report.stats.switches,
            "not a function of the seed"
        );
    }
    let noticed = SEEDS.filter(|&seed| {
        let history = history(seed);
        let sched = Flipping::careless(port(&history), seed);
        let failure = runner::run(history, sched, Bounds::UNJUDGED, false).err();
        failure.is_some_and(|f| {
            matches!(
                f.violation,
                Violation::Panic { .. } | Violation::Lost { .. }
            )
        })
    });
    assert!(noticed.count() > 0);
}
