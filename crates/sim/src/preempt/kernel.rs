//! Steps of a poll, and the kernel, which wants the CPUs of the machine for something else.

use super::machine::{Event, Fault, Machine, Role};
use super::plan::Action;
use super::promise::Broken;
use super::sections::{Kind, Verdict};

/// Shortest and longest time between two interrupts after which something else ought to run, in ns.
const INTERRUPTS_NS: (u64, u64) = (20_000, 2_000_000);

/// Shortest and longest time for which the kernel runs something else, in ns.
const STALLS_NS: (u64, u64) = (5_000, 2_000_000);

impl Machine {
    /// Does one step of a poll.
    pub(super) fn act(&mut self, thread: usize, action: Action) -> Result<(), Broken> {
        match action {
            Action::Add(kind) => self.begin_section(thread, kind),
            Action::AskKernel if self.extension_ns > 0 => {
                let state = &mut self.threads[thread];
                if self.fault == Fault::AskAgain {
                    state.sections.ask_kernel_again();
                } else if state.books.open.len() == 1 {
                    state.sections.ask_kernel();
                }
            }
            Action::Subtract(kind) => self.drop_count(thread, kind),
            Action::Withdraw if self.threads[thread].books.is_ending => {
                self.threads[thread].sections.withdraw();
            }
            Action::YieldGrant if self.threads[thread].books.is_ending => {
                // With this fault it is the last step.
                self.threads[thread].books.is_ending = self.fault != Fault::LookFirst;
                let is_granted = self.threads[thread].sections.is_granted();
                if is_granted && self.fault != Fault::KeepGrant {
                    self.stats.yielded += 1;
                    self.end_grant(thread);
                    self.stall(thread);
                }
            }
            Action::Look => return self.look(thread),
            Action::EnterGate => {
                self.threads[thread].gate += 1;
                self.threads[thread].note_away(self.now);
            }
            Action::LeaveGate => return self.leave_gate(thread),
            Action::Call => {
                if self.end_grant(thread) {
                    self.stall(thread);
                }
            }
            Action::Point => self.reach_point(thread),
            Action::End => return self.end_poll(thread),
            Action::AskKernel | Action::Withdraw | Action::YieldGrant => {}
        }
        Ok(())
    }

    fn begin_section(&mut self, thread: usize, kind: Kind) {
        let state = &mut self.threads[thread];
        if state.sections.add(kind) {
            state.books.grants_here = 0;
        }
        state.books.open.push(kind);
        state.note_away(self.now);
        if let Role::Carrying(cpu) = state.role {
            self.note_obstacle(cpu, kind);
        }
    }

    fn drop_count(&mut self, thread: usize, kind: Kind) {
        let state = &mut self.threads[thread];
        state.books.open.pop();
        if !std::mem::take(&mut state.books.skips_end) {
            state.books.is_ending = state.sections.subtract(kind);
        }
        state.note_away(self.now);
    }

    /// The end of an outermost section looks for requests, again and again until there is none.
    fn look(&mut self, thread: usize) -> Result<(), Broken> {
        let state = &mut self.threads[thread];
        let is_last = state.books.open.len() == 1 && self.fault == Fault::LookFirst;
        if !state.books.is_ending && !is_last {
            return Ok(());
        }
        state.sections.leave_hook();
        if !state.sections.take_for_hook() {
            state.books.is_ending = false;
            return Ok(());
        }
        if let Some(poll) = &mut state.poll {
            poll.plan.put_back(poll.next);
            poll.next = (0, Action::Look);
        }
        state.due_ns = 0;
        let is_inside = state.gate > 0;
        state.gate_asked |= is_inside;
        self.serve(thread)?;
        if is_inside {
            return Ok(());
        }
        self.give_up(thread, false)
    }

    fn leave_gate(&mut self, thread: usize) -> Result<(), Broken> {
        let state = &mut self.threads[thread];
        state.gate -= 1;
        state.note_away(self.now);
        let is_asked = state.gate == 0 && std::mem::take(&mut state.gate_asked);
        if is_asked && matches!(state.role, Role::Carrying(_)) && !self.holds_off(thread, false)? {
            return self.give_up(thread, false);
        }
        Ok(())
    }

    /// A poll that asks ends where it should make room.
    fn reach_point(&mut self, thread: usize) {
        let state = &mut self.threads[thread];
        let is_told = matches!(state.role, Role::Carrying(cpu) if self.cpus[cpu].need_resched);
        if let Some(poll) = state.poll.as_mut().filter(|_| is_told) {
            poll.plan.end_now();
            poll.next = (0, Action::End);
            self.stats.ended_early += 1;
        }
    }

    /// The kernel interrupts a thread that computes, and then some time another one.
    pub(super) fn interrupt_someone(&mut self) -> Result<(), Broken> {
        let (least, most) = INTERRUPTS_NS;
        let next = self.now + self.rng.log_range(least, most);
        self.events.push(next, Event::Interrupt);
        let runs = |&thread: &usize| self.threads[thread].runs_since.is_some();
        let running: Vec<usize> = (0..self.threads.len()).filter(runs).collect();
        if !running.is_empty() {
            let thread = *self.rng.pick(&running);
            self.interrupt(thread);
        }
        Ok(())
    }

    /// An interrupt after which the kernel wants to run something else.
    pub(super) fn interrupt(&mut self, thread: usize) {
        let state = &mut self.threads[thread];
        match state.sections.interrupt() {
            Verdict::Switched => {}
            Verdict::Revoked => state.books.grants_ended += 1,
            Verdict::Granted => {
                self.stats.grants += 1;
                state.books.grants += 1;
                state.books.grants_here += 1;
                state.books.granted_at = self.now;
                if self.fault != Fault::NoExpiry {
                    let at = self.now + self.extension_ns;
                    let grant = state.books.grants;
                    self.events.push(at, Event::Expiry(thread, grant));
                }
                return;
            }
        }
        self.stall(thread);
    }

    /// Lets the kernel run something else instead of a thread.
    pub(super) fn stall(&mut self, thread: usize) {
        self.pause(thread);
        let (least, most) = STALLS_NS;
        let until = self.now + self.rng.log_range(least, most);
        let state = &mut self.threads[thread];
        state.is_stalled = true;
        state.stall += 1;
        state.note_away(self.now);
        self.events
            .push(until, Event::StallEnd(thread, state.stall));
    }

    pub(super) fn end_stall(&mut self, thread: usize, stall: u64) -> Result<(), Broken> {
        let state = &mut self.threads[thread];
        if state.stall != stall {
            return Ok(());
        }
        state.is_stalled = false;
        state.note_away(self.now);
        self.arm(thread);
        self.arrive(thread)
    }

    /// Ends a thread's grant, if one is in force; returns whether one was.
    pub(super) fn end_grant(&mut self, thread: usize) -> bool {
        let state = &mut self.threads[thread];
        let was_in_force = state.sections.end_grant();
        state.books.grants_ended += u64::from(was_in_force);
        was_in_force
    }

    /// The time of a grant is over.
    pub(super) fn expire(&mut self, thread: usize, grant: u64) {
        if self.threads[thread].books.grants == grant && self.end_grant(thread) {
            self.stall(thread);
        }
    }
}
