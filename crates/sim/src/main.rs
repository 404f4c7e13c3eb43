//! `evenkeel-sim`: checks the scheduling core over random histories, and measures fairness.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use clap::{Args, Parser, Subcommand};

use evenkeel_core::features;
use evenkeel_sim::bandwidth;
use evenkeel_sim::cases::{CASES, Case, Kind};
use evenkeel_sim::check::Bounds;
use evenkeel_sim::flip::{self, Flipping};
use evenkeel_sim::generate;
use evenkeel_sim::history::{Cut, History};
use evenkeel_sim::port::CorePort;
use evenkeel_sim::preempt;
use evenkeel_sim::runner::{self, Failure, Report};
use evenkeel_sim::shrink::{self, Size};

/// Drives the scheduling core of Evenkeel in virtual time.
#[derive(Parser)]
#[command(name = "evenkeel-sim", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run random histories and check every promise after every step.
    Check(Check),
    /// Measure the fairness cases against the exact answer.
    Fairness(Fairness),
    /// Measure how much of its quota a group of many tasks on many CPUs uses.
    Bandwidth(BandwidthArgs),
}

#[derive(Args)]
struct Check {
    /// Seeds to run, as A..=B.
    #[arg(long, value_parser = parse_seeds, default_value = "1..=100", conflicts_with = "seed")]
    seeds: (u64, u64),
    /// One seed to replay.
    #[arg(long)]
    seed: Option<u64>,
    /// Histories to run at a time.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Print every event to standard error.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Print the history before running it.
    #[arg(long, requires = "seed")]
    show: bool,
    /// Run all seeds and print one line for each that fails.
    #[arg(long)]
    keep_going: bool,
    /// Report a failure as it is, without searching a smaller one.
    #[arg(long)]
    no_shrink: bool,
    /// Tasks to leave out, by index.
    #[arg(long, value_delimiter = ',', requires = "seed")]
    without_tasks: Vec<usize>,
    /// Operations to leave out, by index.
    #[arg(long, value_delimiter = ',', requires = "seed")]
    without_ops: Vec<usize>,
    /// Length of the busy phase in ns, where shorter than the history's.
    #[arg(long, requires = "seed")]
    busy_ns: Option<u64>,
    /// Skip the judged phase.
    #[arg(long)]
    unjudged: bool,
    /// Flip scheduler features and keys at random moments. Claims no shares, and runs one history
    /// at a time. Needs the cargo feature `sched-debug`.
    #[arg(long)]
    flip_features: bool,
    /// Run histories with quotas that change at random moments instead, one at a time. With the
    /// cargo feature `sched-debug` their key goes on and off meanwhile.
    #[arg(long, conflicts_with_all = ["flip_features", "show", "trace"])]
    bandwidth: bool,
    /// Run histories in which polls lose their CPU instead: slices, sections, signals, parked
    /// polls, grants of the kernel.
    #[arg(
        long,
        conflicts_with_all = [
            "flip_features", "bandwidth", "show", "trace", "without_tasks", "without_ops",
            "busy_ns", "equal_nice", "equal_slices",
        ],
    )]
    preempt: bool,
    /// Take all nice values to be 0.
    #[arg(long)]
    equal_nice: bool,
    /// Take all slices to be the default.
    #[arg(long)]
    equal_slices: bool,
}

#[derive(Args)]
struct BandwidthArgs {
    /// CPUs of the virtual machine, several separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "64,256")]
    cpus: Vec<usize>,
    /// Virtual seconds that are measured.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

#[derive(Args)]
struct Fairness {
    /// CPUs of the virtual machine, several separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "1,2,7")]
    cpus: Vec<u32>,
    /// Cases to run; all when none is given.
    #[arg(long, value_delimiter = ',')]
    case: Vec<String>,
    /// Virtual seconds under the judge.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Virtual milliseconds before that.
    #[arg(long, default_value_t = 200)]
    warm_up_ms: u64,
    /// Print every event to standard error.
    #[arg(long)]
    trace: bool,
    /// Use hogs that compute without an end, instead of polls of 50 to 150 µs.
    #[arg(long)]
    threads: bool,
}

fn parse_seeds(text: &str) -> Result<(u64, u64), String> {
    let (from, to) = text.split_once("..=").ok_or("expected A..=B")?;
    let number = |text: &str| text.parse::<u64>().map_err(|e| format!("{text}: {e}"));
    Ok((number(from)?, number(to)?))
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Check(args) if args.bandwidth => check_bandwidth(&args),
        Command::Check(args) if args.preempt => check_preempt(&args),
        Command::Check(args) => check(&args),
        Command::Bandwidth(args) => measure_bandwidth(&args),
        Command::Fairness(args) => fairness(&args),
    }
}

