//! A scheduler whose features and keys are switched all the time: at any call, with tasks queued
//! and running, in any state.
//!
//! What holds under every setting must hold: nothing is lost or doubled, counts and charges agree,
//! no CPU idles beside a waiting task, and at the end no reference to a key is left
//! ([`check_balance`]). Shares and latencies depend on the features and are not claimed.
//!
//! Features and keys belong to the whole process: one flipping run at a time, or its choices would
//! not be a function of its seed.

use evenkeel_core::features::{self, FEATURES};
use evenkeel_core::keys::{self, Hold, KEYS};

use crate::history::{Class, GroupSpec, TaskSpec};
use crate::rng::Rng;
use crate::sched::{Kind, Outcome, Pick, Pulled, Scheduler};
use crate::state::Place;

/// Which of the sequences of a seed decides about flips.
const FORK: u64 = 3;

/// Calls between two flips, on average.
const FLIP_EVERY: u64 = 16;

/// References to one key that are held at most at a time.
const MAX_HOLDS: usize = 3;

/// Does what `inner` does, and flips a feature or a key before some of the calls.
#[derive(Debug)]
pub struct Flipping<S> {
    inner: S,
    rng: Rng,
    /// Whether each task has the real-time class, until it has ended.
    is_real_time: Vec<bool>,
    /// Class of each group.
    classes: Vec<Class>,
    holds: Vec<Hold>,
    is_careless: bool,
}

impl<S> Flipping<S> {
    /// Wraps `inner`; `seed` decides about the flips. Features and keys start at their defaults.
    pub fn new(inner: S, seed: u64) -> Self {
        restore();
        Self {
            inner,
            rng: Rng::fork(seed, FORK),
            is_real_time: Vec::new(),
            classes: Vec::new(),
            holds: Vec::new(),
            is_careless: false,
        }
    }

    /// As [`Flipping::new`], but also turns the key of the real-time class off while there are
    /// tasks of it: the control that must fail.
    pub fn careless(inner: S, seed: u64) -> Self {
        let mut flipping = Self::new(inner, seed);
        flipping.is_careless = true;
        flipping
    }

    fn flip(&mut self) {
        if self.rng.below(FLIP_EVERY) > 0 {
            return;
        }
        match self.rng.below(8) {
            0 if self.holds.len() < MAX_HOLDS => {
                let key = *self.rng.pick(KEYS);
                if key.is_compiled() {
                    self.holds.push(key.hold().expect("no site is armed"));
                }
            }
            0 | 1 if !self.holds.is_empty() => {
                let at = self.rng.below(self.holds.len() as u64) as usize;
                drop(self.holds.swap_remove(at));
            }
            0..=2 => {
                if self.is_careless || !self.is_real_time.contains(&true) {
                    keys::REALTIME.disable().expect("no site is armed");
                }
            }
            _ => {
                let feature = self.rng.pick(FEATURES);
                let no = if feature.is_on() { "NO_" } else { "" };
                let text = format!("{no}{}", feature.name());
                features::set(&text).expect("no site is armed");
            }
        }
    }

    /// Takes note of a task's class: the core turns the key on when it sees it.
    fn note(&mut self, task: usize, spec: &TaskSpec) {
        let inherited = spec.group.map(|group| self.classes[group]);
        let class = spec.class.or(inherited).unwrap_or(Class::Fair);
        let size = self.is_real_time.len().max(task + 1);
        self.is_real_time.resize(size, false);
        self.is_real_time[task] = matches!(class, Class::RealTime { .. });
    }
}

impl<S> Drop for Flipping<S> {
    fn drop(&mut self) {
        self.holds.clear();
        restore();
    }
}

/// Puts all features back to their defaults and turns off the keys that were turned on for good.
fn restore() {
    for feature in FEATURES {
        let no = if feature.default() { "" } else { "NO_" };
        features::set(&format!("{no}{}", feature.name())).expect("no site is armed");
    }
    keys::REALTIME.disable().expect("no site is armed");
}

