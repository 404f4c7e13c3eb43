//! What a CPU does: pick, run, interrupt, put back, pull.

use crate::machine::{Event, Machine};
use crate::model::Then;
use crate::sched::{Outcome, Pick, Pulled, Scheduler};
use crate::state::{Curr, Place, slot};
use crate::trace::What;
use crate::violation::Violation;

/// Longest time for which the last poll of a task that was woken elsewhere stays on its CPU.
const GHOST_NS: u64 = 2_000;

impl<S: Scheduler> Machine<S> {
    /// Gives `cpu`, which runs nothing, its next task.
    pub(crate) fn schedule(&mut self, cpu: usize) -> Result<(), Violation> {
        self.cpus[cpu].stamp += 1;
        self.cpus[cpu].is_touched = true;
        self.cpus[cpu].needs_resched = false;
        self.pull(cpu)?;
        let mut pick = self.sched.pick(cpu, self.now);
        if pick.is_none() {
            let waiting = self.cpus[cpu].waiting;
            if waiting > 0 {
                return Err(Violation::Lost { cpu, waiting });
            }
            if self.pull(cpu)?.is_some() {
                pick = self.sched.pick(cpu, self.now);
            }
        }
        match pick {
            Some(pick) => self.run_task(cpu, pick),
            None => {
                self.trace.add(self.now, What::Idle(cpu));
                Ok(())
            }
        }
    }

    /// Lets the scheduler pull a task to `cpu`; returns what it moved.
    fn pull(&mut self, cpu: usize) -> Result<Option<Pulled>, Violation> {
        let random = self.rng.next_u64();
        let Some(pulled) = self.sched.pull(cpu, self.now, random) else {
            return Ok(None);
        };
        let task = pulled.task;
        let place = self.tasks.get(task).map(|t| t.place);
        let Some(Place::Queued { cpu: from, since }) = place else {
            let place = self.place_text(task);
            return Err(Violation::WrongPull { cpu, task, place });
        };
        self.trace.add(self.now, What::Pull(cpu, task, from));
        self.stats.migrations += u64::from(from != cpu);
        self.cpus[from].waiting -= 1;
        self.cpus[from].is_touched = true;
        self.cpus[cpu].waiting += 1;
        self.tasks[task].place = Place::Queued { cpu, since };
        Ok(Some(pulled))
    }

    fn run_task(&mut self, cpu: usize, pick: Pick) -> Result<(), Violation> {
        let Pick { task, slice_end } = pick;
        let place = self.tasks.get(task).map(|t| t.place);
        let since = match place {
            Some(Place::Queued { cpu: on, since }) if on == cpu => since,
            _ => {
                let place = self.place_text(task);
                return Err(Violation::WrongPick { cpu, task, place });
            }
        };
        self.trace.add(self.now, What::Run(cpu, task, slice_end));
        self.stats.picked(self.now - since);
        let n_tasks = self.tasks.len();
        let state = &mut self.tasks[task];
        state.place = Place::Running { cpu };
        if state.step.is_none() {
            let step = state.player.next_step(self.now, n_tasks);
            state.left_ns = step.run_ns;
            state.step = Some(step);
        }
        let group = state.spec.group;
        let here = &mut self.cpus[cpu];
        here.waiting -= 1;
        here.curr = Some(Curr {
            task,
            since: self.now,
            group,
            slice_end,
            is_ghost: false,
        });
        self.arm(cpu);
        self.start_ticking(cpu);
        Ok(())
    }

    /// Sets the next event of a CPU that runs a task: end of the step, or of the slice where
    /// the task can be interrupted.
    pub(crate) fn arm(&mut self, cpu: usize) {
        let Some(curr) = self.cpus[cpu].curr else {
            return;
        };
        let task = &self.tasks[curr.task];
        let mut at = curr.since + task.left_ns;
        if task.spec.is_preemptible && curr.slice_end > self.now {
            at = at.min(curr.slice_end);
        }
        self.cpus[cpu].stamp += 1;
        self.events.push(at, Event::Cpu(cpu, self.cpus[cpu].stamp));
    }

    fn start_ticking(&mut self, cpu: usize) {
        let period = self.history.machine.tick_ns;
        if period > 0 && !self.cpus[cpu].is_ticking {
            self.cpus[cpu].is_ticking = true;
            // Ticks keep their grid and are staggered over the CPUs.
            let offset = period * cpu as u64 / self.cpus.len() as u64;
            let next = (self.now + period - offset) / period * period + offset;
            self.events.push(next.max(self.now + 1), Event::Tick(cpu));
        }
    }

    /// Handles a CPU's periodic tick, which ends when the CPU is idle.
    ///
    /// A CPU asks for a pull at its switches. While a task that can be interrupted runs alone there
    /// is none, so it asks here, as the runtime's monitor does.
    pub(crate) fn tick(&mut self, cpu: usize) -> Result<(), Violation> {
        self.cpus[cpu].is_ticking = false;
        let Some(curr) = self.cpus[cpu].curr else {
            return Ok(());
        };
        self.start_ticking(cpu);
        let can_stop = self.tasks[curr.task].spec.is_preemptible && !curr.is_ghost;
        if self.history.machine.ticks_polls || can_stop {
            self.cpus[cpu].is_touched = true;
            self.cpus[cpu].needs_resched |= self.sched.tick(cpu, self.now);
        }
        if can_stop
            && self.cpus[cpu].waiting == 0
            && !self.cpus[cpu].needs_resched
            && let Some(pulled) = self.pull(cpu)?
        {
            self.cpus[cpu].needs_resched |= pulled.is_next;
        }
        Ok(())
    }

