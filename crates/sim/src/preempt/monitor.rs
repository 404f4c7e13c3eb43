//! The monitor's ticks, the signals, and what they find; `preempt/monitor.rs` and `section.rs` of
//! the runtime, and its signal handler.

use super::machine::{Ask, Event, Fault, Handover, Level, Machine, Role};
use super::machine::{TICK_LATE_NS, TICK_NS};
use super::promise::{Broken, Promise};
use super::sections::Kind;

impl Machine {
    /// The monitor looks at every CPU, while somebody waits.
    pub(super) fn tick(&mut self) -> Result<(), Broken> {
        let next = (self.now / TICK_NS + 1) * TICK_NS + self.rng.range(0, TICK_LATE_NS);
        self.events.push(next, Event::Tick);
        if self.shared.tick_due(self.now) {
            self.domain.tick(self.now);
        }
        let waits = self.rqs.iter().any(|rq| rq.nr_waiting() > 0);
        for cpu in 0..self.cpus.len() {
            let state = &mut self.cpus[cpu];
            if state.is_idle() || state.handover.is_some() {
                continue;
            }
            let seen = (state.polls, state.term);
            let is_same = std::mem::replace(&mut state.seen, seen) == seen;
            if is_same && waits {
                self.look_at(cpu)?;
            } else if is_same {
                self.let_be(cpu);
            }
        }
        self.watch_sections();
        Ok(())
    }

    /// Decides about a poll that has gone on for a tick.
    fn look_at(&mut self, cpu: usize) -> Result<(), Broken> {
        let Some(task) = self.cpus[cpu].curr else {
            return Ok(());
        };
        let level = self.tasks[task].level;
        let mut makes_room = self.rqs[cpu].tick(&mut self.arena, self.now).is_needed();
        if !makes_room && level == Level::Park {
            makes_room = self.pull(cpu);
        }
        if !makes_room {
            self.let_be(cpu);
            return Ok(());
        }
        self.cpus[cpu].need_resched = level >= Level::Lazy;
        match level {
            Level::Off | Level::Lazy => {}
            Level::Handoff => return self.take_from(cpu, task),
            Level::Park => self.ask_for(cpu),
        }
        Ok(())
    }

    /// Nobody wants a CPU any more. If it was asked for inside a section of the runtime, nothing
    /// forces the sections around that one: the request is served when they end.
    fn let_be(&mut self, cpu: usize) {
        let carrier = &self.threads[self.cpus[cpu].carrier];
        if carrier.sections.has_request() && carrier.due_ns == u64::MAX {
            self.cpus[cpu].ask = None;
        }
    }

    /// Takes a CPU from a poll, which goes on without it.
    fn take_from(&mut self, cpu: usize, task: usize) -> Result<(), Broken> {
        let carrier = self.cpus[cpu].carrier;
        if self.threads[carrier].gate > 0 {
            self.threads[carrier].gate_asked = true;
            self.note_ask(cpu);
            return Ok(());
        }
        self.pass_on(carrier, cpu, Handover::Free(task), false)
    }

    fn note_ask(&mut self, cpu: usize) {
        let carrier = &self.threads[self.cpus[cpu].carrier];
        let ask = Ask {
            at: self.now,
            away_ns: carrier.away_ns(self.now),
            deadline_ns: 0,
            nr_runtime: 0,
        };
        let kinds = carrier.books.open.clone();
        self.cpus[cpu].ask.get_or_insert(ask);
        for kind in kinds {
            self.note_obstacle(cpu, kind);
        }
    }

    /// Notes that a section is in the way of a request for `cpu`.
    pub(super) fn note_obstacle(&mut self, cpu: usize, kind: Kind) {
        if let Some(ask) = &mut self.cpus[cpu].ask {
            let deadline_ns = kind.deadline_ns();
            ask.deadline_ns = ask.deadline_ns.max(deadline_ns.unwrap_or(0));
            ask.nr_runtime += u64::from(deadline_ns.is_none());
        }
    }

