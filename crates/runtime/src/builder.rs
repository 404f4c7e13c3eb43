//! Settings of a runtime.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::cpus;
use crate::error::Error;
use crate::handle::Handle;
use crate::io::{Driver, Io};
use crate::keys;
use crate::preempt::{self, Level, Preempt};
use crate::runtime::Runtime;
use crate::shared::{Settings, Shared};
use crate::worker::{Seed, Worker};

/// Default for [`Builder::thread_stack_size`], in bytes.
const STACK_SIZE: usize = 2 << 20;
/// Default for [`Builder::max_blocking_threads`].
const MAX_BLOCKING: usize = 512;
/// Default for [`Builder::max_parked_polls`].
const MAX_PARKED: usize = 1024;
/// Most that may be asked for there.
/// Limits for reports.
const REPORT_LIMITS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(3600);
const MAX_MAX_PARKED: usize = 16384;
/// Most workers that a runtime may have.
const MAX_WORKERS: usize = 4096;
/// Least stack of a worker, in bytes.
const MIN_STACK: usize = 64 << 10;

/// Builds a [`Runtime`].
///
/// # Examples
///
/// ```
/// let runtime = evenkeel::Builder::new().worker_threads(2).build()?;
/// assert_eq!(runtime.block_on(async { 6 * 7 }), 42);
/// # Ok::<(), evenkeel::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    workers: Option<usize>,
    name: String,
    stack_size: usize,
    is_pinned: bool,
    io: Io,
    max_blocking: usize,
    preempt: Option<Level>,
    report_limit: Option<Duration>,
    signal: i32,
    has_placement: bool,
    max_parked: usize,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// Starts from the defaults: a worker for each CPU that this process may use, shared I/O.
    #[must_use]
    pub fn new() -> Self {
        Self {
            workers: None,
            name: "evenkeel".to_owned(),
            stack_size: STACK_SIZE,
            is_pinned: false,
            io: Io::default(),
            max_blocking: MAX_BLOCKING,
            preempt: None,
            report_limit: None,
            signal: libc::SIGURG,
            has_placement: true,
            max_parked: MAX_PARKED,
        }
    }

    /// Sets the number of workers, 1 to 4096.
    ///
    /// Default: the CPUs in the affinity mask, but no more than the CPU quota of the cgroup (v1 or
    /// v2, the tightest of all ancestors), rounded down; at least 1.
    #[must_use]
    pub fn worker_threads(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Sets the name of the threads; worker *i* is called `name-i`. Default: `evenkeel`. No NUL
    /// bytes.
    #[must_use]
    pub fn thread_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the stack of each worker's thread, in bytes, at least 64 KiB. Default: 2 MiB.
    #[must_use]
    pub fn thread_stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// Pins worker *i* to the *i*-th CPU of this process's affinity mask. Default: off.
    ///
    /// [`Builder::build`] refuses it with more workers than CPUs in the mask.
    #[must_use]
    pub fn pin_threads(mut self, is_pinned: bool) -> Self {
        self.is_pinned = is_pinned;
        self
    }

    /// Sets who drives Tokio's I/O and timers. Default: [`Io::Shared`].
    #[must_use]
    pub fn io(mut self, io: Io) -> Self {
        self.io = io;
        self
    }

    /// Sets the largest number of threads for blocking work, at least 1. Default: 512.
    #[must_use]
    pub fn max_blocking_threads(mut self, threads: usize) -> Self {
        self.max_blocking = threads;
        self
    }

    /// Sets what happens to a poll that goes on while others wait; groups may have less.
    ///
    /// By default it is [`Level::Handoff`], and the branches for that stay patched out until the
    /// first poll that should make room: those that have begun by then run to their end, later ones
    /// are preempted. A level set here holds from the first poll on. Without the cargo feature
    /// `preempt` it is [`Level::Off`], and [`Builder::build`] refuses every other one; `Park` needs
    /// the feature `groups` as well.
    #[must_use]
    pub fn preempt(mut self, level: Level) -> Self {
        self.preempt = Some(level);
        self
    }

    /// Sets the signal that interrupts polls at [`Level::Park`], 1 to 64. Default: `SIGURG`, which
    /// does nothing where nobody handles it.
    ///
    /// [`Builder::build`] refuses a signal that has a handler already.
    #[must_use]
    pub fn preempt_signal(mut self, signal: i32) -> Self {
        self.signal = signal;
        self
    }

    /// Sets whether at [`Level::Park`] the thread that goes on with a CPU is brought to the CPU of
    /// the machine on which the interrupted one ran. Default: on. Off, the kernel chooses.
    #[must_use]
    pub fn preempt_placement(mut self, is_on: bool) -> Self {
        self.has_placement = is_on;
        self
    }

    /// Sets the largest number of parked polls, 1 to 16384, each of which keeps a thread. Above it
    /// polls go on. Default: 1024.
    #[must_use]
    pub fn max_parked_polls(mut self, polls: usize) -> Self {
        self.max_parked = polls;
        self
    }

    /// Has polls reported that take longer than `limit`, 1 ms to 1 hour, whatever the level of
    /// preemption; by default none are.
    ///
    /// A report is a [`tracing`] event of level WARN and target `evenkeel::report` with the group,
    /// the time so far (without that for which the poll was parked) and a backtrace, once for each
    /// type of future. Every such poll is counted in
    /// [`GroupStat::nr_over_limit`](crate::GroupStat::nr_over_limit). The signal of
    /// [`Builder::preempt_signal`] is used to look into a thread; one that is blocked in the kernel
    /// is not signalled, and reported without a backtrace.
    #[must_use]
    pub fn report_long_polls(mut self, limit: Duration) -> Self {
        self.report_limit = Some(limit);
        self
    }

    /// Checks what concerns preemption.
    fn check_preempt(&self) -> Result<(), Error> {
        if self.preempt.is_some_and(|level| level > Level::Off) || self.report_limit.is_some() {
            keys::PREEMPT.check_compiled()?;
        }
        if self.preempt == Some(Level::Park) {
            keys::GROUPS.check_compiled()?;
        }
        if !(1..=64).contains(&self.signal) || [libc::SIGKILL, libc::SIGSTOP].contains(&self.signal)
        {
            let allowed = "1 to 64, but not SIGKILL (9) or SIGSTOP (19)";
            return Err(Error::invalid("preempt_signal", self.signal, allowed));
        }
        if let Some(limit) = self.report_limit
            && !REPORT_LIMITS.contains(&limit)
        {
            let given = format!("{limit:?}");
            return Err(Error::invalid("report_long_polls", given, "1 ms to 1 h"));
        }
        if !(1..=MAX_MAX_PARKED).contains(&self.max_parked) {
            return Err(Error::invalid(
                "max_parked_polls",
                self.max_parked,
                "1 to 16384",
            ));
        }
        Ok(())
    }

    /// Checks the settings and returns the number of workers and the CPUs to pin them to.
    fn check(&self) -> Result<(usize, Vec<usize>), Error> {
        let workers = self.workers.unwrap_or_else(cpus::worker_count);
        if !(1..=MAX_WORKERS).contains(&workers) {
            return Err(Error::invalid("worker_threads", workers, "1 to 4096"));
        }
        if self.name.contains('\0') {
            return Err(Error::invalid(
                "thread_name",
                format!("{:?}", self.name),
                "no NUL byte",
            ));
        }
        if self.stack_size < MIN_STACK {
            return Err(Error::invalid(
                "thread_stack_size",
                self.stack_size,
                "65536 bytes or more",
            ));
        }
        self.check_preempt()?;
        if self.max_blocking == 0 {
            return Err(Error::invalid("max_blocking_threads", 0, "1 or more"));
        }
        let pins = if self.is_pinned {
            cpus::allowed()?
        } else {
            Vec::new()
        };
        if self.is_pinned && workers > pins.len() {
            let given = format!("{workers} workers for {} CPUs", pins.len());
            return Err(Error::invalid(
                "pin_threads",
                given,
                "a CPU for each worker",
            ));
        }
        Ok((workers, pins))
    }

    /// Builds the runtime and starts its threads.
    ///
    /// # Errors
    ///
    /// [`Error::is_invalid_value`] names the setting and its range; [`Error::is_not_compiled`] and
    /// [`Error::is_key`] when preemption was asked for and is not in this build, or cannot be
    /// turned on; [`Error::is_os`] when a thread or the I/O driver could not be made. Nothing is
    /// left running then.
    pub fn build(&self) -> Result<Runtime, Error> {
        keys::arm();
        let (workers, pins) = self.check()?;
        let driver = Driver::new(self.io, &self.name, self.max_blocking)
            .map_err(|error| Error::os("Tokio's I/O driver", error))?;
        let (seeds, remotes): (Vec<_>, Vec<_>) = (0..workers).map(|_| Seed::new()).unzip();
        let settings = Settings {
            thread_name: self.name.clone(),
            stack_size: self.stack_size,
        };
        let config = preempt::Config {
            level: self.preempt.unwrap_or(Level::Handoff),
            is_latent: self.preempt.is_none(),
            signal: self.signal,
            has_placement: self.has_placement,
            max_parked: self.max_parked,
            max_blocking: self.max_blocking,
            report_limit: self.report_limit,
        };
        let preempt = Preempt::new(workers, pins.into(), config);
        let shared = Shared::new(remotes, driver, preempt, settings);
        shared.preempt.prepare()?;
        if self.preempt == Some(Level::Park) {
            shared.groups.use_groups()?;
        }
        // From here on an error drops the runtime, which ends the threads already started.
        let runtime = Runtime::from_handle(Handle::from_shared(shared.clone()));
        let workers = seeds
            .into_iter()
            .enumerate()
            .map(|(index, seed)| Worker::new(shared.clone(), index, seed));
        preempt::start(&Arc::new(workers.collect()))?;
        if self.io == Io::Dedicated {
            let shared = Arc::clone(&shared);
            self.start(format!("{}-io", self.name), move || {
                shared.driver.drive(&shared.life.is_shutdown);
            })?;
        }
        Ok(runtime)
    }

    fn start(&self, name: String, main: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        thread::Builder::new()
            .name(name.clone())
            .stack_size(self.stack_size)
            .spawn(main)
            .map(drop)
            .map_err(|error| Error::os(format!("thread {name}"), error))
    }
}
