//! Preemption: what happens to a poll that does not end.
//!
//! A virtual CPU and the OS thread that carries it are separate: the [`crew`] has more threads than
//! there are CPUs, and a CPU can be taken from a thread in the middle of a poll. What becomes of
//! that poll is the [`Level`].
//!
//! While no runtime with a level above [`Level::Off`] exists, the branches to all of this are
//! patched out (key `preempt`).
//!
//! # Invariants
//!
//! 1. The monitor and the signal handler never allocate, print, or take a lock that code of a task
//!    can hold. At [`Level::Park`] threads are started by a thread of their own.
//! 2. Nobody is parked for ever. A parked poll is an entry in a run queue; whoever takes the entry
//!    out resumes it ([`Worker::resume`](crate::worker::Worker::resume)) or lets it go on without a
//!    CPU ([`switch::release`]), which shutdown does to all.
//! 3. A task is queued under a run queue's lock, or with a fence after it, and then a sleeping CPU
//!    is looked for.
//! 4. The switch at the end of a section runs inside a section, and what was asked for is forgotten
//!    when a CPU is got back.
//! 5. A request concerns one turn, that is one pick of the run queue ([`request`]); signals that
//!    arrive in a later one are ignored.
//! 6. One atomic word, the [`Lease`](gate::Lease), decides who carries a CPU. The successor is
//!    reserved before it is changed.
//! 7. Sections of the runtime are never interrupted.
//! 8. The monitor looks for something to do once more after it has announced that it sleeps.
//! 9. Where no spare thread is left the poll goes on, and the refusal is counted.

mod attendant;
pub(crate) mod carrier;
pub(crate) mod crew;
mod free;
pub(crate) mod gate;
mod monitor;
pub(crate) mod order;
mod placement;
pub(crate) mod report;
pub(crate) mod request;
mod section;
mod spares;
pub(crate) mod switch;
pub(crate) mod sys;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::context;
use crate::error::{Error, Kind};
use crate::keys::{self, Use};
use crate::shared::Shared;
use crate::task::Runnable;
use attendant::Attendant;
use crew::{Crew, Roster};
use monitor::Monitor;
use order::{Before, Order};
use placement::Placement;
use report::Reporter;

/// What the runtime does about a poll that goes on while others wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum Level {
    /// Nothing: it runs to its end.
    Off,
    /// [`need_resched`](crate::need_resched) becomes true, for code that asks.
    Lazy,
    /// Its CPU goes on with other tasks on another thread, and the poll goes on beside it, as the
    /// kernel sees fit. No signals; safe for all code. Order and shares among such polls are the
    /// kernel's.
    Handoff,
    /// The poll is interrupted by a signal, and its thread parked until its task's turn comes
    /// again. Order and shares are ours. System calls without automatic restart may end with
    /// `EINTR`; a thread can be parked while it holds a lock, see the crate's documentation.
    Park,
}

impl Level {
    pub(crate) fn from_u8(level: u8) -> Option<Self> {
        [Self::Off, Self::Lazy, Self::Handoff, Self::Park]
            .into_iter()
            .find(|&known| known as u8 == level)
    }
}

/// Counts of what preemption did, since the runtime was built.
#[derive(Default)]
pub(crate) struct Counters {
    /// CPUs taken from a poll, or given up by one.
    pub(crate) preempted: AtomicU64,
    /// Polls that should have been preempted, but no spare thread was there.
    pub(crate) refused: AtomicU64,
    /// Polls that go on without a CPU now.
    pub(crate) free: AtomicU32,
    /// Polls that are parked now.
    pub(crate) parked: AtomicU32,
    /// Times that all parked polls were let go because a CPU was blocked by one of them.
    pub(crate) rescues: AtomicU64,
}

/// How a runtime preempts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    pub(crate) level: Level,
    /// Preemption goes on at the first poll that should be preempted.
    pub(crate) is_latent: bool,
    pub(crate) signal: i32,
    pub(crate) has_placement: bool,
    pub(crate) max_parked: usize,
    pub(crate) max_blocking: usize,
    /// Polls that take longer are reported.
    pub(crate) report_limit: Option<Duration>,
}

/// The part of a runtime that preempts.
pub(crate) struct Preempt {
    pub(crate) crew: Crew,
    pub(crate) placement: Placement,
    pub(crate) counters: Counters,
    pub(crate) monitor: Monitor,
    attendant: Attendant,
    reporter: Reporter,
    /// One of [`LATENT`], [`ON`] and [`REFUSED`].
    state: AtomicU8,
    /// Held while the state is [`ON`].
    key: Use,
    config: Config,
}

/// Nothing to preempt was seen yet.
const LATENT: u8 = 0;
/// Polls that begin now are preemptible.
const ON: u8 = 1;
/// The kernel refused what is needed.
const REFUSED: u8 = 2;

