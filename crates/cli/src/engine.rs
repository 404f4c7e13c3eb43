//! The only module that knows the runtime: starts it, makes its groups, spawns into them and reads
//! what they used.

use std::time::Duration;

use evenkeel::{Builder, Group, GroupStat, Histogram, JoinHandle, Runtime};

use crate::kinds::meter::Reading;
use crate::report::{Measured, Times};
use crate::workload::Workload;
use crate::workload::model::{self, Class, Io, Order};

pub(crate) use evenkeel::{spawn, yield_now};

/// How long the runtime may take to stop; after that the program ends all the same.
const STOP_LIMIT: Duration = Duration::from_secs(2);

/// Points at which a histogram is read to be merged with others. Percentiles of a merged histogram
/// are exact to one part in this many of the times recorded in each.
const MERGE_POINTS: u32 = 500;

/// Why the runtime could not be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineError {
    /// The runtime did not start.
    #[error("cannot start the runtime: {0}")]
    Start(evenkeel::Error),
    /// The runtime refused a group.
    #[error("cannot make the group `{path}`: {source}")]
    Group {
        /// The group.
        path: String,
        /// Why.
        source: evenkeel::Error,
    },
}

/// A runtime with the groups of a workload.
pub(crate) struct Engine {
    runtime: Runtime,
    /// In depth-first order.
    groups: Vec<Group>,
    /// The places of each group's children.
    children: Vec<Vec<usize>>,
}

/// What the groups had used at one instant, in depth-first order.
#[derive(Clone, Debug)]
pub(crate) struct Sample(Vec<GroupStat>);

impl Engine {
    /// Starts a runtime and makes the groups of a workload.
    ///
    /// # Errors
    ///
    /// The runtime cannot start its threads, or refuses a group.
    pub(crate) fn start(workload: &Workload) -> Result<Self, EngineError> {
        let io = match workload.io {
            Io::Shared => evenkeel::Io::Shared,
            Io::Dedicated => evenkeel::Io::Dedicated,
        };
        let mut builder = Builder::new().io(io);
        if let Some(threads) = workload.threads {
            builder = builder.worker_threads(threads);
        }
        let runtime = builder.build().map_err(EngineError::Start)?;
        let root = runtime.handle().root();
        let mut engine = Self {
            runtime,
            groups: Vec::new(),
            children: Vec::new(),
        };
        for group in &workload.groups {
            engine.make(group, &root)?;
        }
        Ok(engine)
    }

    /// Makes a group and all under it; returns its place.
    fn make(&mut self, group: &model::Group, parent: &Group) -> Result<usize, EngineError> {
        let order = match group.order {
            Order::Fifo => evenkeel::Order::Fifo,
            Order::Fair => evenkeel::Order::Fair,
        };
        let class = match group.class {
            Class::Fair => evenkeel::Class::Fair,
            Class::Idle => evenkeel::Class::Idle,
            Class::RealTime { priority } => evenkeel::Class::RealTime {
                priority,
                policy: evenkeel::RtPolicy::RoundRobin,
            },
        };
        let mut builder = parent
            .child(group.name.as_str())
            .weight(group.weight)
            .order(order)
            .class(class);
        if let Some(nice) = group.nice {
            builder = builder.nice(nice);
        }
        if let Some(slice) = group.slice {
            builder = builder.slice(slice);
        }
        let made = builder.build().map_err(|source| EngineError::Group {
            path: group.path.clone(),
            source,
        })?;
        let at = self.groups.len();
        self.groups.push(made.clone());
        self.children.push(Vec::new());
        for child in &group.groups {
            let child = self.make(child, &made)?;
            self.children[at].push(child);
        }
        Ok(at)
    }

    /// Worker threads, each a CPU to the scheduler.
    pub(crate) fn cpus(&self) -> usize {
        self.runtime.handle().worker_threads()
    }

    /// Spawns a task into a group, given by its place in depth-first order.
    pub(crate) fn spawn(&self, group: usize, task: impl Future<Output = ()> + Send + 'static) {
        let task: JoinHandle<()> = self.groups[group].spawn(task);
        drop(task);
    }

