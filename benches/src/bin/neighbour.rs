//! How CPUs are shared with another process that computes without end.
#![forbid(unsafe_code)]

use std::error::Error;
use std::hint::spin_loop;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use evenkeel::{Builder, Level, Runtime};
use evenkeel_bench::machine::Machine;
use evenkeel_bench::stats::{Better, Metric, NoiseMeter, Plan, Report, Subject, measure, median};
use evenkeel_bench::work::{Pace, Steps};
use evenkeel_benches::proc::{cpu_time_ns, cpu_time_of};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::json;

/// Measure how CPUs are shared with another process that computes without end.
///
/// Tasks compute in long polls, by turns without preemption, at `Handoff`, and at `Park` with and
/// without placement (`Builder::preempt_placement`), beside one thread of a child process that is
/// bound to the first CPU; and without it. Exit status 1 if in the median either side gets less
/// than half of its share by an even division of what both get among the workers and the neighbour.
#[derive(Parser)]
#[command(name = "neighbour")]
struct Options {
    /// Rounds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Seconds of each run.
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS", value_parser = positive)]
    seconds: f64,
    /// Worker threads; as many CPUs as that are counted on.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Tasks that compute.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    tasks: u16,
    /// How long they do before they yield, in µs.
    #[arg(
        long,
        default_value_t = 5_000,
        value_name = "US",
        value_parser = clap::value_parser!(u32).range(50..)
    )]
    poll_us: u32,
    /// Let the neighbour run on any CPU.
    #[arg(long)]
    unbound: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    child: Option<Neighbour>,
}

#[derive(Subcommand)]
enum Neighbour {
    /// Compute until standard input ends.
    #[command(hide = true)]
    Spin { is_bound: String },
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|number| (0.001..=3_600.0).contains(number));
    number.ok_or_else(|| "allowed: a number from 0.001 to 3600".to_owned())
}

/// Length of the steps in which work is counted.
const PART: Duration = Duration::from_micros(50);

/// How long everything runs before it counts.
const WARM_UP: Duration = Duration::from_millis(200);

const METRICS: [Metric; 4] = [
    Metric::sampled("our work", "CPUs", Better::Higher),
    Metric::sampled("our CPUs", "1", Better::Higher),
    Metric::sampled("neighbour's CPUs", "1", Better::Higher),
    Metric::sampled(SHARE, "%", Better::Higher),
];

/// What the neighbour gets of what it and we get: whatever third parties take.
const SHARE: &str = "neighbour's share";

/// The child process; killed when this is dropped.
struct Spinner(Child);

impl Spinner {
    fn start(is_bound: bool) -> std::io::Result<Spinner> {
        let child = Command::new(std::env::current_exe()?)
            .args(["spin", if is_bound { "bound" } else { "unbound" }])
            .stdin(Stdio::piped())
            .spawn()?;
        Ok(Spinner(child))
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        // One that has ended already is what we want.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The neighbour: this thread computes, another one waits for the end.
fn spin(is_bound: bool) -> Result<(), Box<dyn Error>> {
    if is_bound {
        let allowed = sched_getaffinity(None)?;
        let first = (0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu));
        let mut mask = CpuSet::new();
        mask.set(first.ok_or("no CPU is allowed")?);
        sched_setaffinity(None, &mask)?;
    }
    thread::spawn(|| {
        // Ends with the parent, however that ends.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    loop {
        spin_loop();
    }
}

/// The name of the side without a neighbour.
const ALONE: &str = "off, alone";

/// A level, beside the neighbour or alone.
struct Side {
    name: &'static str,
    level: Level,
    has_placement: bool,
    has_neighbour: bool,
    is_bound: bool,
    workers: usize,
    tasks: usize,
    parts_per_poll: u32,
    part: Steps,
    duration: Duration,
}

impl Side {
    fn start(&self) -> Result<Runtime, evenkeel::Error> {
        Builder::new()
            .worker_threads(self.workers)
            .preempt(self.level)
            .preempt_placement(self.has_placement)
            .build()
    }
}

impl Subject for Side {
    type Error = Box<dyn Error>;

    fn name(&self) -> &str {
        self.name
    }

    fn metrics(&self) -> &[Metric] {
        &METRICS
    }

    fn run(&mut self) -> Result<Vec<f64>, Box<dyn Error>> {
        let runtime = self.start()?;
        let spinner = self.has_neighbour.then(|| Spinner::start(self.is_bound));
        let spinner = spinner.transpose()?;
        let group = runtime.handle().root().child("tasks").build()?;
        let (done, is_over) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let spawn = |_| {
            let (done, is_over) = (done.clone(), is_over.clone());
            let (part, parts) = (self.part, self.parts_per_poll);
            group.spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    for _ in 0..parts {
                        part.run();
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    evenkeel::yield_now().await;
                }
            })
        };
        let tasks: Vec<_> = (0..self.tasks).map(spawn).collect();
        thread::sleep(WARM_UP);
        let read = || -> std::io::Result<[u64; 3]> {
            let of_neighbour = spinner
                .as_ref()
                .map_or(Ok(0), |one| cpu_time_of(one.0.id()));
            Ok([done.load(Ordering::Relaxed), cpu_time_ns(), of_neighbour?])
        };
        let (begin, before) = (Instant::now(), read()?);
        thread::sleep(self.duration);
        let (elapsed_ns, after) = (begin.elapsed().as_nanos() as f64, read()?);
        is_over.store(true, Ordering::Relaxed);
        for task in tasks {
            runtime.block_on(task)?;
        }
        let units = [PART.as_nanos() as f64, 1.0, 1.0];
        let rate = |at: usize| (after[at] - before[at]) as f64 * units[at] / elapsed_ns;
        let [work, ours, of_neighbour] = [0, 1, 2].map(rate);
        let share = of_neighbour / (ours + of_neighbour) * 100.0;
        Ok(vec![work, ours, of_neighbour, share])
    }
}