    /// Asks for the CPU of a poll.
    pub(super) fn ask_for(&mut self, cpu: usize) {
        self.note_ask(cpu);
        let (thread, term) = (self.cpus[cpu].carrier, self.cpus[cpu].term);
        let delay = self.rng.log_range(1, self.signal_ns);
        let state = &mut self.threads[thread];
        state.asked_term = Some((cpu, term));
        if state.gate > 0 {
            state.gate_asked = true;
        } else if !state.has_signal && self.fault != Fault::NoSignal {
            state.has_signal = true;
            self.events.push(self.now + delay, Event::Signal(thread));
        }
    }

    /// A signal reaches a thread: the handler. Masked while it is parked, late while it is stalled.
    pub(super) fn arrive(&mut self, thread: usize) -> Result<(), Broken> {
        let state = &mut self.threads[thread];
        if !state.has_signal || state.is_stalled || state.role == Role::Parked {
            return Ok(());
        }
        state.has_signal = false;
        let carried = match state.role {
            Role::Carrying(cpu) => Some((cpu, self.cpus[cpu].term)),
            _ => None,
        };
        let is_stale = carried.is_none() || state.asked_term != carried;
        if is_stale && !matches!(self.fault, Fault::StaleRequest | Fault::IgnoreTerm) {
            self.return_from_handler(thread);
            return Ok(());
        }
        if state.gate > 0 {
            state.gate_asked = true;
        } else if !self.holds_off(thread, is_stale)? {
            self.give_up(thread, true)?;
        }
        self.return_from_handler(thread);
        Ok(())
    }

    /// Returning is a system call, which ends a grant.
    fn return_from_handler(&mut self, thread: usize) {
        if self.threads[thread].runs_since.is_some() && self.end_grant(thread) {
            self.stall(thread);
        }
    }

    /// Returns whether a thread, whose CPU is asked for, is in a section and may stay there.
    pub(super) fn holds_off(&mut self, thread: usize, is_stale: bool) -> Result<bool, Broken> {
        let state = &mut self.threads[thread];
        let Some(kind) = state.sections.kind() else {
            return Ok(false);
        };
        if !state.sections.has_request() {
            state.asked_ns = self.now;
            state.sections.request();
            state.books.is_pending = true;
            if is_stale && self.fault != Fault::IgnoreTerm {
                let text = format!("thread {thread} is asked for a term that is over");
                return Err(self.broken(Promise::NoRequestTwice, text));
            }
        }
        let deadline_ns = match (self.fault, kind) {
            (Fault::NeverForce, _) => None,
            (Fault::ForceRuntime, Kind::Runtime) => Kind::Slice.deadline_ns(),
            _ => kind.deadline_ns(),
        };
        let due_ns = deadline_ns.map_or(u64::MAX, |ns| state.asked_ns + ns);
        if self.now < due_ns {
            state.due_ns = due_ns;
            return Ok(true);
        }
        state.due_ns = 0;
        if kind == Kind::Runtime {
            let text = format!("thread {thread} in a section of the runtime");
            return Err(self.broken(Promise::NeverForced, text));
        }
        state.books.skips_end = self.fault == Fault::SkipEnd;
        if self.fault == Fault::ForceAndKeep || state.sections.force() {
            self.serve(thread)?;
        }
        Ok(false)
    }

    /// Books that the pending request of a thread is served.
    pub(super) fn serve(&mut self, thread: usize) -> Result<(), Broken> {
        if std::mem::take(&mut self.threads[thread].books.is_pending) {
            return Ok(());
        }
        let text = format!("thread {thread} serves a request that was served");
        Err(self.broken(Promise::NoRequestTwice, text))
    }

    /// The monitor's second look, at the time for which it has set its alarm.
    pub(super) fn overdue(&mut self, at: u64) {
        if self.overdue_at == at {
            self.watch_sections();
        }
    }

    /// Asks again for CPUs whose carriers have been in sections for too long, and sets the alarm
    /// for the next one.
    fn watch_sections(&mut self) {
        let mut next_ns = u64::MAX;
        for cpu in 0..self.cpus.len() {
            let carrier = self.cpus[cpu].carrier;
            match self.threads[carrier].due_ns {
                0 => {}
                past if past <= self.now => {
                    self.threads[carrier].due_ns = 0;
                    self.ask_for(cpu);
                }
                future => next_ns = next_ns.min(future),
            }
        }
        self.overdue_at = next_ns;
        if next_ns != u64::MAX {
            self.events.push(next_ns, Event::Overdue(next_ns));
        }
    }
}
