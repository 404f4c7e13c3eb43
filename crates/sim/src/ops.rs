//! What happens to tasks and groups from outside: starts, wake-ups, live operations, and the
//! turns at the borders of the phases.

use crate::history::{Class, Op, TaskSpec};
use crate::machine::{Machine, Phase};
use crate::model::{Model, Then};
use crate::sched::{Kind, Outcome, Scheduler};
use crate::state::{Place, Task, slot};
use crate::trace::What;

/// Most tasks that a history may have, spawned ones included.
const MOST_TASKS: usize = 2_000;
/// CPU time that a task may use up before it ends in the last phase, in ns.
const WIND_UP_NS: u64 = 20_000;

impl<S: Scheduler> Machine<S> {
    /// Makes a task known and runnable for the first time.
    pub(crate) fn start_task(&mut self, task: usize) {
        if self.tasks[task].place != Place::Out || self.phase == Phase::Drain {
            return;
        }
        self.climb_to_existing(task);
        self.sched.create_task(task, &self.tasks[task].spec);
        self.make_runnable(task, Kind::New);
    }

    /// Lets a task whose group does not exist (yet, or any more) belong to the nearest group
    /// above that does.
    fn climb_to_existing(&mut self, task: usize) {
        let mut group = self.tasks[task].spec.group;
        while let Some(g) = group.filter(|&g| !self.is_group[g]) {
            group = self.history.groups[g].parent;
        }
        self.tasks[task].spec.group = group;
    }

    /// Wakes a task if it is blocked, and notes the wake-up if it runs.
    pub(crate) fn wake(&mut self, task: usize) {
        match self.tasks[task].place {
            Place::Blocked => self.make_runnable(task, Kind::Wakeup),
            Place::Running { .. } => self.tasks[task].is_woken = true,
            Place::Out | Place::Queued { .. } | Place::Dead => {}
        }
    }

    fn make_runnable(&mut self, task: usize, kind: Kind) {
        let is_idle: Vec<bool> = self
            .cpus
            .iter()
            .map(|c| c.curr.is_none() && c.waiting == 0)
            .collect();
        let random = self.rng.next_u64();
        let cpu = self.sched.select_cpu(task, &is_idle, self.now, random);
        self.tasks[task].sleep += 1;
        self.enqueue(cpu, task, kind);
        if let Some(account) = &mut self.account {
            account.change(&self.history, &self.tasks[task], task, 1);
        }
    }

    /// Enqueues on `cpu` and notes whether that asks for a switch.
    fn enqueue(&mut self, cpu: usize, task: usize, kind: Kind) {
        self.set_queued(task, cpu);
        let resched = self.sched.enqueue(cpu, task, kind, self.now);
        self.cpus[cpu].is_touched = true;
        self.cpus[cpu].needs_resched |= resched;
        self.trace.add(self.now, What::Enqueue(cpu, task, resched));
    }

    fn dequeue(&mut self, cpu: usize, task: usize) {
        self.cpus[cpu].waiting -= 1;
        self.cpus[cpu].is_touched = true;
        self.sched.dequeue(cpu, task, self.now);
        self.trace.add(self.now, What::Dequeue(cpu, task));
    }

    /// Books that a task waits on `cpu` from now on.
    pub(crate) fn set_queued(&mut self, task: usize, cpu: usize) {
        let since = self.now;
        self.tasks[task].place = Place::Queued { cpu, since };
        self.cpus[cpu].waiting += 1;
    }

    /// Books that a runnable task is so no more.
    pub(crate) fn set_blocked(&mut self, task: usize) {
        self.tasks[task].place = Place::Blocked;
        if let Some(account) = &mut self.account {
            account.change(&self.history, &self.tasks[task], task, -1);
        }
    }

    /// Books that a runnable task has ended.
    pub(crate) fn set_dead(&mut self, task: usize) {
        self.set_blocked(task);
        self.tasks[task].place = Place::Dead;
    }

    /// Starts a child of `parent` in its group.
    pub(crate) fn spawn_child(&mut self, parent: usize, run: u64, poll: u64) {
        if self.tasks.len() >= MOST_TASKS || self.phase == Phase::Drain {
            return;
        }
        let spec = TaskSpec {
            model: Model::Once { run, poll },
            ..self.tasks[parent].spec.clone()
        };
        let index = self.tasks.len();
        let child = Task::new(self.history.seed, index, spec, self.now);
        self.tasks.push(child);
        self.start_task(index);
    }

    /// Moves the task that runs on `cpu` and stays runnable into its new group.
    pub(crate) fn move_running(&mut self, cpu: usize, task: usize) {
        self.leave(cpu, Outcome::Blocked);
        self.set_blocked(task);
        self.move_blocked(task);
        self.make_runnable(task, Kind::Requeue);
    }

    fn move_blocked(&mut self, task: usize) {
        if let Some(group) = self.tasks[task].moves_to.take() {
            self.tasks[task].spec.group = group;
            self.climb_to_existing(task);
            self.sched.move_task(task, &self.tasks[task].spec, self.now);
        }
    }

