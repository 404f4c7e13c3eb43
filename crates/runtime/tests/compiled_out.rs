//! What is not in a build is refused with an error that says so, and what is in it works: for every
//! combination of cargo features.

use evenkeel::{Builder, Class, Error, Level, Order, Quota, RtPolicy, keys, trace};

/// Checks that `result` is an error for which `is_not_compiled` holds exactly when one of the parts
/// is not in this build, and that it names such a part's cargo feature.
fn check<T>(result: Result<T, Error>, parts: &[&str]) {
    let keys = keys::list();
    let missing: Vec<_> = keys
        .iter()
        .filter(|key| parts.contains(&key.name) && !key.is_compiled)
        .map(|key| format!("`{}`", key.feature))
        .collect();
    match result {
        Ok(_) => assert!(missing.is_empty(), "works without {missing:?}"),
        Err(error) => {
            assert!(error.is_not_compiled(), "{error}");
            let text = error.to_string();
            let names_one = missing.iter().any(|feature| text.contains(feature));
            assert!(names_one, "{text}: {missing:?} are missing");
        }
    }
}

#[test]
fn what_is_not_compiled_says_so() {
    let runtime = Builder::new().worker_threads(1).build().expect("a runtime");
    let root = runtime.handle().root();
    check(root.child("plain").build(), &["groups"]);
    check(
        root.child("fair").order(Order::Fair).build(),
        &["groups", "fair_order"],
    );
    let class = Class::RealTime {
        priority: 1,
        policy: RtPolicy::Fifo,
    };
    check(
        root.child("realtime").class(class).build(),
        &["realtime", "groups"],
    );
    let half = Quota::cores(0.5).expect("valid");
    check(
        root.child("capped").quota(half).build(),
        &["bandwidth", "groups"],
    );
    check(root.start_times(), &["statistics"]);
    check(trace::enable(), &["tracing"]);
    for level in [Level::Lazy, Level::Handoff] {
        check(Builder::new().preempt(level).build(), &["preempt"]);
    }
    check(
        Builder::new().preempt(Level::Park).build(),
        &["preempt", "groups"],
    );
    // What failed has changed nothing.
    let task = runtime.spawn(async {
        evenkeel::yield_now().await;
        evenkeel::spawn(async { 6 * 7 }).await.expect("a number")
    });
    assert_eq!(runtime.block_on(task).expect("a number"), 42);
    assert!(root.stat().nr_tasks <= 1);
}

#[test]
fn without_preemption_the_level_is_off() {
    let runtime = Builder::new().worker_threads(1).build().expect("a runtime");
    let is_compiled = keys::list()
        .iter()
        .any(|key| key.name == "preempt" && key.is_compiled);
    let expected = if is_compiled {
        Level::Handoff
    } else {
        Level::Off
    };
    assert_eq!(runtime.handle().root().preempt(), expected);
}
