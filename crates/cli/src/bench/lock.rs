//! `evenkeel bench lock`.

use std::ops::ControlFlow;

use evenkeel::Level;
use evenkeel_bench::lock::{self, Config, Tasks, Threads};
use evenkeel_bench::machine::Machine;
use evenkeel_bench::stats::{self, Better, Metric, NoiseMeter, Plan, Report, measure};
use evenkeel_bench::tick::Missing;
use serde_json::json;

use super::args::{LockArgs, LockMode, RUNS};
use super::stop::Stop;
use super::{BenchError, Found, found};
use crate::progress::Status;

/// What is measured in each run, in the order in which `Contenders` return it.
const METRICS: [Metric; 4] = [
    Metric::sampled("acquisitions", "1/s", Better::Higher),
    Metric::sampled("total wait", "ms", Better::Lower),
    Metric::sampled("longest wait", "ms", Better::Lower),
    Metric::sampled("preempted while holding", "1", Better::Lower),
];

/// One kind of contenders, measured a run at a time.
struct Contenders {
    name: String,
    config: Config,
    subject: Box<dyn lock::Subject>,
}

impl stats::Subject for Contenders {
    type Error = lock::Error;

    fn name(&self) -> &str {
        &self.name
    }

    fn metrics(&self) -> &[Metric] {
        &METRICS
    }

    fn run(&mut self) -> Result<Vec<f64>, lock::Error> {
        const NS_PER_MS: f64 = 1e6;
        let comparison = lock::compare(&self.config, &[&*self.subject])?;
        let outcome = &comparison.outcomes()[0];
        let round = &outcome.rounds()[0];
        let waits = outcome.waits().figures();
        Ok(vec![
            round.acquisitions as f64 / round.elapsed.as_secs_f64(),
            waits.total / NS_PER_MS,
            waits.max / NS_PER_MS,
            round.preempted as f64,
        ])
    }
}

/// Runs the benchmark.
///
/// # Errors
///
/// A contender could not be started, or panicked.
pub(super) fn run(args: &LockArgs, stop: &Stop) -> Result<Found, BenchError> {
    let mut config = Config::new()
        .with_section(args.section)
        .with_duration(args.seconds);
    if let Some(contenders) = args.threads {
        config = config.with_contenders(contenders);
    }
    let fail = |error: lock::Error| BenchError::new(&error, error.is_config());
    config.check().map_err(fail)?;
    let (mut contenders, pairs, missing) = subjects(args, config);
    let probes: Vec<_> = contenders
        .iter()
        .map(|one| json!({"name": one.name, "preemption_seen_by": one.subject.probe()}))
        .collect();
    let status = Status::new();
    let noise = NoiseMeter::start();
    let plan = Plan {
        runs: args.common.runs.unwrap_or(RUNS),
        warm_up: 1,
    };
    let mut subjects: Vec<&mut dyn stats::Subject<Error = lock::Error>> =
        contenders.iter_mut().map(|one| one as _).collect();
    let measured = measure(plan, &mut subjects, &mut |step| {
        let stats::Step { name, done, total } = step;
        status.set(&format!("run {} of {total}: {name}", done + 1));
        match stop.by() {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    });
    status.finish();
    let measured = measured.map_err(fail)?;
    let mut report = Report {
        bench: "lock",
        params: json!({
            "threads": config.contenders(),
            "cpus": config.cpus(),
            "section_us": config.section().as_secs_f64() * 1e6,
            "seconds": config.duration().as_secs_f64(),
            "runs": plan.runs,
            "probes": probes,
        }),
        machine: Machine::here(),
        noise: noise.read(),
        series: measured.series,
        comparisons: Vec::new(),
    };
    for (a, b) in &pairs {
        report.compare(a, b);
    }
    let title = title(&config, measured.rounds);
    Ok(found(report, &title, &missing, measured.is_partial))
}

fn title(config: &Config, rounds: usize) -> String {
    let (contenders, cpus) = (config.contenders(), config.cpus());
    format!(
        "lock: {contenders} contenders on {cpus} CPUs, sections of {:?}, {rounds} runs of {:?}",
        config.section(),
        config.duration(),
    )
}

/// Contenders, the pairs of them to compare, and what there is not.
type Subjects = (Vec<Contenders>, Vec<(String, String)>, Vec<Missing>);

/// Makes the contenders that are wanted: for each kind first those that ask for no time.
fn subjects(args: &LockArgs, config: Config) -> Subjects {
    let (mut all, mut pairs, mut missing) = Subjects::default();
    let mut add = |kind: LockMode, subject: Box<dyn lock::Subject>| {
        let name = name(kind, subject.name());
        all.push(Contenders {
            name: name.clone(),
            config,
            subject,
        });
        name
    };
    let wants = |mode| args.mode.is_empty() || args.mode.contains(&mode);
    if wants(LockMode::Threads) {
        let kind = LockMode::Threads;
        let without = add(kind, Box::new(Threads::without_extension()));
        match Threads::with_extension() {
            Ok(with) => pairs.push((add(kind, Box::new(with)), without)),
            Err(error) => missing.push(Missing {
                name: name(kind, "with extension"),
                reason: error.to_string(),
            }),
        }
    }
    if wants(LockMode::Tasks) {
        let kind = LockMode::Tasks;
        let plain = add(kind, Box::new(Tasks::plain(Level::Park)));
        let sectioned = add(kind, Box::new(Tasks::sectioned(Level::Park)));
        pairs.push((sectioned, plain));
    }
    (all, pairs, missing)
}

/// Names contenders: the kind first, in any case.
fn name(kind: LockMode, own: &str) -> String {
    let kind = match kind {
        LockMode::Threads => "threads",
        LockMode::Tasks => "tasks",
    };
    if own.starts_with(kind) {
        own.to_owned()
    } else {
        format!("{kind}, {own}")
    }
}
