//! The checkers: what must hold after every event, and at the end.
//!
//! After each event the tasks and the CPUs that it touched are checked, and everything after
//! every [`SPARSE`]th event; see there for what is left out in between.
//!
//! - *Counts*: each queue counts the tasks that the machine's books place there, and its own
//!   record of each task agrees: nothing is lost and nothing doubled. (That a picked task was
//!   waiting on that very CPU, and so runs on one CPU only, is checked at the pick.)
//! - *Work conservation*: while a CPU is idle and a task that could use it waits, the time is
//!   counted; it may not last longer than a kick takes.
//! - *Charges*: on each CPU, the time charged to each group is the time its tasks were there.
//! - *Starvation*: in the judged phase nobody waits longer than a bound that
//!   depends on its due rate.
//! - *Shares*: over each second of the judged phase each group has received its exact fluid
//!   service, and each task of a `Fair` group its part of it, within [`Bounds`].
//! - *Lag*: the core's own lag of each group stays within `Config::lag_limit_ns`, and its own
//!   sums agree ([`Scheduler::check_invariants`]).

use crate::account::{Sample, window_error};
use crate::history::Class;
use crate::machine::{Machine, Phase, SAMPLE_NS};
use crate::sched::Scheduler;
use crate::state::{Place, slot};
use crate::violation::Violation;

/// On machines up to this many tasks and CPUs all counts are checked after every event.
const DENSE: usize = 64;
/// Is the distance of full checks, in events. Between these, CPUs that nothing happened to, waits,
/// groups, and on larger machines the counts, are left out.
pub const SPARSE: u64 = 64;
/// Largest base slice of the core's configuration, in ns.
const BASE_SLICE_NS: u64 = 2_800_000;
/// Kicks that a waiting task may need: the CPU that is kicked for it may find a task of its own
/// first, and that another comes to the next one is bad luck enough.
const KICKS: u64 = 3;
/// Longest time to drain after all tasks were asked to end, in ns.
const DRAIN_NS: u64 = 60_000_000_000;

/// Bounds that depend on how exact the scheduler claims to be.
///
/// EEVDF keeps the lag of what it schedules within one turn `q` (a slice, or a poll that is
/// longer), so service over a window is off by at most `2 q`: for a task in its group, and for
/// each fragment of a group, that is on each CPU that it can use, `min(k, cpus)` for `k` tasks.
/// What the coordinator, pulling and the tree add is allowed for by the percentages.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Error of a group over 1 s of the judged phase, in % of one CPU.
    pub group_percent: f64,
    /// Turns per CPU that the group can use, and per task, that come on top.
    pub turns: u64,
    /// Relative error of a task's share of its `Fair` group over 1 s, in %.
    pub task_percent: f64,
    /// Idle time with waiting tasks, beyond the time of a kick, in ns without a break.
    pub idle_ns: u64,
}

impl Bounds {
    /// Bounds nothing but idle time: for measuring, and for schedulers that promise no shares.
    pub const UNJUDGED: Self = Self {
        group_percent: f64::INFINITY,
        turns: 0,
        task_percent: f64::INFINITY,
        idle_ns: 0,
    };
}

impl Default for Bounds {
    /// Returns what the core promises for random histories.
    fn default() -> Self {
        Self {
            group_percent: 2.0,
            turns: 2,
            task_percent: 5.0,
            idle_ns: 0,
        }
    }
}

impl<S: Scheduler> Machine<S> {
    /// Checks what must hold after event number `step`.
    pub(crate) fn check_step(&mut self, step: u64) -> Result<(), Violation> {
        self.check_work_conservation()?;
        if self.phase == Phase::Drain && self.now > self.drain_until() {
            return Err(Violation::NotDrained {
                left: self.tasks.iter().filter(|t| t.is_live()).count(),
                first: self.tasks.iter().position(|t| t.is_live()),
            });
        }
        let is_full = step.is_multiple_of(SPARSE);
        if is_full || self.tasks.len().max(self.cpus.len()) <= DENSE {
            self.check_counts()?;
        }
        if is_full {
            self.check_group_counts()?;
            self.check_waits()?;
        }
        for cpu in 0..self.cpus.len() {
            let is_touched = std::mem::take(&mut self.cpus[cpu].is_touched);
            if is_full || is_touched {
                self.check_charges(cpu)?;
                self.sched.check_invariants(cpu, self.now);
            }
        }
        Ok(())
    }

    fn drain_until(&self) -> u64 {
        let h = &self.history;
        h.busy_ns + h.settle_ns + h.judged_ns + DRAIN_NS
    }

