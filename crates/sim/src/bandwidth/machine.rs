//! CPUs, clock and tasks around the core.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use evenkeel_core::{
    Arena, Bandwidth, Class, Config, Domain, DomainShared, EnqueueKind, Entity, GroupId,
    GroupParams, Outcome, RunQueue, TaskParams, TaskState, VecArena, balance,
};

use super::book::Book;
use crate::rng::Rng;

const TICK_NS: u64 = 1_000_000;

/// Runtime that a throttled task may have beside an idle CPU: less is on its way.
const ENOUGH_NS: i64 = 200_000;

/// How long it may have it, in ns.
const STUCK_NS: u64 = 2_000_000;

/// What a task does.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// Length of a step in ns.
    pub run_ns: u64,
    /// Sleep after each step; 0: none.
    pub sleep_ns: u64,
    /// Whether it can be interrupted inside a step.
    pub is_preemptible: bool,
    /// Its class.
    pub class: Class,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// End of a step or slice: CPU, stamp.
    Cpu(usize, u64),
    Wake(u32),
    Tick,
    Refill,
}

/// A careless driver, to prove that the checks can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// None.
    None,
    /// Removes and sets each quota again at every tick, which gives a fresh one each time.
    FreshQuota,
    /// Never refills.
    NoRefill,
}

struct Task {
    model: Model,
    group: usize,
    left_ns: u64,
}

#[derive(Default)]
struct Cpu {
    curr: Option<u32>,
    since: u64,
    stamp: u64,
    slice_end: u64,
    is_stuck_since: Option<u64>,
}

/// A group and its books.
pub struct Group {
    /// Its identifier; `None`: it does not exist at present.
    pub id: Option<GroupId>,
    /// Index of its parent, 0 being the root, which has none.
    pub parent: Option<usize>,
    /// Books while it has a quota.
    pub book: Option<Book>,
    /// Time that its own tasks have run, real-time ones included.
    used_ns: u64,
}

/// A virtual machine with capped groups.
pub struct Machine {
    /// Virtual time in ns.
    pub now: u64,
    /// The groups, parents before children, the root first.
    pub groups: Vec<Group>,
    /// The hierarchy.
    pub domain: Domain,
    /// What the driver does wrong.
    pub fault: Fault,
    /// Most runtime that a CPU held which did not run the group, in ns.
    pub stranded_ns: u64,
    /// Refills and switches so far.
    pub refills: u64,
    /// See `refills`.
    pub switches: u64,
    shared: Arc<DomainShared>,
    arena: VecArena,
    rqs: Vec<RunQueue<VecArena>>,
    tasks: Vec<Task>,
    cpus: Vec<Cpu>,
    events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    kinds: Vec<Event>,
    refill_at: u64,
    rng: Rng,
    steps: u64,
}

impl Machine {
    /// Makes a machine with the root group alone.
    pub fn new(cpus: usize, seed: u64) -> Self {
        let config = Config::for_cpus(cpus);
        let domain = Domain::new(cpus, config.clone());
        let mut machine = Machine {
            now: 0,
            groups: Vec::new(),
            shared: domain.shared(),
            domain,
            fault: Fault::None,
            stranded_ns: 0,
            refills: 0,
            switches: 0,
            arena: VecArena::new(),
            rqs: (0..cpus)
                .map(|cpu| RunQueue::new(cpu, cpus, config.clone()))
                .collect(),
            tasks: Vec::new(),
            cpus: (0..cpus).map(|_| Cpu::default()).collect(),
            events: BinaryHeap::new(),
            kinds: Vec::new(),
            refill_at: u64::MAX,
            rng: Rng::fork(seed, 7),
            steps: 0,
        };
        machine.attach(GroupId::ROOT);
        machine.groups.push(Group {
            id: Some(GroupId::ROOT),
            parent: None,
            book: None,
            used_ns: 0,
        });
        machine.push(TICK_NS, Event::Tick);
        machine
    }

    fn push(&mut self, at: u64, event: Event) {
        self.kinds.push(event);
        self.events
            .push(Reverse((at, self.steps, self.kinds.len() - 1)));
        self.steps += 1;
    }

    fn attach(&mut self, id: GroupId) {
        for rq in &mut self.rqs {
            rq.attach(self.domain.leaf(id).expect("the group exists"));
        }
    }

