//! The locks: exclusion under stress, and that holders, and nobody else, are in sections.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use evenkeel_slice::locks::{RawMutex, RawRwLock, RawSpinLock};
use evenkeel_slice::runtime::{self, Kind};
use evenkeel_slice::{Mutex, RwLock, SpinLock};

const THREADS: usize = 4;
const ROUNDS: usize = 5_000;

fn in_threads(body: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for number in 0..THREADS {
            let body = &body;
            scope.spawn(move || {
                body(number);
                assert!(!runtime::is_in_section(), "sections are balanced");
            });
        }
    });
}

/// Adds up in two halves, which only exclusion keeps equal.
fn stress<R: lock_api::RawMutex + Sync>(lock: &lock_api::Mutex<R, (usize, usize)>) {
    in_threads(|number| {
        for round in 0..ROUNDS {
            let mut guard = match (number + round) % 3 {
                0 => match lock.try_lock() {
                    Some(guard) => guard,
                    None => {
                        assert!(!runtime::is_in_section(), "who fails to lock is in none");
                        lock.lock()
                    }
                },
                _ => lock.lock(),
            };
            assert_eq!(runtime::kind(), Some(Kind::Lock));
            guard.0 += 1;
            assert_eq!(guard.0, guard.1 + 1);
            guard.1 += 1;
        }
    });
    assert_eq!(*lock.lock(), (THREADS * ROUNDS, THREADS * ROUNDS));
}

#[test]
fn one_thread_at_a_time_holds_a_spin_lock() {
    stress::<RawSpinLock>(&SpinLock::new((0, 0)));
}

#[test]
fn one_thread_at_a_time_holds_a_mutex() {
    stress::<RawMutex>(&Mutex::new((0, 0)));
}

#[test]
fn readers_see_whole_writes() {
    let lock: RwLock<(usize, usize)> = RwLock::new((0, 0));
    let readers = AtomicUsize::new(0);
    in_threads(|number| {
        for round in 0..ROUNDS {
            if (number + round).is_multiple_of(4) {
                let mut guard = lock.write();
                assert_eq!(
                    readers.load(Ordering::Relaxed),
                    0,
                    "no readers beside a writer"
                );
                guard.0 += 1;
                guard.1 += 1;
            } else {
                let guard = lock.read();
                readers.fetch_add(1, Ordering::Relaxed);
                assert_eq!(runtime::kind(), Some(Kind::Lock));
                assert_eq!(guard.0, guard.1);
                readers.fetch_sub(1, Ordering::Relaxed);
            }
        }
    });
    assert_eq!(*lock.read(), (THREADS * ROUNDS / 4, THREADS * ROUNDS / 4));
}

#[test]
fn every_way_to_take_and_give_a_lock_is_balanced() {
    let none = || assert!(!runtime::is_in_section());
    let mutex: Mutex<u32> = Mutex::new(1);
    let rwlock: lock_api::RwLock<RawRwLock, u32> = RwLock::new(1);
    let brief = Duration::from_nanos(1);
    lock_api::MutexGuard::unlock_fair(mutex.lock());
    none();
    drop(mutex.try_lock_for(brief).expect("it is free"));
    none();
    thread::scope(|scope| {
        let (_held, _read) = (mutex.lock(), rwlock.read());
        let fails = || {
            assert!(mutex.try_lock().is_none() && mutex.try_lock_for(brief).is_none());
            none();
            assert!(rwlock.try_write().is_none() && rwlock.try_write_for(brief).is_none());
            none();
            drop(rwlock.try_read_for(brief).expect("readers share"));
            none();
        };
        scope.spawn(fails).join().expect("no assertion fails");
    });
    none();
    let read = lock_api::RwLockWriteGuard::downgrade(rwlock.write());
    assert_eq!((*read, runtime::kind()), (1, Some(Kind::Lock)));
    lock_api::RwLockReadGuard::unlock_fair(read);
    none();
    lock_api::RwLockWriteGuard::unlock_fair(rwlock.write());
    none();
    let mapped = lock_api::MutexGuard::map(mutex.lock(), |number| number);
    assert!(runtime::is_in_section());
    drop(mapped);
    none();
}

#[test]
fn however_many_locks_a_thread_holds_it_has_the_deadline_of_locks() {
    // More than 1,024: all shards of a large map, say.
    let shards: Vec<Mutex<()>> = (0..3_000).map(|_| Mutex::new(())).collect();
    let guards: Vec<_> = shards.iter().map(|shard| shard.lock()).collect();
    assert_eq!(runtime::kind(), Some(Kind::Lock));
    drop(guards);
    assert!(!runtime::is_in_section());
}