    fn check_counts(&self) -> Result<(), Violation> {
        for (cpu, state) in self.cpus.iter().enumerate() {
            let counted = self.sched.nr_running(cpu);
            let expected = state.nr_running();
            if counted != expected {
                return Err(Violation::WrongCount {
                    cpu,
                    counted,
                    expected,
                });
            }
        }
        for (task, state) in self.tasks.iter().enumerate() {
            if state.is_live() && !self.sched.is_consistent(task, state.place) {
                let place = self.place_text(task);
                return Err(Violation::WrongState { task, place });
            }
        }
        Ok(())
    }

    /// Compares the counts of groups; a task that is still on the CPU of its last poll, and was
    /// woken elsewhere, counts on both.
    fn check_group_counts(&self) -> Result<(), Violation> {
        let mut expected = vec![0; self.is_group.len() + 1];
        for task in &self.tasks {
            if let Place::Queued { .. } = task.place {
                expected[slot(task.spec.group)] += 1;
            }
        }
        for curr in self.cpus.iter().filter_map(|c| c.curr) {
            expected[slot(curr.group)] += 1;
        }
        for (at, &expected) in expected.iter().enumerate() {
            let group = at.checked_sub(1);
            if group.is_some_and(|g| !self.is_group[g]) {
                continue;
            }
            let counted = self.sched.group_nr_running(group);
            if counted != expected {
                return Err(Violation::WrongGroupCount {
                    group,
                    counted,
                    expected,
                });
            }
        }
        Ok(())
    }

    /// Compares the charges of groups over all CPUs; nothing runs.
    fn check_group_charges(&self) -> Result<(), Violation> {
        for at in 0..=self.is_group.len() {
            let group = at.checked_sub(1);
            if group.is_some_and(|g| !self.is_group[g]) {
                continue;
            }
            let expected = self.cpus.iter().map(|c| c.charged_ns[at]).sum();
            let charged_ns = self.sched.group_usage_ns(group);
            if charged_ns != expected {
                return Err(Violation::WrongCharge {
                    cpu: None,
                    group,
                    charged_ns,
                    least_ns: expected,
                    most_ns: expected,
                });
            }
        }
        Ok(())
    }

    /// Looks for a CPU that has been idle, and a task that has waited, together for too long.
    fn check_work_conservation(&self) -> Result<(), Violation> {
        let idle = self
            .cpus
            .iter()
            .enumerate()
            .filter(|(_, c)| c.curr.is_none());
        let Some((cpu, state)) = idle.min_by_key(|(_, c)| c.idle_since) else {
            return Ok(());
        };
        if self.cpus.iter().all(|c| c.waiting == 0) {
            return Ok(());
        }
        let waits = self
            .tasks
            .iter()
            .enumerate()
            .filter_map(|(i, t)| match t.place {
                Place::Queued { since, .. } => Some((since, i)),
                _ => None,
            });
        let Some((since, task)) = waits.min() else {
            return Ok(());
        };
        let for_ns = self.now - since.max(state.idle_since);
        if for_ns <= KICKS * self.history.machine.kick_ns + self.bounds.idle_ns {
            return Ok(());
        }
        Err(Violation::IdleWhileWaiting { cpu, task, for_ns })
    }

    /// Compares the charges of a CPU by group. The scheduler may have charged the running task up
    /// to any instant since it was picked.
    fn check_charges(&self, cpu: usize) -> Result<(), Violation> {
        let state = &self.cpus[cpu];
        for (at, &least) in state.charged_ns.iter().enumerate() {
            let group = at.checked_sub(1);
            if group.is_some_and(|g| !self.is_group[g]) {
                continue;
            }
            let curr = state.curr.filter(|c| c.group == group);
            let open = curr.map_or(0, |c| self.now - c.since);
            let charged = self.sched.usage_ns(cpu, group);
            if charged < least || charged > least + open {
                return Err(Violation::WrongCharge {
                    cpu: Some(cpu),
                    group,
                    charged_ns: charged,
                    least_ns: least,
                    most_ns: least + open,
                });
            }
        }
        Ok(())
    }

    /// Bounds the wait of a task in the judged phase.
    ///
    /// A task that is due the rate `r` receives one turn of length `q` (poll or slice) within
    /// about `q / r`; the bound is ten times that, and half a second for the settling of lags.
    fn wait_bound(&self, task: usize) -> u64 {
        let is_live = |task: usize| self.tasks[task].is_live();
        let quantum = self.longest_turn(self.tasks[task].spec.group, is_live);
        let rate = self
            .account
            .as_ref()
            .map_or(0.0, |a| a.rate(&self.tasks[task], task));
        500_000_000 + (10.0 * quantum as f64 / rate.max(1e-6)) as u64
    }