/// Checks that no key is referred to after a run.
///
/// # Errors
/// The names of the keys that are.
pub fn check_balance() -> Result<(), String> {
    let held = KEYS.iter().filter(|key| key.references() > 0);
    let names: Vec<&str> = held.map(|key| key.name()).collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(format!("references are left to keys: {}", names.join(", ")))
}

impl<S: Scheduler> Scheduler for Flipping<S> {
    fn create_group(&mut self, group: usize, spec: &GroupSpec) {
        let size = self.classes.len().max(group + 1);
        self.classes.resize(size, Class::Fair);
        self.classes[group] = spec.class;
        self.flip();
        self.inner.create_group(group, spec);
    }

    fn remove_group(&mut self, group: usize) {
        self.flip();
        self.inner.remove_group(group);
    }

    fn set_weight(&mut self, group: usize, weight: u32, now: u64) {
        self.flip();
        self.inner.set_weight(group, weight, now);
    }

    fn create_task(&mut self, task: usize, spec: &TaskSpec) {
        self.flip();
        self.note(task, spec);
        self.inner.create_task(task, spec);
    }

    fn change_task(&mut self, cpu: Option<usize>, task: usize, spec: &TaskSpec, now: u64) -> bool {
        self.flip();
        self.note(task, spec);
        self.inner.change_task(cpu, task, spec, now)
    }

    fn move_task(&mut self, task: usize, spec: &TaskSpec, now: u64) {
        self.flip();
        self.note(task, spec);
        self.inner.move_task(task, spec, now);
    }

    fn select_cpu(&mut self, task: usize, is_idle: &[bool], now: u64, random: u64) -> usize {
        self.flip();
        self.inner.select_cpu(task, is_idle, now, random)
    }

    fn enqueue(&mut self, cpu: usize, task: usize, kind: Kind, now: u64) -> bool {
        self.flip();
        self.inner.enqueue(cpu, task, kind, now)
    }

    fn dequeue(&mut self, cpu: usize, task: usize, now: u64) {
        self.flip();
        self.inner.dequeue(cpu, task, now);
    }

    fn forget(&mut self, task: usize, now: u64) {
        self.flip();
        self.inner.forget(task, now);
        self.is_real_time[task] = false;
    }

    fn pick(&mut self, cpu: usize, now: u64) -> Option<Pick> {
        self.flip();
        self.inner.pick(cpu, now)
    }

    fn put(&mut self, cpu: usize, task: usize, outcome: Outcome, now: u64) {
        self.flip();
        self.inner.put(cpu, task, outcome, now);
        if outcome == Outcome::Exited {
            self.is_real_time[task] = false;
        }
    }

    fn tick(&mut self, cpu: usize, now: u64) -> bool {
        self.flip();
        self.inner.tick(cpu, now)
    }

    fn coordinate(&mut self, now: u64) {
        self.flip();
        self.inner.coordinate(now);
    }

    fn pull(&mut self, cpu: usize, now: u64, random: u64) -> Option<Pulled> {
        self.flip();
        self.inner.pull(cpu, now, random)
    }

    fn nr_running(&self, cpu: usize) -> usize {
        self.inner.nr_running(cpu)
    }

    fn usage_ns(&self, cpu: usize, group: Option<usize>) -> u64 {
        self.inner.usage_ns(cpu, group)
    }

    fn group_nr_running(&self, group: Option<usize>) -> usize {
        self.inner.group_nr_running(group)
    }

    fn group_usage_ns(&self, group: Option<usize>) -> u64 {
        self.inner.group_usage_ns(group)
    }

    fn is_consistent(&self, task: usize, place: Place) -> bool {
        self.inner.is_consistent(task, place)
    }

    fn check_invariants(&self, cpu: usize, now: u64) {
        self.inner.check_invariants(cpu, now);
    }
}
