//! Nesting and requests, against a model; panics; other threads.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::panic::catch_unwind;
use std::thread;

use evenkeel_slice::runtime::{self, Counts, Kind};
use evenkeel_slice::{Section, enter, enter_lock};
use proptest::prelude::*;

thread_local! {
    static HOOKS: Cell<usize> = const { Cell::new(0) };
    /// Requests that the hook itself is to meet, one a call.
    static DURING_HOOK: Cell<usize> = const { Cell::new(0) };
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

fn hook() {
    assert!(!runtime::is_in_section(), "the count is 0 in the hook");
    DEPTH.set(DEPTH.get() + 1);
    assert_eq!(DEPTH.get(), 1, "the hook is not called within itself");
    HOOKS.set(HOOKS.get() + 1);
    if DURING_HOOK.get() > 0 {
        DURING_HOOK.set(DURING_HOOK.get() - 1);
        let _own = runtime::enter();
        assert!(runtime::request());
    }
    DEPTH.set(DEPTH.get() - 1);
}

fn with_hook() {
    runtime::set_hook(hook);
    HOOKS.set(0);
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Enter(usize),
    /// Ends the open section at this place, modulo their number.
    Leave(usize),
    Request,
    Force,
    Cancel,
}

fn begin(kind: usize) -> Section {
    match kind {
        0 => enter(),
        1 => enter_lock(),
        _ => runtime::enter(),
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..3_usize).prop_map(Step::Enter),
        4 => (0..8_usize).prop_map(Step::Leave),
        2 => Just(Step::Request),
        1 => Just(Step::Force),
        1 => Just(Step::Cancel),
    ];
    prop::collection::vec(step, 0..60)
}

fn since(before: Counts) -> [usize; 4] {
    let now = runtime::counts();
    [
        now.requests - before.requests,
        now.extended - before.extended,
        now.forced - before.forced,
        now.cancelled - before.cancelled,
    ]
}

proptest! {
    #[test]
    fn sections_and_requests_follow_the_model(steps in steps()) {
        with_hook();
        let before = runtime::counts();
        let mut open: Vec<Section> = Vec::new();
        let mut pending = false;
        let [mut requests, mut extended, mut forced, mut cancelled] = [0; 4];
        for step in steps.into_iter().chain([Step::Leave(0); 60]) {
            match step {
                Step::Enter(kind) => open.push(begin(kind)),
                Step::Leave(place) if !open.is_empty() => {
                    drop(open.remove(place % open.len()));
                    if open.is_empty() && pending {
                        extended += 1;
                        pending = false;
                    }
                }
                Step::Leave(_) => {}
                Step::Request => {
                    prop_assert_eq!(runtime::request(), !open.is_empty());
                    requests += usize::from(!open.is_empty() && !pending);
                    pending |= !open.is_empty();
                }
                Step::Force => {
                    prop_assert_eq!(runtime::force(), pending);
                    forced += usize::from(pending);
                    pending = false;
                }
                Step::Cancel => {
                    prop_assert_eq!(runtime::cancel(), pending);
                    cancelled += usize::from(pending);
                    pending = false;
                }
            }
            prop_assert_eq!(runtime::is_in_section(), !open.is_empty());
            prop_assert_eq!(runtime::has_request(), pending);
            prop_assert_eq!(runtime::kind(), open.iter().map(Section::kind).max());
            prop_assert_eq!(since(before), [requests, extended, forced, cancelled]);
            prop_assert_eq!(HOOKS.get(), extended);
        }
        prop_assert!(open.is_empty() && requests == extended + forced + cancelled);
    }
}

#[test]
fn a_request_that_meets_the_hook_calls_it_again_and_not_within_itself() {
    with_hook();
    DURING_HOOK.set(3);
    let section = enter();
    assert!(runtime::request());
    drop(section);
    assert_eq!((HOOKS.get(), DURING_HOOK.get()), (4, 0));
    assert!(!runtime::has_request());
}

#[test]
fn a_panic_ends_its_sections_and_serves_the_request() {
    with_hook();
    let unwound = catch_unwind(|| {
        let _outer = enter_lock();
        let _inner = enter();
        assert!(runtime::request());
        panic!("inside");
    });
    assert!(unwound.is_err());
    assert!(!runtime::is_in_section());
    assert_eq!(HOOKS.get(), 1);
}

#[test]
fn threads_have_their_own_sections() {
    with_hook();
    let _section = enter();
    assert!(runtime::request());
    thread::spawn(|| {
        assert!(!runtime::is_in_section() && !runtime::has_request() && !runtime::request());
        drop(enter());
        assert_eq!(HOOKS.get(), 0);
        assert_eq!(runtime::counts(), Counts::default());
    })
    .join()
    .expect("no assertion fails");
    assert!(runtime::cancel(), "this one's request is untouched");
}

#[test]
fn kinds_have_their_deadlines() {
    use std::time::Duration;
    assert_eq!(Kind::Slice.deadline(), Some(Duration::from_micros(50)));
    assert_eq!(Kind::Lock.deadline(), Some(Duration::from_millis(5)));
    assert_eq!(Kind::Runtime.deadline(), None);
}

#[test]
fn a_thread_that_ends_in_a_section_leaves_nothing_to_the_next() {
    // Their stacks, and the state in them, are used again.
    for _ in 0..50 {
        let thread = thread::spawn(|| {
            assert!(!runtime::is_in_section() && !runtime::has_request());
            assert_eq!(runtime::counts(), Counts::default());
            std::mem::forget(enter_lock());
            assert!(runtime::request());
        });
        thread.join().expect("no assertion fails");
    }
}

#[test]
fn a_leaked_section_runs_into_the_deadline_each_time() {
    with_hook();
    thread::spawn(|| {
        for _ in 0..5_000 {
            std::mem::forget(enter_lock());
        }
        assert_eq!(runtime::kind(), Some(Kind::Lock));
        for _ in 0..3 {
            assert!(runtime::request() && runtime::force());
            drop(enter());
        }
        assert_eq!((HOOKS.get(), runtime::counts().forced), (0, 3));
    })
    .join()
    .expect("no assertion fails");
}
