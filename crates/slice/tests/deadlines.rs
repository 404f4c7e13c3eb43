//! Deadlines set by several threads at once.
#![forbid(unsafe_code)]

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use evenkeel_slice::{DEADLINE_MAX, DEADLINE_MIN, Deadlines, deadlines, set_deadlines};

#[test]
fn a_pair_is_read_as_it_was_set() {
    const ROUNDS: usize = 100_000;
    let pairs = [
        (DEADLINE_MIN, DEADLINE_MIN),
        (DEADLINE_MAX, DEADLINE_MAX),
        (Duration::from_micros(3), Duration::from_millis(7)),
    ]
    .map(|(slice, lock)| Deadlines { slice, lock });
    set_deadlines(pairs[0]).expect("it is allowed");
    let start = Barrier::new(pairs.len());
    thread::scope(|scope| {
        for pair in pairs {
            let (start, pairs) = (&start, &pairs);
            scope.spawn(move || {
                start.wait();
                for _ in 0..ROUNDS {
                    set_deadlines(pair).expect("it is allowed");
                    let seen = deadlines();
                    assert!(pairs.contains(&seen), "{seen:?}");
                }
            });
        }
    });
}
