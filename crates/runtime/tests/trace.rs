//! The scheduler's events: which ones a task's life gives, and what a subscriber may do.
//!
//! A subscriber and the key belong to the process, so all of this is one test.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use evenkeel::{Builder, Runtime};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Name and task of each event of one group's tasks.
static EVENTS: Mutex<Vec<(&'static str, u64)>> = Mutex::new(Vec::new());
static PANICS: AtomicU32 = AtomicU32::new(0);
static NESTED: AtomicU64 = AtomicU64::new(0);

#[derive(Default)]
struct Fields {
    task: u64,
    group: String,
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "task" {
            self.task = value;
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "group" {
            value.clone_into(&mut self.group);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

/// Takes note of the events of the group `/seen`; in the group `/bad` it panics, and in `/busy` it
/// spawns.
struct Notes;

impl Subscriber for Notes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "evenkeel::sched"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        match &*fields.group {
            "/seen" => {
                let name = event.metadata().name();
                EVENTS.lock().expect("no panic").push((name, fields.task));
            }
            "/bad" => {
                PANICS.fetch_add(1, Ordering::SeqCst);
                // Without the message that the hook prints.
                std::panic::resume_unwind(Box::new(()));
            }
            "/busy" => {
                NESTED.fetch_add(1, Ordering::SeqCst);
                drop(evenkeel::Handle::try_current().map(|handle| handle.spawn(async {})));
            }
            _ => {}
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Spawns `tasks` tasks into a group, each of which yields three times, and waits for them to be
/// gone.
fn run_in(runtime: &Runtime, name: &str, tasks: usize) {
    let group = runtime
        .handle()
        .root()
        .child(name)
        .build()
        .expect("a group");
    let spawn = |_| {
        group.spawn(async {
            for _ in 0..3 {
                evenkeel::yield_now().await;
            }
        })
    };
    let handles: Vec<_> = (0..tasks).map(spawn).collect();
    for handle in handles {
        runtime.block_on(handle).expect("yields only");
    }
    while runtime.handle().nr_tasks() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_tasks_life_in_events() {
    tracing::subscriber::set_global_default(Notes).expect("the first one");
    let runtime = Builder::new().worker_threads(2).build().expect("a runtime");
    let guard = evenkeel::trace::enable().expect("nothing is denied");
    run_in(&runtime, "seen", 20);
    run_in(&runtime, "bad", 3);
    run_in(&runtime, "busy", 3);
    drop(guard);

    let mut lives: HashMap<u64, Vec<&str>> = HashMap::new();
    for (name, task) in EVENTS.lock().expect("no panic").iter() {
        lives.entry(*task).or_default().push(name);
    }
    let mut all = Vec::new();
    // A number may be used again after a task has ended.
    for events in lives.values() {
        let ends = events.split_inclusive(|name| *name == "sched_process_exit");
        all.extend(ends.map(<[_]>::to_vec));
    }
    assert_eq!(all.len(), 20, "{all:?}");
    for events in &all {
        let expected: Vec<&str> = ["sched_wakeup"]
            .into_iter()
            .chain(["sched_switch"; 4])
            .chain(["sched_process_exit"])
            .collect();
        assert_eq!(*events, expected);
    }
    assert!(PANICS.load(Ordering::SeqCst) >= 3 * 6);
    assert!(NESTED.load(Ordering::SeqCst) >= 3 * 6);
}
