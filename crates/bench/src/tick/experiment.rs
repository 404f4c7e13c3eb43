//! The experiment from its settings to its findings.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::PathBuf;

use serde_json::json;

use super::build::Builds;
use super::callgrind;
use super::part::{self, Part};
use super::subject::{Counted, Row, Runnable, ask, name};
use super::{Error, Findings, Missing, Place, probe};
use crate::children::Children;
use crate::machine::Machine;
use crate::stats::{MIN_PAIRS, NoiseMeter, Plan, Report, Step, Subject, measure};

/// The state that all others are compared with.
pub(super) const OFF: &str = "off";

/// The settings.
#[derive(Clone, Debug)]
pub struct Options {
    /// Timed runs of each subject.
    pub runs: usize,
    /// Runs before them that do not count.
    pub warm_up: usize,
    /// Rounds of the loop in a run, from 1.
    pub iterations: u64,
    /// The loops.
    pub places: Vec<Place>,
    /// Keys to look at; all if empty.
    pub keys: Vec<String>,
    /// A program, with its first arguments, that is the [probe](super::probe) when further ones are
    /// added. Used where there is no source tree.
    pub probe: Vec<OsString>,
    /// The source tree to build the probe in; none: what needs a build is not measured.
    pub tree: Option<PathBuf>,
    /// Whether to count with callgrind, if it is there.
    pub counts: bool,
}

impl Options {
    /// Returns the defaults: everything, 30 runs.
    pub fn new(probe: Vec<OsString>) -> Self {
        Options {
            runs: 30,
            warm_up: 1,
            iterations: 1_000_000,
            places: Place::ALL.to_vec(),
            keys: Vec::new(),
            probe,
            tree: None,
            counts: true,
        }
    }

    /// Checks every setting.
    ///
    /// # Errors
    /// The first one that is not allowed, with what is.
    pub fn check(&self) -> Result<(), Error> {
        if self.runs == 0 {
            return Err(Error::usage("runs", "0", "an integer from 1"));
        }
        if self.iterations == 0 {
            return Err(Error::usage("iterations", "0", "an integer from 1"));
        }
        for key in &self.keys {
            if part::PARTS.iter().all(|part| part.key != key) {
                let names: Vec<&str> = part::PARTS.iter().map(|part| part.key).collect();
                return Err(Error::usage("key", key, names.join(", ")));
            }
        }
        Ok(())
    }

    fn wants(&self, part: Part) -> bool {
        self.keys.is_empty() || self.keys.iter().any(|key| key == part.key)
    }

    /// Lists the rows of a place: off, each key on, all on, each part compiled out, all out.
    fn rows(&self, place: Place) -> Vec<Row> {
        let parts: Vec<Part> = part::of(place)
            .filter(|part| self.wants(*part) && !is_in_use(place, *part))
            .collect();
        let row = |state: &str, on: &[Part], features: Vec<&'static str>| Row {
            place,
            state: state.to_owned(),
            on: keys_of(place, on),
            key: if let [part] = on {
                Some(part.key)
            } else {
                None
            },
            features,
        };
        let with_all = part::features_with_all(place);
        let mut rows = vec![row(OFF, &[], with_all.clone())];
        for part in &parts {
            rows.push(row(&format!("{} on", part.key), &[*part], with_all.clone()));
        }
        if parts.len() > 1 {
            rows.push(row("all on", &parts, with_all));
        }
        for part in &parts {
            if let Some(features) = part::features_without(place, *part) {
                rows.push(row(&format!("{} compiled out", part.key), &[], features));
            }
        }
        if self.keys.is_empty() && place == Place::Runtime {
            let none = part::features_without_any(place);
            rows.push(row("all compiled out", &[], none));
        }
        rows
    }
}

/// Whether the loop of a place uses a part: its key is on by that, and it cannot be left out.
fn is_in_use(place: Place, part: Part) -> bool {
    place == Place::Group && [part::COMBINED, "groups"].contains(&part.key)
}

