//! Starts the tasks of a workload on the engine and watches over them.
//!
//! A task of a workload runs until it is aborted. One that ends with an error or a panic is
//! reported over a channel, and the run ends.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::engine::Engine;
use crate::kinds::cpu::Cpu;
use crate::kinds::http::Listener;
use crate::kinds::meter::{Latencies, Meter};
use crate::kinds::rng::Rng;
use crate::kinds::{Context, Outcome, compress, hash, http, lock, spin, tick};
use crate::workload::Document;
use crate::workload::files::Loaded;
use crate::workload::model::{Group, Http, Kind, Task};

/// Over how many records the latencies of one server are spread: enough that clients on different
/// threads rarely meet at one, and few enough for thousands of connections.
const LATENCY_RECORDS: u32 = 16;

/// A task that ended.
#[derive(Debug, thiserror::Error)]
#[error("a `{kind}` task of group `{group}` ended: {why}")]
pub(crate) struct Ended {
    kind: &'static str,
    group: String,
    why: String,
}

/// The running tasks of a workload.
pub(crate) struct Jobs {
    /// By group, in depth-first order.
    pub(crate) meters: Vec<Arc<Meter>>,
    /// Receives tasks that ended.
    pub(crate) ended: mpsc::UnboundedReceiver<Ended>,
}

/// What starting tasks needs.
struct Starter<'a> {
    engine: &'a Engine,
    /// All groups in depth-first order.
    groups: &'a [&'a Group],
    seed: u64,
    inputs: &'a Loaded,
    cpu: Cpu,
    meters: &'a [Arc<Meter>],
    /// How many tasks have been started: each gets its own random numbers.
    started: u64,
    ended: mpsc::UnboundedSender<Ended>,
}

/// Starts all tasks.
///
/// # Errors
///
/// A server finds no free port.
pub(crate) fn start(
    document: &Document,
    inputs: &Loaded,
    cpu: Cpu,
    engine: &Engine,
) -> std::io::Result<Jobs> {
    let groups = document.workload.flatten();
    let meters: Vec<Arc<Meter>> = groups.iter().map(|_| Arc::default()).collect();
    let (sender, ended) = mpsc::unbounded_channel();
    let mut starter = Starter {
        engine,
        groups: &groups,
        seed: document.workload.seed,
        inputs,
        cpu,
        meters: &meters,
        started: 0,
        ended: sender,
    };
    for (group, model) in groups.iter().enumerate() {
        for (at, task) in model.tasks.iter().enumerate() {
            starter.task(group, at, task)?;
        }
    }
    Ok(Jobs { meters, ended })
}

impl Starter<'_> {
    /// Starts all replicas of one entry.
    fn task(&mut self, group: usize, at: usize, task: &Task) -> std::io::Result<()> {
        let word = task.kind.word();
        let shared = match &task.kind {
            Kind::Lock(lock) => Some(lock::Shared::new(lock)),
            _ => None,
        };
        for _ in 0..task.count {
            let context = self.context(group);
            let files = || {
                self.inputs
                    .inputs(group, at)
                    .expect("kinds with files have inputs")
            };
            match &task.kind {
                Kind::Hash(it) => self.watch(group, word, hash::run(it.clone(), files(), context)),
                Kind::Compress(it) => {
                    self.watch(group, word, compress::run(it.clone(), files(), context));
                }
                Kind::Http(it) => self.http(group, it, context)?,
                Kind::Tick(it) => {
                    let heart = context.meter.heart(it.every, it.late_after);
                    self.watch(group, word, tick::run(it.clone(), heart, context));
                }
                Kind::Spin(it) => self.watch(group, word, spin::run(it.clone(), context)),
                Kind::Lock(it) => {
                    let shared = shared.clone().expect("made above for this kind");
                    self.watch(group, word, lock::run(it.clone(), shared, context));
                }
            }
        }
        Ok(())
    }

    /// Starts a server and its load.
    fn http(&mut self, group: usize, http: &Http, context: Context) -> std::io::Result<()> {
        let listener = Listener::bind()?;
        let address: SocketAddr = listener.address();
        let records = http.connections.min(LATENCY_RECORDS);
        let records: Vec<Latencies> = (0..records).map(|_| context.meter.latencies()).collect();
        self.watch(group, "http", http::serve(http.clone(), listener, context));
        let load_group = match &http.load_group {
            Some(path) => {
                let found = self.groups.iter().position(|group| group.path == *path);
                found.expect("references were checked when the file was read")
            }
            None => group,
        };
        for (_, record) in (0..http.connections).zip(records.iter().cycle()) {
            let context = self.context(group);
            let load = http::load(http.clone(), address, record.clone(), context);
            self.watch(load_group, "http", load);
        }
        Ok(())
    }

    /// What a new task is given; it reports to the meter of this group.
    fn context(&mut self, group: usize) -> Context {
        self.started += 1;
        Context {
            meter: Arc::clone(&self.meters[group]),
            rng: Rng::new(self.seed, self.started),
            cpu: self.cpu,
        }
    }

    /// Starts a body in a group and reports when it ends.
    fn watch(
        &self,
        group: usize,
        kind: &'static str,
        body: impl Future<Output = Outcome> + Send + 'static,
    ) {
        let watch = Watch {
            kind,
            group: self.groups[group].path.clone(),
            ended: self.ended.clone(),
        };
        self.engine.spawn(group, async move {
            match body.await {
                Ok(never) => match never {},
                Err(failure) => watch.report(failure.to_string()),
            }
        });
    }
}

/// Reports the end of one task; when it is dropped by a panic, that.
struct Watch {
    kind: &'static str,
    group: String,
    ended: mpsc::UnboundedSender<Ended>,
}

impl Watch {
    fn report(&self, why: String) {
        let ended = Ended {
            kind: self.kind,
            group: self.group.clone(),
            why,
        };
        // Nobody receives after the run's end, and then nobody needs to know.
        let _ = self.ended.send(ended);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.report("it panicked".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_reported_and_an_abort_is_not() {
        let (sender, mut ended) = mpsc::unbounded_channel();
        let watch = |kind| Watch {
            kind,
            group: "/g".to_owned(),
            ended: sender.clone(),
        };
        drop(watch("spin"));
        let panicking = watch("hash");
        let panicked = std::thread::spawn(move || {
            let _watch = panicking;
            std::panic::resume_unwind(Box::new("no message on standard error"));
        });
        assert!(panicked.join().is_err());
        watch("http").report("why".to_owned());
        let messages: Vec<String> = std::iter::from_fn(|| ended.try_recv().ok())
            .map(|ended| ended.to_string())
            .collect();
        let expected = [
            "a `hash` task of group `/g` ended: it panicked",
            "a `http` task of group `/g` ended: why",
        ];
        assert_eq!(messages, expected);
    }
}
