//! What runs the tasks.

use std::time::{Duration, Instant};

use evenkeel::{Builder, Group, Level, Order, Runtime};
use tokio::sync::mpsc::UnboundedReceiver;

use super::Error;
use super::hog::Work;
use crate::lock::Distribution;

/// The slice of the beat's group: the shortest one.
const BEAT_SLICE: Duration = Duration::from_micros(100);

/// What runs the tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The runtime, which preempts at this level. The hogs are in a group, and so is the beat, of
    /// the same weight and with a slice of 100 µs.
    Runtime(Level),
    /// Tokio's multi-threaded runtime as it is by default.
    Tokio,
}

impl Subject {
    /// Every subject: the levels from the lowest to the highest, then Tokio.
    pub const ALL: [Subject; 5] = [
        Subject::Runtime(Level::Off),
        Subject::Runtime(Level::Lazy),
        Subject::Runtime(Level::Handoff),
        Subject::Runtime(Level::Park),
        Subject::Tokio,
    ];

    /// Returns the name, as tables give it.
    pub fn name(self) -> &'static str {
        match self {
            Subject::Runtime(Level::Off) => "off",
            Subject::Runtime(Level::Lazy) => "lazy",
            Subject::Runtime(Level::Handoff) => "handoff",
            Subject::Runtime(Level::Park) => "park",
            Subject::Runtime(_) => "other",
            Subject::Tokio => "tokio",
        }
    }
}

/// One wake of the beat.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beat {
    /// When it should have been sent.
    pub(super) due: Instant,
    /// When it was sent, just before the wake.
    pub(super) sent: Instant,
    /// Whether it counts.
    pub(super) counts: bool,
}

/// What the beat saw.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// From each wake to the run that answers it.
    pub(super) waits: Distribution,
    /// From when each wake was due to the run that answers it.
    pub(super) lateness: Distribution,
}

impl Seen {
    pub(super) fn new() -> Seen {
        Seen {
            waits: Distribution::new(),
            lateness: Distribution::new(),
        }
    }

    fn add(&mut self, beat: Beat, now: Instant) {
        if beat.counts {
            self.waits.record(now.saturating_duration_since(beat.sent));
            self.lateness
                .record(now.saturating_duration_since(beat.due));
        }
    }
}

/// A runtime with its groups. Dropping it waits for tasks that are running.
pub(super) enum Host {
    Runtime {
        runtime: Runtime,
        hogs: Group,
        beat: Group,
    },
    Tokio(tokio::runtime::Runtime),
}

impl Host {
    pub(super) fn start(subject: Subject, workers: usize) -> Result<Host, Error> {
        match subject {
            Subject::Runtime(level) => Host::ours(level, workers),
            Subject::Tokio => tokio::runtime::Builder::new_multi_thread()
                .worker_threads(workers)
                .build()
                .map(Host::Tokio)
                .map_err(Error::start),
        }
    }

    fn ours(level: Level, workers: usize) -> Result<Host, Error> {
        let runtime = runtime(level, workers)?;
        let root = runtime.handle().root();
        let hogs = root.child("hogs").build().map_err(Error::start)?;
        let beat = root.child("beat").slice(BEAT_SLICE).build();
        Ok(Host::Runtime {
            runtime,
            hogs,
            beat: beat.map_err(Error::start)?,
        })
    }

    /// Starts a runtime whose hogs share a group of fair order, each as much as the others.
    pub(super) fn fair(level: Level, workers: usize) -> Result<Host, Error> {
        let runtime = runtime(level, workers)?;
        let root = runtime.handle().root();
        let hogs = root.child("tasks").order(Order::Fair).build();
        Ok(Host::Runtime {
            runtime,
            hogs: hogs.map_err(Error::start)?,
            beat: root,
        })
    }

    /// Spawns a task that does `work`, and calls `ended` when that is over.
    pub(super) fn spawn_hog(&self, work: Work, ended: impl FnOnce() + Send + 'static) {
        match self {
            Host::Runtime { hogs, .. } => drop(hogs.spawn(async move {
                while !work.is_over() {
                    work.run();
                    evenkeel::yield_now().await;
                }
                ended();
            })),
            Host::Tokio(runtime) => drop(runtime.spawn(async move {
                while !work.is_over() {
                    work.run();
                    tokio::task::yield_now().await;
                }
                ended();
            })),
        }
    }

    /// Spawns the task that answers `beats`; calls `ended` when there will be no more.
    pub(super) fn spawn_beat(
        &self,
        mut beats: UnboundedReceiver<Beat>,
        ended: impl FnOnce(Seen) + Send + 'static,
    ) {
        let answer = async move {
            let mut seen = Seen::new();
            while let Some(beat) = beats.recv().await {
                seen.add(beat, Instant::now());
            }
            ended(seen);
        };
        match self {
            Host::Runtime { beat, .. } => drop(beat.spawn(answer)),
            Host::Tokio(runtime) => drop(runtime.spawn(answer)),
        }
    }

    /// Shuts the runtime down, when its tasks have ended.
    pub(super) fn stop(self) {
        match self {
            Host::Runtime { runtime, .. } => drop(runtime),
            Host::Tokio(runtime) => drop(runtime),
        }
    }
}

fn runtime(level: Level, workers: usize) -> Result<Runtime, Error> {
    Builder::new()
        .worker_threads(workers)
        .preempt(level)
        .build()
        .map_err(Error::start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different() {
        let names: std::collections::BTreeSet<_> = Subject::ALL.map(Subject::name).into();
        assert_eq!(names.len(), Subject::ALL.len());
        assert!(!names.contains("other"));
    }

    #[test]
    fn only_beats_that_count_are_recorded() {
        let due = Instant::now();
        let sent = due + Duration::from_micros(70);
        let now = sent + Duration::from_micros(30);
        let mut seen = Seen::new();
        let beat = |counts| Beat { due, sent, counts };
        seen.add(beat(false), now);
        assert_eq!(seen.waits.count(), 0);
        seen.add(beat(true), now);
        assert_eq!(seen.waits.figures().max, 30_000.0);
        assert_eq!(seen.lateness.figures().max, 100_000.0);
    }
}