    /// Reads what all groups have used. The first call makes the runtime begin to record waits.
    pub(crate) fn sample(&self) -> Sample {
        Sample(self.groups.iter().map(Group::stat).collect())
    }

    /// What happened between two samples, with empty readings.
    pub(crate) fn measured(&self, before: &Sample, after: &Sample) -> Vec<Measured> {
        let own: Vec<u64> = before
            .0
            .iter()
            .zip(&after.0)
            .map(|(before, after)| after.own_usage_usec.saturating_sub(before.own_usage_usec))
            .collect();
        // Groups are read one after the other while they run, so a parent's usage is summed up here
        // and not read. Children come after their parents.
        let mut usage = own.clone();
        for at in (0..usage.len()).rev() {
            let below: u64 = self.children[at].iter().map(|&child| usage[child]).sum();
            usage[at] += below;
        }
        let since: Vec<(Histogram, Histogram)> = before
            .0
            .iter()
            .zip(&after.0)
            .map(|(before, after)| (after.wait.since(&before.wait), after.run.since(&before.run)))
            .collect();
        (0..self.groups.len())
            .map(|at| {
                let (wait, _) = &since[at];
                let waiting_ns = wait.mean() * wait.count() as f64;
                let members = self.members(at);
                Measured {
                    usage: Duration::from_micros(usage[at]),
                    own_usage: Duration::from_micros(own[at]),
                    wait: merged(members.iter().map(|&member| &since[member].0)),
                    own_waiting: Duration::from_nanos(waiting_ns as u64),
                    run: merged(members.iter().map(|&member| &since[member].1)),
                    reading: Reading::empty(),
                }
            })
            .collect()
    }

    /// The places of a group and of all under it.
    fn members(&self, at: usize) -> Vec<usize> {
        let below = self.children[at]
            .iter()
            .flat_map(|&child| self.members(child));
        std::iter::once(at).chain(below).collect()
    }

    /// Drops all tasks and stops the runtime.
    pub(crate) fn stop(self) {
        drop(self.groups);
        self.runtime.shutdown_timeout(STOP_LIMIT);
    }
}

/// Percentiles of the times of several histograms together.
fn merged<'a>(histograms: impl Iterator<Item = &'a Histogram>) -> Times {
    let filled: Vec<&Histogram> = histograms
        .filter(|histogram| histogram.count() > 0)
        .collect();
    if let [only] = filled[..] {
        return Times {
            p50: only.percentile(50.0),
            p99: only.percentile(99.0),
            max: only.max(),
        };
    }
    let mut points = Vec::new();
    for histogram in &filled {
        let weight = histogram.count() as f64 / f64::from(MERGE_POINTS);
        for point in 0..MERGE_POINTS {
            let percentile = (f64::from(point) + 0.5) / f64::from(MERGE_POINTS) * 100.0;
            points.push((histogram.percentile(percentile), weight));
        }
    }
    points.sort_by_key(|(value, _)| *value);
    let max = filled
        .iter()
        .map(|histogram| histogram.max())
        .max()
        .unwrap_or_default();
    Times {
        p50: quantile(&points, 0.5),
        p99: quantile(&points, 0.99),
        max,
    }
}

/// The value below which this part of the weight lies; `points` are sorted by value.
fn quantile(points: &[(u64, f64)], part: f64) -> u64 {
    let mut left = points.iter().map(|(_, weight)| weight).sum::<f64>() * part;
    for (value, weight) in points {
        left -= weight;
        if left <= 0.0 {
            return *value;
        }
    }
    points.last().map_or(0, |(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_weighted_points() {
        let points = [(10, 1.0), (20, 98.0), (30, 1.0), (40, 0.5)];
        assert_eq!(quantile(&points, 0.0), 10);
        assert_eq!(quantile(&points, 0.5), 20);
        assert_eq!(quantile(&points, 0.99), 30);
        assert_eq!(quantile(&points, 1.0), 40);
        assert_eq!(quantile(&[], 0.5), 0);
    }
}
