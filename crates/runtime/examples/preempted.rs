//! Tasks whose polls end only because the level `Park` interrupts them: each computes until a task
//! has run that is spawned after all of them, and then multiplies. Also what the tests run under a
//! debugger and under Valgrind.
#![forbid(unsafe_code)]

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel::{Builder, Level};

const WORKERS: usize = 2;
const TASKS: u64 = 6;

/// Computes until `flag` is set, holding what must survive the interruption: values in registers
/// and on the heap. Returns `number` to the 12th.
fn compute(number: u64, flag: &AtomicBool) -> u64 {
    let factors = Vec::from([number; 12]);
    let mut halves = (number as f64, 0_u64);
    while !flag.load(Ordering::Acquire) {
        halves = (halves.0 * 0.5 + number as f64 * 0.5, halves.1 + 1);
        spin_loop();
    }
    assert_eq!(halves.0, number as f64, "after {} steps", halves.1);
    factors.iter().product()
}

/// Runs them, and prints what they return.
pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Builder::new()
        .worker_threads(WORKERS)
        .preempt(Level::Park)
        .build()?;
    let group = runtime.handle().root().child("tasks").build()?;
    let flag = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (1..=TASKS)
        .map(|number| {
            let flag = flag.clone();
            group.spawn(async move { compute(number, &flag) })
        })
        .collect();
    let last = group.spawn(async move { flag.store(true, Ordering::Release) });
    let mut sum = 0;
    runtime.block_on(async {
        last.await?;
        for task in tasks {
            sum += task.await?;
        }
        Ok::<(), evenkeel::JoinError>(())
    })?;
    let is_preempted = group.stat().nr_preempted > 0;
    println!("sum of 12th powers: {sum}; polls were preempted: {is_preempted}");
    Ok(())
}
