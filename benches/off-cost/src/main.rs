//! Runs one path of the runtime a number of times, and prints how long that took:
//! `off-cost WORKLOAD OPERATIONS [--default-level]`. `cargo xtask off-cost` builds it with every
//! optional part compiled in and off, and with none, and compares the two.
//!
//! One worker does all of it, so that the number of instructions does not depend on what runs when.
//! Without `--default-level` preemption is off; with it, it is as the defaults of the runtime have
//! it: compiled in, a thread watches for long polls, and nothing is preempted.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Instant;

use evenkeel::{Builder, Io, Level};

/// What is done over and over.
#[derive(Clone, Copy)]
enum Workload {
    /// A task spawns a task and awaits it.
    SpawnJoin,
    /// One of 16 tasks yields.
    Yield,
    /// Two tasks exchange a message and its answer.
    PingPong,
}

impl Workload {
    fn from_name(name: &str) -> Option<Self> {
        match name {
            "spawn-join" => Some(Self::SpawnJoin),
            "yield" => Some(Self::Yield),
            "ping-pong" => Some(Self::PingPong),
            _ => None,
        }
    }
}

/// How many tasks yield.
const YIELDERS: u64 = 16;

async fn run(workload: Workload, operations: u64) {
    match workload {
        Workload::SpawnJoin => spawn_join(operations).await,
        Workload::Yield => yields(operations).await,
        Workload::PingPong => ping_pong(operations).await,
    }
}

async fn spawn_join(operations: u64) {
    let mut sum = 0;
    for operation in 0..operations {
        sum += evenkeel::spawn(async move { operation })
            .await
            .expect("a number");
    }
    assert_eq!(sum, (0..operations).sum());
}

async fn yields(operations: u64) {
    let yielder = |_| {
        evenkeel::spawn(async move {
            for _ in 0..operations / YIELDERS {
                evenkeel::yield_now().await;
            }
        })
    };
    let tasks: Vec<_> = (0..YIELDERS).map(yielder).collect();
    for task in tasks {
        task.await.expect("yields only");
    }
}

async fn ping_pong(operations: u64) {
    let (ping, pinged) = async_channel::bounded::<u64>(1);
    let (pong, ponged) = async_channel::bounded::<u64>(1);
    let answers = evenkeel::spawn(async move {
        while let Ok(number) = pinged.recv().await {
            pong.send(number + 1).await.expect("somebody waits");
        }
    });
    for number in 0..operations {
        ping.send(number).await.expect("somebody waits");
        assert_eq!(ponged.recv().await, Ok(number + 1));
    }
    drop(ping);
    answers.await.expect("answers only");
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (workload, operations, has_default_level) = match &*arguments {
        [workload, operations] => (workload, operations, false),
        [workload, operations, flag] if flag == "--default-level" => (workload, operations, true),
        _ => {
            eprintln!("usage: off-cost spawn-join|yield|ping-pong OPERATIONS [--default-level]");
            return ExitCode::from(2);
        }
    };
    let (Some(workload), Ok(operations)) = (Workload::from_name(workload), operations.parse())
    else {
        eprintln!("no such workload, or not a number");
        return ExitCode::from(2);
    };
    let mut builder = Builder::new().worker_threads(1).io(Io::Off);
    if !has_default_level {
        builder = builder.preempt(Level::Off);
    }
    let runtime = builder.build().expect("a runtime");
    let task = runtime.spawn(async move {
        run(workload, operations / 10).await;
        let start = Instant::now();
        run(workload, operations).await;
        start.elapsed()
    });
    let elapsed = runtime.block_on(task).expect("the workload ends");
    println!("{}", elapsed.as_nanos());
    ExitCode::SUCCESS
}
