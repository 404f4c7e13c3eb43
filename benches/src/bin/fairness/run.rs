//! Runs the groups of a case and reads what each got.

use std::collections::HashMap;
use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use evenkeel::{Builder, Group, JoinHandle, Runtime};
use evenkeel_benches::proc::cpu_time_ns;

use crate::Options;
use crate::cases::Case;

/// What was measured, as fractions of what all groups of the case got.
pub(crate) struct Measured {
    /// From the tasks' own counters, a parent's with its children's.
    pub(crate) by_work: Vec<f64>,
    /// From the groups' statistics.
    pub(crate) by_usage: Vec<f64>,
    /// CPUs that all groups together used, by their statistics.
    pub(crate) cpus_used: f64,
    /// CPUs that the kernel gave to this process. Where it is less, other processes took part of
    /// the time that the runtime charged to its groups, and work differs from usage.
    pub(crate) cpus_given: f64,
}

/// Counter of one task's polls, alone in its cache line.
#[repr(align(128))]
#[derive(Default)]
struct Polls(AtomicU64);

/// A case that runs.
struct Running {
    runtime: Runtime,
    groups: Vec<Group>,
    /// The counters of the tasks in each group.
    polls: Vec<Vec<Arc<Polls>>>,
    tasks: Vec<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
}

/// What the groups had got at one moment.
struct Reading {
    polls: Vec<u64>,
    usage_usec: Vec<u64>,
    cpu_ns: u64,
    at: Instant,
}

/// Returns how many steps of [`compute`] take `poll_ns`: the fastest of several trials, so that an
/// interrupted one does not count.
pub(crate) fn calibrate(poll_ns: u64) -> u64 {
    const STEPS: u64 = 1_000_000;
    let trial = |_| {
        let start = Instant::now();
        compute(STEPS);
        start.elapsed().as_nanos() as u64
    };
    let fastest = (0..9).map(trial).min().unwrap_or(1).max(1);
    (STEPS * poll_ns / fastest).max(1)
}

/// Computes for a while: a chain of dependent shifts (Marsaglia, "Xorshift RNGs", 2003).
fn compute(steps: u64) {
    let mut x = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..steps {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x);
}

/// Runs a case with polls of `steps` steps.
pub(crate) fn measure(
    case: &Case,
    options: &Options,
    steps: u64,
) -> Result<Measured, Box<dyn Error>> {
    let running = start(case, options.threads as usize, steps)?;
    std::thread::sleep(Duration::from_secs_f64(options.warmup));
    let before = running.read();
    std::thread::sleep(Duration::from_secs_f64(options.seconds));
    let after = running.read();
    running.stop()?;
    Ok(compare(case, &before, &after))
}

fn start(case: &Case, threads: usize, steps: u64) -> Result<Running, Box<dyn Error>> {
    let runtime = Builder::new().worker_threads(threads).build()?;
    let is_over = Arc::new(AtomicBool::new(false));
    let mut by_path: HashMap<&str, Group> = HashMap::from([("", runtime.handle().root())]);
    let (mut groups, mut polls, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
    for spec in case.groups {
        let (parent, name) = spec.path.rsplit_once('/').ok_or("a path begins with `/`")?;
        let parent = by_path
            .get(parent)
            .ok_or("parents come before their children")?;
        let group = parent.child(name).weight(spec.weight).build()?;
        let own: Vec<Arc<Polls>> = (0..spec.tasks).map(|_| Arc::default()).collect();
        for polls in &own {
            tasks.push(group.spawn(work(polls.clone(), is_over.clone(), steps)));
        }
        by_path.insert(spec.path, group.clone());
        groups.push(group);
        polls.push(own);
    }
    drop(by_path);
    Ok(Running {
        runtime,
        groups,
        polls,
        tasks,
        is_over,
    })
}

async fn work(polls: Arc<Polls>, is_over: Arc<AtomicBool>, steps: u64) {
    while !is_over.load(Ordering::Relaxed) {
        compute(steps);
        polls.0.fetch_add(1, Ordering::Relaxed);
        evenkeel::yield_now().await;
    }
}

impl Running {
    fn read(&self) -> Reading {
        let sum = |polls: &Vec<Arc<Polls>>| polls.iter().map(|p| p.0.load(Ordering::Relaxed)).sum();
        Reading {
            usage_usec: self
                .groups
                .iter()
                .map(|group| group.stat().usage_usec)
                .collect(),
            polls: self.polls.iter().map(sum).collect(),
            cpu_ns: cpu_time_ns(),
            at: Instant::now(),
        }
    }

    /// Ends every task, then removes the groups, children first.
    fn stop(self) -> Result<(), Box<dyn Error>> {
        self.is_over.store(true, Ordering::Relaxed);
        for task in self.tasks {
            self.runtime.block_on(task)?;
        }
        for group in self.groups.iter().rev() {
            group.remove()?;
        }
        Ok(())
    }
}

fn compare(case: &Case, before: &Reading, after: &Reading) -> Measured {
    let difference = |before: &[u64], after: &[u64]| -> Vec<f64> {
        before
            .iter()
            .zip(after)
            .map(|(before, after)| (after - before) as f64)
            .collect()
    };
    let own_polls = difference(&before.polls, &after.polls);
    let usage_usec = difference(&before.usage_usec, &after.usage_usec);
    let is_within = |path: &str, ancestor: &str| {
        path.strip_prefix(ancestor)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let polls_of = |ancestor: &str| -> f64 {
        let all = case.groups.iter().zip(&own_polls);
        all.filter(|(group, _)| is_within(group.path, ancestor))
            .map(|(_, polls)| polls)
            .sum()
    };
    let all_polls: f64 = own_polls.iter().sum();
    let outermost = case
        .groups
        .iter()
        .zip(&usage_usec)
        .filter(|(g, _)| is_outermost(g.path));
    let all_usage: f64 = outermost.map(|(_, usage)| usage).sum();
    let elapsed_ns = (after.at - before.at).as_nanos() as f64;
    Measured {
        by_work: case
            .groups
            .iter()
            .map(|group| polls_of(group.path) / all_polls)
            .collect(),
        by_usage: usage_usec.iter().map(|usage| usage / all_usage).collect(),
        cpus_used: all_usage * 1e3 / elapsed_ns,
        cpus_given: (after.cpu_ns - before.cpu_ns) as f64 / elapsed_ns,
    }
}

fn is_outermost(path: &str) -> bool {
    path.matches('/').count() == 1
}