fn run_history(history: History, flips: bool, is_traced: bool) -> Result<Report, Box<Failure>> {
    let sched = CorePort::new(history.machine.cpus as usize);
    if flips {
        let sched = Flipping::new(sched, history.seed);
        let result = runner::run(history, sched, Bounds::UNJUDGED, is_traced);
        flip::check_balance().unwrap_or_else(|message| panic!("{message}"));
        return result;
    }
    runner::run(history, sched, Bounds::default(), is_traced)
}

fn cut_history(seed: u64, cut: &Cut) -> History {
    let mut history = generate::from_seed(seed);
    history.apply(cut);
    history
}

fn check(args: &Check) -> ExitCode {
    let flips = args.flip_features;
    if flips && !features::CAN_SET {
        eprintln!("--flip-features needs a build with the cargo feature `sched-debug`");
        return ExitCode::from(2);
    }
    // Features and keys belong to the process.
    let jobs = if flips { 1 } else { args.jobs.max(1) };
    let cut = Cut {
        tasks: args.without_tasks.clone(),
        ops: args.without_ops.clone(),
        busy_ns: args.busy_ns,
        // Shares depend on the features.
        is_unjudged: args.unjudged || args.flip_features,
        has_equal_nice: args.equal_nice,
        has_equal_slices: args.equal_slices,
    };
    let (from, to) = args.seed.map_or(args.seeds, |seed| (seed, seed));
    if args.show {
        println!("{}", cut_history(from, &cut));
    }
    println!("seeds {from}..={to}");
    let next = AtomicU64::new(from);
    let has_failed = AtomicBool::new(false);
    let (switches, virtual_ns) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > to || has_failed.load(Ordering::Relaxed) && !args.keep_going {
                return;
            }
            let result = run_history(cut_history(seed, &cut), flips, args.trace);
            let stats = result
                .as_ref()
                .map_or_else(|f| &f.report.stats, |r| &r.stats);
            switches.fetch_add(stats.switches, Ordering::Relaxed);
            virtual_ns.fetch_add(stats.elapsed_ns, Ordering::Relaxed);
            if let Err(failure) = result {
                if args.keep_going {
                    has_failed.store(true, Ordering::Relaxed);
                    println!("seed {seed}: {}", failure.violation);
                    continue;
                }
                // The first failure reports; others at the same time keep quiet.
                if !has_failed.swap(true, Ordering::Relaxed) {
                    report_failure(seed, &cut, failure, flips, args.no_shrink);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(work);
        }
    });
    if has_failed.load(Ordering::Relaxed) {
        return ExitCode::FAILURE;
    }
    println!(
        "no promise broken in {} switches, {:.1} s of virtual time",
        switches.into_inner(),
        virtual_ns.into_inner() as f64 / 1e9
    );
    ExitCode::SUCCESS
}

fn check_bandwidth(args: &Check) -> ExitCode {
    let (from, to) = args.seed.map_or(args.seeds, |seed| (seed, seed));
    println!("seeds {from}..={to}");
    let (mut switches, mut virtual_ns, mut judged, mut failed) = (0, 0, 0, 0);
    for seed in from..=to {
        let result = std::panic::catch_unwind(|| bandwidth::check(seed));
        match result.unwrap_or_else(|_| Err("the core panicked".to_owned())) {
            Ok(summary) => {
                switches += summary.switches;
                virtual_ns += summary.elapsed_ns;
                judged += summary.judged;
            }
            Err(message) => {
                eprintln!("seed {seed} broke a promise: {message}");
                failed += 1;
                if !args.keep_going {
                    break;
                }
            }
        }
    }
    if failed > 0 {
        return ExitCode::FAILURE;
    }
    println!(
        "no promise broken in {switches} switches, {:.1} s of virtual time; \
         {judged} groups used all of their quota",
        virtual_ns as f64 / 1e9
    );
    ExitCode::SUCCESS
}

fn check_preempt(args: &Check) -> ExitCode {
    let (from, to) = args.seed.map_or(args.seeds, |seed| (seed, seed));
    println!("seeds {from}..={to}");
    let next = AtomicU64::new(from);
    let has_failed = AtomicBool::new(false);
    let total = Mutex::new(preempt::Stats::default());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > to || has_failed.load(Ordering::Relaxed) && !args.keep_going {
                return;
            }
            match preempt::check(seed) {
                Ok(stats) => total.lock().expect("nobody panics").add(&stats),
                Err(broken) => {
                    has_failed.store(true, Ordering::Relaxed);
                    eprintln!("seed {seed} broke a promise: {broken}");
                    eprintln!("replay: evenkeel-sim check --preempt --seed {seed}");
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..args.jobs.max(1) {
            scope.spawn(work);
        }
    });
    if has_failed.into_inner() {
        return ExitCode::FAILURE;
    }
    println!("{}", total.into_inner().expect("nobody panics"));
    ExitCode::SUCCESS
}