/// Returns the keys that are on when these parts of a place are.
fn keys_of(place: Place, parts: &[Part]) -> Vec<&'static str> {
    let mut keys: Vec<&'static str> = parts.iter().map(|part| part.key).collect();
    if place == Place::Runtime && !keys.is_empty() && !keys.contains(&part::COMBINED) {
        keys.insert(0, part::COMBINED);
    }
    keys
}

/// Where the programs come from.
struct Programs<'a> {
    options: &'a Options,
    children: &'a Children,
    builds: Result<Builds, String>,
    built: BTreeMap<Vec<&'static str>, Result<PathBuf, String>>,
    /// The keys that a program has branches on.
    listed: BTreeMap<Vec<OsString>, Vec<String>>,
}

impl<'a> Programs<'a> {
    fn new(options: &'a Options, children: &'a Children) -> Self {
        let builds = match &options.tree {
            Some(tree) => Builds::new(tree, children),
            None => Err("needs the source tree".to_owned()),
        };
        Programs {
            options,
            children,
            builds,
            built: BTreeMap::new(),
            listed: BTreeMap::new(),
        }
    }

    /// Returns the program for a row. The error says why there is none.
    fn of(&mut self, row: &Row, progress: &mut dyn FnMut(&str)) -> Result<Vec<OsString>, String> {
        let has_all = row.features == part::features_with_all(row.place);
        let builds = match &self.builds {
            Ok(builds) => builds,
            // The program at hand has every part.
            Err(_) if has_all => return Ok(self.options.probe.clone()),
            Err(reason) => return Err(reason.clone()),
        };
        let built = self.built.entry(row.features.clone()).or_insert_with(|| {
            progress(&format!("building with {}", row.features.join(", ")));
            builds.build(&row.features, self.children)
        });
        built.clone().map(|program| vec![program.into_os_string()])
    }

    /// Leaves out keys without branches in the program, which turning on could change nothing. The
    /// error says that this leaves nothing to turn on that no other row has.
    fn keep_keys_with_branches(
        &mut self,
        program: &[OsString],
        row: &mut Row,
    ) -> Result<(), String> {
        if row.on.is_empty() {
            return Ok(());
        }
        if !self.listed.contains_key(program) {
            let list = ask(program, &["list".to_owned()], self.children, probe::listed);
            let list = list.map_err(|error| error.to_string())?;
            self.listed.insert(program.to_vec(), list);
        }
        let listed = &self.listed[program];
        row.on
            .retain(|key| listed.iter().any(|listed| listed == key));
        match (row.key, &row.on[..]) {
            (Some(key), on) if !on.contains(&key) => {
                Err("no branch in this program is on the key".to_owned())
            }
            (None, []) => Err("no branch in this program is on a key".to_owned()),
            (None, [one]) => Err(format!("only the key {one} has branches in this program")),
            _ => Ok(()),
        }
    }
}

/// Runs the experiment. `progress` is told, in a few words, what is going on.
///
/// When `children` is stopped meanwhile, what was found so far comes back.
///
/// # Errors
/// A setting is not allowed; a probe that had worked fails.
pub fn run(
    options: &Options,
    children: &Children,
    progress: &mut dyn FnMut(&str),
) -> Result<Findings, Error> {
    options.check()?;
    let mut findings = Findings::new(Report {
        bench: "tick",
        params: json!({}),
        machine: Machine::here(),
        noise: NoiseMeter::start().read(),
        series: Vec::new(),
        comparisons: Vec::new(),
    });
    let mut subjects = prepare(options, children, &mut findings, progress);
    if !children.is_stopped() {
        count(options, &subjects, children, &mut findings, progress)?;
    }
    if !children.is_stopped() {
        time(options, &mut subjects, children, &mut findings, progress)?;
    }
    findings.is_partial |= children.is_stopped();
    findings.report.params = json!({
        "runs": options.runs,
        "warm_up": options.warm_up,
        "iterations": options.iterations,
        "places": options.places.iter().map(|place| place.name()).collect::<Vec<_>>(),
        "keys": options.keys,
    });
    for place in &options.places {
        for row in options.rows(*place).iter().filter(|row| row.state != OFF) {
            findings.report.compare(&name(*place, OFF), &row.name());
        }
    }
    findings.rows = options
        .places
        .iter()
        .flat_map(|place| {
            let rows = options.rows(*place).into_iter();
            rows.map(|row| (row.place, row.state))
        })
        .collect();
    Ok(findings)
}

