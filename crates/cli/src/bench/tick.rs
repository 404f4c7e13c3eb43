//! `evenkeel bench tick`.

use std::ffi::OsString;
use std::io::{self, Write as _};

use evenkeel_bench::tick::{self, Findings, Options, Place, source_tree};

use super::args::{ProbeArgs, TickArgs};
use super::stop::Stop;
use super::{BenchError, Found};
use crate::progress::Status;

/// The commands that make this program the probe: one subject in a process of its own.
const PROBE: [&str; 2] = ["bench", super::args::PROBE];

/// Runs the benchmark.
///
/// # Errors
///
/// A flag has a value that is not allowed; a program that had worked fails.
pub(super) fn run(args: &TickArgs, stop: &Stop) -> Result<Found, BenchError> {
    let options = options(args)?;
    let status = Status::new();
    let findings = tick::run(&options, stop.children(), &mut |text| status.set(text));
    status.finish();
    let findings = findings.map_err(fail)?;
    Ok(Found {
        has_results: has_results(&findings),
        json: findings.to_json(),
        text: text(&options, &findings),
    })
}

/// Measures one subject and prints a line: what the benchmark runs in child processes.
///
/// # Errors
///
/// The arguments are not the benchmark's; the subject cannot be set up.
pub(super) fn probe(args: &ProbeArgs) -> Result<(), BenchError> {
    let line = tick::probe(&args.arguments).map_err(fail)?;
    Ok(writeln!(io::stdout().lock(), "{line}")?)
}

fn fail(error: tick::Error) -> BenchError {
    BenchError::new(&error, error.is_usage())
}

fn options(args: &TickArgs) -> Result<Options, BenchError> {
    let program = std::env::current_exe()
        .map_err(|error| BenchError::Failed(format!("cannot find this program: {error}")))?;
    let mut probe = vec![program.into_os_string()];
    probe.extend(PROBE.map(OsString::from));
    let mut options = Options::new(probe);
    options.runs = args.common.runs.unwrap_or(options.runs);
    options.iterations = args.iterations.unwrap_or(options.iterations);
    if !args.place.is_empty() {
        let wanted = |place: &Place| args.place.contains(place);
        options.places = Place::ALL.into_iter().filter(wanted).collect();
    }
    options.keys.clone_from(&args.key);
    options.counts = !args.no_counts;
    if !args.no_builds {
        let here = std::env::current_dir().ok();
        options.tree = here.and_then(|here| source_tree(&here));
    }
    options.check().map_err(fail)?;
    Ok(options)
}

fn has_results(findings: &Findings) -> bool {
    let mut series = findings.report.series.iter();
    series.any(|series| !series.samples.is_empty())
}

fn text(options: &Options, findings: &Findings) -> String {
    let early = if findings.is_partial {
        " (ended early)"
    } else {
        ""
    };
    let Options {
        runs, iterations, ..
    } = options;
    format!(
        "tick: enter and leave the scheduler, with each key off, on and compiled out; \
         {runs} runs of {iterations} rounds{early}\n\n{}",
        findings.table()
    )
}
