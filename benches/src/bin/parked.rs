//! What parked polls cost: memory for each, and time of the tasks that run beside them.
#![forbid(unsafe_code)]

use std::error::Error;
use std::hint::spin_loop;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use evenkeel::{Builder, Group, JoinHandle, Level, Runtime};
use evenkeel_bench::machine::Machine;
use evenkeel_bench::stats::{Better, Metric, NoiseMeter, Plan, Report, Subject, measure};
use evenkeel_bench::work::{Pace, Steps};
use evenkeel_benches::proc::{machine_bytes, status_bytes};
use serde_json::json;
use tokio::sync::Semaphore;

/// Measure what parked polls cost.
///
/// Polls of a group of weight 1 compute without end at the level `Park`, each until it was parked
/// once. Memory is what grew meanwhile, by poll: resident memory of the process, and kernel stacks,
/// page tables and unreclaimable slabs of the machine, so leave it alone; the largest figure
/// counts, since later rounds find what earlier ones have freed. Then tasks of a group of weight
/// 10,000 compute beside them, and by turns without them: the difference in work.
#[derive(Parser)]
#[command(name = "parked")]
struct Options {
    /// Polls that are parked.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    polls: u16,
    /// Rounds.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Seconds for which the others are measured in each run.
    #[arg(long, default_value_t = 0.5, value_name = "SECONDS", value_parser = positive)]
    seconds: f64,
    /// Worker threads.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Tasks that run beside them, in polls of 5 ms.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    tasks: u16,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|number| (0.001..=3_600.0).contains(number));
    number.ok_or_else(|| "allowed: a number from 0.001 to 3600".to_owned())
}

/// How long a poll of the others takes, as an amount of work, and in how many steps it is counted.
const POLL: Duration = Duration::from_millis(5);
const PARTS: u32 = 100;

/// How long the others run before it counts.
const WARM_UP: Duration = Duration::from_millis(100);

const WORK: Metric = Metric::sampled("work", "CPUs", Better::Higher);

/// How something is read, in bytes.
type Reading = fn() -> std::io::Result<u64>;

/// Polls that are or were parked, and what memory grew by, as [`MEMORY`] has it.
type Parked = (Vec<JoinHandle<()>>, Vec<f64>);

/// Names of what is measured of the parked ones, with how it is read, in bytes.
const MEMORY: [(&str, Reading); 4] = [
    ("resident", || status_bytes("VmRSS")),
    ("kernel stacks", || machine_bytes("KernelStack")),
    ("page tables", || machine_bytes("PageTables")),
    ("slabs", || machine_bytes("SUnreclaim")),
];

fn memory_metrics() -> Vec<Metric> {
    let names = MEMORY.iter().map(|(name, _)| *name).chain(["all memory"]);
    names
        .map(|name| Metric::sampled(name, "KiB/poll", Better::Lower))
        .collect()
}

fn read_memory() -> std::io::Result<Vec<u64>> {
    MEMORY.iter().map(|(_, read)| read()).collect()
}

/// A runtime with polls that are parked, or none.
struct Stage {
    name: String,
    polls: usize,
    workers: usize,
    tasks: usize,
    duration: Duration,
    /// A part of a poll of the others.
    part: Steps,
    metrics: Vec<Metric>,
}

/// What the polls to be parked know.
#[derive(Default)]
struct Crowd {
    nr_begun: AtomicUsize,
    is_over: AtomicBool,
}

impl Stage {
    fn new(options: &Options, polls: usize, pace: Pace) -> Stage {
        let mut metrics = vec![WORK];
        if polls > 0 {
            metrics.extend(memory_metrics());
        }
        Stage {
            name: format!("{polls} parked"),
            polls,
            workers: options.workers,
            tasks: usize::from(options.tasks),
            duration: Duration::from_secs_f64(options.seconds),
            part: pace.steps(POLL / PARTS),
            metrics,
        }
    }

    fn start(&self) -> Result<Runtime, evenkeel::Error> {
        Builder::new()
            .worker_threads(self.workers)
            .preempt(Level::Park)
            .max_parked_polls(self.polls + self.tasks + self.workers)
            .build()
    }

