//! Measures the memory of an idle task, and of many tasks that spawn and finish.
#![forbid(unsafe_code)]

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use clap::{Parser, Subcommand, ValueEnum};
use evenkeel_benches::alloc::{Counting, Heap};
use evenkeel_benches::exec::{AsyncExecutor, Evenkeel, EvenkeelGroups, Executor, Kind, Tokio};
use evenkeel_benches::proc::status_bytes;
use evenkeel_benches::stats::{median, rotated};
use evenkeel_benches::table::Table;
use serde_json::{Map, Value, json};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Tasks that are spawned before the program waits for their first poll, so that no queue grows.
const BATCH: usize = 1_000;

/// Measure the memory of an idle task, and of many tasks that spawn and finish.
///
/// Each executor runs in processes of its own. An idle task holds a future of 8 bytes that has been
/// polled once and stays pending; `requested` is what the executor asked of the allocator for it,
/// `usable` what the allocator set aside, `resident` the growth of the process's resident memory
/// (which shows what alignment costs). The second part spawns all tasks from one task and then
/// awaits them all; `peak` is the growth of the process's resident memory meanwhile.
#[derive(Parser)]
#[command(name = "memory")]
struct Options {
    /// Idle tasks.
    #[arg(long, default_value_t = 100_000)]
    tasks: usize,
    /// Tasks that spawn and finish.
    #[arg(long, default_value_t = 1_000_000)]
    finish: usize,
    /// Repetitions; medians are printed.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    reps: u32,
    /// Worker threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Measure only this executor; may be given several times.
    #[arg(long, value_name = "EXECUTOR")]
    only: Vec<Kind>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    child: Option<Child>,
}

#[derive(Subcommand)]
enum Child {
    /// Measure one executor in this process and print its figures as JSON.
    #[command(hide = true)]
    Child { part: Part, kind: Kind },
}

#[derive(Clone, Copy, ValueEnum)]
enum Part {
    Idle,
    Finish,
}

