//! CPUs, threads, tasks and the clock.

use std::fmt;
use std::sync::Arc;

use evenkeel_core::{
    Arena, Config, Domain, DomainShared, Entity, GroupId, GroupParams, RunQueue, TaskParams,
    TaskState, VecArena,
};

use super::plan::{Model, Plan};
use super::promise::{Broken, Promise};
use super::sections::{Kind, Sections};
use crate::queue::EventQueue;
use crate::rng::Rng;

/// Time between two ticks of the monitor, in ns.
pub const TICK_NS: u64 = 1_000_000;

/// Most by which a tick is late, in ns.
pub const TICK_LATE_NS: u64 = 100_000;

/// Longest way of a signal, in ns, unless a history sets another.
pub const SIGNAL_NS: u64 = 60_000;

/// Longest time for which a thread gets up, in ns.
pub(super) const WAKE_NS: u64 = 30_000;

/// What happens to a poll that goes on while others wait; as the runtime's levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing.
    Off,
    /// It is told, and may end.
    Lazy,
    /// It goes on without its CPU.
    Handoff,
    /// It is parked until its turn.
    Park,
}

/// What a careless driver does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The end of a section does not give the kernel's grant back.
    KeepGrant,
    /// Nested sections ask the kernel too.
    AskAgain,
    /// The kernel's timer does not end grants.
    NoExpiry,
    /// The end of a section looks for requests before it drops the count.
    LookFirst,
    /// A request is served at its deadline and left pending.
    ForceAndKeep,
    /// Sections have no deadline.
    NeverForce,
    /// Sections of the runtime are forced like others.
    ForceRuntime,
    /// A section that was forced does not drop its count.
    SkipEnd,
    /// A CPU is asked for without a signal.
    NoSignal,
    /// A request is made by a signal that concerns an earlier term.
    StaleRequest,
    /// A signal takes a CPU, whoever carries it by now.
    IgnoreTerm,
    /// A task whose poll is parked is polled anew.
    PollAnew,
    /// A task whose poll is parked is not queued.
    DropParked,
    /// Threads are started without a limit.
    NoLimit,
    /// The mark that a poll should make room outlives it.
    KeepNeedResched,
}

/// What happens at a point of virtual time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A thread reaches the next step of its poll: thread, stamp.
    Step(usize, u64),
    /// A signal reaches a thread.
    Signal(usize),
    /// The kernel lets a thread run on: thread, number of its stall.
    StallEnd(usize, u64),
    /// A grant ends: thread, number of the grant.
    Expiry(usize, u64),
    /// The kernel wants a CPU of the machine for something else.
    Interrupt,
    /// The monitor looks whether a section is overdue.
    Overdue(u64),
    /// The monitor's tick.
    Tick,
    /// A thread that was given a CPU has got up: CPU, term.
    Up(usize, u64),
    /// An idle CPU looks for work.
    Kick(usize),
    /// A task is woken.
    Wake(usize),
    /// The runtime ends: polls that go on end soon, and none begins.
    WindUp,
}

/// What a thread is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Spare,
    /// Carries a CPU.
    Carrying(usize),
    /// Waits in the middle of a poll.
    Parked,
    /// Goes on with a poll without a CPU.
    Free,
}

/// A poll under way.
#[derive(Clone, Debug)]
pub(super) struct Poll {
    pub(super) task: usize,
    pub(super) plan: Plan,
    /// Next step, and the time that the poll computes before it, in ns.
    pub(super) next: (u64, super::plan::Action),
}

/// An OS thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) role: Role,
    pub(super) poll: Option<Poll>,
    pub(super) sections: Sections,
    /// The gate: sections of the runtime around and inside polls.
    pub(super) gate: u32,
    pub(super) gate_asked: bool,
    /// CPU and term that it was asked for.
    pub(super) asked_term: Option<(usize, u64)>,
    pub(super) has_signal: bool,
    /// When the pending request was made, and when the monitor is to force it (0: never).
    pub(super) asked_ns: u64,
    pub(super) due_ns: u64,
    /// Since when it computes towards the next step; `None` while it does not run.
    pub(super) runs_since: Option<u64>,
    pub(super) stamp: u64,
    pub(super) stall: u64,
    pub(super) is_stalled: bool,
    pub(super) books: Books,
}

