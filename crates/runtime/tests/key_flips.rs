//! Keys that are flipped at random moments while tasks are queued and running: nothing is lost,
//! nothing runs twice, and in the end everything is as it was.
//!
//! Keys belong to the process, so all of this is one test. `EVENKEEL_SEED=n` runs one seed,
//! `EVENKEEL_SEEDS=n` the first n.

mod common;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::Rng;
use evenkeel::keys;
use evenkeel::trace::{self, TraceGuard};
use evenkeel::{Builder, Class, Group, JoinHandle, Level, Order, RtPolicy, Runtime};
use evenkeel_static_key::StaticKey;

/// Seeds that are run unless the environment says otherwise.
const SEEDS: u64 = 8;
const STEPS: u64 = 120;
/// Steps that each task counts.
const COUNTS: u64 = 12;

/// The runtime under test, what runs in it, and what it should come to.
struct World {
    rng: Rng,
    runtime: Runtime,
    groups: Vec<Group>,
    tasks: Vec<JoinHandle<()>>,
    counted: Arc<AtomicU64>,
    expected: u64,
    guards: Vec<TraceGuard>,
    names: u64,
}

/// Returns the keys of the runtime and of its core.
fn static_keys() -> Vec<&'static StaticKey> {
    let ours: Vec<_> = keys::list().into_iter().map(|key| key.name).collect();
    let known = evenkeel_static_key::keys();
    known
        .filter(|key| ours.contains(&key.name))
        .map(|key| key.key)
        .collect()
}

async fn count(counted: &AtomicU64, kind: u64) {
    for _ in 0..COUNTS {
        counted.fetch_add(1, Ordering::Relaxed);
        match kind {
            0 => evenkeel::yield_now().await,
            1 => tokio::task::yield_now().await,
            2 => drop(evenkeel::spawn(async {}).await),
            3 => drop(evenkeel::spawn_blocking(|| ()).await),
            // Long enough, all in all, for a tick to find it in the same poll.
            4 => drop(black_box(
                (0..100_000u64).fold(0, |sum, n| black_box(sum ^ n)),
            )),
            5 => evenkeel::yield_if_needed().await,
            _ => evenkeel::block_in_place(|| ()),
        }
    }
}

/// Two tasks that wake each other.
async fn talk(counted: Arc<AtomicU64>) {
    let (there, mut back) = tokio::sync::mpsc::channel(1);
    let talker = evenkeel::spawn(async move {
        for number in 0..COUNTS {
            there.send(number).await.expect("the other one listens");
        }
    });
    while back.recv().await.is_some() {
        counted.fetch_add(1, Ordering::Relaxed);
    }
    talker.await.expect("talks only");
}

