//! How a CPU changes hands, and what a thread does step by step; `worker/` and `preempt/switch.rs`
//! of the runtime.

use evenkeel_core::{Arena, EnqueueKind, Outcome, TaskState, balance};

use super::machine::{Event, Fault, Handover, Level, Machine, Poll, Role, Thread, WAKE_NS};
use super::plan::{Action, Plan, Then};
use super::promise::{Broken, Promise};

impl Machine {
    /// Gives the carrier of `cpu`, which has nothing to do, its next task.
    pub(super) fn schedule(&mut self, cpu: usize) -> Result<(), Broken> {
        if self.shared.tick_due(self.now) {
            self.domain.tick(self.now);
        }
        let state = &mut self.cpus[cpu];
        state.ask = None;
        state.curr = None;
        if self.fault != Fault::KeepNeedResched {
            state.need_resched = false;
        }
        self.pull(cpu);
        let mut picked = self.rqs[cpu].pick_next(&mut self.arena, self.now);
        if picked.is_none() && self.pull(cpu) {
            picked = self.rqs[cpu].pick_next(&mut self.arena, self.now);
        }
        let Some(picked) = picked else {
            return match self.rqs[cpu].nr_waiting() {
                0 => Ok(()),
                n => Err(self.broken(Promise::NothingLost, format!("CPU {cpu} lost {n} tasks"))),
            };
        };
        let task = picked.key as usize;
        self.stats.switches += 1;
        let state = &mut self.cpus[cpu];
        (state.curr, state.polls) = (Some(task), state.polls + 1);
        if state.need_resched {
            return Err(self.broken(Promise::NeedResched, format!("task {task} begins with it")));
        }
        match self.tasks[task].parked.take() {
            Some(parked) if self.fault != Fault::PollAnew => self.resume(cpu, parked),
            _ => self.begin_poll(cpu, task),
        }
        Ok(())
    }

    /// Lets `cpu` pull a task, if it wants one; returns whether that should run next.
    pub(super) fn pull(&mut self, cpu: usize) -> bool {
        let Some(request) = self.rqs[cpu].pull_request(self.now) else {
            return false;
        };
        let shared = |cpu: usize| &**self.rqs[cpu].shared();
        let random = self.rng.next_u64();
        let victim = balance::select_victim(&request, shared, self.rqs.len(), self.now, random);
        let moved = victim.and_then(|v| self.rqs[v].pull_task(&mut self.arena, &request, self.now));
        self.rqs[cpu].pull_done(self.now, moved.is_some());
        moved.is_some_and(|moved| {
            let kind = EnqueueKind::Migrated(moved);
            let rq = &mut self.rqs[cpu];
            rq.enqueue(&mut self.arena, moved.key(), kind, self.now)
                .is_needed()
        })
    }

    fn begin_poll(&mut self, cpu: usize, task: usize) {
        let mut plan = Plan::new(self.tasks[task].model, &mut self.rng);
        if self.is_winding_up {
            plan.wind_up();
        }
        let next = plan.next(&mut self.rng, self.fault == Fault::LookFirst);
        let thread = self.cpus[cpu].carrier;
        let state = &mut self.threads[thread];
        state.poll = Some(Poll { task, plan, next });
        (state.gate, state.gate_asked) = (0, false);
        state.note_away(self.now);
        self.arm(thread);
    }

    /// Passes `cpu` to the thread on which the poll of its task is parked.
    fn resume(&mut self, cpu: usize, parked: usize) {
        let carrier = self.cpus[cpu].carrier;
        let state = &mut self.threads[carrier];
        (state.role, state.gate) = (Role::Spare, 0);
        state.note_away(self.now);
        self.hand_over(cpu, parked, Handover::Resume);
    }

    fn hand_over(&mut self, cpu: usize, to: usize, what: Handover) {
        let state = &mut self.threads[to];
        (state.role, state.gate) = (Role::Carrying(cpu), 1);
        state.note_away(self.now);
        let state = &mut self.cpus[cpu];
        state.carrier = to;
        state.term += 1;
        state.handover = Some(what);
        state.ask = None;
        let at = self.now + self.rng.range(0, WAKE_NS);
        self.events.push(at, Event::Up(cpu, self.cpus[cpu].term));
    }

