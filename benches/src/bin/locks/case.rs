//! One run: tasks that contend for a lock, on a runtime of their own.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel::{Builder, Level, Runtime};
use evenkeel_bench::work::{Pace, Steps};
use evenkeel_benches::alloc::set_sections;
use evenkeel_benches::proc::cpu_time_ns;

use crate::output::Silenced;
use crate::subject::{Kind, Own, Shared};

/// How long everything runs before it counts.
const WARM_UP: Duration = Duration::from_millis(100);

/// Length of an operation that has no time of its own, for the number of operations in a poll.
const NOMINAL: Duration = Duration::from_micros(5);

/// What is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) kind: Kind,
    pub(crate) level: Level,
    pub(crate) workers: usize,
    pub(crate) tasks: usize,
    /// How long a task computes before it yields, as an amount of work.
    pub(crate) poll: Duration,
    /// How long a mutex is held in each operation.
    pub(crate) held: Duration,
    /// Work between two operations.
    pub(crate) outside: Duration,
    /// Slice of the tasks' group; zero for the default.
    pub(crate) slice: Duration,
    /// Each poll is of a random length up to `poll`, and some are followed by a sleep of up to
    /// this; zero for neither.
    pub(crate) sleep: Duration,
    pub(crate) seed: u64,
}

impl Case {
    /// Returns the name of what is contended for, with the times where they matter.
    pub(crate) fn name(&self) -> String {
        let (held, outside) = (self.held.as_micros(), self.outside.as_micros());
        if self.kind.is_mutex() {
            format!("{} {held}/{outside}", self.kind.name())
        } else {
            self.kind.name().to_owned()
        }
    }
}

/// What a run gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Operations in a second.
    pub(crate) throughput: f64,
    /// CPUs that the process used meanwhile.
    pub(crate) cpus: f64,
    /// Polls that lost their CPU, in a second.
    pub(crate) preempted: f64,
    /// Operations in all, warm-up included.
    pub(crate) total: u64,
}

/// A counter that shares its cache line with nothing.
#[derive(Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

/// What all tasks of a run know.
struct Field {
    shared: Shared,
    counters: Vec<Counter>,
    /// Moves whenever a task of any run does.
    progress: &'static AtomicU64,
    is_over: AtomicBool,
    held: Steps,
    outside: Steps,
    /// Operations in a poll, at most.
    operations: usize,
    /// As in [`Case`].
    sleep: Duration,
}

impl Field {
    fn new(case: &Case, pace: Pace, progress: &'static AtomicU64) -> Field {
        let own = if case.kind.is_mutex() {
            case.held
        } else {
            NOMINAL
        };
        let operation_ns = (own + case.outside).as_nanos().max(1);
        Field {
            shared: case.kind.shared(),
            counters: (0..case.tasks).map(|_| Counter::default()).collect(),
            progress,
            is_over: AtomicBool::new(false),
            held: pace.steps(case.held),
            outside: pace.steps(case.outside),
            operations: (case.poll.as_nanos() / operation_ns).max(1) as usize,
            sleep: case.sleep,
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Returns the operations of all tasks so far.
    fn done(&self) -> u64 {
        let counters = self.counters.iter();
        counters.map(|one| one.0.load(Ordering::Relaxed)).sum()
    }

    /// Does so many operations, fewer if the run ends; in one poll.
    fn operate(&self, task: usize, own: &mut Own, operations: usize) {
        for _ in 0..operations {
            if self.is_over() {
                return;
            }
            self.shared.operate(own, self.held);
            self.counters[task].0.fetch_add(1, Ordering::Relaxed);
            self.outside.run();
        }
    }
}

async fn contend(field: Arc<Field>, task: usize, seed: u64) {
    let mut own = Own::new(seed.wrapping_add(task as u64));
    while !field.is_over() {
        let mut operations = field.operations;
        if !field.sleep.is_zero() {
            operations = 1 + own.below(operations);
        }
        field.operate(task, &mut own, operations);
        field.progress.fetch_add(1, Ordering::Relaxed);
        if !field.sleep.is_zero() && own.below(4) == 0 {
            let ns = own.below(field.sleep.as_nanos() as usize) as u64;
            tokio::time::sleep(Duration::from_nanos(ns)).await;
        } else {
            evenkeel::yield_now().await;
        }
    }
}

/// Runs a case for so long after the warm-up. `progress` moves while tasks get on.
///
/// # Errors
///
/// The runtime could not be started; a task panicked; operations were lost, so two were in the
/// mutex at once.
pub(crate) fn run(
    case: &Case,
    pace: Pace,
    duration: Duration,
    progress: &'static AtomicU64,
) -> Result<Outcome, Box<dyn Error>> {
    let runtime = start(case)?;
    let root = runtime.handle().root();
    let group = root.child("tasks").slice(case.slice).build()?;
    let field = Arc::new(Field::new(case, pace, progress));
    let _silenced = (case.kind == Kind::Print).then(Silenced::new).transpose()?;
    set_sections(case.kind == Kind::SliceMalloc);
    let spawn = |task| group.spawn(contend(field.clone(), task, case.seed));
    let tasks: Vec<_> = (0..case.tasks).map(spawn).collect();
    thread::sleep(WARM_UP);
    let read = || (field.done(), cpu_time_ns(), group.stat().nr_preempted);
    let (begin, before) = (Instant::now(), read());
    thread::sleep(duration);
    let (elapsed, after) = (begin.elapsed().as_secs_f64(), read());
    field.is_over.store(true, Ordering::Relaxed);
    for task in tasks {
        runtime.block_on(task)?;
    }
    set_sections(false);
    let total = field.done();
    drop(group);
    drop(runtime);
    progress.fetch_add(1, Ordering::Relaxed);
    if let Some(counted) = field.shared.count().filter(|&counted| counted != total) {
        return Err(format!("{total} operations done, {counted} counted: {case:?}").into());
    }
    Ok(Outcome {
        throughput: (after.0 - before.0) as f64 / elapsed,
        cpus: (after.1 - before.1) as f64 / 1e9 / elapsed,
        preempted: (after.2 - before.2) as f64 / elapsed,
        total,
    })
}

fn start(case: &Case) -> Result<Runtime, evenkeel::Error> {
    let builder = Builder::new().worker_threads(case.workers);
    builder.preempt(case.level).build()
}
