//! Whether the guest's report is a good one.

use serde_json::Value;

use super::programs::{ABI, ABI_UNREGISTERED, LOCK, PROGRAMS};
use super::qemu::CPUS;
use super::serial::{Counter, Report, Run};

/// The kernel that the tests are about.
const RELEASE: &str = "7.2.";

/// For how long the guest's kernel has to extend a slice: its limit.
const EXTENSION_NS: u64 = 50_000;

/// With the extension, a contender is to lose its CPU while it holds the lock this many times less
/// often.
const FACTOR: f64 = 10.0;

/// Without the extension it has to happen at least this often, or the comparison says nothing.
const ENOUGH: f64 = 50.0;

/// The names of the experiment's two subjects.
const WITHOUT: &str = "without extension";
const WITH: &str = "with extension";

/// The verdict on one run.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Facts worth a line.
    pub(crate) facts: Vec<String>,
    /// What is wrong; empty when the tests passed.
    pub(crate) faults: Vec<String>,
}

/// Judges a report.
pub(crate) fn judge(report: &Report) -> Verdict {
    let mut verdict = Verdict::default();
    judge_guest(report, &mut verdict);
    for program in PROGRAMS {
        let fault = match report.run(program.name).map(|run| run.status) {
            None => "did not run".to_owned(),
            Some(None) => "did not end".to_owned(),
            Some(Some(0)) => continue,
            Some(Some(status)) => format!("ended with status {status}"),
        };
        verdict.faults.push(format!("{} {fault}", program.name));
    }
    for program in [ABI, ABI_UNREGISTERED] {
        if let Some(run) = report.run(program.name) {
            judge_checks(run, &mut verdict);
        }
    }
    if let Some(run) = report.run(LOCK.name) {
        judge_lock(run, report, &mut verdict);
    }
    verdict
}

fn judge_guest(report: &Report, verdict: &mut Verdict) {
    verdict.facts.push(format!(
        "guest: Linux {}, clock {}, extension {} ns",
        report.kernel,
        report.clock,
        report.extension_ns.unwrap_or(0)
    ));
    let faults = [
        (!report.is_done, "the guest did not get to its end"),
        (
            !report.kernel.starts_with(RELEASE),
            "the guest runs another kernel",
        ),
        (
            report.processors != Some(CPUS),
            "the guest has another number of CPUs",
        ),
        (
            report.extension_ns != Some(EXTENSION_NS),
            "the guest's kernel did not take the length of the extension",
        ),
    ];
    let found = faults.iter().filter(|(is_found, _)| *is_found);
    verdict
        .faults
        .extend(found.map(|(_, fault)| (*fault).to_owned()));
}

/// Judges lines of `check NAME: ok`, `check NAME: FAILED: why`, `check NAME: skipped: why`.
fn judge_checks(run: &Run, verdict: &mut Verdict) {
    let (mut passed, mut skipped) = (0, 0);
    let checks = run
        .lines
        .iter()
        .filter_map(|line| line.strip_prefix("check "));
    for check in checks {
        match check.split_once(": ") {
            Some((_, "ok")) => passed += 1,
            Some((_, result)) if result.starts_with("skipped: ") => {
                skipped += 1;
                verdict.facts.push(format!("{}: {check}", run.name));
            }
            _ => verdict.faults.push(format!("{}: {check}", run.name)),
        }
    }
    let facts = format!("{}: {passed} checks passed, {skipped} skipped", run.name);
    verdict.facts.push(facts);
    if passed == 0 {
        verdict
            .faults
            .push(format!("{}: no check passed", run.name));
    }
}

fn judge_lock(run: &Run, report: &Report, verdict: &mut Verdict) {
    let json = run.lines.iter().rev().find_map(|line| {
        let value: Value = serde_json::from_str(line).ok()?;
        value.is_object().then_some(value)
    });
    let Some(json) = json else {
        let fault = format!("{}: no line of JSON", run.name);
        verdict.faults.push(fault);
        return;
    };
    let total = |subject: &str, what: &str| {
        let subjects = json["subjects"].as_array()?;
        let subject = subjects.iter().find(|s| s["name"] == subject)?;
        subject[what]["total"].as_f64()
    };
    let Some((without, with)) = total(WITHOUT, "preempted").zip(total(WITH, "preempted")) else {
        let fault = format!("{}: figures of one subject are missing", run.name);
        verdict.faults.push(fault);
        return;
    };
    verdict.facts.push(format!(
        "lock: preempted while holding {without} times without, {with} times with the extension"
    ));
    let acquisitions = |subject| total(subject, "acquisitions");
    if let Some((without, with)) = acquisitions(WITHOUT).zip(acquisitions(WITH)) {
        let gain = (with / without - 1.0) * 100.0;
        verdict.facts.push(format!(
            "lock: acquisitions {without} without, {with} with the extension: {gain:+.1} %"
        ));
    }
    if without < ENOUGH {
        verdict.faults.push(format!(
            "lock: preempted while holding only {without} times without the extension; {ENOUGH} \
             are needed for a comparison"
        ));
    }
    if without < FACTOR * with {
        verdict.faults.push(format!(
            "lock: preempted while holding {without} times without and {with} times with the \
             extension: less than {FACTOR} times as often"
        ));
    }
    let yielded = total(WITH, "yielded").unwrap_or(0.0);
    judge_counters(yielded, &report.growth(LOCK.name), verdict);
}

/// Holds the experiment's count of extensions against the kernel's counters. Fewer yields than ours
/// are possible: an extension can end between a thread's seeing it and its yield.
fn judge_counters(ours: f64, kernels: &[Counter], verdict: &mut Verdict) {
    let value = |name: &str| {
        let counter = kernels.iter().find(|counter| counter.name == name);
        counter.map(|counter| counter.value as f64)
    };
    let Some((granted, yielded)) = value("sgrant").zip(value("syield")) else {
        let fault = "the kernel's counters sgrant and syield are missing";
        verdict.faults.push(fault.to_owned());
        return;
    };
    let fact = format!(
        "lock: {ours} extensions yielded; by the kernel's count {granted} granted, {yielded} \
         yielded"
    );
    if ours < 1.0 || ours > granted || ours < yielded {
        verdict.faults.push(fact);
    } else {
        verdict.facts.push(fact);
    }
}

#[cfg(test)]
mod tests;
