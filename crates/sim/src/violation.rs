//! What the checkers report.

use std::fmt;

/// Says which promise was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A CPU picked a task that does not wait on it.
    WrongPick {
        /// CPU that picked.
        cpu: usize,
        /// Task it got.
        task: usize,
        /// Where the task was.
        place: String,
    },
    /// A pull moved a task that does not wait on another CPU.
    WrongPull {
        /// CPU that pulled.
        cpu: usize,
        /// Task it got.
        task: usize,
        /// Where the task was.
        place: String,
    },
    /// A queue counts more or fewer runnable tasks than it was given.
    WrongCount {
        /// CPU of the queue.
        cpu: usize,
        /// Its own count.
        counted: usize,
        /// Tasks that it was given and that have not left.
        expected: usize,
    },
    /// A group counts more or fewer runnable tasks than it has.
    WrongGroupCount {
        /// Group, `None` for the root's own tasks.
        group: Option<usize>,
        /// Its own count.
        counted: usize,
        /// Runnable tasks that it has.
        expected: usize,
    },
    /// The scheduler's record of a task says something else than the machine's books.
    WrongState {
        /// Task.
        task: usize,
        /// Where it is.
        place: String,
    },
    /// A CPU without work picked nothing although tasks wait on it.
    Lost {
        /// CPU.
        cpu: usize,
        /// Tasks that wait there.
        waiting: usize,
    },
    /// A CPU was idle while a task waited, for longer than a kick takes.
    IdleWhileWaiting {
        /// One of the idle CPUs.
        cpu: usize,
        /// One of the waiting tasks.
        task: usize,
        /// How long, in ns.
        for_ns: u64,
    },
    /// The time charged is not the time that tasks were on the CPU.
    WrongCharge {
        /// CPU, `None` for all together.
        cpu: Option<usize>,
        /// Group, `None` for the root's own tasks.
        group: Option<usize>,
        /// Time charged, in ns.
        charged_ns: u64,
        /// Least right value, in ns.
        least_ns: u64,
        /// Largest right value, in ns.
        most_ns: u64,
    },
    /// A task waited longer than the bound.
    Starved {
        /// Task.
        task: usize,
        /// Its wait so far, in ns.
        waited_ns: u64,
        /// The bound, in ns.
        bound_ns: u64,
    },
    /// A group's service left the exact fluid service by more than the bound.
    Lag {
        /// Group, `None` for the root's own tasks.
        group: Option<usize>,
        /// Service received in the window, in ns.
        got_ns: u64,
        /// Exact service due in the window, in ns.
        due_ns: u64,
        /// The bound, in ns.
        bound_ns: u64,
    },
    /// A task's share inside its `Fair` group is off by more than the bound.
    TaskShare {
        /// Task.
        task: usize,
        /// Service received in the window, in ns.
        got_ns: u64,
        /// Service due by weight out of what the group received, in ns.
        due_ns: u64,
    },
    /// Tasks are left over after all were asked to end.
    NotDrained {
        /// Number of tasks left.
        left: usize,
        /// The first of them.
        first: Option<usize>,
    },
    /// The scheduler panicked.
    Panic {
        /// The message.
        message: String,
    },
}

impl Violation {
    /// Returns a short name, equal for failures of the same kind.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::WrongPick { .. } => "wrong-pick",
            Self::WrongPull { .. } => "wrong-pull",
            Self::WrongCount { .. } => "wrong-count",
            Self::WrongGroupCount { .. } => "wrong-group-count",
            Self::WrongState { .. } => "wrong-state",
            Self::Lost { .. } => "lost",
            Self::IdleWhileWaiting { .. } => "idle-while-waiting",
            Self::WrongCharge { .. } => "wrong-charge",
            Self::Starved { .. } => "starved",
            Self::Lag { .. } => "lag",
            Self::TaskShare { .. } => "task-share",
            Self::NotDrained { .. } => "not-drained",
            Self::Panic { .. } => "panic",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {self:?}", self.kind())
    }
}

impl std::error::Error for Violation {}
