//! Compares executors at spawning, yielding and exchanging messages, in one interleaved run.
#![forbid(unsafe_code)]

use std::error::Error;

use clap::Parser;
use evenkeel_benches::exec::{AsyncExecutor, Evenkeel, EvenkeelGroups, Kind, Tokio};
use evenkeel_benches::stats::{Ratio, median, rotated};
use evenkeel_benches::table::{Table, time};
use evenkeel_benches::workloads::{WORKLOADS, Workload};
use serde_json::{Map, Value, json};

/// Compare executors at spawning, yielding and exchanging messages.
///
/// Every repetition runs each executor once, in rotated order, each on fresh worker threads.
/// Prints the median time of an operation, and for every executor the ratio of its time to
/// evenkeel's: the median (and least..greatest) of the ratios within each repetition, so that more
/// than 1 means that evenkeel is faster.
#[derive(Parser)]
#[command(name = "messaging")]
struct Options {
    /// Repetitions.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    reps: u32,
    /// Worker threads of each executor.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    threads: u32,
    /// Run only the workloads whose name contains this text; may be given several times.
    #[arg(long, value_name = "NAME")]
    filter: Vec<String>,
    /// Run only this executor (for a profiler); may be given several times.
    #[arg(long, value_name = "EXECUTOR")]
    only: Vec<Kind>,
    /// Multiply the number of operations of each repetition.
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR")]
    scale: f64,
    /// Print one JSON object with every sample.
    #[arg(long)]
    json: bool,
    /// List the workloads and what one operation of each is, and run nothing.
    #[arg(long)]
    list: bool,
}

/// Samples of one workload: one list for each executor of the run, in nanoseconds per operation.
struct Samples {
    workload: Workload,
    operations: usize,
    by_kind: Vec<(Kind, Vec<f64>)>,
}

impl Samples {
    fn of(&self, kind: Kind) -> &[f64] {
        self.by_kind
            .iter()
            .find(|(k, _)| *k == kind)
            .map_or(&[], |(_, samples)| samples)
    }

    fn ratio(&self, kind: Kind) -> Option<Ratio> {
        Ratio::paired(self.of(kind), self.of(Kind::ALL[0]))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    if options.list {
        let mut table = Table::new(["workload", "operations", "one operation"]);
        for w in WORKLOADS {
            table.row([w.name, &w.operations.to_string(), w.operation]);
        }
        print!("{table}");
        return Ok(());
    }
    let is_wanted = |w: &&Workload| {
        options.filter.is_empty() || options.filter.iter().any(|f| w.name.contains(f.as_str()))
    };
    let workloads: Vec<&Workload> = WORKLOADS.iter().filter(is_wanted).collect();
    if workloads.is_empty() {
        return Err("no workload has such a name; --list names them".into());
    }
    let is_selected = |k: &Kind| options.only.is_empty() || options.only.contains(k);
    let kinds: Vec<Kind> = Kind::ALL.iter().copied().filter(is_selected).collect();
    let samples: Vec<Samples> = workloads
        .iter()
        .map(|w| measure(w, &kinds, &options))
        .collect();
    if options.json {
        println!("{:#}", to_json(&samples, &options));
    } else {
        print!("{}", to_table(&samples, &kinds));
    }
    Ok(())
}

fn measure(workload: &Workload, kinds: &[Kind], options: &Options) -> Samples {
    let operations = ((workload.operations as f64 * options.scale) as usize).max(1);
    let mut by_kind: Vec<(Kind, Vec<f64>)> = kinds.iter().map(|&k| (k, Vec::new())).collect();
    for repetition in 0..options.reps as usize {
        eprintln!("{} {}/{}", workload.name, repetition + 1, options.reps);
        for index in rotated(kinds.len(), repetition) {
            let (kind, samples) = &mut by_kind[index];
            samples.push(run(workload, *kind, options.threads as usize, operations));
        }
    }
    Samples {
        workload: *workload,
        operations,
        by_kind,
    }
}

fn run(workload: &Workload, kind: Kind, threads: usize, operations: usize) -> f64 {
    match kind {
        Kind::Evenkeel => workload.run::<Evenkeel>(threads, operations),
        Kind::EvenkeelInGroup => workload.run::<EvenkeelGroups<false>>(threads, operations),
        Kind::EvenkeelTwoGroups => workload.run::<EvenkeelGroups<true>>(threads, operations),
        Kind::Tokio => workload.run::<Tokio>(threads, operations),
        Kind::AsyncExecutor => workload.run::<AsyncExecutor>(threads, operations),
    }
}

fn to_table(samples: &[Samples], kinds: &[Kind]) -> Table {
    let peers: Vec<Kind> = kinds
        .iter()
        .copied()
        .filter(|k| *k != Kind::ALL[0])
        .collect();
    let has_own = kinds.contains(&Kind::ALL[0]);
    let ratios = |kind: &Kind| format!("{} / {}", kind.name(), Kind::ALL[0].name());
    let mut titles = vec!["median per operation".to_owned()];
    titles.extend(kinds.iter().map(|kind| kind.name().to_owned()));
    titles.extend(peers.iter().filter(|_| has_own).map(ratios));
    let mut table = Table::new(titles);
    for samples in samples {
        let mut row = vec![samples.workload.name.to_owned()];
        row.extend(kinds.iter().map(|&kind| time(median(samples.of(kind)))));
        row.extend(
            peers
                .iter()
                .filter_map(|&k| samples.ratio(k))
                .map(|r| r.to_string()),
        );
        table.row(row);
    }
    table
}

fn to_json(samples: &[Samples], options: &Options) -> Value {
    let workload = |samples: &Samples| {
        let executors: Map<String, Value> = samples
            .by_kind
            .iter()
            .map(|(kind, values)| {
                let ratio = samples.ratio(*kind).map(
                    |ratio| json!({"median": ratio.median, "min": ratio.min, "max": ratio.max}),
                );
                let value = json!({
                    "median_ns": median(values), "samples_ns": values, "ratio_to_evenkeel": ratio,
                });
                (kind.name().to_owned(), value)
            })
            .collect();
        json!({
            "name": samples.workload.name, "operation": samples.workload.operation,
            "operations": samples.operations, "executors": executors,
        })
    };
    let workloads: Vec<Value> = samples.iter().map(workload).collect();
    json!({"threads": options.threads, "reps": options.reps, "workloads": workloads})
}
