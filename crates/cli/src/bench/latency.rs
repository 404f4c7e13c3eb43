//! `evenkeel bench latency`.

use evenkeel_bench::latency::{self, Config, Error, Outcome, SharesConfig};
use evenkeel_bench::machine::Machine;
use evenkeel_bench::stats::{Better, Metric, NoiseMeter, Report, Series};
use serde_json::{Value, json};

use super::args::{LatencyArgs, RUNS};
use super::stop::Stop;
use super::{BenchError, Found, found};
use crate::progress::Status;

/// Quantiles of the times from a wake to the run that answers it: name and fraction.
const WAITS: [(&str, f64); 3] = [("wait p50", 0.5), ("wait p99", 0.99), ("wait p99.9", 0.999)];

/// What is measured of each subject in each round beside those quantiles.
const KEPT: Metric = Metric::sampled("hogs' work", "%", Better::Higher);

/// The same of the work per CPU second that the process used.
const KEPT_PER_CPU: Metric = Metric::sampled("work per CPU", "%", Better::Higher);

/// The subject that the others are compared with.
const BASE: &str = "off";

/// Runs the benchmark.
///
/// # Errors
///
/// A flag has a value that is not allowed; a runtime could not be started; a task panicked.
pub(super) fn run(args: &LatencyArgs, stop: &Stop) -> Result<Found, BenchError> {
    if args.shares {
        shares(args)
    } else {
        compare(args, stop)
    }
}

fn fail(error: Error) -> BenchError {
    BenchError::new(&error, error.is_config())
}

fn compare(args: &LatencyArgs, stop: &Stop) -> Result<Found, BenchError> {
    let config = config(args);
    config.check().map_err(fail)?;
    let subjects: Vec<latency::Subject> = latency::Subject::ALL
        .into_iter()
        .filter(|one| args.only.is_empty() || args.only.contains(&one.name()))
        .collect();
    let status = Status::new();
    let noise = NoiseMeter::start();
    let wanted = args.common.runs.unwrap_or(RUNS);
    let mut samples: Vec<Samples> = subjects
        .iter()
        .map(|one| Samples::new(one.name()))
        .collect();
    let mut rounds = 0;
    while rounds < wanted && stop.by().is_none() {
        status.set(&format!("round {} of {wanted}", rounds + 1));
        // In an order that rotates, so that none always follows the same other one.
        let mut turns = subjects.clone();
        turns.rotate_left(rounds % subjects.len());
        let comparison = latency::compare(&config, &turns).map_err(fail)?;
        for outcome in comparison.outcomes() {
            let name = outcome.subject().name();
            let own = samples.iter_mut().find(|one| one.name == name);
            own.expect("every subject has samples").add(outcome);
        }
        rounds += 1;
    }
    status.finish();
    let mut report = Report {
        bench: "latency",
        params: params(&config, wanted),
        machine: Machine::here(),
        noise: noise.read(),
        series: samples.iter().flat_map(Samples::series).collect(),
        comparisons: Vec::new(),
    };
    for one in samples.iter().filter(|one| one.name != BASE) {
        report.compare(one.name, BASE);
    }
    let title = title(&config, rounds);
    Ok(found(report, &title, &[], rounds < wanted))
}

fn config(args: &LatencyArgs) -> Config {
    Config::new()
        .with_hogs(args.hogs)
        .with_poll(args.poll)
        .with_duration(args.seconds)
        .with_rounds(1)
}

fn params(config: &Config, runs: usize) -> Value {
    json!({
        "workers": config.workers(),
        "hogs": config.hogs(),
        "poll_us": config.poll().as_secs_f64() * 1e6,
        "seconds": config.duration().as_secs_f64(),
        "runs": runs,
    })
}

fn title(config: &Config, rounds: usize) -> String {
    format!(
        "latency: a task that is woken 1,000 times a second beside {} hogs in polls of {:?}, {} \
         workers, {rounds} rounds of {:?}\nhogs' work: 100 % is theirs in the same round without \
         preemption and without the task that is woken",
        config.hogs(),
        config.poll(),
        config.workers(),
        config.duration(),
    )
}

/// What was measured of one subject, a value for each round.
struct Samples {
    name: &'static str,
    /// By the quantiles, in µs.
    waits: [Vec<f64>; WAITS.len()],
    /// In percent.
    kept: Vec<f64>,
    /// In percent; rounds are missing where the system does not tell the CPU time.
    kept_per_cpu: Vec<f64>,
}

impl Samples {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            waits: Default::default(),
            kept: Vec::new(),
            kept_per_cpu: Vec::new(),
        }
    }

    fn add(&mut self, round: &Outcome) {
        const NS_PER_US: f64 = 1e3;
        for (samples, (_, fraction)) in self.waits.iter_mut().zip(WAITS) {
            let wait = round.waits().quantile(fraction);
            samples.extend(wait.map(|ns| ns as f64 / NS_PER_US));
        }
        let percent = |part: &f64| part * 100.0;
        self.kept.extend(round.kept().iter().map(percent));
        self.kept_per_cpu
            .extend(round.kept_per_cpu().iter().map(percent));
    }

    fn series(&self) -> Vec<Series> {
        let waits = WAITS.iter().zip(&self.waits).map(|((name, _), samples)| {
            let metric = Metric::sampled(name, "µs", Better::Lower);
            Series::new(self.name, metric, samples.clone())
        });
        let works = [(KEPT, &self.kept), (KEPT_PER_CPU, &self.kept_per_cpu)];
        let works = works.map(|(metric, all)| Series::new(self.name, metric, all.clone()));
        waits.chain(works).collect()
    }
}

/// How tasks of long and of short polls share the CPUs; one round, no comparison.
fn shares(args: &LatencyArgs) -> Result<Found, BenchError> {
    let config = SharesConfig {
        duration: args.seconds,
        ..SharesConfig::new()
    };
    let status = Status::new();
    status.set("shares of long and of short polls");
    let shares = latency::shares(&config);
    status.finish();
    let shares = shares.map_err(fail)?;
    Ok(Found {
        json: shares.to_json(),
        text: shares.table(),
        has_results: true,
    })
}