    fn move_task(&mut self, task: usize, group: Option<usize>) {
        self.tasks[task].moves_to = Some(group);
        match self.tasks[task].place {
            Place::Out => {
                self.tasks[task].moves_to = None;
                self.tasks[task].spec.group = group;
            }
            Place::Blocked => self.move_blocked(task),
            Place::Queued { cpu, .. } => {
                self.dequeue(cpu, task);
                self.set_blocked(task);
                self.move_blocked(task);
                self.make_runnable(task, Kind::Requeue);
            }
            // It moves at the end of its step.
            Place::Running { .. } | Place::Dead => {}
        }
    }

    fn abort(&mut self, task: usize) {
        match self.tasks[task].place {
            Place::Out => self.tasks[task].place = Place::Dead,
            Place::Blocked => {
                self.sched.forget(task, self.now);
                self.tasks[task].place = Place::Dead;
            }
            Place::Queued { cpu, .. } => {
                self.dequeue(cpu, task);
                self.set_dead(task);
            }
            Place::Running { .. } => self.tasks[task].is_aborted = true,
            Place::Dead => {}
        }
    }

    fn change_task(&mut self, task: usize) {
        let state = &self.tasks[task];
        let cpu = match state.place {
            Place::Queued { cpu, .. } | Place::Running { cpu } => Some(cpu),
            Place::Blocked => None,
            Place::Out | Place::Dead => return,
        };
        let resched = self.sched.change_task(cpu, task, &state.spec, self.now);
        if let Some(cpu) = cpu {
            self.cpus[cpu].is_touched = true;
            self.cpus[cpu].needs_resched |= resched;
        }
    }

    fn create_group(&mut self, group: usize) {
        let spec = &self.history.groups[group];
        let has_parent = spec.parent.is_none_or(|p| self.is_group[p]);
        if !self.is_group[group] && has_parent {
            self.is_group[group] = true;
            self.sched.create_group(group, spec);
        }
    }

    /// Removes a group without children; its tasks go to the parent. Nothing happens while a
    /// task of it runs.
    fn remove_group(&mut self, group: usize) {
        let here = Some(group);
        let groups = self.history.groups.iter().zip(&self.is_group);
        let has_children = groups.into_iter().any(|(g, &is)| is && g.parent == here);
        let is_busy = self
            .cpus
            .iter()
            .any(|c| c.curr.is_some_and(|curr| curr.group == here));
        if !self.is_group[group] || has_children || is_busy {
            return;
        }
        let parent = self.history.groups[group].parent;
        for task in 0..self.tasks.len() {
            if self.tasks[task].is_live() && self.tasks[task].spec.group == here {
                self.move_task(task, parent);
            }
        }
        self.sched.remove_group(group);
        for cpu in &mut self.cpus {
            // A group that is created again starts from zero.
            cpu.charged_ns[slot(here)] = 0;
        }
        self.is_group[group] = false;
    }

    /// Lets operation `index` of the history strike.
    pub(crate) fn strike(&mut self, index: usize) {
        self.trace.add(self.now, What::Op(index));
        match self.history.ops[index].1 {
            Op::SetWeight { group, weight } => {
                self.history.groups[group].weight = weight;
                if self.is_group[group] {
                    self.sched.set_weight(group, weight, self.now);
                }
            }
            Op::SetNice { task, nice } => {
                self.tasks[task].spec.nice = nice;
                self.change_task(task);
            }
            Op::SetSlice { task, slice_ns } => {
                self.tasks[task].spec.slice_ns = Some(slice_ns);
                self.change_task(task);
            }
            Op::Move { task, group } => self.move_task(task, group),
            Op::Abort { task } => self.abort(task),
            Op::Wake { task } => self.wake(task),
            Op::CreateGroup { group } => self.create_group(group),
            Op::RemoveGroup { group } => self.remove_group(group),
        }
    }

    /// Turns every Fair task into a hog and lets the others wind up.
    pub(crate) fn turn_to_hogs(&mut self) {
        for task in 0..self.tasks.len() {
            let class = self.tasks[task].class(&self.history);
            if class == Class::Fair {
                self.tasks[task].player.turn_to_hog(self.history.poll_ns);
            } else {
                self.tasks[task].player.wind_up(WIND_UP_NS);
            }
            self.end_waiting(task);
        }
    }

    /// Lets every task end soon.
    pub(crate) fn wind_up(&mut self) {
        for task in 0..self.tasks.len() {
            self.tasks[task].player.wind_up(WIND_UP_NS);
            self.end_waiting(task);
        }
    }

    /// Makes sure that a task does not wait for somebody who will not come, and cuts a long step
    /// short where the task can be interrupted.
    fn end_waiting(&mut self, task: usize) {
        let state = &mut self.tasks[task];
        if let Some(step) = &mut state.step {
            step.then = Then::Yield;
            step.child_ns = None;
        }
        if state.spec.is_preemptible {
            let used = match state.place {
                Place::Running { cpu } => self.cpus[cpu].curr.map_or(0, |c| self.now - c.since),
                _ => 0,
            };
            state.left_ns = state.left_ns.min(used + WIND_UP_NS);
            if let Place::Running { cpu } = state.place {
                self.arm(cpu);
            }
        }
        self.wake(task);
    }
}
