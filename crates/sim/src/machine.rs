//! The virtual machine: CPUs, clock and events. It drives a [`Scheduler`] as the runtime does
//! and checks it after every event.
//!
//! The machine keeps its own books (`state`): where each task is, who runs, what was charged.
//! It never asks the scheduler for a fact that it can know itself.

use crate::account::Account;
use crate::check::Bounds;
use crate::history::{History, NEVER};
use crate::queue::EventQueue;
use crate::rng::Rng;
use crate::sched::Scheduler;
use crate::state::{Cpu, Place, Task, slot};
use crate::stats::Stats;
use crate::trace::{Trace, What};
use crate::violation::Violation;

/// Is something that happens at a point of virtual time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A task starts.
    Start(usize),
    /// A sleep ends: task, number of the sleep.
    Timer(usize, u64),
    /// The running task reaches the end of its step or slice: CPU, stamp.
    Cpu(usize, u64),
    /// A CPU's periodic tick.
    Tick(usize),
    /// The coordinator's turn.
    Coordinate,
    /// An idle CPU was told that there may be work.
    Kick(usize),
    /// An operation of the history, by index.
    Op(usize),
    /// The next phase begins.
    Phase(Phase),
    /// A sample of all service is taken.
    Sample,
}

/// Names the phases of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Busy,
    Settle,
    Judged,
    Drain,
}

/// Distance of the samples in the judged phase, in ns.
pub const SAMPLE_NS: u64 = 100_000_000;

/// Runs one history on one scheduler.
pub struct Machine<S> {
    pub(crate) sched: S,
    pub(crate) history: History,
    pub(crate) tasks: Vec<Task>,
    pub(crate) cpus: Vec<Cpu>,
    /// Groups that exist at present.
    pub(crate) is_group: Vec<bool>,
    /// Time used by the own tasks of each group up to their last switch, the root first.
    pub(crate) service_ns: Vec<u64>,
    pub(crate) events: EventQueue<Event>,
    pub(crate) rng: Rng,
    pub(crate) now: u64,
    pub(crate) phase: Phase,
    pub(crate) account: Option<Account>,
    pub(crate) stats: Stats,
    pub(crate) trace: Trace,
    pub(crate) bounds: Bounds,
    steps: u64,
}

impl<S: Scheduler> Machine<S> {
    /// Prepares a run of `history` on `sched`.
    pub fn new(history: History, mut sched: S, bounds: Bounds, trace: Trace) -> Self {
        let n_cpus = history.machine.cpus as usize;
        let n_slots = history.groups.len() + 1;
        let cpu = || Cpu {
            charged_ns: vec![0; n_slots],
            ..Cpu::default()
        };
        let is_group: Vec<bool> = (0..history.groups.len())
            .map(|g| Self::starts(&history, g))
            .collect();
        for (g, spec) in history
            .groups
            .iter()
            .enumerate()
            .filter(|(g, _)| is_group[*g])
        {
            sched.create_group(g, spec);
        }
        let tasks = history.tasks.iter().enumerate();
        let tasks = tasks.map(|(i, t)| Task::new(history.seed, i, t.clone(), t.start));
        Self {
            tasks: tasks.collect(),
            cpus: (0..n_cpus).map(|_| cpu()).collect(),
            is_group,
            service_ns: vec![0; n_slots],
            events: EventQueue::new(),
            rng: Rng::fork(history.seed, 1),
            now: 0,
            phase: Phase::Busy,
            account: None,
            stats: Stats::new(n_cpus),
            trace,
            bounds,
            steps: 0,
            sched,
            history,
        }
    }

    /// Tells whether group `g` and all groups above it exist from the start.
    fn starts(history: &History, g: usize) -> bool {
        let spec = &history.groups[g];
        spec.from_start && spec.parent.is_none_or(|p| Self::starts(history, p))
    }

    /// Runs the history to its end.
    ///
    /// # Errors
    /// The first broken promise; the trace then ends with the events before it.
    pub fn run(&mut self) -> Result<(), Violation> {
        self.schedule_start();
        while let Some((at, event)) = self.events.pop() {
            self.pass_time(at);
            self.handle(event)?;
            self.resched_all()?;
            self.kick_idle();
            self.steps += 1;
            self.check_step(self.steps)?;
            if self.phase == Phase::Drain && self.is_drained() {
                break;
            }
        }
        self.check_end()
    }

