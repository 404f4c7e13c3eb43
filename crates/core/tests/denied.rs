//! Keys and features that the system refuses to flip: the caller is told, and nothing has changed.
//! One test only: keys and features belong to the process, and so does the limit on open files
//! that makes patching fail.

use evenkeel_core::keys::{BANDWIDTH, REALTIME};
use evenkeel_core::{Class, RtPolicy, TaskParams, feat, features, key_on};
use evenkeel_static_key::arm_all;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Has a branch on a key and on three features.
#[inline(never)]
fn branches() -> [bool; 4] {
    [
        key_on!(REALTIME),
        feat!(PLACE_LAG),
        feat!(RUN_TO_PARITY),
        feat!(NEXT_BUDDY),
    ]
}

/// Runs `body` while no file can be opened.
fn without_files(body: impl FnOnce()) {
    let before = getrlimit(Resource::Nofile);
    let none = Rlimit {
        current: Some(0),
        ..before
    };
    setrlimit(Resource::Nofile, none).expect("a lower limit is allowed");
    body();
    setrlimit(Resource::Nofile, before).expect("the old limit is allowed");
}

#[test]
fn a_refused_flip_is_an_error_and_changes_nothing() {
    if let Err(error) = arm_all() {
        println!("skipped: {error}");
        return;
    }
    let class = Class::RealTime {
        priority: 1,
        policy: RtPolicy::Fifo,
    };
    let real_time = TaskParams {
        class,
        ..TaskParams::default()
    };
    let before = features::state().to_string();
    without_files(|| {
        let error = real_time
            .check()
            .expect_err("armed sites cannot be written");
        assert!(error.is_key(), "{error}");
        assert!(error.to_string().contains("`realtime`"), "{error}");
        assert!(!REALTIME.is_on());

        // No branch on this key is armed here: nothing has to be written.
        drop(BANDWIDTH.hold().expect("only the flag changes"));
        assert_eq!((BANDWIDTH.references(), BANDWIDTH.is_on()), (0, false));

        let text = "NO_PLACE_LAG NEXT_BUDDY NO_RUN_TO_PARITY";
        let error = features::set(text).expect_err("armed sites cannot be written");
        assert!(error.is_key(), "{error}");
        assert_eq!(features::state().to_string(), before);
        assert_eq!(branches(), [false, true, true, false]);
    });
    real_time.check().expect("files can be opened again");
    assert!(REALTIME.is_on());
    features::set("NO_PLACE_LAG NEXT_BUDDY").expect("files can be opened again");
    let changed = features::state().to_string();
    assert!(changed.contains("NO_PLACE_LAG") && !changed.contains("NO_NEXT_BUDDY"));
    assert_eq!(branches(), [true, false, true, true]);
    features::set(&before).expect("as before");
    assert_eq!(features::state().to_string(), before);
}
