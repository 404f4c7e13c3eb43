//! Measures how exactly CPU-bound groups get their shares on the real runtime.
#![forbid(unsafe_code)]

mod cases;
mod exact;
mod run;

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use evenkeel_benches::table::Table;
use serde_json::{Value, json};

use cases::{CASES, Case};
use run::Measured;

/// Measure how exactly CPU-bound groups get their shares.
///
/// The tasks of each case compute in short polls and yield. Shares are fractions of what all groups
/// of the case got: `by work` from the tasks' own counters, `by usage` from the groups' statistics.
/// The exact answer is hierarchical weighted max-min fairness, where a task cannot use more than
/// one CPU. Errors are absolute, in percent of the whole. Usage is charged by the clock: where
/// other processes take the CPU away from the workers, work differs from it.
#[derive(Parser)]
#[command(name = "fairness")]
struct Options {
    /// Worker threads.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    threads: u32,
    /// Seconds to measure in each case.
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS")]
    seconds: f64,
    /// Seconds before the measurement begins.
    #[arg(long, default_value_t = 0.5, value_name = "SECONDS")]
    warmup: f64,
    /// Length of one poll in microseconds.
    #[arg(long, default_value_t = 20, value_name = "MICROSECONDS")]
    poll_us: u64,
    /// Run only the cases whose name contains this text; may be given several times.
    #[arg(long, value_name = "NAME")]
    filter: Vec<String>,
    /// End with status 1 when an error by usage is greater than this, in percent.
    #[arg(long, value_name = "PERCENT")]
    max_error: Option<f64>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// A finished case.
struct Outcome {
    case: &'static Case,
    exact: Vec<f64>,
    measured: Measured,
}

impl Outcome {
    fn error_by_usage(&self, group: usize) -> f64 {
        100.0 * (self.measured.by_usage[group] - self.exact[group])
    }

    fn error_by_work(&self, group: usize) -> f64 {
        100.0 * (self.measured.by_work[group] - self.exact[group])
    }
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let options = Options::parse();
    let is_wanted = |case: &&Case| {
        options.filter.is_empty()
            || options
                .filter
                .iter()
                .any(|f| case.name.contains(f.as_str()))
    };
    let units = run::calibrate(options.poll_us * 1_000);
    let mut outcomes = Vec::new();
    for case in CASES.iter().filter(is_wanted) {
        eprintln!("{}", case.name);
        let exact = exact::shares(case.groups, options.threads as usize);
        let measured = run::measure(case, &options, units)?;
        outcomes.push(Outcome {
            case,
            exact,
            measured,
        });
    }
    if outcomes.is_empty() {
        return Err("no case has such a name".into());
    }
    let by_usage = greatest(&outcomes, Outcome::error_by_usage);
    let by_work = greatest(&outcomes, Outcome::error_by_work);
    if options.json {
        println!("{:#}", to_json(&outcomes, &options));
    } else {
        print!("{}", to_table(&outcomes));
        let given = outcomes
            .iter()
            .map(|o| o.measured.cpus_given)
            .fold(f64::INFINITY, f64::min);
        println!(
            "\nthe kernel gave at least {given:.2} of {} CPUs",
            options.threads
        );
        println!("greatest error: {by_usage:.2} % by usage, {by_work:.2} % by work");
    }
    let is_failed = options.max_error.is_some_and(|limit| by_usage > limit);
    Ok(if is_failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Returns the greatest absolute error of all groups.
fn greatest(outcomes: &[Outcome], error: fn(&Outcome, usize) -> f64) -> f64 {
    let errors = outcomes
        .iter()
        .flat_map(|o| (0..o.exact.len()).map(move |g| error(o, g).abs()));
    errors.fold(0.0, f64::max)
}

fn to_table(outcomes: &[Outcome]) -> Table {
    let titles = [
        "case", "group", "weight", "tasks", "exact", "by work", "error", "by usage", "error",
    ];
    let mut table = Table::new(titles);
    for outcome in outcomes {
        for (index, group) in outcome.case.groups.iter().enumerate() {
            let percent = |share: f64| format!("{:.2} %", 100.0 * share);
            table.row([
                if index == 0 {
                    outcome.case.name.to_owned()
                } else {
                    String::new()
                },
                group.path.to_owned(),
                group.weight.to_string(),
                group.tasks.to_string(),
                percent(outcome.exact[index]),
                percent(outcome.measured.by_work[index]),
                format!("{:+.2}", outcome.error_by_work(index)),
                percent(outcome.measured.by_usage[index]),
                format!("{:+.2}", outcome.error_by_usage(index)),
            ]);
        }
    }
    table
}

fn to_json(outcomes: &[Outcome], options: &Options) -> Value {
    let group = |outcome: &Outcome, index: usize| {
        let group = &outcome.case.groups[index];
        json!({
            "path": group.path, "weight": group.weight, "tasks": group.tasks,
            "exact": outcome.exact[index], "by_work": outcome.measured.by_work[index],
            "by_usage": outcome.measured.by_usage[index],
        })
    };
    let case = |outcome: &Outcome| {
        let groups: Vec<Value> = (0..outcome.exact.len())
            .map(|g| group(outcome, g))
            .collect();
        json!({"name": outcome.case.name, "cpus_used": outcome.measured.cpus_used,
            "cpus_given": outcome.measured.cpus_given,
            "groups": groups})
    };
    let cases: Vec<Value> = outcomes.iter().map(case).collect();
    json!({"threads": options.threads, "seconds": options.seconds, "cases": cases})
}
