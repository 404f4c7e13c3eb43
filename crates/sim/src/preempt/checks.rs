//! What must hold after every event, and at the end.

use super::machine::{Ask, Fault, Handover, Machine, Role, TICK_LATE_NS, TICK_NS};
use super::promise::{Broken, Promise};
use super::sections::Kind;

/// Distance of the checks of the core's own sums, in events.
const SPARSE: u64 = 64;

impl Ask {
    /// Returns how long it may take at most, in ns, without the times that do not count;
    /// signals take `signal_ns` at most.
    ///
    /// A signal; where a section is in the way, its deadline, the tick at which the monitor learns
    /// of it, and the second signal. Where a signal meets a section of the runtime, the monitor
    /// asks again at the tick after that; and it learns of the section around one tick later.
    fn limit_ns(&self, signal_ns: u64) -> u64 {
        let tick = TICK_NS + TICK_LATE_NS;
        let mut limit = signal_ns;
        if self.deadline_ns > 0 {
            limit += self.deadline_ns + tick + signal_ns;
        }
        if self.nr_runtime > 0 {
            limit += (self.nr_runtime + 1) * (tick + signal_ns);
        }
        limit
    }
}

impl Machine {
    pub(super) fn check_step(&self, step: u64) -> Result<(), Broken> {
        for thread in 0..self.threads.len() {
            self.check_grant(thread)?;
            self.check_sections(thread)?;
            self.check_role(thread)?;
        }
        for cpu in 0..self.cpus.len() {
            self.check_cpu(cpu)?;
            self.delay_of(cpu)?;
            if step.is_multiple_of(SPARSE) {
                self.rqs[cpu].validate(&self.arena);
            }
        }
        if self.threads.len() > self.max_threads {
            let text = format!("{} of {}", self.threads.len(), self.max_threads);
            return Err(self.broken(Promise::Threads, text));
        }
        self.check_polls()
    }

    fn check_grant(&self, thread: usize) -> Result<(), Broken> {
        let state = &self.threads[thread];
        let (sections, books) = (&state.sections, &state.books);
        let fail =
            |promise, what: &str| Err(self.broken(promise, format!("thread {thread} {what}")));
        if books.grants_here > 1 {
            return fail(Promise::OneGrant, "got two grants for one section");
        }
        if sections.wants() && sections.is_granted() {
            return fail(Promise::OneGrant, "asks while it has a grant");
        }
        let is_over = self.now - books.granted_at > self.extension_ns;
        if sections.is_in_force() && is_over {
            return fail(Promise::GrantEnds, "has a grant for too long");
        }
        let is_inside = !books.open.is_empty() || books.is_ending;
        if !is_inside && (sections.is_granted() || sections.wants()) {
            return fail(Promise::GrantEnds, "has a grant without a section");
        }
        if books.grants != books.grants_ended + u64::from(sections.is_in_force()) {
            return fail(Promise::GrantEnds, "has lost count of its grants");
        }
        Ok(())
    }

    fn check_sections(&self, thread: usize) -> Result<(), Broken> {
        let state = &self.threads[thread];
        for kind in [Kind::Slice, Kind::Lock, Kind::Runtime] {
            let counted = state.sections.nr_open(kind) as usize;
            let open = state.books.open.iter().filter(|&&k| k == kind).count();
            if counted != open {
                let text = format!("thread {thread}: {counted} of kind {kind:?}, not {open}");
                return Err(self.broken(Promise::Balance, text));
            }
        }
        let is_inside = !state.books.open.is_empty() || state.books.is_ending;
        if state.books.is_pending && !is_inside {
            let text = format!("thread {thread} has left its section");
            return Err(self.broken(Promise::NoRequestLost, text));
        }
        Ok(())
    }

    fn check_role(&self, thread: usize) -> Result<(), Broken> {
        let state = &self.threads[thread];
        let is_right = match state.role {
            Role::Carrying(cpu) => self.cpus[cpu].carrier == thread,
            Role::Parked => state.poll.is_some() && state.runs_since.is_none(),
            Role::Free => state.poll.is_some(),
            Role::Spare => state.poll.is_none(),
        };
        if is_right {
            return Ok(());
        }
        let text = format!("thread {thread} is {:?}", state.role);
        Err(self.broken(Promise::OneCarrier, text))
    }