    /// Returns the number of CPUs.
    pub fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }

    /// Returns the number of tasks.
    pub fn nr_tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Creates a group below group `parent`, or creates group `group` again.
    pub fn create_group(&mut self, group: usize, parent: usize, params: GroupParams) {
        let above = self.groups[parent].id.expect("the parent exists");
        let id = self.domain.create(above, params).expect("valid settings");
        self.attach(id);
        let made = Group {
            id: Some(id),
            parent: Some(parent),
            book: None,
            used_ns: 0,
        };
        match self.groups.get_mut(group) {
            Some(place) => *place = made,
            None => self.groups.push(made),
        }
    }

    /// Sets, changes or removes a quota.
    pub fn set_bandwidth(&mut self, group: usize, limit: Bandwidth) {
        let id = self.groups[group].id.expect("the group exists");
        self.domain
            .set_bandwidth(id, limit, self.now)
            .expect("valid, and the key can be flipped");
        let next = self.domain.next_period(id);
        let book = &mut self.groups[group].book;
        *book = match (book.take(), next) {
            (Some(mut book), Some(_)) => {
                book.change(limit, self.now);
                Some(book)
            }
            (None, Some(next)) => Some(Book::new(limit, next)),
            (_, None) => None,
        };
    }

    /// Adds a task that becomes runnable now.
    pub fn spawn(&mut self, group: usize, model: Model) {
        let params = TaskParams {
            class: model.class,
            ..TaskParams::default()
        };
        params.check().expect("valid settings");
        let id = self.groups[group].id.expect("the group exists");
        let key = self.arena.insert(Entity::new(id, params));
        self.tasks.push(Task {
            model,
            group,
            left_ns: model.run_ns,
        });
        self.enqueue(key, EnqueueKind::New);
    }

    fn enqueue(&mut self, key: u32, kind: EnqueueKind<u32>) {
        let n = self.rqs.len();
        let entity = self.arena.entity(key);
        let prev = entity.cpu();
        let cpu = if entity.state() == TaskState::Delayed {
            prev
        } else {
            let shared = |cpu: usize| &**self.rqs[cpu].shared();
            balance::select_cpu(prev, shared, n, self.now, self.rng.next_u64())
        };
        let resched = self.rqs[cpu].enqueue(&mut self.arena, key, kind, self.now);
        if resched.is_needed() {
            self.preempt(cpu);
        }
    }

    /// Moves a task that does not run to another group. Returns whether it did.
    pub fn move_task(&mut self, task: usize, group: usize) -> bool {
        let key = task as u32;
        let Some(id) = self.groups[group].id else {
            return false;
        };
        if self.cpus.iter().any(|cpu| cpu.curr == Some(key)) {
            return false;
        }
        let entity = self.arena.entity(key);
        let (state, cpu) = (entity.state(), entity.cpu());
        if matches!(state, TaskState::Queued | TaskState::Delayed) {
            self.rqs[cpu].dequeue(&mut self.arena, key, self.now);
        }
        self.arena.entity_mut(key).set_group(id);
        self.tasks[task].group = group;
        if state == TaskState::Queued {
            self.enqueue(key, EnqueueKind::Requeue);
        }
        true
    }

    /// Removes a group without children; its tasks go to the parent. Returns whether it did.
    pub fn remove_group(&mut self, group: usize) -> bool {
        let (Some(id), Some(parent)) = (self.groups[group].id, self.groups[group].parent) else {
            return false;
        };
        let has_child = |g: &Group| g.id.is_some() && g.parent == Some(group);
        if self.groups.iter().any(has_child) {
            return false;
        }
        for task in 0..self.tasks.len() {
            if self.tasks[task].group == group && !self.move_task(task, parent) {
                return false;
            }
        }
        for rq in &mut self.rqs {
            rq.detach(id).expect("the group has no tasks");
        }
        self.domain.remove(id).expect("the group is empty");
        self.groups[group].id = None;
        self.groups[group].book = None;
        true
    }

    /// Charges a group for time outside of a pick.
    pub fn charge_outside(&mut self, group: usize, ns: u64) {
        let Some(id) = self.groups[group].id else {
            return;
        };
        let cpu = self.rng.below(self.cpus.len() as u64) as usize;
        self.rqs[cpu].charge_outside(id, ns, self.now);
        self.groups[group].used_ns += ns;
        self.for_path(group, |book| book.add_outside(ns));
    }

    fn for_path(&mut self, group: usize, mut act: impl FnMut(&mut Book)) {
        let mut at = Some(group);
        while let Some(group) = at {
            if let Some(book) = &mut self.groups[group].book {
                act(book);
            }
            at = self.groups[group].parent;
        }
    }

    /// Runs until `to`.
    ///
    /// # Errors
    /// The first broken promise, in words.
    pub fn run(&mut self, to: u64) -> Result<(), String> {
        self.settle()?;
        while let Some(&Reverse((at, ..))) = self.events.peek() {
            if at > to {
                break;
            }
            let Some(Reverse((at, _, event))) = self.events.pop() else {
                break;
            };
            self.pass(at)?;
            self.handle(self.kinds[event])?;
            self.settle()?;
        }
        self.pass(to)
    }

    /// Moves the clock, from one period start to the next, and books the use of what runs.
    fn pass(&mut self, to: u64) -> Result<(), String> {
        while self.now < to {
            let starts = self.groups.iter().filter_map(|g| g.book.as_ref());
            let next = starts.map(Book::next).min().unwrap_or(u64::MAX).min(to);
            let dt = next.max(self.now) - self.now;
            for cpu in 0..self.cpus.len() {
                let Some(task) = self.cpus[cpu].curr else {
                    continue;
                };
                let Task { model, group, .. } = self.tasks[task as usize];
                self.groups[group].used_ns += dt;
                if !matches!(model.class, Class::RealTime { .. }) {
                    self.for_path(group, |book| book.add(dt));
                }
            }
            self.now += dt;
            let n = self.cpus.len() as u64;
            for (index, group) in self.groups.iter_mut().enumerate() {
                if let Some(book) = &mut group.book {
                    let checked = book.check(n);
                    checked.map_err(|text| format!("at {next}: group {index} {text}"))?;
                    if book.next() <= self.now {
                        book.start();
                    }
                }
            }
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Cpu(cpu, stamp) if self.cpus[cpu].stamp == stamp => self.cpu_event(cpu),
            Event::Cpu(..) => Ok(()),
            Event::Wake(key) => {
                self.enqueue(key, EnqueueKind::Wakeup);
                Ok(())
            }
            Event::Tick => {
                for cpu in 0..self.cpus.len() {
                    let state = &self.cpus[cpu];
                    let (curr, group) = (state.curr, self.rqs[cpu].reserved_runtime());
                    if curr.is_none() {
                        self.stranded_ns = self.stranded_ns.max(group);
                    } else if self.rqs[cpu].tick(&mut self.arena, self.now).is_needed() {
                        self.preempt(cpu);
                    }
                }
                self.push(self.now + TICK_NS, Event::Tick);
                if self.fault == Fault::FreshQuota {
                    self.renew_quotas();
                }
                Ok(())
            }
            Event::Refill => {
                self.refill_at = u64::MAX;
                Ok(())
            }
        }
    }

    fn renew_quotas(&mut self) {
        for id in self.groups.iter().filter_map(|group| group.id) {
            let limit = self.domain.bandwidth(id).unwrap_or_default();
            for limit in [Bandwidth::UNLIMITED, limit] {
                let set = self.domain.set_bandwidth(id, limit, self.now);
                set.expect("it was set before");
            }
        }
    }

    /// What a driver does after every switch: refill and coordinate where due, kick idle CPUs.
    fn settle(&mut self) -> Result<(), String> {
        if self.shared.tick_due(self.now) {
            self.domain.tick(self.now);
        }
        let mut kicked = Vec::new();
        while self.fault != Fault::NoRefill && self.shared.refill_due(self.now) {
            self.refills += 1;
            self.domain.refill(self.now, |cpu| kicked.push(cpu));
            if self.shared.next_refill().is_some_and(|at| at <= self.now) {
                return Err(format!("at {}: a refill asks for itself", self.now));
            }
        }
        for cpu in kicked {
            if self.rqs[cpu]
                .unthrottle(&mut self.arena, self.now)
                .is_needed()
            {
                self.preempt(cpu);
            }
        }
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].curr.is_none() {
                self.schedule(cpu)?;
            }
        }
        if let Some(at) = self.shared.next_refill()
            && at < self.refill_at
            && self.fault != Fault::NoRefill
        {
            self.refill_at = at;
            self.push(at.max(self.now), Event::Refill);
        }
        Ok(())
    }

    fn schedule(&mut self, cpu: usize) -> Result<(), String> {
        if self.rqs[cpu].nr_running() == 0 {
            self.pull(cpu);
        }
        let Some(picked) = self.rqs[cpu].pick_next(&mut self.arena, self.now) else {
            let waiting = self.rqs[cpu].nr_waiting();
            if waiting > 0 {
                return Err(format!("at {}: CPU {cpu} lost {waiting} tasks", self.now));
            }
            return Ok(());
        };
        self.switches += 1;
        let state = &mut self.cpus[cpu];
        (state.curr, state.since) = (Some(picked.key), self.now);
        state.slice_end = picked.slice_end;
        self.arm(cpu);
        Ok(())
    }

    fn pull(&mut self, cpu: usize) {
        let Some(request) = self.rqs[cpu].pull_request(self.now) else {
            return;
        };
        let shared = |cpu: usize| &**self.rqs[cpu].shared();
        let random = self.rng.next_u64();
        let victim = balance::select_victim(&request, shared, self.rqs.len(), self.now, random);
        let moved = victim.and_then(|v| self.rqs[v].pull_task(&mut self.arena, &request, self.now));
        self.rqs[cpu].pull_done(self.now, moved.is_some());
        if let Some(moved) = moved {
            let kind = EnqueueKind::Migrated(moved);
            let _ = self.rqs[cpu].enqueue(&mut self.arena, moved.key(), kind, self.now);
        }
    }

    fn arm(&mut self, cpu: usize) {
        let Some(key) = self.cpus[cpu].curr else {
            return;
        };
        let task = &self.tasks[key as usize];
        let mut at = self.cpus[cpu].since + task.left_ns;
        let slice_end = self.cpus[cpu].slice_end;
        if task.model.is_preemptible && slice_end > self.now {
            at = at.min(slice_end);
        }
        self.cpus[cpu].stamp += 1;
        let stamp = self.cpus[cpu].stamp;
        self.push(at, Event::Cpu(cpu, stamp));
    }

    fn cpu_event(&mut self, cpu: usize) -> Result<(), String> {
        let Some(key) = self.cpus[cpu].curr else {
            return Ok(());
        };
        let task = &self.tasks[key as usize];
        if self.cpus[cpu].since + task.left_ns > self.now {
            if self.rqs[cpu].tick(&mut self.arena, self.now).is_needed() {
                self.preempt(cpu);
            } else {
                self.arm(cpu);
            }
            return Ok(());
        }
        let model = task.model;
        self.tasks[key as usize].left_ns = model.run_ns;
        let sleeps = model.sleep_ns > 0;
        let outcome = if sleeps {
            Outcome::Blocked
        } else {
            Outcome::Yielded
        };
        self.put(cpu, outcome);
        if sleeps {
            self.push(self.now + model.sleep_ns, Event::Wake(key));
        }
        self.schedule(cpu)
    }

    fn put(&mut self, cpu: usize, outcome: Outcome) {
        self.cpus[cpu].stamp += 1;
        self.cpus[cpu].curr = None;
        self.rqs[cpu].put_prev(&mut self.arena, self.now, outcome);
    }

    /// Interrupts what runs on a CPU, if it can be. It picks again when everything is settled.
    fn preempt(&mut self, cpu: usize) {
        let Some(key) = self.cpus[cpu].curr else {
            return;
        };
        let task = &mut self.tasks[key as usize];
        let ran = self.now - self.cpus[cpu].since;
        if task.model.is_preemptible && ran < task.left_ns {
            task.left_ns -= ran;
            self.put(cpu, Outcome::Preempted);
        }
    }

    /// Checks the core's sums, its charges, and that nothing is stranded.
    ///
    /// # Errors
    /// The broken promise, in words.
    pub fn check(&mut self) -> Result<(), String> {
        for rq in &mut self.rqs {
            rq.publish(&mut self.arena, self.now);
            rq.validate(&self.arena);
        }
        for (index, group) in self.groups.iter().enumerate() {
            let Some(id) = group.id else { continue };
            let core: u64 = self.rqs.iter().map(|rq| rq.usage(id)).sum();
            if core != group.used_ns {
                let own = group.used_ns;
                return Err(format!("group {index} is charged {core} ns, ran {own} ns"));
            }
        }
        (0..self.cpus.len()).try_for_each(|cpu| self.check_stuck(cpu))
    }

    fn check_stuck(&mut self, cpu: usize) -> Result<(), String> {
        let is_idle = self.cpus[cpu].curr.is_none();
        let is_stuck = is_idle && self.rqs[cpu].nr_throttled() > 0 && {
            let mut keys = (0..self.tasks.len() as u32).filter(|&key| {
                let entity = self.arena.entity(key);
                entity.state() == TaskState::Queued && entity.cpu() == cpu
            });
            keys.any(|key| self.has_runtime(self.tasks[key as usize].group))
        };
        let since = &mut self.cpus[cpu].is_stuck_since;
        *since = is_stuck.then(|| since.unwrap_or(self.now));
        match *since {
            Some(at) if self.now - at > STUCK_NS => Err(format!(
                "at {}: CPU {cpu} idles since {at} beside runtime and a throttled task",
                self.now
            )),
            _ => Ok(()),
        }
    }

    fn has_runtime(&self, group: usize) -> bool {
        let mut at = Some(group);
        while let Some(group) = at {
            let id = self.groups[group].id;
            let runtime = id.and_then(|id| self.domain.bandwidth_runtime(id));
            if runtime.is_some_and(|ns| ns < ENOUGH_NS) {
                return false;
            }
            at = self.groups[group].parent;
        }
        true
    }

    /// Returns the number of throttled tasks.
    pub fn nr_throttled(&self) -> usize {
        self.rqs.iter().map(RunQueue::nr_throttled).sum()
    }
}
