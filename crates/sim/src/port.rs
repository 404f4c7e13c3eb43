//! The core behind the seam of [`crate::sched`]: one [`Domain`], one [`RunQueue`] per CPU, and
//! entities in an arena, called in the order in which the runtime calls them.

use std::sync::Arc;

use evenkeel_core::{
    Arena, Config, Domain, DomainShared, EnqueueKind, Entity, GroupId, GroupParams, RunQueue,
    TaskParams, TaskState, VecArena, balance,
};

use crate::history::{Class, GroupSpec, TaskSpec};
use crate::sched::{Kind, Outcome, Pick, Pulled, Scheduler};
use crate::state::Place;

/// Drives the core's own types.
pub struct CorePort {
    config: Config,
    domain: Domain,
    shared: Arc<DomainShared>,
    arena: VecArena,
    rqs: Vec<RunQueue<VecArena>>,
    /// Present identifier and default class of each group.
    groups: Vec<Option<(GroupId, Class)>>,
    /// Key of each task that was made known.
    keys: Vec<Option<u32>>,
    /// Task of each key.
    tasks: Vec<usize>,
    /// CPU that each task was queued on last.
    last_cpu: Vec<usize>,
}

impl CorePort {
    /// Makes the core's parts for `cpus` CPUs with its defaults for that many.
    pub fn new(cpus: usize) -> Self {
        Self::with_config(cpus, Config::for_cpus(cpus))
    }

    /// Makes the core's parts for `cpus` CPUs.
    pub fn with_config(cpus: usize, config: Config) -> Self {
        let domain = Domain::new(cpus, config.clone());
        let mut port = Self {
            shared: domain.shared(),
            rqs: (0..cpus)
                .map(|cpu| RunQueue::new(cpu, cpus, config.clone()))
                .collect(),
            domain,
            config,
            arena: VecArena::new(),
            groups: Vec::new(),
            keys: Vec::new(),
            tasks: Vec::new(),
            last_cpu: Vec::new(),
        };
        port.attach(GroupId::ROOT);
        port
    }

    fn attach(&mut self, id: GroupId) {
        for rq in &mut self.rqs {
            rq.attach(self.domain.leaf(id).expect("the group exists"));
        }
    }

    fn group_id(&self, group: Option<usize>) -> GroupId {
        let id = |g: usize| self.groups[g].expect("the group exists").0;
        group.map_or(GroupId::ROOT, id)
    }

    fn params(&self, spec: &TaskSpec) -> TaskParams {
        let inherited = spec
            .group
            .map(|g| self.groups[g].expect("the group exists").1);
        TaskParams {
            class: spec.class.or(inherited).unwrap_or(Class::Fair),
            nice: spec.nice,
            slice_ns: spec.slice_ns.unwrap_or(0),
        }
    }

    fn key(&self, task: usize) -> u32 {
        self.keys[task].expect("the task is known")
    }

    /// Takes the remains of a delayed dequeue out of the queue that they are in.
    fn end_delay(&mut self, key: u32, now: u64) {
        let entity = self.arena.entity(key);
        if entity.state() == TaskState::Delayed {
            let cpu = entity.cpu();
            self.rqs[cpu].dequeue(&mut self.arena, key, now);
        }
    }
}

impl Scheduler for CorePort {
    fn create_group(&mut self, group: usize, spec: &GroupSpec) {
        let params = GroupParams {
            weight: spec.weight,
            order: spec.order,
            task: TaskParams {
                class: spec.class,
                ..TaskParams::default()
            },
        };
        let parent = self.group_id(spec.parent);
        let id = self
            .domain
            .create(parent, params)
            .expect("the parent exists");
        let size = self.groups.len().max(group + 1);
        self.groups.resize(size, None);
        self.groups[group] = Some((id, spec.class));
        self.attach(id);
    }

    fn remove_group(&mut self, group: usize) {
        let id = self.group_id(Some(group));
        for rq in &mut self.rqs {
            rq.detach(id).expect("the group has no tasks");
        }
        self.domain.remove(id).expect("the group is empty");
        self.groups[group] = None;
    }

    fn set_weight(&mut self, group: usize, weight: u32, _: u64) {
        let id = self.group_id(Some(group));
        self.domain
            .set_weight(id, weight)
            .expect("the weight is in range");
    }

    fn create_task(&mut self, task: usize, spec: &TaskSpec) {
        let entity = Entity::new(self.group_id(spec.group), self.params(spec));
        let size = self.keys.len().max(task + 1);
        self.keys.resize(size, None);
        self.last_cpu.resize(size, 0);
        self.keys[task] = Some(self.arena.insert(entity));
        self.tasks.push(task);
    }

    fn change_task(&mut self, cpu: Option<usize>, task: usize, spec: &TaskSpec, now: u64) -> bool {
        let (key, params) = (self.key(task), self.params(spec));
        let entity = self.arena.entity_mut(key);
        let is_delayed = entity.state() == TaskState::Delayed;
        match cpu.or(is_delayed.then_some(entity.cpu())) {
            Some(cpu) => self.rqs[cpu]
                .set_params(&mut self.arena, key, params, now)
                .is_needed(),
            None => {
                entity.set_params(params);
                false
            }
        }
    }