/// What the checks know of a thread.
#[derive(Debug, Default)]
pub(super) struct Books {
    /// Kinds of the open sections, the outermost first.
    pub(super) open: Vec<Kind>,
    /// Whether the outermost section has dropped its count and not yet looked.
    pub(super) is_ending: bool,
    /// Whether the next end of a section is left out: [`Fault::SkipEnd`].
    pub(super) skips_end: bool,
    /// Grants of the present outermost section.
    pub(super) grants_here: u32,
    pub(super) grants: u64,
    pub(super) grants_ended: u64,
    pub(super) granted_at: u64,
    /// Whether the request that is pending was made and not served.
    pub(super) is_pending: bool,
    /// Times that the thread could not be switched for good reason, in ns, up to `away_since`.
    pub(super) away_ns: u64,
    pub(super) away_since: Option<u64>,
}

/// A request for a CPU, and what it is measured by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) at: u64,
    pub(super) away_ns: u64,
    /// Greatest deadline of the sections that were in the way, in ns.
    pub(super) deadline_ns: u64,
    /// Sections of the runtime that were in the way.
    pub(super) nr_runtime: u64,
}

/// A virtual CPU.
#[derive(Debug)]
pub(super) struct Cpu {
    pub(super) carrier: usize,
    pub(super) term: u64,
    /// Task that the queue takes to be running.
    pub(super) curr: Option<usize>,
    pub(super) polls: u64,
    pub(super) need_resched: bool,
    /// What becomes of `curr` when the carrier is up.
    pub(super) handover: Option<Handover>,
    pub(super) is_kicked: bool,
    pub(super) seen: (u64, u64),
    pub(super) ask: Option<Ask>,
}

/// What a thread that is getting up finds on its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handover {
    /// The poll of this task is parked.
    Parked(usize),
    /// The poll of this task goes on without the CPU.
    Free(usize),
    /// Its own parked poll.
    Resume,
}

/// A task.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) model: Model,
    pub(super) level: Level,
    /// Thread on which its poll is parked.
    pub(super) parked: Option<usize>,
    pub(super) is_new: bool,
    pub(super) is_done: bool,
}

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Virtual time in ns.
    pub elapsed_ns: u64,
    /// Turns of tasks.
    pub switches: u64,
    /// Polls that were parked.
    pub parked: u64,
    /// Polls that went on without their CPU.
    pub freed: u64,
    /// Polls that ended because they were told to.
    pub ended_early: u64,
    /// Times that no thread was left.
    pub refused: u64,
    /// Requests that met a section.
    pub requests: u64,
    /// Of these, forced.
    pub forced: u64,
    /// Grants of the kernel.
    pub grants: u64,
    /// Of these, given back by a yield.
    pub yielded: u64,
    /// Tasks that were woken onto a CPU that was then asked for.
    pub wakeup_preemptions: u64,
    /// Longest time from a request to the switch, in ns, without the times that do not count.
    pub worst_delay_ns: u64,
}

impl Stats {
    /// Adds what happened in another run.
    pub fn add(&mut self, other: &Self) {
        self.elapsed_ns += other.elapsed_ns;
        self.switches += other.switches;
        self.parked += other.parked;
        self.freed += other.freed;
        self.ended_early += other.ended_early;
        self.refused += other.refused;
        self.requests += other.requests;
        self.forced += other.forced;
        self.grants += other.grants;
        self.yielded += other.yielded;
        self.wakeup_preemptions += other.wakeup_preemptions;
        self.worst_delay_ns = self.worst_delay_ns.max(other.worst_delay_ns);
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "no promise broken in {} switches, {:.1} s of virtual time",
            self.switches,
            self.elapsed_ns as f64 / 1e9
        )?;
        writeln!(
            f,
            "polls: {} parked, {} went on without their CPU, {} ended early, {} refused",
            self.parked, self.freed, self.ended_early, self.refused
        )?;
        write!(
            f,
            "sections: {} requests, {} forced; {} grants, {} given back by a yield\n\
             wake-ups that asked for a CPU: {}; longest way to a switch: {:.3} ms",
            self.requests,
            self.forced,
            self.grants,
            self.yielded,
            self.wakeup_preemptions,
            self.worst_delay_ns as f64 / 1e6
        )
    }
}

