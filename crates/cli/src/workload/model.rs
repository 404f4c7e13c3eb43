//! The types that a workload file is read into.
//!
//! Every value in here has been checked: ranges, references to other groups, and the keys that
//! belong to each kind of task.

use std::ops::Range;
use std::time::Duration;

/// A whole workload.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Workload {
    /// How long to measure, after the warm-up.
    pub(crate) duration: Duration,
    /// How long to run before measuring; may be zero.
    pub(crate) warm_up: Duration,
    /// What every random draw of the workload starts from.
    pub(crate) seed: u64,
    /// Worker threads; `None` leaves the choice to the runtime.
    pub(crate) threads: Option<usize>,
    /// How the runtime drives I/O and timers.
    pub(crate) io: Io,
    /// The groups directly under the root, in the order of the file.
    pub(crate) groups: Vec<Group>,
}

/// How the runtime drives I/O and timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Io {
    /// The workers take turns.
    Shared,
    /// A thread of its own.
    Dedicated,
}

/// One group, with all that is under it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Group {
    /// The name under its parent.
    pub(crate) name: String,
    /// The path from the root, such as `/tenants/a`.
    pub(crate) path: String,
    /// The share against its siblings, 1 to 10000.
    pub(crate) weight: u32,
    /// In which order its tasks run.
    pub(crate) order: Order,
    /// The scheduling class of its tasks.
    pub(crate) class: Class,
    /// The nice value of its tasks, −20 to 19; `None` leaves the runtime's default.
    pub(crate) nice: Option<i8>,
    /// The slice its tasks ask for, 0.1 to 100 ms; `None` leaves the runtime's default.
    pub(crate) slice: Option<Duration>,
    /// Its own tasks, in the order of the file.
    pub(crate) tasks: Vec<Task>,
    /// Its child groups, in the order of the file.
    pub(crate) groups: Vec<Group>,
}

/// In which order the tasks of a group run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// First in, first out.
    Fifo,
    /// Each task gets its share (EEVDF), by nice and slice.
    Fair,
}

/// The scheduling class of a group's tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Before all fair tasks; a higher priority first.
    RealTime {
        /// 1 to 99.
        priority: u8,
    },
    /// By weight.
    Fair,
    /// Only where nothing else is ready.
    Idle,
}

/// One entry of a group's `tasks`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Task {
    /// How many of it run side by side, at least 1.
    pub(crate) count: u32,
    /// What it does.
    pub(crate) kind: Kind,
}

/// What a task does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// SHA-256 over files, over and over.
    Hash(Hash),
    /// zlib compression of files, over and over.
    Compress(Compress),
    /// An HTTP server and the load on it.
    Http(Http),
    /// A heartbeat.
    Tick(Tick),
    /// Calibrated CPU work.
    Spin(Spin),
    /// Tasks that contend for one lock.
    Lock(Lock),
}

/// Settings of `kind = "hash"`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hash {
    /// What to hash.
    pub(crate) files: Files,
    /// Bytes between two yields.
    pub(crate) chunk: usize,
}

/// Settings of `kind = "compress"`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Compress {
    /// What to compress.
    pub(crate) files: Files,
    /// Bytes of input between two yields.
    pub(crate) chunk: usize,
    /// zlib's level, 0 to 9.
    pub(crate) level: u32,
}

/// Settings of `kind = "http"`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Http {
    /// Connections kept open by the load, each with one request at a time.
    pub(crate) connections: u32,
    /// The mean pause of a connection between an answer and its next request.
    pub(crate) think: Duration,
    /// The size of an answer's body in bytes.
    pub(crate) body: usize,
    /// CPU work of the server for each request, beyond serving it.
    pub(crate) work: Duration,
    /// The path of the group in which the load runs; `None` is the server's own.
    pub(crate) load_group: Option<String>,
}

/// Settings of `kind = "tick"`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    /// The period.
    pub(crate) every: Duration,
    /// A beat later than this after its due time counts as late.
    pub(crate) late_after: Duration,
    /// CPU work at each beat.
    pub(crate) work: Duration,
}

/// Settings of `kind = "spin"`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spin {
    /// CPU time of one poll.
    pub(crate) poll: Duration,
    /// The pause after each poll; zero only yields.
    pub(crate) pause: Duration,
}

/// Settings of `kind = "lock"`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lock {
    /// CPU time with the lock held.
    pub(crate) held: Duration,
    /// CPU time between two acquisitions.
    pub(crate) outside: Duration,
    /// Which lock.
    pub(crate) mutex: Mutex,
}

/// Which lock the tasks of a `lock` entry contend for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutex {
    /// Tokio's: a task that waits leaves its worker.
    Async,
    /// The standard library's: a task that waits blocks its worker.
    Std,
}

/// A string of a workload file with its place.
pub(crate) type Entry = (String, Range<usize>);

/// Input files as the workload names them, with the place that named them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Files {
    /// The entries, each a path, a directory or a pattern, with its place in the workload file.
    pub(crate) entries: Vec<Entry>,
    /// The place of the whole list.
    pub(crate) span: Range<usize>,
}

impl Kind {
    /// The word that names the kind in a workload file.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Hash(_) => "hash",
            Self::Compress(_) => "compress",
            Self::Http(_) => "http",
            Self::Tick(_) => "tick",
            Self::Spin(_) => "spin",
            Self::Lock(_) => "lock",
        }
    }

    /// The input files of a kind that has some.
    pub(crate) fn files(&self) -> Option<&Files> {
        match self {
            Self::Hash(hash) => Some(&hash.files),
            Self::Compress(compress) => Some(&compress.files),
            Self::Http(_) | Self::Tick(_) | Self::Spin(_) | Self::Lock(_) => None,
        }
    }

    /// Whether a task of this kind is ready to run at all times: it never sleeps and never waits
    /// for another task.
    pub(crate) fn is_always_ready(&self) -> bool {
        match self {
            Self::Hash(_) | Self::Compress(_) => true,
            Self::Spin(spin) => spin.pause.is_zero(),
            Self::Http(_) | Self::Tick(_) | Self::Lock(_) => false,
        }
    }
}

impl Workload {
    /// All groups in depth-first order, parents before their children: the order of every table.
    pub(crate) fn flatten(&self) -> Vec<&Group> {
        fn visit<'a>(groups: &'a [Group], all: &mut Vec<&'a Group>) {
            for group in groups {
                all.push(group);
                visit(&group.groups, all);
            }
        }
        let mut all = Vec::new();
        visit(&self.groups, &mut all);
        all
    }
}
