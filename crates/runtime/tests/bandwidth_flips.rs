//! Quotas come, change and go at random moments, and with them the key `bandwidth`, while tasks are
//! queued, running and throttled: nothing is lost, and in the end the key is off.
//!
//! Keys belong to the process, so all of this is one test. `EVENKEEL_SEED=n` runs one seed,
//! `EVENKEEL_SEEDS=n` the first n.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::Rng;
use evenkeel::{Builder, Class, Group, JoinHandle, Level, Order, Quota, Runtime, keys};
use evenkeel_static_key::StaticKey;

/// Seeds that are run unless the environment says otherwise.
const SEEDS: u64 = 12;
const STEPS: u64 = 150;
/// Steps that each task counts.
const COUNTS: u64 = 10;

fn key() -> &'static StaticKey {
    let found = evenkeel_static_key::keys().find(|key| key.name == "bandwidth");
    found.expect("the core has branches on it").key
}

struct World {
    rng: Rng,
    runtime: Runtime,
    groups: Vec<Group>,
    tasks: Vec<JoinHandle<()>>,
    aborted: Vec<JoinHandle<()>>,
    counted: Arc<AtomicU64>,
    expected: u64,
    names: u64,
}

async fn count(counted: &AtomicU64, kind: u64) {
    for _ in 0..COUNTS {
        counted.fetch_add(1, Ordering::Relaxed);
        match kind {
            0 => evenkeel::yield_now().await,
            1 => drop(evenkeel::spawn(async {}).await),
            2 => drop(evenkeel::spawn_blocking(|| ()).await),
            3 => evenkeel::yield_if_needed().await,
            4 => evenkeel::block_in_place(|| ()),
            // Some 100 µs, so that quotas of a millisecond are used up.
            _ => {
                std::hint::black_box(
                    (0..50_000u64).fold(0, |sum, n| std::hint::black_box(sum ^ n)),
                );
                evenkeel::yield_now().await;
            }
        }
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let builder = Builder::new().worker_threads(1 + rng.below(2) as usize);
        let builder = match rng.below(4) {
            0 => builder.preempt(Level::Off),
            1 => builder.preempt(Level::Handoff),
            2 => builder.preempt(Level::Park),
            _ => builder,
        };
        Self {
            rng,
            runtime: builder.build().expect("a runtime"),
            groups: Vec::new(),
            tasks: Vec::new(),
            aborted: Vec::new(),
            counted: Arc::default(),
            expected: 0,
            names: 0,
        }
    }

    fn quota(&mut self) -> Quota {
        let period = Duration::from_millis(1 + self.rng.below(10));
        let part = 1 + self.rng.below(20) as u32;
        let quota = (period * part / 10).max(Duration::from_millis(1));
        let made = Quota::new(quota, period).expect("valid");
        let burst = quota * self.rng.below(3) as u32 / 2;
        made.burst(burst).expect("at most the quota")
    }

    fn any_group(&mut self) -> Option<usize> {
        let nr = self.groups.len() as u64;
        (nr > 0).then(|| self.rng.below(nr) as usize)
    }

    fn make_group(&mut self) {
        self.names += 1;
        let parent = match self.any_group() {
            Some(at) if self.rng.below(2) == 0 => self.groups[at].clone(),
            _ => self.runtime.handle().root(),
        };
        let order = [Order::Fifo, Order::Fair][self.rng.below(2) as usize];
        let class = [Class::Fair, Class::Fair, Class::Idle][self.rng.below(3) as usize];
        let mut builder = parent.child(format!("g{}", self.names)).order(order);
        builder = builder.class(class);
        if self.rng.below(2) == 0 {
            builder = builder.quota(self.quota());
        }
        self.groups
            .push(builder.build().expect("a name of its own"));
    }

    fn spawn_some(&mut self) {
        let Some(at) = self.any_group() else { return };
        for _ in 0..1 + self.rng.below(6) {
            let (counted, kind) = (self.counted.clone(), self.rng.below(9));
            self.expected += COUNTS;
            let task = async move { count(&counted, kind).await };
            self.tasks.push(self.groups[at].spawn(task));
        }
        if self.rng.below(4) == 0 {
            let task = self.groups[at].spawn(std::future::pending());
            task.abort();
            self.aborted.push(task);
        }
    }

    fn remove_group(&mut self) {
        let Some(at) = self.any_group() else { return };
        if self.groups[at].children().is_empty() {
            let group = self.groups.swap_remove(at);
            group.remove_to_parent().expect("no children");
        }
    }

    fn step(&mut self) {
        match self.rng.below(16) {
            0..2 => self.make_group(),
            2..7 => self.spawn_some(),
            7..11 => {
                let quota = self.quota();
                let quota = (self.rng.below(3) > 0).then_some(quota);
                if let Some(at) = self.any_group() {
                    self.groups[at].set_quota(quota).expect("nothing is denied");
                }
            }
            11 => self.remove_group(),
            12 => key().enable().expect("nothing is denied"),
            // It stays on while a group has a quota.
            13 => key().disable().expect("nothing is armed for true"),
            14 => {
                for at in 0..self.groups.len() {
                    self.groups[at].set_quota(None).expect("nothing is denied");
                }
            }
            _ => drop(self.runtime.handle().root().stat()),
        }
    }

    /// Waits for all tasks, which go on by themselves, and looks whether the counts are right.
    fn finish(self, seed: u64) {
        for task in self.tasks {
            self.runtime.block_on(task).expect("no task panics");
        }
        for task in self.aborted {
            let error = self.runtime.block_on(task).expect_err("it was aborted");
            assert!(error.is_cancelled(), "seed {seed}");
        }
        assert_eq!(
            self.counted.load(Ordering::Relaxed),
            self.expected,
            "seed {seed}"
        );
    }

    /// Ends with whatever is queued, running and throttled.
    fn end_early(self) {
        let Self { runtime, tasks, .. } = self;
        drop(runtime);
        for task in tasks {
            assert!(task.is_finished());
        }
    }
}

#[test]
fn quotas_come_and_go_at_random_moments() {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let seeds = match (number("EVENKEEL_SEED"), number("EVENKEEL_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, seeds) => 0..seeds.unwrap_or(SEEDS),
    };
    for seed in seeds {
        println!("EVENKEEL_SEED={seed}");
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
        }
        if seed % 3 == 2 {
            world.end_early();
        } else {
            world.finish(seed);
        }
        // Groups hold the key until their runtime lets go of them at shutdown.
        assert_eq!(key().references(), 0, "seed {seed}");
        key().disable().expect("nothing is armed for true");
        assert!(!key().is_enabled(), "seed {seed}");
    }
    let of_core = keys::list().into_iter().find(|key| key.name == "bandwidth");
    assert!(of_core.is_some_and(|key| !key.is_on && key.references == 0));
}