/// A machine whose polls lose their CPUs.
pub struct Machine {
    pub(super) now: u64,
    pub(super) fault: Fault,
    pub(super) stats: Stats,
    pub(super) domain: Domain,
    pub(super) shared: Arc<DomainShared>,
    pub(super) arena: VecArena,
    pub(super) rqs: Vec<RunQueue<VecArena>>,
    pub(super) cpus: Vec<Cpu>,
    pub(super) threads: Vec<Thread>,
    pub(super) tasks: Vec<Task>,
    pub(super) events: EventQueue<Event>,
    pub(super) rng: Rng,
    pub(super) max_threads: usize,
    /// Whether the kernel has the extension, and its length in ns.
    pub(super) extension_ns: u64,
    pub(super) signal_ns: u64,
    pub(super) is_winding_up: bool,
    pub(super) overdue_at: u64,
    steps: u64,
}

impl Machine {
    /// Makes a machine of `cpus` CPUs with up to `extra` threads more than that; the kernel grants
    /// `extension_ns`, 0 for none.
    pub fn new(seed: u64, cpus: usize, extra: usize, extension_ns: u64) -> Self {
        let config = Config::for_cpus(cpus);
        let domain = Domain::new(cpus, config.clone());
        let mut machine = Self {
            now: 0,
            fault: Fault::None,
            stats: Stats::default(),
            shared: domain.shared(),
            domain,
            arena: VecArena::new(),
            rqs: (0..cpus)
                .map(|cpu| RunQueue::new(cpu, cpus, config.clone()))
                .collect(),
            cpus: (0..cpus).map(Cpu::new).collect(),
            threads: Vec::new(),
            tasks: Vec::new(),
            events: EventQueue::new(),
            rng: Rng::fork(seed, 11),
            max_threads: cpus + extra,
            extension_ns,
            signal_ns: SIGNAL_NS,
            is_winding_up: false,
            overdue_at: u64::MAX,
            steps: 0,
        };
        machine.threads = (0..cpus + extra).map(|_| Thread::new()).collect();
        for cpu in 0..cpus {
            machine.threads[cpu].role = Role::Carrying(cpu);
            machine.threads[cpu].gate = 1;
        }
        machine.attach(GroupId::ROOT);
        machine.events.push(TICK_NS, Event::Tick);
        machine.events.push(1, Event::Interrupt);
        machine
    }

    /// Sets the longest way of a signal, in ns.
    pub fn set_signal_ns(&mut self, most: u64) {
        self.signal_ns = most;
    }

    /// Has the driver do something wrong.
    pub fn set_fault(&mut self, fault: Fault) {
        self.fault = fault;
    }

    fn attach(&mut self, id: GroupId) {
        let leaf = self.domain.leaf(id).expect("the group exists");
        for rq in &mut self.rqs {
            rq.attach(leaf.clone());
        }
    }

    /// Creates a group.
    ///
    /// # Panics
    /// If the settings are not valid.
    pub fn create_group(&mut self, parent: GroupId, params: GroupParams) -> GroupId {
        let id = self.domain.create(parent, params).expect("valid settings");
        self.attach(id);
        id
    }

    /// Adds a task, whose first poll begins when there is room after `at`, in ns.
    pub fn spawn(
        &mut self,
        group: GroupId,
        params: TaskParams,
        level: Level,
        model: Model,
        at: u64,
    ) {
        let key = self.arena.insert(Entity::new(group, params));
        debug_assert_eq!(key as usize, self.tasks.len());
        self.events.push(at, Event::Wake(self.tasks.len()));
        self.tasks.push(Task {
            model,
            level,
            parked: None,
            is_new: true,
            is_done: false,
        });
    }