    fn check_waits(&self) -> Result<(), Violation> {
        if self.phase != Phase::Judged || self.history.keeps_models {
            return Ok(());
        }
        for (index, task) in self.tasks.iter().enumerate() {
            let Place::Queued { since, .. } = task.place else {
                continue;
            };
            let waited_ns = self.now - since;
            // The bound itself is costly: skip it for the waits that no bound forbids.
            if waited_ns < 500_000_000 || task.class(&self.history) != Class::Fair {
                continue;
            }
            let bound_ns = self.wait_bound(index);
            if waited_ns > bound_ns {
                return Err(Violation::Starved {
                    task: index,
                    waited_ns,
                    bound_ns,
                });
            }
        }
        Ok(())
    }

    /// Checks the judged phase, and that nothing is left at the end.
    pub(crate) fn check_end(&self) -> Result<(), Violation> {
        self.check_counts()?;
        self.check_group_counts()?;
        for cpu in 0..self.cpus.len() {
            self.check_charges(cpu)?;
        }
        self.check_group_charges()?;
        let samples = self.account.as_ref().map_or(&[][..], |a| a.samples());
        let span = (1_000_000_000 / SAMPLE_NS) as usize;
        if self.bounds.group_percent.is_infinite() {
            return Ok(());
        }
        for pair in samples.windows(span + 1) {
            self.check_shares(&pair[0], &pair[span])?;
            self.check_task_shares(&pair[0], &pair[span])?;
        }
        Ok(())
    }

    fn check_shares(&self, a: &Sample, b: &Sample) -> Result<(), Violation> {
        let percent = self.bounds.group_percent / 100.0;
        let floor_ns = ((b.at - a.at) as f64 * percent) as u64;
        let turn_ns = BASE_SLICE_NS.max(self.history.poll_ns);
        for at in 0..b.due_ns.len() {
            let fragments = b.runnable[at].min(self.cpus.len() as u64);
            let bound_ns = floor_ns + self.bounds.turns * fragments * turn_ns;
            let due_ns = b.due_ns[at] - a.due_ns[at];
            let got_ns = b.service_ns[at] - a.service_ns[at];
            if got_ns.abs_diff(due_ns) > bound_ns {
                return Err(Violation::Lag {
                    group: at.checked_sub(1),
                    got_ns,
                    due_ns,
                    bound_ns,
                });
            }
        }
        Ok(())
    }

    /// Returns the longest turn that one of the tasks of `group` that `counts` says has, in ns.
    fn longest_turn(&self, group: Option<usize>, counts: impl Fn(usize) -> bool) -> u64 {
        let tasks = self.tasks.iter().enumerate();
        let here = tasks.filter(|&(task, t)| t.spec.group == group && counts(task));
        let slices = here.filter_map(|(_, t)| t.spec.slice_ns).map(u64::from);
        let longest = slices.max().unwrap_or(0);
        longest.max(self.history.poll_ns).max(BASE_SLICE_NS)
    }

    /// Checks tasks of `Fair` groups: the bound is a part of what was due, and turns of the task
    /// with the longest slice in the group.
    fn check_task_shares(&self, a: &Sample, b: &Sample) -> Result<(), Violation> {
        for (task, due) in b.task_due_ns.iter().enumerate() {
            let Some(due) = due else {
                continue;
            };
            let before = a.task_due_ns.get(task).copied().flatten().unwrap_or(0);
            let due_ns = due - before;
            let got_ns = b.ran_ns[task] - a.ran_ns.get(task).copied().unwrap_or(0);
            let percent = self.bounds.task_percent / 100.0;
            // Those that were due service in the window: by now, they have exited.
            let was_due = |task: usize| a.task_due_ns.get(task) != b.task_due_ns.get(task);
            let turn = self.longest_turn(self.tasks[task].spec.group, was_due);
            let bound = (due_ns as f64 * percent) as u64 + self.bounds.turns * turn;
            if got_ns.abs_diff(due_ns) > bound {
                return Err(Violation::TaskShare {
                    task,
                    got_ns,
                    due_ns,
                });
            }
        }
        Ok(())
    }
}

/// Returns the errors over 100 ms and 1 s windows of the judged phase.
pub fn errors<S: Scheduler>(machine: &Machine<S>) -> [crate::account::WindowError; 2] {
    let samples = machine.account.as_ref().map_or(&[][..], |a| a.samples());
    let span = (1_000_000_000 / SAMPLE_NS) as usize;
    [1, span].map(|n| window_error(samples, n, n as u64 * SAMPLE_NS / 100))
}