    /// The carrier of `cpu` has got up.
    pub(super) fn get_up(&mut self, cpu: usize) -> Result<(), Broken> {
        let outcome = match self.cpus[cpu].handover.take() {
            Some(Handover::Parked(_)) if self.fault == Fault::DropParked => Outcome::Blocked,
            Some(Handover::Parked(_)) => Outcome::Preempted,
            Some(Handover::Free(_)) => Outcome::Blocked,
            Some(Handover::Resume) => {
                let thread = self.cpus[cpu].carrier;
                let state = &mut self.threads[thread];
                (state.gate, state.gate_asked) = (0, false);
                state.note_away(self.now);
                if self.threads[thread].has_signal {
                    self.arrive(thread)?;
                }
                self.arm(thread);
                return Ok(());
            }
            None => return Ok(()),
        };
        self.rqs[cpu].put_prev(&mut self.arena, self.now, outcome);
        self.schedule(cpu)
    }

    /// Gives up the CPU of a thread that is in no section, as its task's level says.
    pub(super) fn give_up(&mut self, thread: usize, by_signal: bool) -> Result<(), Broken> {
        let asked = self.threads[thread].asked_term;
        let cpu = match (self.threads[thread].role, asked) {
            (_, Some((cpu, _))) if by_signal && self.fault == Fault::IgnoreTerm => cpu,
            (Role::Carrying(cpu), _) => cpu,
            _ => return Ok(()),
        };
        let is_stale = by_signal && asked != Some((cpu, self.cpus[cpu].term));
        let Some(task) = self.cpus[cpu].curr else {
            return Ok(());
        };
        if is_stale && self.fault != Fault::IgnoreTerm || self.cpus[cpu].handover.is_some() {
            return Ok(());
        }
        match self.tasks[task].level {
            Level::Off | Level::Lazy => Ok(()),
            Level::Handoff => self.pass_on(thread, cpu, Handover::Free(task), true),
            Level::Park => self.pass_on(thread, cpu, Handover::Parked(task), true),
        }
    }

    /// Passes `cpu` from `thread` to a spare one. The thread does it itself, by system calls, if
    /// `is_own`.
    pub(super) fn pass_on(
        &mut self,
        thread: usize,
        cpu: usize,
        what: Handover,
        is_own: bool,
    ) -> Result<(), Broken> {
        let Some(next) = self.take_spare() else {
            self.stats.refused += 1;
            // It is asked again at the next tick.
            self.cpus[cpu].ask = None;
            return Ok(());
        };
        self.check_delay(cpu)?;
        self.pause(thread);
        self.threads[thread].due_ns = 0;
        self.hand_over(cpu, next, what);
        if let Handover::Parked(task) = what {
            self.tasks[task].parked = Some(thread);
            self.stats.parked += 1;
            let state = &mut self.threads[thread];
            (state.role, state.gate) = (Role::Parked, 1);
            state.note_away(self.now);
            self.end_grant(thread);
            return Ok(());
        }
        self.stats.freed += 1;
        self.threads[thread].role = Role::Free;
        if is_own && self.end_grant(thread) {
            self.stall(thread);
        }
        self.arm(thread);
        Ok(())
    }

    fn take_spare(&mut self) -> Option<usize> {
        let spare = self.threads.iter().position(|t| t.role == Role::Spare);
        if spare.is_none() && self.fault == Fault::NoLimit {
            self.threads.push(Thread::new());
            return Some(self.threads.len() - 1);
        }
        spare
    }

    /// Lets a thread compute towards its next step, if nothing is in the way.
    pub(super) fn arm(&mut self, thread: usize) {
        self.pause(thread);
        let state = &self.threads[thread];
        let has_cpu = match state.role {
            Role::Carrying(cpu) => self.cpus[cpu].handover.is_none(),
            role => role == Role::Free,
        };
        let Some(poll) = state.poll.as_ref().filter(|_| has_cpu && !state.is_stalled) else {
            return;
        };
        let at = self.now + poll.next.0;
        let state = &mut self.threads[thread];
        state.runs_since = Some(self.now);
        self.events.push(at, Event::Step(thread, state.stamp));
    }