    /// Runs until all tasks have ended; they are told to at `wind_up`, in ns.
    ///
    /// # Errors
    /// The first broken promise.
    pub fn run(&mut self, wind_up: u64) -> Result<Stats, Broken> {
        self.events.push(wind_up, Event::WindUp);
        let limit = wind_up + 10_000_000_000;
        while let Some((at, event)) = self.events.pop() {
            self.now = at;
            self.handle(event)?;
            self.kick_idle();
            self.steps += 1;
            self.check_step(self.steps)?;
            let is_over = self.tasks.iter().all(|task| task.is_done);
            if self.is_winding_up && is_over || at > limit {
                break;
            }
        }
        self.check_end()?;
        self.stats.elapsed_ns = self.now;
        for thread in &self.threads {
            let counts = thread.sections.counts();
            self.stats.requests += counts.requests;
            self.stats.forced += counts.forced;
        }
        Ok(self.stats)
    }

    fn handle(&mut self, event: Event) -> Result<(), Broken> {
        match event {
            Event::Step(thread, stamp) if self.threads[thread].stamp == stamp => {
                self.step(thread)?;
            }
            Event::Step(..) => {}
            Event::Signal(thread) => self.arrive(thread)?,
            Event::StallEnd(thread, stall) => self.end_stall(thread, stall)?,
            Event::Expiry(thread, grant) => self.expire(thread, grant),
            Event::Interrupt => self.interrupt_someone()?,
            Event::Overdue(at) => self.overdue(at),
            Event::Tick => self.tick()?,
            Event::Up(cpu, term) if self.cpus[cpu].term == term => self.get_up(cpu)?,
            Event::Up(..) => {}
            Event::Kick(cpu) => {
                self.cpus[cpu].is_kicked = false;
                if self.cpus[cpu].is_idle() {
                    self.schedule(cpu)?;
                }
            }
            Event::Wake(task) => self.wake(task),
            Event::WindUp => {
                self.is_winding_up = true;
                for poll in self.threads.iter_mut().filter_map(|t| t.poll.as_mut()) {
                    poll.plan.wind_up();
                }
            }
        }
        Ok(())
    }

    fn kick_idle(&mut self) {
        let mut waiting: usize = self.rqs.iter().map(RunQueue::nr_waiting).sum();
        for cpu in 0..self.cpus.len() {
            let state = &mut self.cpus[cpu];
            if waiting > 0 && state.is_idle() && !state.is_kicked {
                waiting -= 1;
                state.is_kicked = true;
                let at = self.now + self.rng.range(0, WAKE_NS);
                self.events.push(at, Event::Kick(cpu));
            }
        }
    }

    pub(super) fn broken(&self, promise: Promise, text: impl Into<String>) -> Broken {
        Broken {
            promise,
            at_ns: self.now,
            text: text.into(),
        }
    }

    /// Returns whether the core has a task in a queue.
    pub(super) fn is_queued(&self, task: usize) -> bool {
        self.arena.entity(task as u32).state() == TaskState::Queued
    }
}

impl Cpu {
    fn new(carrier: usize) -> Self {
        Self {
            carrier,
            term: 1,
            curr: None,
            polls: 0,
            need_resched: false,
            handover: None,
            is_kicked: false,
            seen: (0, 0),
            ask: None,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.curr.is_none() && self.handover.is_none()
    }
}

impl Thread {
    pub(super) fn new() -> Self {
        Self {
            role: Role::Spare,
            poll: None,
            sections: Sections::default(),
            gate: 0,
            gate_asked: false,
            asked_term: None,
            has_signal: false,
            asked_ns: 0,
            due_ns: 0,
            runs_since: None,
            stamp: 0,
            stall: 0,
            is_stalled: false,
            books: Books::default(),
        }
    }

    /// Returns the times so far that the thread could not be switched for good reason, in ns.
    pub(super) fn away_ns(&self, now: u64) -> u64 {
        self.books.away_ns + self.books.away_since.map_or(0, |since| now - since)
    }

    /// Begins or ends to count such time, whichever is right.
    pub(super) fn note_away(&mut self, now: u64) {
        let in_runtime = self.sections.kind() == Some(Kind::Runtime);
        let is_away = self.is_stalled || self.gate > 0 || in_runtime;
        if !is_away && let Some(since) = self.books.away_since.take() {
            self.books.away_ns += now - since;
        } else if is_away && self.books.away_since.is_none() {
            self.books.away_since = Some(now);
        }
    }
}