impl Preempt {
    pub(crate) fn new(cpus: usize, pins: Box<[usize]>, config: Config) -> Self {
        let extra = match config.level {
            Level::Off | Level::Lazy => config.max_blocking,
            Level::Handoff => config.max_blocking + spares_wanted(cpus),
            Level::Park => config.max_blocking + config.max_parked + spares_wanted(cpus),
        };
        Self {
            crew: Crew::new(cpus, cpus + extra),
            placement: Placement::new(config.has_placement && config.level == Level::Park, pins),
            counters: Counters::default(),
            monitor: Monitor::new(cpus),
            attendant: Attendant::new(),
            reporter: Reporter::new(),
            state: AtomicU8::new(LATENT),
            key: Use::of(&keys::PREEMPT),
            config,
        }
    }

    pub(crate) fn level(&self) -> Level {
        if const { !cfg!(feature = "preempt") } {
            return Level::Off;
        }
        self.config.level
    }

    /// Returns whether polls that go on lose their CPU from the first one on.
    pub(crate) fn takes_cpus(&self) -> bool {
        self.level() >= Level::Handoff && !self.config.is_latent
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Returns whether polls that begin now can be preempted. If so, the key `preempt` is on until
    /// the runtime ends.
    pub(crate) fn has_windows(&self) -> bool {
        self.state.load(Ordering::Acquire) == ON
    }

    /// Returns whether polls may be parked.
    #[inline]
    pub(crate) fn is_parking(&self) -> bool {
        self.level() == Level::Park
    }

    /// Prepares the process for this level, before any thread is started.
    pub(crate) fn prepare(&self) -> Result<(), Error> {
        let is_wanted = self.level() > Level::Off && !self.config.is_latent;
        if is_wanted || self.config.report_limit.is_some() {
            self.turn_on()?;
        }
        if self.level() == Level::Park || self.config.report_limit.is_some() {
            evenkeel_slice::runtime::set_hook(section::on_section_end);
            sys::call_in_children(context::forget_threads);
            let signal = self.config.signal;
            sys::install_handler(signal, switch::on_signal).map_err(|error| {
                if error.kind() == std::io::ErrorKind::AlreadyExists {
                    Error::new(Kind::SignalTaken { signal })
                } else {
                    Error::os(format!("handler of signal {signal}"), error)
                }
            })?;
        }
        Ok(())
    }

    /// Makes polls that begin from now on preemptible. For the thread that builds the runtime, then
    /// for the monitor.
    fn turn_on(&self) -> Result<(), Error> {
        let register = || match self.config.level {
            Level::Off | Level::Lazy => Ok(()),
            _ => sys::register_barrier().map_err(|error| Error::os("membarrier", error)),
        };
        let turned_on = register().and_then(|()| self.key.begin());
        let state = if turned_on.is_ok() { ON } else { REFUSED };
        self.state.store(state, Ordering::Release);
        turned_on
    }

    /// Returns whether polls of this runtime are preemptible; the first poll that should have been
    /// makes those after it so, and `announce` is called then.
    fn is_ready(&self, announce: impl FnOnce()) -> bool {
        match self.state.load(Ordering::Relaxed) {
            LATENT => {
                match self.turn_on() {
                    Ok(()) => announce(),
                    Err(error) => tracing::warn!(%error, "polls cannot be preempted"),
                }
                false
            }
            state => state == ON,
        }
    }

    /// Returns whether the monitor should be called: every worker is awake and it sleeps.
    #[inline]
    pub(crate) fn post_monitor(&self) {
        if self.level() > Level::Off {
            self.monitor.post();
        }
    }

    /// Wakes the reporter, if there is one.
    #[inline]
    pub(crate) fn post_reporter(&self) {
        if self.config.report_limit.is_some() {
            self.reporter.post();
        }
    }

    /// Asks for the CPU of what runs there now.
    pub(crate) fn ask_for(&self, cpu: usize) {
        self.ask_for_turn(cpu, self.crew.request(cpu).turn());
    }

    /// Asks for the CPU of what runs there in this turn; nothing happens if the turn is over.
    pub(crate) fn ask_for_turn(&self, cpu: usize, turn: u64) {
        self.crew.request(cpu).want(turn);
        self.remind(cpu);
    }

    /// Tells the carrier of a CPU that it was asked for.
    fn remind(&self, cpu: usize) {
        let term = self.crew.lease(cpu).load();
        let Some(carrier) = self.crew.carrier(term.carrier()) else {
            return;
        };
        if carrier.gate.is_inside() {
            carrier.gate.ask();
        } else if let Some(tid) = carrier.tid() {
            sys::send_signal(tid, self.config.signal);
        }
    }

    /// Ends the helping threads, and the carriers as soon as they have nothing to carry.
    pub(crate) fn close(&self) {
        self.crew.close();
        self.monitor.call();
        self.attendant.call();
        self.reporter.post();
    }
}

/// Returns whether any runtime preempts.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    keys::preempt_on()
}

