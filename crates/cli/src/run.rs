//! `evenkeel run`: reads a workload, runs it, and prints what was measured.
//!
//! The main thread does not belong to the runtime that is measured. It waits for the time to pass,
//! for signals and for tasks that end, on a small Tokio runtime of its own: it hears them also
//! while every worker computes.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::args::RunArgs;
use crate::engine::{Engine, EngineError, Sample};
use crate::jobs::{self, Ended, Jobs};
use crate::kinds::cpu::Cpu;
use crate::kinds::meter::Reading;
use crate::output::Output;
use crate::process;
use crate::progress::Progress;
use crate::report::{self, Report};
use crate::signals::{Signalled, Signals};
use crate::workload::{Document, Workload, WorkloadError};

/// How often the progress bar moves.
const PROGRESS_STEP: Duration = Duration::from_millis(100);

/// Why a run gave no results.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// The workload file, or a file that it names, is wrong.
    #[error("{0}")]
    Workload(#[from] WorkloadError),
    /// The output file cannot be made.
    #[error("error: cannot write {}: {source}", path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The runtime did not start or did not take the groups.
    #[error("error: {0}")]
    Engine(#[from] EngineError),
    /// A server found no port.
    #[error("error: cannot open a port for an `http` task: {0}")]
    Port(io::Error),
    /// The system refuses signals or timers.
    #[error("error: cannot wait for signals: {0}")]
    Wait(io::Error),
    /// The results cannot be printed.
    #[error("error: cannot print the results: {0}")]
    Print(io::Error),
}

/// How a run ended.
#[derive(Debug)]
pub(crate) enum End {
    /// Its time was over.
    Completed,
    /// A signal came.
    Signal(Signalled),
    /// A task ended.
    Failed(Ended),
}

/// Runs `evenkeel run`; results go to standard output, a failed task to standard error.
///
/// # Errors
///
/// There are no results: bad files, no runtime, no port; or they cannot be written.
pub(crate) fn run(args: &RunArgs) -> Result<End, RunError> {
    let mut document = Document::read(&args.file)?;
    override_settings(&mut document.workload, args);
    let inputs = document.load_files()?;
    if args.check {
        return Ok(End::Completed);
    }
    let output = match &args.output {
        Some(path) => {
            let output = Output::create(path);
            Some(output.map_err(|source| RunError::Output {
                path: path.clone(),
                source,
            })?)
        }
        None => None,
    };
    let (report, end) = measure(&document, &inputs, !args.no_progress)?;
    let stdout = io::stdout().lock();
    let printed = if args.json {
        report::write_json(&report, stdout)
    } else {
        report::write_table(&report, stdout)
    };
    if let (Some(output), Some(path)) = (output, &args.output) {
        let written = output.write(&report);
        written.map_err(|source| RunError::Output {
            path: path.clone(),
            source,
        })?;
    }
    printed.map_err(RunError::Print)?;
    Ok(end)
}

/// Puts what the command line says over what the file says.
fn override_settings(workload: &mut Workload, args: &RunArgs) {
    workload.duration = args.duration.unwrap_or(workload.duration);
    workload.warm_up = args.warm_up.unwrap_or(workload.warm_up);
    workload.threads = args.threads.or(workload.threads);
    workload.seed = args.seed.unwrap_or(workload.seed);
}

/// Runs the workload and reports.
fn measure(
    document: &Document,
    inputs: &crate::workload::files::Loaded,
    has_progress: bool,
) -> Result<(Report, End), RunError> {
    let cpu = Cpu::calibrate();
    let control = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let control = control.map_err(RunError::Wait)?;
    // Before anything starts, so that no signal is missed and none ends the program unheard.
    let mut signals = {
        let _context = control.enter();
        Signals::new().map_err(RunError::Wait)?
    };
    let engine = Engine::start(&document.workload)?;
    let jobs = jobs::start(document, inputs, cpu, &engine).map_err(RunError::Port)?;
    let run = watch(
        &document.workload,
        &engine,
        jobs,
        &mut signals,
        has_progress,
    );
    let result = control.block_on(run);
    engine.stop();
    Ok(result)
}

/// Waits for the end of the run, and reads what was used at the ends of its phases.
async fn watch(
    workload: &Workload,
    engine: &Engine,
    mut jobs: Jobs,
    signals: &mut Signals,
    has_progress: bool,
) -> (Report, End) {
    let progress = Progress::new(workload.warm_up + workload.duration, has_progress);
    let mut start = Start::now(engine, &jobs);
    let begin = start.at;
    let shown = Shown {
        progress: &progress,
        begin,
    };
    let warm = begin + workload.warm_up;
    let mut end = phase(warm, &mut jobs, signals, &shown.named("warm-up")).await;
    let mut warm_up = Duration::ZERO;
    if matches!(end, End::Completed) {
        start = Start::now(engine, &jobs);
        warm_up = start.at - begin;
        let over = start.at + workload.duration;
        end = phase(over, &mut jobs, signals, &shown.named("measuring")).await;
    }
    let mut report = start.report(workload, engine, &jobs);
    progress.finish();
    report.warm_up_s = warm_up.as_secs_f64();
    report.is_partial = !matches!(end, End::Completed);
    (report, end)
}

/// What had been used when the measurement began. If the warm-up is cut short, that is its
/// beginning: the results then hold the warm-up so far.
struct Start {
    at: Instant,
    process: Option<Duration>,
    groups: Sample,
}

impl Start {
    /// Sets the meters to zero and reads the rest.
    fn now(engine: &Engine, jobs: &Jobs) -> Self {
        let at = Instant::now();
        for meter in &jobs.meters {
            meter.restart();
        }
        Self {
            at,
            process: process::cpu_time(),
            groups: engine.sample(),
        }
    }

    /// Reports what happened until now. Reads in the order in which the start was read, so that
    /// both ends are off by the same little time.
    fn report(&self, workload: &Workload, engine: &Engine, jobs: &Jobs) -> Report {
        let now = Instant::now();
        let readings: Vec<Reading> = jobs.meters.iter().map(|meter| meter.read(now)).collect();
        let process = process::cpu_time();
        let mut measured = engine.measured(&self.groups, &engine.sample());
        for (measured, reading) in measured.iter_mut().zip(readings) {
            measured.reading = reading;
        }
        let mut report = report::build(workload, engine.cpus(), now - self.at, &measured);
        let process = process
            .zip(self.process)
            .map(|(end, start)| end.saturating_sub(start));
        report.process_cpu_s = process.map(|time| time.as_secs_f64());
        report
    }
}

/// The progress bar and what it needs to know.
struct Shown<'a> {
    progress: &'a Progress,
    begin: Instant,
}

impl<'a> Shown<'a> {
    /// Makes the function that moves the bar in one phase.
    fn named(&self, phase: &'static str) -> impl Fn() + use<'a> {
        let (progress, begin) = (self.progress, self.begin);
        move || progress.set(begin.elapsed(), phase)
    }
}

/// Waits until an instant, a signal or the end of a task.
async fn phase(until: Instant, jobs: &mut Jobs, signals: &mut Signals, show: &dyn Fn()) -> End {
    let mut steps = tokio::time::interval(PROGRESS_STEP);
    steps.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let over = tokio::time::sleep_until(until.into());
    tokio::pin!(over);
    loop {
        tokio::select! {
            biased;
            signal = signals.next() => return End::Signal(signal),
            Some(ended) = jobs.ended.recv() => return End::Failed(ended),
            () = &mut over => return End::Completed,
            _ = steps.tick() => show(),
        }
    }
}
