//! What parking of polls costs programs that hold locks: throughput at the level `Park` by that
//! without preemption, and a stress that looks for deadlocks.
#![forbid(unsafe_code)]

mod case;
mod output;
mod stress;
mod subject;

use std::error::Error;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use clap::Parser;
use evenkeel::Level;
use evenkeel_bench::machine::Machine;
use evenkeel_bench::stats::{Better, Metric, NoiseMeter, Plan, Report, Subject, measure};
use evenkeel_bench::work::Pace;
use evenkeel_benches::alloc::Switched;
use serde_json::json;

use case::Case;
use subject::Kind;

#[global_allocator]
static ALLOCATOR: Switched = Switched;

/// Measure what parking of polls costs programs that hold locks.
///
/// Tasks in long polls contend for a lock, by turns at the level `Park` and without preemption
/// (`Off`), otherwise the same; ratios are of the same round. Mutexes are held for 50, 5 and 2 µs,
/// with 50, 20 and 100 µs of other work in between. `slice` and `slice-malloc` have critical
/// sections, at both levels; `slice-malloc park / malloc off` shows the price of those as well.
///
/// With `--minutes` instead: random cases one after the other. Exit status 1 if there is no
/// progress for 10 s.
#[derive(Parser)]
#[command(name = "locks")]
struct Options {
    /// Rounds.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Seconds of each run, 0.1 s of warm-up not counted.
    #[arg(long, default_value_t = 0.5, value_name = "SECONDS", value_parser = positive)]
    seconds: f64,
    /// Worker threads.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Tasks that contend.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    tasks: u16,
    /// How long a task computes before it yields, in µs.
    #[arg(long, default_value_t = 5_000, value_name = "US")]
    poll_us: u32,
    /// Only this subject; may be given several times.
    #[arg(long, value_name = "SUBJECT")]
    only: Vec<Kind>,
    /// Stress for so long instead.
    #[arg(long, value_name = "N", value_parser = positive)]
    minutes: Option<f64>,
    /// First seed of the stress.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// At a deadlock, wait for a debugger instead of ending.
    #[arg(long)]
    stay: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|number| (0.001..=1e6).contains(number));
    number.ok_or_else(|| "allowed: a number from 0.001 to 1000000".to_owned())
}

/// How long mutexes are held, and the work in between, in µs.
const TIMES_US: [(u64, u64); 3] = [(50, 50), (5, 20), (2, 100)];

/// Work between two operations of what is no mutex, in µs.
const OUTSIDE_US: u64 = 5;

const METRICS: [Metric; 3] = [
    Metric::sampled("throughput", "1/s", Better::Higher),
    Metric::sampled("CPUs used", "1", Better::Higher),
    Metric::sampled("polls preempted", "1/s", Better::Lower),
];

static PROGRESS: AtomicU64 = AtomicU64::new(0);

/// A case at a level, a run at a time.
struct Measured {
    name: String,
    case: Case,
    pace: Pace,
    duration: Duration,
}

impl Subject for Measured {
    type Error = Box<dyn Error>;

    fn name(&self) -> &str {
        &self.name
    }

    fn metrics(&self) -> &[Metric] {
        &METRICS
    }

    fn run(&mut self) -> Result<Vec<f64>, Box<dyn Error>> {
        let outcome = case::run(&self.case, self.pace, self.duration, &PROGRESS)?;
        Ok(vec![outcome.throughput, outcome.cpus, outcome.preempted])
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match options.minutes {
        Some(minutes) => stress::run(&stress::Settings {
            minutes,
            seed: options.seed,
            kinds: kinds(&options),
            stays: options.stay,
        }),
        None => compare(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("locks: {error}");
            let is_usage = error
                .downcast_ref::<evenkeel::Error>()
                .is_some_and(evenkeel::Error::is_invalid_value);
            ExitCode::from(if is_usage { 2 } else { 1 })
        }
    }
}

fn kinds(options: &Options) -> Vec<Kind> {
    if options.only.is_empty() {
        Kind::ALL.to_vec()
    } else {
        options.only.clone()
    }
}

/// Returns every case that was asked for, at `level`.
fn cases(options: &Options, level: Level) -> Vec<Case> {
    let case = |kind: Kind, (held, outside): (u64, u64)| Case {
        kind,
        level,
        workers: options.workers,
        tasks: usize::from(options.tasks),
        poll: Duration::from_micros(options.poll_us.into()),
        held: Duration::from_micros(held),
        outside: Duration::from_micros(outside),
        slice: Duration::ZERO,
        sleep: Duration::ZERO,
        seed: options.seed,
    };
    let of_kind = |kind: Kind| match kind.is_mutex() {
        true => TIMES_US.map(|times| case(kind, times)).to_vec(),
        false => vec![case(kind, (0, OUTSIDE_US))],
    };
    kinds(options).into_iter().flat_map(of_kind).collect()
}

fn compare(options: &Options) -> Result<(), Box<dyn Error>> {
    let pace = Pace::measure();
    let levels = [(Level::Park, "park"), (Level::Off, "off")];
    let mut subjects: Vec<Measured> = Vec::new();
    let off = cases(options, Level::Off);
    for case in &off {
        for (level, name) in levels {
            subjects.push(Measured {
                name: format!("{} {name}", case.name()),
                case: Case { level, ..*case },
                pace,
                duration: Duration::from_secs_f64(options.seconds),
            });
        }
    }
    let noise = NoiseMeter::start();
    let plan = Plan {
        runs: options.runs as usize,
        warm_up: 1,
    };
    let mut turns: Vec<&mut dyn Subject<Error = _>> =
        subjects.iter_mut().map(|one| one as _).collect();
    let measured = measure(plan, &mut turns, &mut |_| ControlFlow::Continue(()))?;
    let mut report = Report {
        bench: "locks",
        params: json!({
            "runs": options.runs, "seconds": options.seconds, "workers": options.workers,
            "tasks": options.tasks, "poll_us": options.poll_us,
        }),
        machine: Machine::here(),
        noise: noise.read(),
        series: measured.series,
        comparisons: Vec::new(),
    };
    for case in &off {
        let name = case.name();
        report.compare(&format!("{name} park"), &format!("{name} off"));
    }
    if [Kind::Malloc, Kind::SliceMalloc]
        .iter()
        .all(|kind| kinds(options).contains(kind))
    {
        report.compare("slice-malloc park", "malloc off");
    }
    print(options, &report);
    Ok(())
}

fn print(options: &Options, report: &Report) {
    if options.json {
        println!("{:#}", report.to_json());
        return;
    }
    println!(
        "locks: {} tasks in polls of {} µs on {} workers, {} runs of {} s\n",
        options.tasks, options.poll_us, options.workers, options.runs, options.seconds
    );
    print!("{}", report.to_text());
}