    fn check_cpu(&self, cpu: usize) -> Result<(), Broken> {
        let state = &self.cpus[cpu];
        let carrier = &self.threads[state.carrier];
        if carrier.role != Role::Carrying(cpu) {
            let text = format!("CPU {cpu}: thread {} is {:?}", state.carrier, carrier.role);
            return Err(self.broken(Promise::OneCarrier, text));
        }
        let curr = self.rqs[cpu].curr().map(|key| key as usize);
        let polled = carrier.poll.as_ref().map(|poll| poll.task);
        let is_right = match state.handover {
            None => curr == state.curr && polled == curr,
            Some(Handover::Resume) => curr == state.curr && polled == curr,
            Some(Handover::Parked(task) | Handover::Free(task)) => curr == Some(task),
        };
        if is_right {
            return Ok(());
        }
        let text = format!("CPU {cpu} runs {polled:?}, its queue says {curr:?}");
        Err(self.broken(Promise::OnePoll, text))
    }

    /// One thread at most polls a task; that of a parked one is known, and the task waits.
    fn check_polls(&self) -> Result<(), Broken> {
        let mut polled_by = vec![None; self.tasks.len()];
        for (thread, state) in self.threads.iter().enumerate() {
            let Some(poll) = &state.poll else { continue };
            if polled_by[poll.task].replace(thread).is_some() {
                let text = format!("task {} is polled twice", poll.task);
                return Err(self.broken(Promise::OnePoll, text));
            }
        }
        for (task, state) in self.tasks.iter().enumerate() {
            let Some(thread) = state.parked else { continue };
            let is_known = polled_by[task] == Some(thread);
            let is_coming =
                |cpu: &super::machine::Cpu| cpu.handover == Some(Handover::Parked(task));
            let waits = self.is_queued(task) || self.cpus.iter().any(is_coming);
            if !is_known || !waits || self.threads[thread].role != Role::Parked {
                let text = format!("task {task} is parked and nobody will resume it");
                return Err(self.broken(Promise::NothingLost, text));
            }
        }
        Ok(())
    }

    /// Returns for how long a CPU has been asked for, in ns.
    fn delay_of(&self, cpu: usize) -> Result<u64, Broken> {
        let Some(ask) = &self.cpus[cpu].ask else {
            return Ok(0);
        };
        let carrier = &self.threads[self.cpus[cpu].carrier];
        let away = carrier.away_ns(self.now) - ask.away_ns;
        let delay = (self.now - ask.at).saturating_sub(away);
        let limit = ask.limit_ns(self.signal_ns);
        if delay <= limit {
            return Ok(delay);
        }
        let text = format!("CPU {cpu} asked for since {delay} ns, limit {limit}");
        Err(self.broken(Promise::Delay, text))
    }

    /// Checks the delay at a switch.
    pub(super) fn check_delay(&mut self, cpu: usize) -> Result<(), Broken> {
        let delay = self.delay_of(cpu)?;
        self.stats.worst_delay_ns = self.stats.worst_delay_ns.max(delay);
        Ok(())
    }

    /// Checks what a poll leaves behind.
    pub(super) fn check_balance(&self, thread: usize) -> Result<(), Broken> {
        let state = &self.threads[thread];
        let is_clean = state.books.open.is_empty() && state.gate == 0;
        if is_clean && state.sections.is_outside() && !state.sections.has_request() {
            return Ok(());
        }
        let text = format!("thread {thread} ends a poll with {:?}", state.sections);
        Err(self.broken(Promise::Balance, text))
    }

    pub(super) fn check_end(&self) -> Result<(), Broken> {
        if let Some(task) = self.tasks.iter().position(|task| !task.is_done) {
            return Err(self.broken(Promise::NothingLost, format!("task {task} has not ended")));
        }
        for (thread, state) in self.threads.iter().enumerate() {
            let counts = state.sections.counts();
            let is_kept = self.fault == Fault::ForceAndKeep;
            if counts.requests != counts.extended + counts.forced && !is_kept {
                let text = format!("thread {thread}: {counts:?}");
                return Err(self.broken(Promise::NoRequestLost, text));
            }
        }
        Ok(())
    }
}
