//! Flips and what branches see of them, in every form that a branch can take.
#![forbid(unsafe_code)]

mod common;

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use common::PATCHES;
use evenkeel_static_key::{
    REARM_INTERVAL, StaticKey, keys, run_deferred, static_branch_likely, static_branch_unlikely,
};

/// Arms if this build can, and checks that `sites` were.
fn arm(key: &'static StaticKey, sites: usize) {
    match key.arm() {
        Ok(armed) => assert_eq!(armed, sites, "{}", key.name()),
        Err(error) => assert!(!PATCHES && error.is_unsupported(), "{error}"),
    }
    assert_eq!(key.is_patched(), PATCHES && sites > 0);
}

/// Checks both branches of `key` through all its states.
fn check_states(key: &'static StaticKey, initial: bool, branches: fn() -> (bool, bool)) {
    let check = |value: bool| {
        assert_eq!(branches(), (value, value), "{}", key.name());
        assert_eq!(key.is_enabled(), value);
    };
    check(initial);
    arm(key, 1);
    check(initial);
    for value in [true, false, true, true, false, false] {
        let flipped = if value { key.enable() } else { key.disable() };
        flipped.expect("nothing denies patching");
        check(value);
        arm(key, 1);
        check(value);
    }
    key.disarm().expect("nothing denies patching");
    assert!(!key.is_patched());
    check(false);
}

#[test]
fn branches_follow_a_key_that_starts_off() {
    static KEY: StaticKey = StaticKey::new_false("starts off");
    check_states(&KEY, false, || {
        (static_branch_unlikely!(KEY), static_branch_likely!(KEY))
    });
}

#[test]
fn branches_follow_a_key_that_starts_on() {
    static KEY: StaticKey = StaticKey::new_true("starts on");
    check_states(&KEY, true, || {
        (static_branch_unlikely!(KEY), static_branch_likely!(KEY))
    });
}

static FORMS: StaticKey = StaticKey::new_false("forms");

#[inline(never)]
fn generic<T: Into<u64>>(x: T) -> u64 {
    if static_branch_unlikely!(FORMS) {
        return 100 + x.into();
    }
    x.into()
}

async fn in_async(x: u64) -> u64 {
    let before = if static_branch_unlikely!(FORMS) { 1 } else { 0 };
    YieldOnce(false).await;
    let after = if static_branch_unlikely!(FORMS) {
        10
    } else {
        0
    };
    before + after + x
}

struct YieldOnce(bool);

impl Future for YieldOnce {
    type Output = ();