    fn move_task(&mut self, task: usize, spec: &TaskSpec, now: u64) {
        let (key, params) = (self.key(task), self.params(spec));
        let id = self.group_id(spec.group);
        self.end_delay(key, now);
        let entity = self.arena.entity_mut(key);
        entity.set_group(id);
        entity.set_params(params);
    }

    fn select_cpu(&mut self, task: usize, _: &[bool], now: u64, random: u64) -> usize {
        let entity = self.arena.entity(self.key(task));
        if entity.state() == TaskState::Delayed {
            return entity.cpu();
        }
        let cpus = self.rqs.len();
        let shared = |cpu: usize| &**self.rqs[cpu].shared();
        balance::select_cpu(self.last_cpu[task], shared, cpus, now, random)
    }

    fn enqueue(&mut self, cpu: usize, task: usize, kind: Kind, now: u64) -> bool {
        let kind = match kind {
            Kind::New => EnqueueKind::New,
            Kind::Wakeup => EnqueueKind::Wakeup,
            Kind::Requeue => EnqueueKind::Requeue,
        };
        let key = self.key(task);
        self.last_cpu[task] = cpu;
        self.rqs[cpu]
            .enqueue(&mut self.arena, key, kind, now)
            .is_needed()
    }

    fn dequeue(&mut self, cpu: usize, task: usize, now: u64) {
        let key = self.key(task);
        self.rqs[cpu].dequeue(&mut self.arena, key, now);
    }

    fn forget(&mut self, task: usize, now: u64) {
        self.end_delay(self.key(task), now);
    }

    fn pick(&mut self, cpu: usize, now: u64) -> Option<Pick> {
        let picked = self.rqs[cpu].pick_next(&mut self.arena, now)?;
        Some(Pick {
            task: self.tasks[picked.key as usize],
            slice_end: picked.slice_end,
        })
    }

    fn put(&mut self, cpu: usize, _: usize, outcome: Outcome, now: u64) {
        let outcome = match outcome {
            Outcome::Preempted => evenkeel_core::Outcome::Preempted,
            Outcome::Yielded => evenkeel_core::Outcome::Yielded,
            Outcome::Blocked => evenkeel_core::Outcome::Blocked,
            Outcome::Exited => evenkeel_core::Outcome::Exited,
        };
        self.rqs[cpu].put_prev(&mut self.arena, now, outcome);
    }

    fn tick(&mut self, cpu: usize, now: u64) -> bool {
        self.rqs[cpu].tick(&mut self.arena, now).is_needed()
    }

    fn coordinate(&mut self, now: u64) {
        if self.shared.tick_due(now) {
            self.domain.tick(now);
        }
    }

    fn pull(&mut self, cpu: usize, now: u64, random: u64) -> Option<Pulled> {
        self.coordinate(now);
        let request = self.rqs[cpu].pull_request(now)?;
        let shared = |cpu: usize| &**self.rqs[cpu].shared();
        let victim = balance::select_victim(&request, shared, self.rqs.len(), now, random);
        let moved = victim.and_then(|v| self.rqs[v].pull_task(&mut self.arena, &request, now));
        self.rqs[cpu].pull_done(now, moved.is_some());
        let moved = moved?;
        let key = moved.key();
        let task = self.tasks[key as usize];
        self.last_cpu[task] = cpu;
        let kind = EnqueueKind::Migrated(moved);
        let resched = self.rqs[cpu].enqueue(&mut self.arena, key, kind, now);
        let is_next = resched.is_needed();
        Some(Pulled { task, is_next })
    }

    fn nr_running(&self, cpu: usize) -> usize {
        self.rqs[cpu].nr_running()
    }

    fn usage_ns(&self, cpu: usize, group: Option<usize>) -> u64 {
        self.rqs[cpu].usage(self.group_id(group))
    }

    fn group_nr_running(&self, group: Option<usize>) -> usize {
        let leaf = self
            .domain
            .leaf(self.group_id(group))
            .expect("the group exists");
        leaf.nr_running()
    }

    fn group_usage_ns(&self, group: Option<usize>) -> u64 {
        let leaf = self
            .domain
            .leaf(self.group_id(group))
            .expect("the group exists");
        leaf.usage_ns()
    }

    fn is_consistent(&self, task: usize, place: Place) -> bool {
        let entity = self.arena.entity(self.key(task));
        match place {
            Place::Queued { cpu, .. } => entity.state() == TaskState::Queued && entity.cpu() == cpu,
            Place::Running { cpu } => entity.state() == TaskState::Running && entity.cpu() == cpu,
            Place::Blocked => entity.state() != TaskState::Queued,
            Place::Out | Place::Dead => true,
        }
    }

    fn check_invariants(&self, cpu: usize, _: u64) {
        self.rqs[cpu].validate(&self.arena);
        if cpu > 0 {
            return;
        }
        let limit = self.config.lag_limit_ns as i64;
        for &(id, _) in self.groups.iter().flatten() {
            let lag = self.domain.lag(id).unwrap_or(0);
            assert!(
                lag.abs() <= limit,
                "{id:?} has a lag of {lag} ns, limit {limit}"
            );
        }
    }
}
