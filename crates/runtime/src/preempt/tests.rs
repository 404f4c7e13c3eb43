//! Tests of the stack of spare threads without a model; `evenkeel-models` has those with one.

use std::sync::atomic::{AtomicU32, Ordering};

use super::spares::Spares;

#[test]
fn last_in_first_out() {
    let spares = Spares::new(3);
    assert_eq!(spares.pop(), None);
    for id in [0, 2, 1] {
        spares.push(id);
    }
    let back: Vec<_> = std::iter::from_fn(|| spares.pop()).collect();
    assert_eq!(back, [1, 2, 0]);
    assert_eq!(spares.len(), 0);
}

#[test]
fn many_threads_share_the_numbers_without_losing_one() {
    let spares = Spares::new(64);
    (0..64).for_each(|id| spares.push(id));
    let is_out: Vec<_> = (0..64).map(|_| AtomicU32::new(0)).collect();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    let id = spares.pop().expect("fewer threads than numbers");
                    let is_out = &is_out[usize::from(id)];
                    assert_eq!(is_out.swap(1, Ordering::Relaxed), 0);
                    is_out.store(0, Ordering::Relaxed);
                    spares.push(id);
                }
            });
        }
    });
    assert_eq!(std::iter::from_fn(|| spares.pop()).count(), 64);
}
