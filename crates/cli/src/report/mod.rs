//! The result of a run: one [`Report`], written as a table or as JSON.
//!
//! | module | what it does |
//! |---|---|
//! | `build` | computes the report from what was measured |
//! | `table` | writes it for people |
//! | `json` | writes it for programs |

mod build;
mod json;
mod table;

use serde::Serialize;

pub(crate) use build::{Measured, Times, build};
pub(crate) use json::write_json;
pub(crate) use table::write_table;

/// What a run measured. The JSON output is this type, field by field; later versions add fields
/// and rename none.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// The time measured, in seconds; without the warm-up.
    pub(crate) duration_s: f64,
    /// Worker threads, each a CPU to the scheduler.
    pub(crate) cpus: usize,
    /// All groups, parents before their children, in the order of the workload file.
    pub(crate) groups: Vec<GroupReport>,
    /// The warm-up before the measurement, in seconds.
    pub(crate) warm_up_s: f64,
    /// The seed of the workload.
    pub(crate) seed: u64,
    /// The CPU time that the operating system gave to this process while it measured, in seconds,
    /// with the grain of its clock ticks; absent where it does not tell. Groups are charged by the
    /// clock: what is missing to the sum of their usage went to other processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) process_cpu_s: Option<f64>,
    /// Whether the run ended before its time, by a signal or a failed task.
    pub(crate) is_partial: bool,
}

/// One group's part of a report. A parent's figures hold its children's.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct GroupReport {
    /// The path from the root.
    pub(crate) path: String,
    /// The weight against its siblings.
    pub(crate) weight: u32,
    /// The fraction of the CPU time that all groups used.
    pub(crate) cpu_share: f64,
    /// The fraction that an exact scheduler would have given: see the module `expected`.
    pub(crate) expected_share: f64,
    /// CPU time used, in µs.
    pub(crate) usage_usec: u64,
    /// How long tasks that were ready waited for a CPU.
    pub(crate) wait_us: Wait,
    /// How long tasks ran at a time.
    pub(crate) run_us: Run,
    /// Work done, in the group's first unit.
    pub(crate) throughput: Throughput,
    /// Heartbeats.
    pub(crate) ticks: Ticks,
    /// Work done, in every unit that its tasks count in.
    pub(crate) throughputs: Vec<Throughput>,
    /// From a request's start to its whole answer; absent without `http` tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_us: Option<Wait>,
    /// CPU time used for each second of the run.
    pub(crate) cpus_used: f64,
    /// Whether the group was expected to get all the CPU it asked for, so that its demand and
    /// not its weight set its expected share.
    pub(crate) is_demand_limited: bool,
}

/// Percentiles of a time, in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Wait {
    /// Half of all were at most this long.
    pub(crate) p50: f64,
    /// 99 % of all were at most this long.
    pub(crate) p99: f64,
    /// The longest.
    pub(crate) max: f64,
}

/// Percentiles of a run time, in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Run {
    /// 99 % of all were at most this long.
    pub(crate) p99: f64,
    /// The longest.
    pub(crate) max: f64,
}

/// Work per second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Throughput {
    /// How much.
    pub(crate) value: f64,
    /// Of what: `requests/s`, `MB/s`, `polls/s`, `acquires/s`, `ticks/s`; `none` without tasks.
    pub(crate) unit: &'static str,
}

/// How heartbeats kept to their times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Ticks {
    /// Beats that became due.
    pub(crate) due: u64,
    /// Beats later than their limit, those not done yet included.
    pub(crate) late: u64,
    /// The largest lateness, in µs.
    pub(crate) max_late_us: f64,
}