    /// Stops a thread where it is.
    pub(super) fn pause(&mut self, thread: usize) {
        let state = &mut self.threads[thread];
        state.stamp += 1;
        let Some(since) = state.runs_since.take() else {
            return;
        };
        if let Some(poll) = &mut state.poll {
            poll.next.0 = poll.next.0.saturating_sub(self.now - since);
        }
    }

    /// A thread has come to a step of its poll. Signals and interrupts like to come just before it.
    pub(super) fn step(&mut self, thread: usize) -> Result<(), Broken> {
        self.arm(thread);
        let stamp = self.threads[thread].stamp;
        if self.threads[thread].has_signal && self.rng.percent(30) {
            self.arrive(thread)?;
        } else if self.rng.percent(2) {
            self.interrupt(thread);
        }
        if self.threads[thread].stamp != stamp {
            return Ok(());
        }
        self.pause(thread);
        let look_first = self.fault == Fault::LookFirst;
        let Some(poll) = &mut self.threads[thread].poll else {
            return Ok(());
        };
        let (_, action) = poll.next;
        poll.next = match action {
            Action::End => (0, Action::End),
            _ => poll.plan.next(&mut self.rng, look_first),
        };
        self.act(thread, action)?;
        if self.threads[thread].runs_since.is_none() {
            self.arm(thread);
        }
        Ok(())
    }

    /// Ends a poll: its task goes where it wants, its thread takes the next task or is spare.
    pub(super) fn end_poll(&mut self, thread: usize) -> Result<(), Broken> {
        self.check_balance(thread)?;
        let Some(poll) = self.threads[thread].poll.take() else {
            return Ok(());
        };
        let task = poll.task;
        let is_leaving = |cpu: &super::machine::Cpu| cpu.handover == Some(Handover::Free(task));
        if self.cpus.iter().any(is_leaving) {
            // The queue still takes it to be running: wait for the new carrier.
            let next = (1_000, Action::End);
            self.threads[thread].poll = Some(Poll { next, ..poll });
            return Ok(());
        }
        let outcome = match poll.plan.then {
            _ if self.is_winding_up => Outcome::Exited,
            Then::Yield => Outcome::Yielded,
            Then::Sleep(ns) => {
                self.events.push(self.now + ns, Event::Wake(task));
                Outcome::Blocked
            }
        };
        self.tasks[task].is_done = outcome == Outcome::Exited;
        let state = &mut self.threads[thread];
        if let Role::Carrying(cpu) = state.role {
            (state.gate, state.gate_asked) = (1, false);
            state.note_away(self.now);
            self.rqs[cpu].put_prev(&mut self.arena, self.now, outcome);
            return self.schedule(cpu);
        }
        state.role = Role::Spare;
        match outcome {
            Outcome::Exited => self.forget(task),
            Outcome::Yielded => self.wake(task),
            _ => {}
        }
        Ok(())
    }

    /// Takes the remains of a task out of the queue in which it was delayed.
    fn forget(&mut self, task: usize) {
        let entity = self.arena.entity(task as u32);
        if entity.state() == TaskState::Delayed {
            let cpu = entity.cpu();
            self.rqs[cpu].dequeue(&mut self.arena, task as u32, self.now);
        }
    }

    /// Makes a task runnable that is not, and asks for the CPU whose place it takes.
    pub(super) fn wake(&mut self, task: usize) {
        if self.is_winding_up {
            self.tasks[task].is_done = true;
            return self.forget(task);
        }
        let entity = self.arena.entity(task as u32);
        let cpu = if entity.state() == TaskState::Delayed {
            entity.cpu()
        } else {
            let shared = |cpu: usize| &**self.rqs[cpu].shared();
            let random = self.rng.next_u64();
            balance::select_cpu(entity.cpu(), shared, self.rqs.len(), self.now, random)
        };
        let kind = match std::mem::take(&mut self.tasks[task].is_new) {
            true => EnqueueKind::New,
            false => EnqueueKind::Wakeup,
        };
        let rq = &mut self.rqs[cpu];
        let resched = rq.enqueue(&mut self.arena, task as u32, kind, self.now);
        let state = &self.cpus[cpu];
        let Some(curr) = state.curr.filter(|_| state.handover.is_none()) else {
            return;
        };
        if resched.is_needed() && self.tasks[curr].level == Level::Park {
            self.stats.wakeup_preemptions += 1;
            self.ask_for(cpu);
        }
    }
}
