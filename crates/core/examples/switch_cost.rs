//! Prints the cost of a switch: `put_prev(Yielded)` and `pick_next`, in ns.
//!
//! `cargo run --release -p evenkeel-core --example switch_cost`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use evenkeel_core::{
    Config, Domain, DomainShared, EnqueueKind, Entity, GroupId, GroupParams, Order, Outcome,
    RunQueue, VecArena,
};

/// The median of this many chunks is printed, so that other programs' slices do not count, and the
/// least, which other programs on the same core disturb least.
const CHUNKS: usize = 2000;
const ROUNDS: u32 = 500;

/// Returns the median and the least time of one round, in ns.
fn median(mut round: impl FnMut()) -> (f64, f64) {
    let mut chunk = || {
        let start = Instant::now();
        (0..ROUNDS).for_each(|_| round());
        start.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
    };
    let mut chunks: Vec<f64> = (0..CHUNKS).map(|_| chunk()).collect();
    chunks.sort_by(f64::total_cmp);
    (chunks[CHUNKS / 2], chunks[0])
}

struct Bench {
    arena: VecArena,
    domain: Domain,
    shared: Arc<DomainShared>,
    rq: RunQueue<VecArena>,
    now: u64,
}

impl Bench {
    /// `groups` groups of `tasks` tasks each.
    fn new(groups: usize, tasks: usize, order: Order) -> Self {
        let config = Config::for_cpus(2);
        let mut domain = Domain::new(2, config.clone());
        let mut rq = RunQueue::new(0, 2, config);
        let mut arena = VecArena::new();
        for _ in 0..groups {
            let params = GroupParams {
                order,
                ..GroupParams::default()
            };
            let group = domain.create(GroupId::ROOT, params).expect("valid");
            rq.attach(domain.leaf(group).expect("exists"));
            for _ in 0..tasks {
                let key = arena.insert(Entity::new(group, params.task));
                let _ = rq.enqueue(&mut arena, key, EnqueueKind::New, 0);
            }
        }
        let shared = domain.shared();
        Bench {
            arena,
            domain,
            shared,
            rq,
            now: 0,
        }
    }

    /// Runs polls of `poll_ns` of virtual time and returns ns per switch.
    fn yields(&mut self, poll_ns: u64, tick: bool) -> (f64, f64) {
        self.rq.pick_next(&mut self.arena, self.now);
        median(|| {
            self.now += poll_ns;
            self.rq
                .put_prev(&mut self.arena, self.now, Outcome::Yielded);
            if tick && self.shared.tick_due(self.now) {
                self.domain.tick(self.now);
            }
            black_box(self.rq.pull_request(self.now).is_some());
            black_box(self.rq.pick_next(&mut self.arena, self.now));
        })
    }

    /// The running task blocks and wakes at every switch.
    fn sleeps(&mut self, poll_ns: u64) -> (f64, f64) {
        median(|| {
            let picked = self
                .rq
                .pick_next(&mut self.arena, self.now)
                .expect("runnable");
            self.now += poll_ns;
            self.rq
                .put_prev(&mut self.arena, self.now, Outcome::Blocked);
            if self.shared.tick_due(self.now) {
                self.domain.tick(self.now);
            }
            let kind = EnqueueKind::Wakeup;
            black_box(self.rq.enqueue(&mut self.arena, picked.key, kind, self.now)).is_needed();
        })
    }
}

fn main() {
    let row = |name: &str, (median, least): (f64, f64)| {
        println!("{name:58} median {median:7.1} ns, least {least:7.1} ns");
    };
    let fifo = |groups| Bench::new(groups, 8, Order::Fifo);
    if std::env::args()
        .nth(1)
        .is_some_and(|arg| arg == "--fast-only")
    {
        for _ in 0..20 {
            row(
                "2 Fifo groups, polls of 1 us (turns go on)",
                fifo(2).yields(1000, true),
            );
        }
        return;
    }
    row("1 Fifo group, polls of 1 us", fifo(1).yields(1000, true));
    row(
        "2 Fifo groups, polls of 1 us (turns go on)",
        fifo(2).yields(1000, true),
    );
    row(
        "2 Fifo groups, polls of 1 us, no coordinator",
        fifo(2).yields(1000, false),
    );
    row(
        "2 Fifo groups, polls of 5 ms (every pick another group)",
        fifo(2).yields(5_000_000, true),
    );
    row(
        "100 Fifo groups, polls of 5 ms",
        fifo(100).yields(5_000_000, true),
    );
    let fair = |tasks| Bench::new(1, tasks, Order::Fair);
    row("Fair group of 8 tasks", fair(8).yields(1000, true));
    row("Fair group of 1000 tasks", fair(1000).yields(1000, true));
    row("1 Fifo group, block + wake + pick", fifo(1).sleeps(1000));
    row("2 Fifo groups, block + wake + pick", fifo(2).sleeps(1000));
    row(
        "2 groups of 1 task, block + wake + pick",
        Bench::new(2, 1, Order::Fifo).sleeps(1000),
    );
}
