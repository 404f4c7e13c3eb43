//! A loop in a state, as a subject of [`stats`](crate::stats).

use std::ffi::OsString;
use std::process::Command;

use super::probe::{Answer, Probe};
use super::{Error, Place, callgrind};
use crate::children::Children;
use crate::stats::{Better, Metric, Subject};

/// Time of one round of the loop.
pub(super) const TIME: Metric = Metric::sampled("time", "ns", Better::Lower);
/// Instructions of one round, by callgrind.
pub(super) const INSTRUCTIONS: &str = "instructions";
/// Branches of one round, by callgrind.
pub(super) const BRANCHES: &str = "branches";
/// Instructions of one round, by hardware.
pub(super) const HARDWARE_INSTRUCTIONS: Metric =
    Metric::sampled("hardware instructions", "1", Better::Lower);
/// Branches of one round, by hardware.
pub(super) const HARDWARE_BRANCHES: Metric =
    Metric::sampled("hardware branches", "1", Better::Lower);

/// What a run measures, with and without hardware counters.
const METRICS: [Metric; 3] = [TIME, HARDWARE_INSTRUCTIONS, HARDWARE_BRANCHES];

/// A row of the table: a loop in a state.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// The loop.
    pub(super) place: Place,
    /// The state, such as `off`.
    pub(super) state: String,
    /// Keys to turn on.
    pub(super) on: Vec<&'static str>,
    /// The key that the row is about, if it is about one alone.
    pub(super) key: Option<&'static str>,
    /// Cargo features of the build that it runs in.
    pub(super) features: Vec<&'static str>,
}

impl Row {
    /// Returns the name of the subject.
    pub(super) fn name(&self) -> String {
        name(self.place, &self.state)
    }
}

/// Returns the name of the subject with that loop and state.
pub(super) fn name(place: Place, state: &str) -> String {
    format!("{place}: {state}")
}

/// A row that can be measured.
pub(super) struct Runnable<'a> {
    name: String,
    /// The program and its first arguments.
    pub(super) program: Vec<OsString>,
    pub(super) probe: Probe,
    children: &'a Children,
    has_counters: bool,
}

impl<'a> Runnable<'a> {
    /// Runs the probe once; the answer says what the machine has. The error is why the row cannot
    /// be measured.
    pub(super) fn check(
        row: Row,
        program: Vec<OsString>,
        iterations: u64,
        children: &'a Children,
    ) -> Result<(Self, Answer), Error> {
        let probe = Probe {
            place: row.place,
            iterations,
            lead_in: iterations / 10,
            on: row.on.iter().map(ToString::to_string).collect(),
        };
        let mut this = Runnable {
            name: row.name(),
            program,
            probe,
            children,
            has_counters: false,
        };
        let once = Probe {
            iterations: 1,
            lead_in: 0,
            ..this.probe.clone()
        };
        let answer = this.ask(&once)?;
        this.has_counters = answer.counters.is_ok();
        Ok((this, answer))
    }

    fn ask(&self, probe: &Probe) -> Result<Answer, Error> {
        let arguments = probe.arguments();
        ask(&self.program, &arguments, self.children, Answer::parse)
    }
}

/// Runs a probe and reads its answer.
///
/// # Errors
/// It does not start, fails, or answers what `read` does not understand.
pub(super) fn ask<T>(
    program: &[OsString],
    arguments: &[String],
    children: &Children,
    read: impl Fn(&str) -> Option<T>,
) -> Result<T, Error> {
    let [program, first @ ..] = program else {
        return Err(Error::usage("probe", "", "a program"));
    };
    let shown = || program.to_string_lossy().into_owned();
    let mut command = Command::new(program);
    let ended = children.run(command.args(first).args(arguments));
    let ended = ended.map_err(|error| Error::start(shown(), error))?;
    if !ended.status.success() {
        return Err(Error::program(shown(), ended));
    }
    let answer = read(&ended.out);
    answer.ok_or_else(|| Error::program(shown(), format!("answered `{}`", ended.out.trim())))
}

/// A row whose instructions and branches are counted.
pub(super) struct Counted<'a>(pub(super) &'a Runnable<'a>, [Metric; 2]);

impl<'a> Counted<'a> {
    /// In the core nothing depends on time, so that every count is the same; threads of the runtime
    /// look at the clock.
    pub(super) fn new(row: &'a Runnable<'a>) -> Self {
        let metric = if row.probe.place.is_runtime() {
            Metric::sampled
        } else {
            Metric::counted
        };
        let lower = Better::Lower;
        Counted(
            row,
            [
                metric(INSTRUCTIONS, "1", lower),
                metric(BRANCHES, "1", lower),
            ],
        )
    }
}

impl Subject for Counted<'_> {
    type Error = Error;

    fn name(&self) -> &str {
        &self.0.name
    }

    fn metrics(&self) -> &[Metric] {
        &self.1
    }

    fn run(&mut self) -> Result<Vec<f64>, Error> {
        let Runnable {
            program,
            probe,
            children,
            ..
        } = self.0;
        callgrind::count(program, probe, children).map(Vec::from)
    }
}

impl Subject for Runnable<'_> {
    type Error = Error;

    fn name(&self) -> &str {
        &self.name
    }

    fn metrics(&self) -> &[Metric] {
        if self.has_counters {
            &METRICS
        } else {
            &METRICS[..1]
        }
    }

    fn run(&mut self) -> Result<Vec<f64>, Error> {
        let answer = self.ask(&self.probe)?;
        let rounds = self.probe.iterations as f64;
        let mut values = vec![answer.ns / rounds];
        if self.has_counters {
            let counters = answer.counters;
            let counters = counters.map_err(|error| Error::program("counters", error))?;
            values.extend(counters.map(|count| count / rounds));
        }
        Ok(values)
    }
}
