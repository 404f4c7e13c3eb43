//! A model of the spin lock's word: the very source of the crate, with loom's atomics.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p evenkeel-slice --test loom --release`
#![cfg(loom)]
#![forbid(unsafe_code)]

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, Ordering};
    pub(crate) use loom::thread::yield_now;

    pub(crate) fn spin(_: u32) {
        // A turn for the holder; the model explores no more of them than it must.
        yield_now();
    }
}

#[path = "../src/locks/spin_word.rs"]
#[allow(dead_code, reason = "waiting is not modelled")]
mod spin_word;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use loom::thread;
use spin_word::SpinWord;

/// Attempts only: loom takes a loop that waits for another thread for an endless one. That waiting
/// ends is for the stress test in `tests/locks.rs`.
#[test]
fn holders_exclude_each_other_and_see_what_the_last_one_wrote() {
    loom::model(|| {
        let word = SpinWord::from_atomic(AtomicBool::new(false));
        let shared = Arc::new((word, AtomicU32::new(0)));
        let threads = [0; 2].map(|_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || count_up(&shared.0, &shared.1))
        });
        let mut successes = count_up(&shared.0, &shared.1);
        for thread in threads {
            successes += thread.join().expect("no assertion fails");
        }
        assert_eq!(shared.1.load(Ordering::Relaxed), successes);
        assert!(successes > 0);
    });
}

/// Adds one if its attempt succeeds, by two relaxed accesses, which only the lock makes one. (One
/// attempt a thread: loom remembers seven stores to an atomic, and each success makes two.)
fn count_up(word: &SpinWord, total: &AtomicU32) -> u32 {
    if !word.try_acquire() {
        return 0;
    }
    let value = total.load(Ordering::Relaxed);
    total.store(value + 1, Ordering::Relaxed);
    word.release();
    1
}

#[test]
fn an_attempt_does_not_wait() {
    loom::model(|| {
        let word = Arc::new(SpinWord::from_atomic(AtomicBool::new(false)));
        let other = Arc::clone(&word);
        let thread = thread::spawn(move || other.try_acquire());
        let here = word.try_acquire();
        let there = thread.join().expect("no assertion fails");
        assert!(here != there, "exactly one has it");
    });
}
