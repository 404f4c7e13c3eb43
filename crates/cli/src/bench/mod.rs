//! `evenkeel bench`: experiments, each with the same flags, statistics and JSON.
//!
//! | module | what it does |
//! |---|---|
//! | `args` | the flags of each benchmark |
//! | `tick` | what optional parts of the scheduler cost while they are off |
//! | `lock` | one spin lock among more contenders than CPUs |
//! | `latency` | how long a task waits beside others in long polls |
//! | `stop` | ends a benchmark at a signal |
//!
//! What is measured, and the statistics, are in the package `evenkeel-bench`. To add a benchmark:
//! its flags and a variant in `args`, with [`Common`](args::Common) among the flags; a module that
//! fills a [`Report`]; a line in [`run`].

pub(crate) mod args;
mod latency;
mod lock;
mod stop;
mod tick;

use std::io::{self, Write as _};

use evenkeel_bench::stats::Report;
use evenkeel_bench::tick::Missing;
use serde_json::Value;

use crate::signals::Signalled;
use args::Bench;
use stop::Stop;

/// Why a benchmark gave no results.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// A flag has a value that is not allowed.
    #[error("error: {0}")]
    Usage(String),
    /// It could not be run.
    #[error("error: {0}")]
    Failed(String),
    /// A signal came before there was anything to print.
    #[error("ended by a signal before the first round was complete: no results")]
    Nothing(Signalled),
    /// The system refuses signals.
    #[error("error: cannot wait for signals: {0}")]
    Wait(io::Error),
    /// The results cannot be printed.
    #[error("error: cannot print the results: {0}")]
    Print(#[from] io::Error),
}

impl BenchError {
    /// Makes one of what a benchmark says, and whether a setting is to blame.
    fn new(error: &dyn std::error::Error, is_usage: bool) -> Self {
        let text = error.to_string();
        if is_usage {
            Self::Usage(text)
        } else {
            Self::Failed(text)
        }
    }
}

/// What a benchmark has to print.
struct Found {
    /// The report, its JSON form.
    json: Value,
    /// The same for people.
    text: String,
    /// Whether there was a complete round.
    has_results: bool,
}

/// Runs one benchmark and prints what it found; returns the signal that ended it early, if one did.
///
/// # Errors
///
/// There are no results, or they cannot be printed.
pub(crate) fn run(bench: &Bench) -> Result<Option<Signalled>, BenchError> {
    if let Bench::Probe(args) = bench {
        return tick::probe(args).map(|()| None);
    }
    let stop = Stop::on_signal().map_err(BenchError::Wait)?;
    let (found, is_json) = match bench {
        Bench::Tick(args) => (tick::run(args, &stop)?, args.common.json),
        Bench::Probe(_) => unreachable!("returned above"),
        Bench::Lock(args) => (lock::run(args, &stop)?, args.common.json),
        Bench::Latency(args) => (latency::run(args, &stop)?, args.common.json),
    };
    if let (false, Some(signal)) = (found.has_results, stop.by()) {
        return Err(BenchError::Nothing(signal));
    }
    let mut stdout = io::stdout().lock();
    if is_json {
        serde_json::to_writer_pretty(&mut stdout, &found.json).map_err(io::Error::from)?;
        writeln!(stdout)?;
    } else {
        write!(stdout, "{}", found.text)?;
    }
    stdout.flush()?;
    Ok(stop.by())
}

/// Returns what a benchmark prints that has no table of its own. What was not measured stands among
/// the parameters of the JSON object, whose other parts are the same for all benchmarks.
fn found(mut report: Report, title: &str, missing: &[Missing], is_partial: bool) -> Found {
    report.params["is_partial"] = is_partial.into();
    report.params["not_measured"] = missing
        .iter()
        .map(|one| serde_json::json!({"name": one.name, "reason": one.reason}))
        .collect();
    let early = if is_partial { " (ended early)" } else { "" };
    let mut text = format!("{title}{early}\n\n");
    text += &report.to_text();
    for one in missing {
        text += &format!("not measured: {}: {}\n", one.name, one.reason);
    }
    Found {
        has_results: report.series.iter().any(|one| !one.samples.is_empty()),
        json: report.to_json(),
        text,
    }
}