fn measure_bandwidth(args: &BandwidthArgs) -> ExitCode {
    println!("one group, 8 tasks per CPU, polls of 50 to 150 µs, 370 ms in 100 ms");
    println!(
        "{:>5} {:>13} {:>12} {:>15} {:>16}",
        "CPUs", "quota used %", "stranded µs", "refills/period", "switches/period"
    );
    let mut is_good = true;
    for &cpus in &args.cpus {
        match bandwidth::large(cpus, args.seconds) {
            Ok(row) => {
                is_good &= row.used_percent >= 99.0 && row.stranded_ns <= 1_000_000;
                println!(
                    "{cpus:>5} {:>13.2} {:>12.1} {:>15.1} {:>16.0}",
                    row.used_percent,
                    row.stranded_ns as f64 / 1e3,
                    row.refills,
                    row.switches
                );
            }
            Err(message) => {
                eprintln!("{cpus} CPUs: {message}");
                return ExitCode::FAILURE;
            }
        }
    }
    if is_good {
        return ExitCode::SUCCESS;
    }
    eprintln!("a group has to use 99 % of its quota, and strand 1 ms per CPU at most");
    ExitCode::FAILURE
}

fn report_failure(seed: u64, cut: &Cut, failure: Box<Failure>, flips: bool, is_final: bool) {
    eprintln!("seed {seed} broke a promise\n{failure}");
    let replay = |cut: &Cut| runner::replay_command(seed, cut, flips, " --trace");
    eprintln!("replay: {}", replay(cut));
    if is_final {
        return;
    }
    let history = generate::from_seed(seed);
    let size = Size {
        tasks: history.tasks.len(),
        ops: history.ops.len(),
        busy_ns: history.busy_ns,
    };
    let run = |cut: &Cut| run_history(cut_history(seed, cut), flips, false).err();
    let (cut, smaller) = shrink::shrink(size, cut, &failure, run);
    if let Some(smaller) = smaller {
        let left = (size.tasks - cut.tasks.len(), size.ops - cut.ops.len());
        eprintln!("\nsmaller: {} tasks, {} operations", left.0, left.1);
        eprintln!("{}\n{smaller}", cut_history(seed, &cut));
        eprintln!("replay: {}", replay(&cut));
    }
}

fn fairness(args: &Fairness) -> ExitCode {
    let mut cases = Vec::new();
    for name in &args.case {
        let Some(case) = Case::find(name) else {
            let names: Vec<&str> = CASES.iter().map(|c| c.name).collect();
            eprintln!("case {name} is unknown; allowed: {}", names.join(", "));
            return ExitCode::from(2);
        };
        cases.push(case);
    }
    if cases.is_empty() {
        cases.extend(CASES);
    }
    println!(
        "errors of groups in % of one CPU (max, mean), of tasks in Fair groups in % of their due"
    );
    println!(
        "{:<48} {:>4} {:>7} {:>6} {:>7} {:>6} {:>6} {:>9} {:>9} {:>8}",
        "case", "CPUs", "100 ms", "mean", "1 s", "mean", "task", "migr/s/C", "wait ms", "wasted %"
    );
    let kind = if args.threads {
        Kind::Threads
    } else {
        Kind::Polls
    };
    let mut is_failed = false;
    for case in cases {
        for &cpus in &args.cpus {
            let warm_up = args.warm_up_ms * 1_000_000;
            let history = case.history(cpus, kind, warm_up, args.seconds * 1_000_000_000);
            let report = match run_unbounded(history, args.trace) {
                Ok(report) => report,
                Err(failure) => {
                    is_failed = true;
                    eprintln!("{}: {failure}", case.name);
                    failure.report
                }
            };
            print_row(case, cpus, &report);
        }
    }
    if is_failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Runs a history with every check but those on the size of errors.
fn run_unbounded(history: History, is_traced: bool) -> Result<Report, Box<Failure>> {
    let sched = CorePort::new(history.machine.cpus as usize);
    runner::run(history, sched, Bounds::UNJUDGED, is_traced)
}

fn print_row(case: &Case, cpus: u32, report: &Report) {
    let judged = report.stats.judged();
    let [short, long] = report.errors;
    println!(
        "{:<48} {:>4} {:>7.3} {:>6.3} {:>7.3} {:>6.3} {:>6.2} {:>9.1} {:>9.2} {:>8.4}",
        case.title,
        cpus,
        short.max,
        short.mean,
        long.max,
        long.mean,
        long.task_max,
        judged.per_second_and_cpu(judged.migrations),
        judged.worst_wait_ns as f64 / 1e6,
        100.0 * judged.wasted_share(),
    );
}