/// Makes a group in the middle of a poll, and spawns into it from there.
async fn move_on(counted: Arc<AtomicU64>, name: String, order: Order) {
    let group = Group::root().child(name).order(order).build();
    let group = group.expect("a name of its own");
    let tasks: Vec<_> = (0..COUNTS)
        .map(|_| {
            let counted = counted.clone();
            group.spawn(async move {
                evenkeel::yield_now().await;
                counted.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("counts only");
    }
    group.remove().expect("its tasks have ended");
}

fn builder(rng: &mut Rng) -> Builder {
    let builder = Builder::new().worker_threads(1 + rng.below(2) as usize);
    match rng.below(4) {
        0 => builder.preempt(Level::Off),
        1 => builder.preempt(Level::Handoff),
        2 => builder.preempt(Level::Park),
        _ => builder,
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let runtime = builder(&mut rng).build().expect("a runtime");
        Self {
            rng,
            runtime,
            groups: Vec::new(),
            tasks: Vec::new(),
            counted: Arc::default(),
            expected: 0,
            guards: Vec::new(),
            names: 0,
        }
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("g{}", self.names)
    }

    fn order(&mut self) -> Order {
        [Order::Fifo, Order::Fair][self.rng.below(2) as usize]
    }

    fn spawn_some(&mut self) {
        for _ in 0..1 + self.rng.below(6) {
            let counted = self.counted.clone();
            self.expected += COUNTS;
            let kind = self.rng.below(9);
            let (name, order) = (self.name(), self.order());
            let task = async move {
                match kind {
                    7 => talk(counted).await,
                    8 => move_on(counted, name, order).await,
                    kind => count(&counted, kind).await,
                }
            };
            let at = self.rng.below(1 + self.groups.len() as u64) as usize;
            self.tasks.push(match self.groups.get(at) {
                Some(group) => group.spawn(task),
                None => self.runtime.spawn(task),
            });
        }
    }

    fn make_group(&mut self) {
        let class = match self.rng.below(4) {
            0 => Class::Idle,
            1 => Class::RealTime {
                priority: 5,
                policy: RtPolicy::RoundRobin,
            },
            _ => Class::Fair,
        };
        let (name, order) = (self.name(), self.order());
        let root = self.runtime.handle().root();
        let group = root.child(name).class(class).order(order).build();
        self.groups.push(group.expect("a name of its own"));
    }

    fn remove_group(&mut self) {
        if let Some(group) = self.groups.pop() {
            group.remove_to_parent().expect("it has no children");
        }
    }

    /// Another runtime uses parts, and ends.
    fn visit(&mut self) {
        let other = builder(&mut self.rng).build().expect("a runtime");
        let order = self.order();
        let counted = self.counted.clone();
        self.expected += 2 * COUNTS;
        other.block_on(async {
            let root = other.handle().root();
            let group = root.child("a").order(order).build().expect("no child yet");
            let there = counted.clone();
            let task = group.spawn(async move { count(&there, 0).await });
            other
                .spawn(async move { count(&counted, 0).await })
                .await
                .expect("counts");
            task.await.expect("counts");
            assert!(root.stat().nr_tasks <= 1);
        });
    }

    fn flip(&mut self) {
        let keys = static_keys();
        let key = keys[self.rng.below(keys.len() as u64) as usize];
        // The core relies on its real-time key to stay on.
        if key.name() == "realtime" || self.rng.below(2) == 0 {
            key.enable().expect("nothing is denied");
        } else {
            key.disable().expect("nothing is armed for true");
        }
    }

    fn step(&mut self) {
        match self.rng.below(16) {
            0..6 => self.flip(),
            6..11 => self.spawn_some(),
            11 => self.make_group(),
            12 => self.remove_group(),
            13 => self.visit(),
            14 => match self.guards.pop() {
                Some(_) if self.rng.below(2) == 0 => {}
                _ => self
                    .guards
                    .push(trace::enable().expect("nothing is denied")),
            },
            _ => drop(self.runtime.handle().root().stat()),
        }
    }

    /// Waits for all tasks, and looks whether the counts are right.
    fn finish(self, seed: u64) {
        for task in self.tasks {
            self.runtime.block_on(task).expect("no task panics");
        }
        let counted = self.counted.load(Ordering::Relaxed);
        assert_eq!(counted, self.expected, "seed {seed}");
        let root = self.runtime.handle().root();
        // A task leaves the count a moment after its handle has given the output.
        while self.runtime.handle().nr_tasks() > 0 {
            std::thread::yield_now();
        }
        for group in self.groups.iter().chain([&root]) {
            assert_eq!(group.stat().nr_tasks, 0, "seed {seed}: {group:?}");
        }
    }
}

/// Waits until nobody holds a key. The threads of a runtime hold it a moment longer than its drop
/// takes.
fn wait_for_references_to_go() {
    for key in static_keys() {
        while key.references() > 0 {
            std::thread::yield_now();
        }
        key.disable().expect("nothing is armed for true");
        assert!(!key.is_enabled(), "{key:?}");
    }
}

#[test]
fn keys_flip_at_random_moments() {
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
        world.finish(seed);
        wait_for_references_to_go();
    }
    for key in keys::list() {
        assert_eq!((key.is_on, key.references), (false, 0), "{key:?}");
    }
}
