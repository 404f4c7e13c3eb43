//! Computes a [`Report`] from what was measured.

use std::time::Duration;

use super::{GroupReport, Report, Run, Throughput, Ticks, Wait};
use crate::expected::{self, Demand, Expected, Node};
use crate::kinds::meter::{Reading, Unit};
use crate::workload::Workload;
use crate::workload::model::{Group, Kind, Task};

/// What was measured of one group.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// CPU time, its children's included.
    pub(crate) usage: Duration,
    /// CPU time of its own tasks.
    pub(crate) own_usage: Duration,
    /// Waits for a CPU, its children's included.
    pub(crate) wait: Times,
    /// The sum of all waits of its own tasks.
    pub(crate) own_waiting: Duration,
    /// Run times, its children's included.
    pub(crate) run: Times,
    /// What its own tasks reported.
    pub(crate) reading: Reading,
}

/// Percentiles of a time, in ns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    /// The median.
    pub(crate) p50: u64,
    /// The 99th percentile.
    pub(crate) p99: u64,
    /// The maximum.
    pub(crate) max: u64,
}

/// The groups of a workload with what was measured, all in depth-first order.
struct Builder<'a> {
    groups: Vec<&'a Group>,
    children: Vec<Vec<usize>>,
    roots: Vec<usize>,
    measured: &'a [Measured],
    seconds: f64,
}

/// Computes the report of a run that measured for `elapsed`; `measured` has one entry for each
/// group in depth-first order.
pub(crate) fn build(
    workload: &Workload,
    cpus: usize,
    elapsed: Duration,
    measured: &[Measured],
) -> Report {
    let groups = workload.flatten();
    assert_eq!(
        groups.len(),
        measured.len(),
        "one measurement for each group"
    );
    let mut builder = Builder {
        children: vec![Vec::new(); groups.len()],
        roots: Vec::new(),
        groups,
        measured,
        seconds: elapsed.as_secs_f64().max(1e-9),
    };
    builder.link(&workload.groups, None, &mut 0);
    let expected = builder.expected(cpus);
    let total: f64 = builder
        .roots
        .iter()
        .map(|&at| measured[at].usage.as_secs_f64())
        .sum();
    let at_all = 0..builder.groups.len();
    Report {
        duration_s: elapsed.as_secs_f64(),
        cpus,
        groups: at_all
            .map(|at| builder.group(at, total, expected[at]))
            .collect(),
        warm_up_s: workload.warm_up.as_secs_f64(),
        seed: workload.seed,
        process_cpu_s: None,
        is_partial: false,
    }
}

impl Builder<'_> {
    /// Numbers the groups depth-first and notes who is under whom.
    fn link(&mut self, groups: &[Group], parent: Option<usize>, next: &mut usize) {
        for group in groups {
            let at = *next;
            *next += 1;
            match parent {
                Some(parent) => self.children[parent].push(at),
                None => self.roots.push(at),
            }
            self.link(&group.groups, Some(at), next);
        }
    }

    /// What every group should have got.
    fn expected(&self, cpus: usize) -> Vec<Expected> {
        let nodes: Vec<Node> = (0..self.groups.len())
            .map(|at| Node {
                weight: self.groups[at].weight,
                class: self.groups[at].class,
                demand: self.demand(at),
                children: self.children[at].clone(),
            })
            .collect();
        expected::shares(&nodes, &self.roots, cpus)
    }

    /// What a group's own tasks asked for, the load of servers elsewhere that runs in it included.
    fn demand(&self, at: usize) -> Option<Demand> {
        let path = &self.groups[at].path;
        let own: Vec<&Task> = self.groups[at].tasks.iter().collect();
        let all = self.groups.iter().flat_map(|group| &group.tasks);
        let loads: u64 = all
            .filter(|task| load_group(task) == Some(path))
            .map(concurrent)
            .sum();
        let always_ready = own.iter().filter(|task| task.kind.is_always_ready());
        let always_ready: u64 = always_ready.map(|task| u64::from(task.count)).sum();
        let tasks = own.into_iter().map(concurrent).sum::<u64>() + loads;
        let measured = &self.measured[at];
        (tasks > 0).then(|| Demand {
            always_ready: always_ready as f64,
            tasks: tasks as f64,
            used: measured.own_usage.as_secs_f64() / self.seconds,
            waiting: measured.own_waiting.as_secs_f64() / self.seconds,
        })
    }

    /// One group's part of the report.
    fn group(&self, at: usize, total: f64, expected: Expected) -> GroupReport {
        let (group, measured) = (self.groups[at], &self.measured[at]);
        let mut reading = Reading::empty();
        let mut units = Vec::new();
        self.collect(at, &mut reading, &mut units);
        let throughputs = self.throughputs(&reading, &units);
        let usage = measured.usage.as_secs_f64();
        let none = Throughput {
            value: 0.0,
            unit: "none",
        };
        GroupReport {
            path: group.path.clone(),
            weight: group.weight,
            cpu_share: if total > 0.0 { usage / total } else { 0.0 },
            expected_share: expected.share,
            usage_usec: u64::try_from(measured.usage.as_micros()).unwrap_or(u64::MAX),
            wait_us: wait(measured.wait),
            run_us: Run {
                p99: us(measured.run.p99),
                max: us(measured.run.max),
            },
            throughput: throughputs.first().cloned().unwrap_or(none),
            ticks: Ticks {
                due: reading.beats.due,
                late: reading.beats.late,
                max_late_us: us(reading.beats.max_late_ns),
            },
            throughputs,
            request_us: units
                .contains(&Unit::Requests)
                .then(|| wait(latencies(&reading))),
            cpus_used: usage / self.seconds,
            is_demand_limited: expected.is_satisfied,
        }
    }

    /// Adds up what the tasks of a group and of all under it reported, and their units.
    fn collect(&self, at: usize, reading: &mut Reading, units: &mut Vec<Unit>) {
        reading.merge(&self.measured[at].reading);
        units.extend(self.groups[at].tasks.iter().map(|task| unit(&task.kind)));
        for &child in &self.children[at] {
            self.collect(child, reading, units);
        }
    }

    /// Rates in all units that occur.
    fn throughputs(&self, reading: &Reading, units: &[Unit]) -> Vec<Throughput> {
        let present = Unit::ALL.into_iter().filter(|unit| units.contains(unit));
        present
            .map(|unit| {
                let pieces = reading.counts[unit as usize] as f64;
                let value = pieces / unit.per_rate() / self.seconds;
                Throughput {
                    value,
                    unit: unit.rate_name(),
                }
            })
            .collect()
    }
}

