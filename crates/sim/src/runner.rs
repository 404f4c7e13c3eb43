//! Runs histories, turns panics into violations, and says how to replay a failure.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use crate::account::WindowError;
use crate::check::{Bounds, errors};
use crate::history::{Cut, History};
use crate::machine::Machine;
use crate::sched::Scheduler;
use crate::stats::Stats;
use crate::trace::Trace;
use crate::violation::Violation;

/// Is what a history that broke no promise measured.
#[derive(Clone, Debug)]
pub struct Report {
    /// Counts and integrals.
    pub stats: Stats,
    /// Errors over 100 ms and over 1 s of the judged phase.
    pub errors: [WindowError; 2],
}

/// Is a broken promise with the events before it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What broke.
    pub violation: Violation,
    /// The last events, one a line.
    pub last_events: Vec<String>,
    /// What had been measured until then.
    pub report: Report,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "last events (time in ns):")?;
        for line in &self.last_events {
            writeln!(f, "  {line}")?;
        }
        write!(f, "{}", self.violation)
    }
}

thread_local! {
    static IS_RUNNING: Cell<bool> = const { Cell::new(false) };
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps the message of a panic inside a run, instead of printing it.
fn catch_messages() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if IS_RUNNING.get() {
                MESSAGE.set(info.to_string().replace('\n', " "));
            } else {
                before(info);
            }
        }));
    });
}

/// Runs `history` on `sched`.
///
/// # Errors
/// The first broken promise; a panic of the scheduler counts as one.
pub fn run<S: Scheduler>(
    history: History,
    sched: S,
    bounds: Bounds,
    is_traced: bool,
) -> Result<Report, Box<Failure>> {
    catch_messages();
    let mut machine = Machine::new(history, sched, bounds, Trace::new(is_traced));
    IS_RUNNING.set(true);
    let caught = panic::catch_unwind(AssertUnwindSafe(|| machine.run().err()));
    IS_RUNNING.set(false);
    let violation = caught.unwrap_or_else(|_| {
        let message = MESSAGE.take();
        Some(Violation::Panic { message })
    });
    let report = Report {
        stats: machine.stats().clone(),
        errors: errors(&machine),
    };
    match violation {
        None => Ok(report),
        Some(violation) => Err(Box::new(Failure {
            violation,
            last_events: machine.trace().lines(),
            report,
        })),
    }
}

/// Returns the command that replays a history, or what a cut leaves of it; `flips`: with features
/// and keys flipped meanwhile (see [`crate::flip`]).
pub fn replay_command(seed: u64, cut: &Cut, flips: bool, extra: &str) -> String {
    let (build, mode) = if flips {
        (" --features sched-debug", " --flip-features")
    } else {
        ("", "")
    };
    let mut text =
        format!("cargo run --release -p evenkeel-sim{build} -- check{mode} --seed {seed}{extra}");
    let list = |numbers: &[usize]| -> String {
        let words: Vec<String> = numbers.iter().map(usize::to_string).collect();
        words.join(",")
    };
    if !cut.tasks.is_empty() {
        text += &format!(" --without-tasks {}", list(&cut.tasks));
    }
    if !cut.ops.is_empty() {
        text += &format!(" --without-ops {}", list(&cut.ops));
    }
    if let Some(busy_ns) = cut.busy_ns {
        text += &format!(" --busy-ns {busy_ns}");
    }
    for (is_set, flag) in [
        (cut.is_unjudged, " --unjudged"),
        (cut.has_equal_nice, " --equal-nice"),
        (cut.has_equal_slices, " --equal-slices"),
    ] {
        if is_set {
            text += flag;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{self, Limits};
    use crate::naive::Naive;

    fn naive(seed: u64, bounds: Bounds) -> Result<Report, Box<Failure>> {
        let mut history = generate::history(seed, &Limits::default());
        // The naive scheduler keeps one queue order for all classes and may starve nobody.
        history.judged_ns = if bounds.group_percent > 1e6 {
            0
        } else {
            history.judged_ns
        };
        let sched = Naive::new(history.machine.cpus as usize, history.groups.len());
        run(history, sched, bounds, false)
    }

    #[test]
    fn a_right_but_unfair_scheduler_passes_all_but_the_judge() {
        for seed in 0..12 {
            if let Err(failure) = naive(seed, Bounds::UNJUDGED) {
                panic!("seed {seed}: {failure}");
            }
        }
        let tight = Bounds {
            group_percent: 1.0,
            ..Bounds::UNJUDGED
        };
        let unfair = (0..12).filter(|&seed| {
            let failed = naive(seed, tight).err();
            failed.is_some_and(|f| matches!(f.violation, Violation::Lag { .. }))
        });
        assert!(unfair.count() >= 3);
    }

    #[test]
    fn commands_name_the_cut() {
        let cut = Cut {
            tasks: vec![1, 4],
            ops: vec![0],
            busy_ns: Some(7),
            is_unjudged: true,
            has_equal_nice: true,
            has_equal_slices: true,
        };
        let text = replay_command(9, &cut, false, "");
        let end = "--seed 9 --without-tasks 1,4 --without-ops 0 --busy-ns 7";
        assert!(text.ends_with(&format!("{end} --unjudged --equal-nice --equal-slices")));
    }
}
