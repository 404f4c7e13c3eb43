//! `cargo xtask off-cost`: what the runtime's optional parts cost while they are off.
//!
//! The program `evenkeel-off-cost` is built twice: with every optional part compiled in, which it
//! leaves off, and with none. Both run the same operations. Compared are instructions, which
//! callgrind counts, and time, in pairs of runs of which one follows the other, in alternating
//! order.
//!
//! Where a function happens to lie changes its time by more than an instruction does (Mytkowicz et
//! al., "Producing wrong data without doing anything obviously wrong!", 2009). So the pairs are
//! spread over several layouts, in each of which the functions of both programs are in random
//! order.

mod build;
mod instructions;
mod stats;
mod time;

use std::fmt;
use std::process::ExitCode;

use build::Programs;
use stats::Interval;

/// How much is measured, and what is a failure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Count instructions only.
    #[arg(long)]
    instructions_only: bool,
    /// Pairs of timed runs for each operation.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(5..))]
    pairs: u32,
    /// Layouts of the code over which the pairs are spread.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    layouts: u32,
    /// Most additional instructions, in percent.
    #[arg(long, default_value_t = 0.5)]
    max_percent: f64,
    /// Time at the default level of preemption: a thread watches for long polls where that is
    /// compiled in. Without this the level is off.
    #[arg(long)]
    default_level: bool,
}

/// An operation that the program repeats.
pub(crate) struct Workload {
    /// Its name on the program's command line.
    pub(crate) name: &'static str,
    /// Repetitions in a run that is timed: about a tenth of a second.
    pub(crate) timed: u64,
}

/// How often is counted, at most, until the result is within the limit: the least of the counts has
/// the least in it that goes by the clock.
const ATTEMPTS: u32 = 3;

const WORKLOADS: [Workload; 3] = [
    Workload {
        name: "spawn-join",
        timed: 600_000,
    },
    Workload {
        name: "yield",
        timed: 2_500_000,
    },
    Workload {
        name: "ping-pong",
        timed: 250_000,
    },
];

/// Why nothing could be measured.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(what: impl fmt::Display) -> Self {
        Self(what.to_string())
    }
}

/// Measures, prints a table, and says whether the instructions stay within the limit.
pub(crate) fn run(options: &Options) -> ExitCode {
    match measure(options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("off-cost: more than {} % above", options.max_percent);
            ExitCode::FAILURE
        }
        Err(Failure(why)) => {
            eprintln!("off-cost: {why}");
            ExitCode::from(2)
        }
    }
}

fn measure(options: &Options) -> Result<bool, Failure> {
    let programs = build::build(None)?;
    let is_within = count(&programs, options.max_percent)?;
    if !options.instructions_only {
        println!();
        time_all(options)?;
    }
    Ok(is_within)
}

fn count(programs: &Programs, max_percent: f64) -> Result<bool, Failure> {
    println!("instructions  compiled out  in and off  difference");
    let mut is_within = true;
    for workload in &WORKLOADS {
        let (mut without, mut with) = (f64::INFINITY, f64::INFINITY);
        let mut percent = f64::INFINITY;
        for _ in 0..ATTEMPTS {
            without = without.min(instructions::per_operation(&programs.without, workload)?);
            with = with.min(instructions::per_operation(&programs.with, workload)?);
            percent = (with / without - 1.0) * 100.0;
            if percent <= max_percent {
                break;
            }
        }
        is_within &= percent <= max_percent;
        println!(
            "{:<12}  {without:>12.1}  {with:>10.1}  {percent:>+8.2} %",
            workload.name
        );
    }
    Ok(is_within)
}

fn time_all(options: &Options) -> Result<(), Failure> {
    let mut pairs = WORKLOADS.map(|_| Vec::new());
    for layout in 0..options.layouts {
        let programs = build::build(Some(layout))?;
        let numbers = (layout..options.pairs).step_by(options.layouts as usize);
        for number in numbers {
            for (workload, pairs) in WORKLOADS.iter().zip(&mut pairs) {
                let is_first = (number / options.layouts + layout).is_multiple_of(2);
                let order = time::Order { is_first };
                pairs.push(time::pair(
                    &programs,
                    workload,
                    order,
                    options.default_level,
                )?);
            }
        }
    }
    println!("ns            compiled out  in and off  ratio  95 % interval");
    for (workload, pairs) in WORKLOADS.iter().zip(pairs) {
        let without = stats::median(pairs.iter().map(|pair| pair.without_ns).collect());
        let with = stats::median(pairs.iter().map(|pair| pair.with_ns).collect());
        let ratios: Vec<f64> = pairs.iter().map(time::Pair::ratio).collect();
        let Interval { low, high } = stats::interval_of_median(&ratios);
        println!(
            "{:<12}  {without:>12.1}  {with:>10.1}  {:.3}  {low:.3} to {high:.3}",
            workload.name,
            stats::median(ratios),
        );
    }
    Ok(())
}
