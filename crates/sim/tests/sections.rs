//! The model of a thread's sections beside `evenkeel-slice` itself, over random calls.

use evenkeel_sim::preempt::sections::{Kind, Sections};
use evenkeel_sim::rng::Rng;
use evenkeel_slice::{Section, runtime as slice};

/// A pair of sections: the real one, and its kind in the model.
type Open = (Section, Kind);

fn begin(model: &mut Sections, kind: Kind) -> Open {
    let section = match kind {
        Kind::Slice => evenkeel_slice::enter(),
        Kind::Lock => evenkeel_slice::enter_lock(),
        Kind::Runtime => slice::enter(),
    };
    model.add(kind);
    (section, kind)
}

fn end(model: &mut Sections, (section, kind): Open) {
    drop(section);
    if model.subtract(kind) {
        while model.take_for_hook() {
            model.leave_hook();
        }
    }
}

fn check_same(model: &Sections, seed: u64) {
    let kind = slice::kind().map(|kind| match kind {
        slice::Kind::Slice => Kind::Slice,
        slice::Kind::Lock => Kind::Lock,
        slice::Kind::Runtime => Kind::Runtime,
        other => panic!("the model has no {other:?}"),
    });
    assert_eq!(model.kind(), kind, "seed {seed}");
    assert_eq!(!model.is_outside(), slice::is_in_section(), "seed {seed}");
    assert_eq!(model.has_request(), slice::has_request(), "seed {seed}");
    let deadline = slice::kind().and_then(|kind| kind.deadline());
    let deadline_ns = deadline.map(|deadline| deadline.as_nanos() as u64);
    assert_eq!(kind.and_then(Kind::deadline_ns), deadline_ns, "seed {seed}");
}

#[test]
fn the_model_does_what_the_crate_does() {
    // One that does nothing: without it the end of a section yields to the operating system.
    slice::set_hook(|| {});
    let (mut extended, mut forced) = (0, 0);
    for seed in 0..200 {
        let rng = &mut Rng::new(seed);
        let (mut model, mut open) = (Sections::default(), Vec::new());
        let before = slice::counts();
        for _ in 0..200 {
            match rng.below(6) {
                0 | 1 if open.len() < 6 => {
                    let kinds = [Kind::Slice, Kind::Lock, Kind::Runtime];
                    open.push(begin(&mut model, *rng.pick(&kinds)));
                }
                2 | 3 => {
                    if let Some(section) = open.pop() {
                        end(&mut model, section);
                    }
                }
                4 => assert_eq!(model.request(), slice::request(), "seed {seed}"),
                _ => assert_eq!(model.force(), slice::force(), "seed {seed}"),
            }
            check_same(&model, seed);
        }
        while let Some(section) = open.pop() {
            end(&mut model, section);
        }
        check_same(&model, seed);
        let (after, counts) = (slice::counts(), model.counts());
        let real = [
            after.requests - before.requests,
            after.extended - before.extended,
            after.forced - before.forced,
        ];
        let modelled = [counts.requests, counts.extended, counts.forced];
        assert_eq!(modelled, real.map(|count| count as u64), "seed {seed}");
        extended += counts.extended;
        forced += counts.forced;
    }
    assert!(extended > 100 && forced > 100, "{extended} {forced}");
}