/// What a kind's work is counted in.
fn unit(kind: &Kind) -> Unit {
    match kind {
        Kind::Http(_) => Unit::Requests,
        Kind::Hash(_) | Kind::Compress(_) => Unit::Bytes,
        Kind::Spin(_) => Unit::Polls,
        Kind::Lock(_) => Unit::Acquires,
        Kind::Tick(_) => Unit::Ticks,
    }
}

/// How many tasks of an entry can be ready at once: of a connection either the server or its
/// client works.
fn concurrent(task: &Task) -> u64 {
    let each = match &task.kind {
        Kind::Http(http) => u64::from(http.connections),
        _ => 1,
    };
    u64::from(task.count) * each
}

/// The other group in which a task's load runs.
fn load_group(task: &Task) -> Option<&String> {
    match &task.kind {
        Kind::Http(http) => http.load_group.as_ref(),
        _ => None,
    }
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn wait(times: Times) -> Wait {
    Wait {
        p50: us(times.p50),
        p99: us(times.p99),
        max: us(times.max),
    }
}

fn latencies(reading: &Reading) -> Times {
    let histogram = &reading.latencies;
    Times {
        p50: histogram.value_at_quantile(0.5),
        p99: histogram.value_at_quantile(0.99),
        max: histogram.max(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Document;

    fn measured(usage_ms: u64, own_ms: u64) -> Measured {
        Measured {
            usage: Duration::from_millis(usage_ms),
            own_usage: Duration::from_millis(own_ms),
            wait: Times {
                p50: 1_000,
                p99: 2_500,
                max: 9_000,
            },
            own_waiting: Duration::ZERO,
            run: Times {
                p50: 0,
                p99: 50_000,
                max: 60_000,
            },
            reading: Reading::empty(),
        }
    }

    #[test]
    fn parents_hold_their_children() {
        let document = Document::from_text(
            "[groups.a]\n\
             [groups.a.groups.web]\n\
             tasks = [{ kind = \"tick\", every = \"10ms\" }]\n\
             [groups.a.groups.batch]\n\
             tasks = [{ kind = \"spin\", count = 2 }]\n\
             [groups.b]\n\
             weight = 300\n\
             tasks = [{ kind = \"spin\", count = 2 }]\n",
        );
        let mut all = [
            measured(500, 0),
            measured(100, 100),
            measured(400, 400),
            measured(1500, 1500),
        ];
        all[1].reading.counts[Unit::Ticks as usize] = 100;
        all[1].reading.beats.due = 101;
        all[2].reading.counts[Unit::Polls as usize] = 3000;
        let report = build(&document.workload, 2, Duration::from_secs(1), &all);
        let shares: Vec<f64> = report.groups.iter().map(|group| group.cpu_share).collect();
        assert_eq!(shares, [0.25, 0.05, 0.2, 0.75]);
        let expected = report.groups.iter().map(|group| group.expected_share);
        assert!(expected.zip(shares).all(|(a, b)| (a - b).abs() < 1e-9));
        let a = &report.groups[0];
        assert_eq!(
            a.throughput,
            Throughput {
                value: 3000.0,
                unit: "polls/s"
            }
        );
        assert_eq!(
            a.throughputs[1],
            Throughput {
                value: 100.0,
                unit: "ticks/s"
            }
        );
        assert_eq!(a.ticks.due, 101);
        assert_eq!(
            a.wait_us,
            Wait {
                p50: 1.0,
                p99: 2.5,
                max: 9.0
            }
        );
        assert_eq!(a.request_us, None);
        assert!(report.groups[1].is_demand_limited && !report.groups[3].is_demand_limited);
    }
}