/// Figures of a part: name and title.
const FIGURES: &[(&str, &str)] = &[
    ("requested", "idle: requested B/task"),
    ("usable", "usable B/task"),
    ("resident", "resident B/task"),
    ("allocations", "allocations/task"),
    ("peak", "finish: peak B/task"),
    ("left", "left B/task"),
    ("spawn_allocations", "allocations/task"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    if let Some(Child::Child { part, kind }) = options.child {
        println!("{}", measure_here(&options, part, kind)?);
        // Tasks that stay pending are left to the end of the process.
        std::process::exit(0);
    }
    let is_selected = |k: &Kind| options.only.is_empty() || options.only.contains(k);
    let kinds: Vec<Kind> = Kind::ALL.iter().copied().filter(is_selected).collect();
    let mut figures: Vec<Map<String, Value>> = vec![Map::new(); kinds.len()];
    for repetition in 0..options.reps as usize {
        eprintln!("repetition {}/{}", repetition + 1, options.reps);
        for index in rotated(kinds.len(), repetition) {
            for part in ["idle", "finish"] {
                collect(
                    &mut figures[index],
                    measure_in_child(&options, part, kinds[index])?,
                );
            }
        }
    }
    if options.json {
        let by_name = kinds.iter().map(|kind| kind.name().to_owned());
        let executors: Map<String, Value> = by_name
            .zip(figures.into_iter().map(Value::Object))
            .collect();
        let (tasks, finish) = (options.tasks, options.finish);
        println!(
            "{:#}",
            json!({"tasks": tasks, "finish": finish, "executors": executors})
        );
    } else {
        print!("{}", to_table(&kinds, &figures));
    }
    Ok(())
}

/// Appends each figure of one repetition to its list.
fn collect(figures: &mut Map<String, Value>, more: Map<String, Value>) {
    for (name, value) in more {
        match figures.entry(name).or_insert(json!([])) {
            Value::Array(values) => values.push(value),
            other => unreachable!("{other} is not a list"),
        }
    }
}

fn to_table(kinds: &[Kind], figures: &[Map<String, Value>]) -> Table {
    let mut table = Table::new(["executor"].into_iter().chain(FIGURES.iter().map(|f| f.1)));
    for (kind, figures) in kinds.iter().zip(figures) {
        let mut row = vec![kind.name().to_owned()];
        for (name, _) in FIGURES {
            let values = figures.get(*name).and_then(Value::as_array);
            let values: Vec<f64> = values
                .into_iter()
                .flatten()
                .filter_map(Value::as_f64)
                .collect();
            row.push(format!("{:.1}", median(&values)));
        }
        table.row(row);
    }
    table
}

fn measure_in_child(
    options: &Options,
    part: &str,
    kind: Kind,
) -> Result<Map<String, Value>, Box<dyn Error>> {
    let number = |flag: &str, value: usize| [flag.to_owned(), value.to_string()];
    let output = Command::new(std::env::current_exe()?)
        .args(number("--tasks", options.tasks))
        .args(number("--finish", options.finish))
        .args(number("--threads", options.threads))
        .args(["child", part, kind.name()])
        .stderr(std::process::Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("{} {part}: {}", kind.name(), output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn measure_here(options: &Options, part: Part, kind: Kind) -> Result<Value, Box<dyn Error>> {
    match kind {
        Kind::Evenkeel => measure::<Evenkeel>(options, part),
        Kind::EvenkeelInGroup => measure::<EvenkeelGroups<false>>(options, part),
        Kind::EvenkeelTwoGroups => measure::<EvenkeelGroups<true>>(options, part),
        Kind::Tokio => measure::<Tokio>(options, part),
        Kind::AsyncExecutor => measure::<AsyncExecutor>(options, part),
    }
}

fn measure<E: Executor>(options: &Options, part: Part) -> Result<Value, Box<dyn Error>> {
    let executor = E::start(options.threads);
    match part {
        Part::Idle => idle(&executor, options.tasks),
        Part::Finish => finish(&executor, options.finish),
    }
}

static POLLED: AtomicUsize = AtomicUsize::new(0);

/// A future of 8 bytes that counts its first poll and stays pending. Nothing wakes it.
struct Idle(&'static AtomicUsize);

impl Future for Idle {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Poll::Pending
    }
}

const _: () = assert!(size_of::<Idle>() == 8);

fn idle<E: Executor>(executor: &E, tasks: usize) -> Result<Value, Box<dyn Error>> {
    let for_task = executor.clone();
    let ((before, rss_before), (after, rss_after)) =
        executor.block_on(executor.spawn(0, async move {
            let executor = for_task;
            let spawn = || executor.spawn_inside(0, Idle(&POLLED));
            let mut handles = Vec::with_capacity(tasks + BATCH);
            spawn_batch::<E, _>(&mut handles, BATCH, spawn).await;
            let before = (Heap::now(), status_bytes("VmRSS")?);
            while handles.len() < tasks + BATCH {
                let count = BATCH.min(tasks + BATCH - handles.len());
                spawn_batch::<E, _>(&mut handles, count, spawn).await;
            }
            let after = (Heap::now(), status_bytes("VmRSS")?);
            // The handles must not be dropped: dropping one may cancel its task.
            std::mem::forget(handles);
            Ok::<_, std::io::Error>((before, after))
        }))?;
    let per_task = |bytes: i64| bytes as f64 / tasks as f64;
    Ok(json!({
        "requested": per_task(after.requested - before.requested),
        "usable": per_task(after.usable - before.usable),
        "resident": per_task(rss_after.saturating_sub(rss_before) as i64),
        "allocations": per_task((after.allocation_count - before.allocation_count) as i64),
    }))
}

/// Spawns `count` idle tasks and waits until each was polled once.
async fn spawn_batch<E: Executor, H>(handles: &mut Vec<H>, count: usize, spawn: impl Fn() -> H) {
    handles.extend((0..count).map(|_| spawn()));
    while POLLED.load(Ordering::Relaxed) < handles.len() {
        E::yield_now().await;
    }
}

fn finish<E: Executor>(executor: &E, tasks: usize) -> Result<Value, Box<dyn Error>> {
    // The worker threads have run something before the first reading.
    executor.block_on(executor.spawn(0, async {}));
    let (heap, rss) = (Heap::now(), status_bytes("VmRSS")?);
    let for_task = executor.clone();
    let finished = executor.block_on(executor.spawn(0, async move {
        let executor = for_task;
        let spawn = |place: usize| executor.spawn_inside(place, async move { place & 1 });
        let handles: Vec<_> = (0..tasks).map(spawn).collect();
        let mut odd = 0;
        for handle in handles {
            odd += handle.await;
        }
        odd
    }));
    assert_eq!(finished, tasks / 2, "tasks were lost");
    let per_task = |bytes: u64| bytes.saturating_sub(rss) as f64 / tasks as f64;
    let allocations = Heap::now().allocation_count - heap.allocation_count;
    Ok(json!({
        "peak": per_task(status_bytes("VmHWM")?),
        "left": per_task(status_bytes("VmRSS")?),
        "spawn_allocations": allocations as f64 / tasks as f64,
    }))
}