    /// Handles the end of a step, of a slice, or of a ghost's stay.
    pub(crate) fn cpu_event(&mut self, cpu: usize) -> Result<(), Violation> {
        let Some(curr) = self.cpus[cpu].curr else {
            return Ok(());
        };
        if curr.is_ghost {
            self.leave(cpu, Outcome::Blocked);
            return self.schedule(cpu);
        }
        if curr.since + self.tasks[curr.task].left_ns <= self.now {
            return self.end_step(cpu, curr);
        }
        self.cpus[cpu].needs_resched |= self.sched.tick(cpu, self.now);
        self.cpus[cpu].is_touched = true;
        self.cpus[cpu].stamp += 1;
        let stamp = self.cpus[cpu].stamp;
        let end = curr.since + self.tasks[curr.task].left_ns;
        self.events.push(end, Event::Cpu(cpu, stamp));
        Ok(())
    }

    fn end_step(&mut self, cpu: usize, curr: Curr) -> Result<(), Violation> {
        let task = curr.task;
        let step = self.tasks[task].step.take().expect("a step is under way");
        if let Some(run_ns) = step.child_ns {
            self.spawn_child(task, run_ns, step.run_ns);
        }
        if let Some(other) = step.wakes.filter(|&o| o != task) {
            self.wake(other);
        }
        let state = &mut self.tasks[task];
        let is_woken = std::mem::take(&mut state.is_woken);
        let then = match step.then {
            _ if state.is_aborted => Then::Exit,
            Then::SleepUntil(at) if at <= self.now => {
                if self.wake_early(cpu, task) {
                    return Ok(());
                }
                Then::Yield
            }
            Then::SleepUntil(_) | Then::Wait if is_woken => Then::Yield,
            then => then,
        };
        match then {
            Then::Yield if self.tasks[task].moves_to.is_some() => self.move_running(cpu, task),
            Then::Yield => {
                self.leave(cpu, Outcome::Yielded);
                self.set_queued(task, cpu);
            }
            Then::SleepUntil(at) => {
                self.leave(cpu, Outcome::Blocked);
                self.set_blocked(task);
                self.tasks[task].sleep += 1;
                let sleep = self.tasks[task].sleep;
                self.events.push(at, Event::Timer(task, sleep));
            }
            Then::Wait => {
                self.leave(cpu, Outcome::Blocked);
                self.set_blocked(task);
            }
            Then::Exit => {
                self.leave(cpu, Outcome::Exited);
                self.set_dead(task);
            }
        }
        self.schedule(cpu)
    }

    /// Plays a task that blocks for no time: mostly it just stays runnable; a task of a queue
    /// that allows it may be woken, on any CPU, before its last poll is put back here. Tells
    /// whether that happened.
    fn wake_early(&mut self, cpu: usize, task: usize) -> bool {
        let is_possible = !self.tasks[task].is_fair_ordered(&self.history)
            && self.tasks[task].moves_to.is_none()
            && self.rng.percent(self.history.machine.early_wake_percent);
        if !is_possible {
            return false;
        }
        if let Some(curr) = &mut self.cpus[cpu].curr {
            curr.is_ghost = true;
        }
        self.set_blocked(task);
        self.wake(task);
        self.cpus[cpu].stamp += 1;
        let stamp = self.cpus[cpu].stamp;
        let at = self.now + self.rng.range(1, GHOST_NS);
        self.events.push(at, Event::Cpu(cpu, stamp));
        true
    }

    /// Takes the task off `cpu` and books its time; its new place is up to the caller.
    pub(crate) fn leave(&mut self, cpu: usize, outcome: Outcome) {
        let curr = self.cpus[cpu].curr.take().expect("a task runs");
        let why = match outcome {
            Outcome::Preempted => "preempted",
            Outcome::Yielded => "yields",
            Outcome::Blocked => "blocks",
            Outcome::Exited => "exits",
        };
        self.trace.add(self.now, What::Stop(cpu, curr.task, why));
        let used = self.now - curr.since;
        self.cpus[cpu].charged_ns[slot(curr.group)] += used;
        self.service_ns[slot(curr.group)] += used;
        let task = &mut self.tasks[curr.task];
        task.ran_ns += used;
        if !curr.is_ghost {
            task.left_ns = task.left_ns.saturating_sub(used);
        }
        self.cpus[cpu].idle_since = self.now;
        self.cpus[cpu].is_touched = true;
        self.cpus[cpu].stamp += 1;
        self.stats.switches += 1;
        self.sched.put(cpu, curr.task, outcome, self.now);
    }

    /// Interrupts the tasks that should make way and can.
    pub(crate) fn resched_all(&mut self) -> Result<(), Violation> {
        for cpu in 0..self.cpus.len() {
            if std::mem::take(&mut self.cpus[cpu].needs_resched) {
                self.preempt(cpu)?;
            }
        }
        Ok(())
    }

    fn preempt(&mut self, cpu: usize) -> Result<(), Violation> {
        let Some(curr) = self.cpus[cpu].curr else {
            return Ok(());
        };
        let task = &self.tasks[curr.task];
        let is_at_end = curr.since + task.left_ns <= self.now;
        if curr.is_ghost || is_at_end || !task.spec.is_preemptible {
            return Ok(());
        }
        self.leave(cpu, Outcome::Preempted);
        self.set_queued(curr.task, cpu);
        self.schedule(cpu)
    }
}