fn sides(options: &Options) -> Vec<Side> {
    let part = Pace::measure().steps(PART);
    let side = |name, level, has_placement, has_neighbour| Side {
        name,
        level,
        has_placement,
        has_neighbour,
        is_bound: !options.unbound,
        workers: options.workers,
        tasks: usize::from(options.tasks),
        parts_per_poll: options.poll_us / PART.as_micros() as u32,
        part,
        duration: Duration::from_secs_f64(options.seconds),
    };
    vec![
        side(ALONE, Level::Off, true, false),
        side("off", Level::Off, true, true),
        side("handoff", Level::Handoff, true, true),
        side("park", Level::Park, true, true),
        side("park, no placement", Level::Park, false, true),
    ]
}

/// Says who got less than half of its share by an even division, in the median.
fn starved(options: &Options, report: &Report) -> Vec<String> {
    let cpus = options.workers as f64;
    // Bound, it has half of one CPU; otherwise there is a thread more than CPUs.
    let due = if options.unbound {
        100.0 / (cpus + 1.0)
    } else {
        50.0 / cpus
    };
    let shares = report.series.iter().filter(|one| one.metric.name == SHARE);
    let beside = shares.filter(|one| one.name != ALONE);
    beside
        .filter_map(|one| {
            let got = median(&one.samples);
            let who = match got {
                low if low < due / 2.0 => "the neighbour",
                high if 100.0 - high < (100.0 - due) / 2.0 => "we",
                _ => return None,
            };
            Some(format!(
                "starved: {}: {who}, where the neighbour got {got:.1} % and {due:.1} % is even",
                one.name
            ))
        })
        .collect()
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let options = Options::parse();
    if let Some(Neighbour::Spin { is_bound }) = &options.child {
        spin(is_bound == "bound")?;
    }
    let mut sides = sides(&options);
    let noise = NoiseMeter::start();
    let plan = Plan {
        runs: options.runs as usize,
        warm_up: 1,
    };
    let mut turns: Vec<&mut dyn Subject<Error = _>> =
        sides.iter_mut().map(|one| one as _).collect();
    let measured = measure(plan, &mut turns, &mut |_| ControlFlow::Continue(()))?;
    let mut report = Report {
        bench: "neighbour",
        params: json!({
            "runs": options.runs, "seconds": options.seconds, "workers": options.workers,
            "tasks": options.tasks, "poll_us": options.poll_us, "bound": !options.unbound,
        }),
        machine: Machine::here(),
        noise: noise.read(),
        series: measured.series,
        comparisons: Vec::new(),
    };
    for other in ["handoff", "park", "park, no placement"] {
        report.compare(other, "off");
    }
    report.compare("park", "park, no placement");
    let starved = starved(&options, &report);
    report.params["starved"] = json!(starved);
    if options.json {
        println!("{:#}", report.to_json());
    } else {
        println!(
            "neighbour: {} tasks in polls of {} µs on {} workers, {} runs of {} s\n",
            options.tasks, options.poll_us, options.workers, options.runs, options.seconds
        );
        print!("{}", report.to_text());
        println!(
            "{}",
            if starved.is_empty() {
                "nobody starved".to_owned()
            } else {
                starved.join("\n")
            }
        );
    }
    Ok(ExitCode::from(u8::from(!starved.is_empty())))
}