    /// Returns what was measured so far.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Returns the events before the end of the run.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    fn schedule_start(&mut self) {
        for (i, task) in self.history.tasks.iter().enumerate() {
            if task.start != NEVER {
                self.events.push(task.start, Event::Start(i));
            }
        }
        for (i, &(at, _)) in self.history.ops.iter().enumerate() {
            self.events.push(at, Event::Op(i));
        }
        self.events.push(0, Event::Coordinate);
        let mut at = self.history.busy_ns;
        for (phase, length) in [
            (Phase::Settle, self.history.settle_ns),
            (Phase::Judged, self.history.judged_ns),
            (Phase::Drain, 0),
        ] {
            self.events.push(at, Event::Phase(phase));
            at += length;
        }
    }

    /// Moves the clock and integrates what depends on time alone.
    fn pass_time(&mut self, to: u64) {
        let dt = to - self.now;
        if dt > 0 {
            let idle = self.cpus.iter().filter(|c| c.curr.is_none()).count();
            let waiting: usize = self.cpus.iter().map(|c| c.waiting).sum();
            self.stats.pass(dt, idle, waiting);
            if let Some(account) = &mut self.account {
                account.advance(to);
            }
            self.now = to;
        }
    }

    fn handle(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::Start(task) => self.start_task(task),
            Event::Timer(task, sleep) => {
                if self.tasks[task].sleep == sleep {
                    self.wake(task);
                }
            }
            Event::Cpu(cpu, stamp) => {
                if self.cpus[cpu].stamp == stamp {
                    return self.cpu_event(cpu);
                }
            }
            Event::Tick(cpu) => return self.tick(cpu),
            Event::Coordinate => {
                self.sched.coordinate(self.now);
                let next = self.now + self.history.machine.coordinator_ns;
                self.events.push(next, Event::Coordinate);
            }
            Event::Kick(cpu) => {
                self.cpus[cpu].is_kicked = false;
                if self.cpus[cpu].curr.is_none() {
                    return self.schedule(cpu);
                }
            }
            Event::Op(index) => self.strike(index),
            Event::Phase(phase) => self.enter(phase),
            Event::Sample => self.sample(),
        }
        Ok(())
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        let name = match phase {
            Phase::Busy => "busy",
            Phase::Settle => "settle",
            Phase::Judged => "judged",
            Phase::Drain => "drain",
        };
        self.trace.add(self.now, What::Phase(name));
        match phase {
            Phase::Busy => {}
            Phase::Settle if self.history.judged_ns == 0 => {}
            Phase::Settle if self.history.keeps_models => {}
            Phase::Settle => self.turn_to_hogs(),
            Phase::Judged if self.history.judged_ns == 0 => {}
            Phase::Judged => {
                self.account = Some(Account::new(&self.history, &self.tasks, self.now));
                self.stats.start_judging();
                self.sample();
            }
            Phase::Drain => self.wind_up(),
        }
    }

    /// Takes a sample of all service up to now, running tasks included.
    fn sample(&mut self) {
        let Some(account) = &mut self.account else {
            return;
        };
        let mut service = self.service_ns.clone();
        let mut ran: Vec<u64> = self.tasks.iter().map(|t| t.ran_ns).collect();
        for curr in self.cpus.iter().filter_map(|c| c.curr) {
            service[slot(curr.group)] += self.now - curr.since;
            ran[curr.task] += self.now - curr.since;
        }
        account.sample(self.now, service, ran);
        if self.phase == Phase::Judged {
            self.events.push(self.now + SAMPLE_NS, Event::Sample);
        }
    }

    /// Sends kicks: to every idle CPU on which tasks wait, and to as many other idle CPUs as
    /// tasks wait beyond those.
    fn kick_idle(&mut self) {
        let waiting: usize = self.cpus.iter().map(|c| c.waiting).sum();
        if waiting == 0 {
            return;
        }
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].waiting > 0 {
                self.kick(cpu);
            }
        }
        let on_the_way = self.cpus.iter().filter(|c| c.is_kicked).count();
        let mut missing = waiting.saturating_sub(on_the_way);
        for cpu in 0..self.cpus.len() {
            if missing == 0 {
                return;
            }
            missing -= usize::from(self.kick(cpu));
        }
    }

    /// Kicks `cpu` if it is idle and no kick is on its way; tells whether it did.
    fn kick(&mut self, cpu: usize) -> bool {
        let state = &mut self.cpus[cpu];
        let is_new = state.curr.is_none() && !state.is_kicked;
        if is_new {
            state.is_kicked = true;
            let delay = self.rng.range(0, self.history.machine.kick_ns);
            self.events.push(self.now + delay, Event::Kick(cpu));
        }
        is_new
    }

    /// Tells whether no task is left.
    pub(crate) fn is_drained(&self) -> bool {
        self.tasks.iter().all(|t| !t.is_live()) && self.cpus.iter().all(|c| c.curr.is_none())
    }

    /// Tells the place of a task in words.
    pub(crate) fn place_text(&self, task: usize) -> String {
        let place = self.tasks.get(task).map(|t| t.place);
        place.map_or_else(|| "unknown".to_owned(), |p: Place| format!("{p:?}"))
    }
}