    /// Spawns the polls to be parked behind a gate, and opens it; returns what memory grew by.
    fn park(&self, group: &Group, crowd: &Arc<Crowd>) -> Result<Parked, Box<dyn Error>> {
        // Those that have a CPU at the end are not parked.
        let wanted = self.polls + self.workers;
        let gate = Arc::new(Semaphore::new(0));
        let tasks: Vec<_> = (0..wanted)
            .map(|_| {
                let (gate, crowd) = (gate.clone(), crowd.clone());
                group.spawn(async move {
                    drop(gate.acquire().await);
                    crowd.nr_begun.fetch_add(1, Ordering::Relaxed);
                    while !crowd.is_over.load(Ordering::Relaxed) {
                        spin_loop();
                    }
                })
            })
            .collect();
        let before = read_memory()?;
        gate.add_permits(wanted);
        while crowd.nr_begun.load(Ordering::Relaxed) < wanted {
            thread::sleep(Duration::from_millis(1));
        }
        let after = read_memory()?;
        let grown = after.iter().zip(&before);
        let per_poll = |(after, before): (&u64, &u64)| {
            (*after as f64 - *before as f64) / 1024.0 / self.polls as f64
        };
        let mut grown: Vec<f64> = grown.map(per_poll).collect();
        grown.push(grown.iter().sum());
        Ok((tasks, grown))
    }

    /// Returns the CPUs' worth of work that the others do.
    fn work(&self, runtime: &Runtime, group: &Group) -> Result<f64, evenkeel::JoinError> {
        let done = Arc::new(AtomicU64::new(0));
        let is_over = Arc::new(AtomicBool::new(false));
        let spawn = |_| {
            let (done, is_over, part) = (done.clone(), is_over.clone(), self.part);
            group.spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    for _ in 0..PARTS {
                        part.run();
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    evenkeel::yield_now().await;
                }
            })
        };
        let tasks: Vec<_> = (0..self.tasks).map(spawn).collect();
        thread::sleep(WARM_UP);
        let (begin, before) = (Instant::now(), done.load(Ordering::Relaxed));
        thread::sleep(self.duration);
        let (elapsed, after) = (begin.elapsed(), done.load(Ordering::Relaxed));
        is_over.store(true, Ordering::Relaxed);
        for task in tasks {
            runtime.block_on(task)?;
        }
        let seconds = (after - before) as f64 * (POLL / PARTS).as_secs_f64();
        Ok(seconds / elapsed.as_secs_f64())
    }
}

impl Subject for Stage {
    type Error = Box<dyn Error>;

    fn name(&self) -> &str {
        &self.name
    }

    fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    fn run(&mut self) -> Result<Vec<f64>, Box<dyn Error>> {
        let runtime = self.start()?;
        let root = runtime.handle().root();
        let parked = root.child("parked").weight(1);
        let parked = parked.slice(Duration::from_micros(100)).build()?;
        let others = root.child("others").weight(10_000).build()?;
        let crowd = Arc::new(Crowd::default());
        let (tasks, grown) = if self.polls > 0 {
            self.park(&parked, &crowd)?
        } else {
            (Vec::new(), Vec::new())
        };
        let work = self.work(&runtime, &others)?;
        crowd.is_over.store(true, Ordering::Relaxed);
        for task in tasks {
            runtime.block_on(task)?;
        }
        Ok([work].into_iter().chain(grown).collect())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let pace = Pace::measure();
    let polls = usize::from(options.polls);
    let (mut with, mut without) = (
        Stage::new(&options, polls, pace),
        Stage::new(&options, 0, pace),
    );
    let names = [with.name.clone(), without.name.clone()];
    let noise = NoiseMeter::start();
    let plan = Plan {
        runs: options.runs as usize,
        warm_up: 1,
    };
    let mut turns: [&mut dyn Subject<Error = _>; 2] = [&mut with, &mut without];
    let measured = measure(plan, &mut turns, &mut |_| ControlFlow::Continue(()))?;
    let mut report = Report {
        bench: "parked",
        params: json!({
            "polls": polls, "runs": options.runs, "seconds": options.seconds,
            "workers": options.workers, "tasks": options.tasks,
        }),
        machine: Machine::here(),
        noise: noise.read(),
        series: measured.series,
        comparisons: Vec::new(),
    };
    report.compare(&names[0], &names[1]);
    if options.json {
        println!("{:#}", report.to_json());
    } else {
        println!(
            "parked: {} tasks in polls of {POLL:?} beside {polls} parked polls and none, {} \
             workers, {} runs of {} s\n",
            options.tasks, options.workers, options.runs, options.seconds
        );
        print!("{}", report.to_text());
    }
    Ok(())
}