    fn poll(mut self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

#[inline(always)]
fn inlined() -> bool {
    static_branch_unlikely!(self::FORMS)
}

#[test]
fn generics_closures_async_and_inlined_functions() {
    let closure = |x: u64| {
        if static_branch_unlikely!(FORMS) {
            x + 7
        } else {
            x
        }
    };
    let boxed: Box<dyn Fn(u64) -> u64> = Box::new(move |x| closure(x) * 2);
    let unrolled = || (0..4).filter(|_| inlined()).count();
    let _ = FORMS.arm();
    assert_eq!(FORMS.is_patched(), PATCHES);
    assert_eq!((generic(1_u8), generic(2_u32), generic(3_u64)), (1, 2, 3));
    assert_eq!((boxed(1), unrolled()), (2, 0));

    let mut flipped_midway = pin!(in_async(0));
    let mut context = Context::from_waker(Waker::noop());
    assert!(flipped_midway.as_mut().poll(&mut context).is_pending());
    FORMS.enable().expect("nothing denies patching");
    assert_eq!(flipped_midway.poll(&mut context), Poll::Ready(10));
    assert_eq!(
        (generic(1_u8), generic(2_u32), generic(3_u64)),
        (101, 102, 103)
    );
    assert_eq!((boxed(1), unrolled()), (16, 4));
    FORMS.disable().expect("nothing denies patching");
    assert_eq!((generic(1_u8), boxed(1), unrolled()), (1, 2, 0));
}

#[test]
fn a_key_is_on_while_enabled_or_referenced() {
    static KEY: StaticKey = StaticKey::new_false("references");
    let branch = || static_branch_unlikely!(KEY);
    let ok = "nothing denies patching";
    let _ = KEY.arm();
    assert!(KEY.dec().expect_err("no reference").is_underflow());
    KEY.inc().expect(ok);
    KEY.inc().expect(ok);
    assert_eq!((branch(), KEY.references()), (true, 2));
    KEY.dec().expect(ok);
    assert!(branch());
    KEY.enable().expect(ok);
    KEY.dec().expect(ok);
    assert_eq!((branch(), KEY.references()), (true, 0));
    assert!(KEY.dec().expect_err("no reference").is_underflow());
    KEY.inc().expect(ok);
    KEY.disable().expect(ok);
    assert!(branch());
    KEY.dec().expect(ok);
    assert!(!branch());
    let error = KEY.dec().expect_err("no reference");
    assert!(error.to_string().contains("references"), "{error}");
    assert_eq!(error.key_name(), "references");
}

#[test]
fn a_deferred_drop_waits_and_can_be_cancelled() {
    static KEY: StaticKey = StaticKey::new_false("deferred");
    let branch = || static_branch_unlikely!(KEY);
    let ok = "nothing denies patching";
    let long = Duration::from_secs(3600);
    let _ = KEY.arm();
    assert!(
        KEY.dec_deferred(long)
            .expect_err("no reference")
            .is_underflow()
    );
    KEY.inc().expect(ok);
    KEY.dec_deferred(long).expect(ok);
    let due = run_deferred().expect("a drop is pending");
    assert!(due <= long && branch() && KEY.references() == 0);
    assert!(KEY.dec().expect_err("no reference").is_underflow());
    KEY.inc().expect(ok);
    KEY.dec_deferred(Duration::ZERO).expect(ok);
    KEY.inc().expect(ok);
    run_deferred();
    assert!(branch(), "the new reference has cancelled the drop");
    KEY.inc().expect(ok);
    KEY.dec_deferred(Duration::ZERO).expect(ok);
    assert_eq!((branch(), KEY.references()), (true, 1));
    KEY.dec_deferred(Duration::ZERO).expect(ok);
    run_deferred();
    assert!(!branch());
    KEY.inc().expect(ok);
    KEY.dec_deferred(long).expect(ok);
    KEY.disable().expect(ok);
    assert!(!branch(), "disable does not wait");
}

#[test]
fn keys_are_listed_with_their_sites() {
    static KEY: StaticKey = StaticKey::new_false("listed");
    static OTHER: StaticKey = StaticKey::new_true("no site");
    let branches = || (static_branch_unlikely!(KEY), static_branch_likely!(KEY));
    assert_eq!(branches(), (false, false));
    OTHER.disable().expect("nothing denies patching");
    OTHER.inc().expect("nothing denies patching");
    let _ = KEY.arm();
    let find = |name| keys().find(|key| key.name == name).expect("listed");
    let (listed, other) = (find("listed"), find("no site"));
    assert_eq!((listed.is_enabled, listed.references), (false, 0));
    assert_eq!(
        (other.is_enabled, other.references, other.sites),
        (true, 1, 0)
    );
    let expected = if PATCHES { (2, 1) } else { (0, 0) };
    assert_eq!((listed.sites, listed.patched_sites), expected);
    let expects: Vec<bool> = KEY.sites().iter().map(|site| site.expects).collect();
    assert_eq!(
        expects.iter().filter(|expects| **expects).count(),
        expected.1
    );
    KEY.enable().expect("nothing denies patching");
    let _ = KEY.arm();
    assert_eq!(find("listed").patched_sites, expected.1);
    assert!(
        KEY.sites()
            .iter()
            .all(|site| site.is_patched == site.expects)
    );
}

/// Threads run sites of a key while it is flipped; each then looks once after a flip has returned.
#[test]
fn branches_that_begin_after_a_flip_see_it() {
    static KEY: StaticKey = StaticKey::new_false("flipped under load");
    const ROUNDS: u32 = 400;
    /// Twice the round, plus one while a flip goes on.
    static PHASE: AtomicU32 = AtomicU32::new(0);
    static CHECKED: AtomicU32 = AtomicU32::new(0);
    static STOP: AtomicBool = AtomicBool::new(false);
    let observer = || {
        let mut wrong = 0;
        while !STOP.load(Ordering::Relaxed) {
            let before = PHASE.load(Ordering::SeqCst);
            let seen = (static_branch_unlikely!(KEY), static_branch_likely!(KEY));
            if before.is_multiple_of(2) && PHASE.load(Ordering::SeqCst) == before {
                let expected = before / 2 % 2 == 1;
                wrong += u32::from(seen != (expected, expected));
                CHECKED.fetch_add(1, Ordering::Relaxed);
            }
        }
        wrong
    };
    let observers = [thread::spawn(observer), thread::spawn(observer)];
    for round in 1..=ROUNDS {
        PHASE.store(2 * round - 1, Ordering::SeqCst);
        let flipped = if round % 2 == 1 {
            KEY.enable()
        } else {
            KEY.disable()
        };
        flipped.expect("nothing denies patching");
        PHASE.store(2 * round, Ordering::SeqCst);
        let _ = KEY.arm();
        let checked = CHECKED.load(Ordering::Relaxed);
        while CHECKED.load(Ordering::Relaxed) == checked {
            thread::yield_now();
        }
    }
    STOP.store(true, Ordering::Relaxed);
    let wrong = observers.map(|observer| observer.join().expect("no panic"));
    assert_eq!(wrong, [0, 0]);
    assert!(CHECKED.load(Ordering::Relaxed) >= ROUNDS);
}

/// Many threads take and drop references; whoever holds one sees the key on.
#[test]
fn references_from_many_threads_balance() {
    static KEY: StaticKey = StaticKey::new_false("counted by many");
    let _ = KEY.arm();
    let user = |id: u32| {
        for round in 0..2_000_u32 {
            KEY.inc().expect("nothing denies patching");
            assert!(static_branch_unlikely!(KEY) && static_branch_likely!(KEY));
            let dropped = if (round + id).is_multiple_of(3) {
                KEY.dec_deferred(Duration::ZERO)
            } else {
                KEY.dec()
            };
            dropped.expect("nothing denies patching");
            if round.is_multiple_of(16) {
                run_deferred();
                let _ = KEY.arm();
            }
        }
    };
    thread::scope(|scope| {
        for id in 0..4 {
            scope.spawn(move || user(id));
        }
    });
    run_deferred();
    assert_eq!(KEY.references(), 0);
    assert!(!KEY.is_enabled() && !static_branch_unlikely!(KEY));
}

/// Flips write no code in the time after an arming; `run_deferred` arms again, but not before.
#[test]
fn rearming_is_rate_limited_and_made_up_for() {
    static KEY: StaticKey = StaticKey::new_false("armed again");
    let branch = || static_branch_unlikely!(KEY);
    assert!(!branch());
    let mut start = Instant::now();
    // A machine that is so slow that the interval passes between two lines gets another try.
    let was_quick = (0..100).any(|_| {
        let _ = KEY.arm();
        start = Instant::now();
        KEY.enable().expect("nothing denies patching");
        KEY.disable().expect("nothing denies patching");
        let is_armed = KEY.is_patched();
        let is_quick = start.elapsed() < REARM_INTERVAL;
        assert!(!(is_quick && is_armed), "armed again at once");
        is_quick
    });
    assert!(was_quick);
    while PATCHES && !KEY.is_patched() {
        run_deferred();
    }
    assert!(!PATCHES || start.elapsed() >= REARM_INTERVAL);
    assert!(!branch());
}