/// Finds a program for every row and tries it; notes what cannot be measured, and why.
fn prepare<'a>(
    options: &Options,
    children: &'a Children,
    findings: &mut Findings,
    progress: &mut dyn FnMut(&str),
) -> Vec<Runnable<'a>> {
    let mut programs = Programs::new(options, children);
    let mut subjects = Vec::new();
    for mut row in options.places.iter().flat_map(|place| options.rows(*place)) {
        if children.is_stopped() {
            break;
        }
        let name = row.name();
        let tried = programs.of(&row, progress).and_then(|program| {
            programs.keep_keys_with_branches(&program, &mut row)?;
            let tried = Runnable::check(row, program, options.iterations, children);
            tried.map_err(|error| error.to_string())
        });
        match tried {
            Ok((subject, answer)) => {
                findings.hardware = answer.counters.map(|_| ());
                findings.unarmed = findings.unarmed.take().or(answer.unarmed);
                subjects.push(subject);
            }
            Err(reason) => findings.missing.push(Missing { name, reason }),
        }
    }
    subjects
}

/// Counts instructions and branches.
fn count(
    options: &Options,
    subjects: &[Runnable<'_>],
    children: &Children,
    findings: &mut Findings,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    findings.callgrind = match callgrind::missing(children) {
        _ if !options.counts => Err("not asked for".to_owned()),
        Some(reason) => Err(reason),
        None => Ok(()),
    };
    if findings.callgrind.is_err() {
        return Ok(());
    }
    let (in_runtime, in_core): (Vec<_>, Vec<_>) = subjects
        .iter()
        .partition(|subject| subject.probe.place.is_runtime());
    for (subjects, runs) in [(in_core, 1), (in_runtime, options.runs.min(MIN_PAIRS))] {
        let mut counted: Vec<Counted<'_>> = subjects.into_iter().map(Counted::new).collect();
        let plan = Plan { runs, warm_up: 0 };
        take("counting", plan, &mut counted, children, findings, progress)?;
    }
    Ok(())
}

/// Takes the times.
fn time(
    options: &Options,
    subjects: &mut [Runnable<'_>],
    children: &Children,
    findings: &mut Findings,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let plan = Plan {
        runs: options.runs,
        warm_up: options.warm_up,
    };
    let meter = NoiseMeter::start();
    take("timing", plan, subjects, children, findings, progress)?;
    findings.report.noise = meter.read();
    Ok(())
}

/// Measures, and adds what was measured to the findings.
fn take<'a>(
    what: &str,
    plan: Plan,
    subjects: &mut [impl Subject<Error = Error> + 'a],
    children: &Children,
    findings: &mut Findings,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let mut subjects: Vec<&mut dyn Subject<Error = Error>> = subjects
        .iter_mut()
        .map(|subject| subject as &mut dyn Subject<Error = Error>)
        .collect();
    let measured = measure(plan, &mut subjects, &mut |step| {
        if children.is_stopped() {
            return ControlFlow::Break(());
        }
        let Step { name, done, total } = step;
        progress(&format!("{what} {}/{total} {name}", done + 1));
        ControlFlow::Continue(())
    })?;
    findings.report.series.extend(measured.series);
    findings.is_partial |= measured.is_partial;
    Ok(())
}