/// Returns how many spare threads are kept ready.
fn spares_wanted(cpus: usize) -> usize {
    cpus + 2
}

/// Starts the threads of a runtime: one carrier for each worker, and those that preemption needs.
pub(crate) fn start(roster: &Arc<Roster>) -> Result<(), Error> {
    let shared = &roster[0].shared;
    let preempt = &shared.preempt;
    preempt.crew.set_roster(roster);
    for cpu in 0..roster.len() {
        let first = Order::Carry {
            cpu: cpu as u16,
            before: Before::Nothing,
        };
        start_carrier(roster, Some(first))?;
        shared.life.worker_started();
    }
    if preempt.level() == Level::Park {
        top_up(roster);
        let spawner = roster.clone();
        start_thread(shared, "spawner", move || monitor::spawn_on_call(&spawner))?;
        let attendant = roster.clone();
        start_thread(shared, "attendant", move || attendant::attend(&attendant))?;
    }
    if let Some(limit) = preempt.config.report_limit {
        let reporter = roster.clone();
        start_thread(shared, "reporter", move || report::report(&reporter, limit))?;
    }
    if preempt.level() > Level::Off {
        let monitor = roster.clone();
        start_thread(shared, "monitor", move || monitor::watch(&monitor))?;
    }
    Ok(())
}

/// Starts a thread that carries CPUs.
fn start_carrier(roster: &Arc<Roster>, first: Option<Order>) -> Result<(), Error> {
    let shared = &roster[0].shared;
    let Some(carrier) = shared.preempt.crew.claim() else {
        return Err(Error::new(Kind::TooManyThreads));
    };
    let (id, roster) = (carrier.id, roster.clone());
    let started = start_thread(shared, &id.to_string(), move || {
        let crew = &roster[0].shared.preempt.crew;
        if let Some(me) = crew.carrier(id) {
            switch::carry(me, &roster, first);
        }
    });
    if started.is_err() {
        shared.preempt.crew.give_back(id);
    }
    started
}

fn start_thread(
    shared: &Shared,
    name: &str,
    main: impl FnOnce() + Send + 'static,
) -> Result<(), Error> {
    let name = format!("{}-{name}", shared.settings.thread_name);
    thread::Builder::new()
        .name(name.clone())
        .stack_size(shared.settings.stack_size)
        .spawn(main)
        .map(drop)
        .map_err(|error| Error::os(format!("thread {name}"), error))
}

/// Starts spare threads until there are as many as wanted, or no more can be had.
fn top_up(roster: &Arc<Roster>) {
    let crew = &roster[0].shared.preempt.crew;
    let mut missing = spares_wanted(roster.len()).saturating_sub(crew.nr_spares());
    while missing > 0 {
        if let Err(error) = start_carrier(roster, None) {
            tracing::debug!(%error, "no spare thread could be started");
            return;
        }
        missing -= 1;
    }
}

/// Returns a spare thread, a new one if there is none.
pub(crate) fn spare_or_new(shared: &Shared) -> Result<&carrier::Carrier, Error> {
    let crew = &shared.preempt.crew;
    if let Some(spare) = crew.take_spare() {
        return Ok(spare);
    }
    let roster = crew
        .roster()
        .ok_or_else(|| Error::new(Kind::TooManyThreads))?;
    let carrier = crew
        .claim()
        .ok_or_else(|| Error::new(Kind::TooManyThreads))?;
    let id = carrier.id;
    let started = start_thread(shared, &id.to_string(), move || {
        let crew = &roster[0].shared.preempt.crew;
        if let Some(me) = crew.carrier(id) {
            let first = me.mailbox.wait();
            switch::carry(me, &roster, Some(first));
        }
    });
    match started {
        Ok(()) => Ok(carrier),
        Err(error) => {
            crew.give_back(id);
            Err(error)
        }
    }
}

/// Runs a task that is to be dropped; if it is parked in a poll, lets that go on without a CPU.
pub(crate) fn run_or_release(shared: &Shared, runnable: Runnable) {
    if runnable.metadata().is_parked() {
        let task = crate::task::TaskRef::from_runnable(runnable);
        switch::release(shared, task.meta());
    } else {
        runnable.run();
    }
}

/// Queues a task that was woken by a thread which is no worker, where it preempts if it may; gives
/// it back when a sleeping worker can take it.
pub(crate) fn queue_preempting(shared: &Shared, runnable: Runnable) -> Option<Runnable> {
    if shared.idle.has_parked() {
        return Some(runnable);
    }
    if let Some((cpu, turn)) = shared.enqueue_where_it_preempts(runnable) {
        shared.preempt.ask_for_turn(cpu, turn);
    }
    shared.notify_one();
    None
}
