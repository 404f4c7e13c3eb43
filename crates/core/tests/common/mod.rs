//! A small machine in virtual time: CPUs, tasks that compute and sleep, and the exact answer.

#![allow(dead_code, unreachable_pub)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use evenkeel_core::balance::{CpuShared, select_cpu, select_victim};
use evenkeel_core::{
    Config, Domain, EnqueueKind, Entity, GroupId, GroupParams, Order, Outcome, Picked, Resched,
    RunQueue, TaskParams, VecArena,
};

pub const US: u64 = 1000;
pub const MS: u64 = 1_000_000;
pub const SEC: u64 = 1_000_000_000;

/// What a task does.
#[derive(Clone, Copy, Debug)]
pub enum Behaviour {
    /// Computes for ever; can be preempted.
    Hog,
    /// Computes in polls of the given range of ns that cannot be preempted, and yields after each.
    Polls(u64, u64),
    /// Computes for the first range, then sleeps for the second; can be preempted.
    Sleeper((u64, u64), (u64, u64)),
    /// Computes for the first range, then sleeps for at least the second and until a multiple of
    /// the third, as with coarse timers: many such tasks wake at once.
    Batch((u64, u64), u64, u64),
}

pub struct Task {
    pub group: GroupId,
    pub behaviour: Behaviour,
    pub used: u64,
    /// Left of the present burst or poll.
    left: u64,
    cpu: usize,
    pub runnable: bool,
    pub waits_since: u64,
    pub longest_wait: u64,
}

struct Cpu {
    picked: Option<Picked<u32>>,
    /// Time up to which the running task has been advanced.
    at: u64,
    next_tick: u64,
    busy: u64,
    idle_while_waiting: u64,
}

/// Deterministic random numbers (splitmix64).
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    pub fn range(&mut self, range: (u64, u64)) -> u64 {
        range.0 + self.below(range.1 - range.0 + 1)
    }
}

pub struct Machine {
    pub now: u64,
    pub domain: Domain,
    pub rqs: Vec<RunQueue<VecArena>>,
    shared: Vec<Arc<CpuShared>>,
    pub arena: VecArena,
    pub tasks: Vec<Task>,
    cpus: Vec<Cpu>,
    wakes: BinaryHeap<Reverse<(u64, u32)>>,
    pub rng: Rng,
    pub migrations: u64,
    pub switches: u64,
    pub validate: bool,
    nr_runnable: u64,
}

impl Machine {
    pub fn new(cpus: usize, seed: u64) -> Self {
        Self::with_config(cpus, seed, Config::for_cpus(cpus))
    }

    pub fn with_config(cpus: usize, seed: u64, config: Config) -> Self {
        let domain = Domain::new(cpus, config.clone());
        let rqs: Vec<_> = (0..cpus)
            .map(|cpu| RunQueue::new(cpu, cpus, config.clone()))
            .collect();
        let idle = |at: usize| Cpu {
            picked: None,
            at: 0,
            next_tick: 137 * US * at as u64,
            busy: 0,
            idle_while_waiting: 0,
        };
        let mut machine = Machine {
            now: 0,
            domain,
            shared: rqs.iter().map(|rq| rq.shared().clone()).collect(),
            rqs,
            arena: VecArena::new(),
            tasks: Vec::new(),
            cpus: (0..cpus).map(idle).collect(),
            wakes: BinaryHeap::with_capacity(1024),
            rng: Rng(seed),
            migrations: 0,
            switches: 0,
            validate: false,
            nr_runnable: 0,
        };
        machine.attach(GroupId::ROOT);
        machine
    }

    fn attach(&mut self, id: GroupId) {
        let leaf = self.domain.leaf(id).unwrap();
        self.rqs.iter_mut().for_each(|rq| rq.attach(leaf.clone()));
    }

    pub fn group(&mut self, parent: GroupId, weight: u32, order: Order) -> GroupId {
        let params = GroupParams {
            weight,
            order,
            ..GroupParams::default()
        };
        let id = self.domain.create(parent, params).unwrap();
        self.attach(id);
        id
    }

    pub fn spawn_many(&mut self, n: usize, group: GroupId, behaviour: Behaviour) -> Vec<u32> {
        (0..n)
            .map(|_| self.spawn(group, behaviour, TaskParams::default()))
            .collect()
    }

    pub fn spawn(&mut self, group: GroupId, behaviour: Behaviour, params: TaskParams) -> u32 {
        let key = self.arena.insert(Entity::new(group, params));
        let cpu = self.rng.below(self.cpus.len() as u64) as usize;
        self.tasks.push(Task {
            group,
            behaviour,
            used: 0,
            left: 0,
            cpu,
            runnable: false,
            waits_since: 0,
            longest_wait: 0,
        });
        self.make_runnable(key, EnqueueKind::New);
        key
    }

    fn burst(&mut self, key: u32) -> u64 {
        match self.tasks[key as usize].behaviour {
            Behaviour::Hog => u64::MAX,
            Behaviour::Polls(low, high) => self.rng.range((low, high)),
            Behaviour::Sleeper(run, _) | Behaviour::Batch(run, ..) => self.rng.range(run),
        }
    }

    fn make_runnable(&mut self, key: u32, kind: EnqueueKind<u32>) {
        let left = self.burst(key);
        let random = self.rng.next();
        let (now, nr) = (self.now, self.cpus.len());
        let delayed = self.arena_state_delayed(key);
        let task_cpu = self.tasks[key as usize].cpu;
        let shared = &self.shared;
        let cpu = if delayed {
            task_cpu
        } else {
            select_cpu(task_cpu, |i| &*shared[i], nr, now, random)
        };
        let task = &mut self.tasks[key as usize];
        (task.left, task.runnable, task.cpu, task.waits_since) = (left, true, cpu, now);
        self.nr_runnable += 1;
        let resched = self.rqs[cpu].enqueue(&mut self.arena, key, kind, now);
        self.react(cpu, resched);
    }

    fn arena_state_delayed(&self, key: u32) -> bool {
        use evenkeel_core::{Arena, TaskState};
        self.arena.entity(key).state() == TaskState::Delayed
    }

    /// Preempts a CPU if its task can be preempted.
    fn react(&mut self, cpu: usize, resched: Resched) {
        if !resched.is_needed() {
            return;
        }
        match self.cpus[cpu].picked {
            None => self.switch(cpu),
            Some(picked) if self.preemptible(picked.key) => {
                self.stop(cpu, Outcome::Preempted);
                self.switch(cpu);
            }
            Some(_) => {}
        }
    }

    fn preemptible(&self, key: u32) -> bool {
        !matches!(self.tasks[key as usize].behaviour, Behaviour::Polls(..))
    }

    fn stop(&mut self, cpu: usize, outcome: Outcome) {
        let picked = self.cpus[cpu].picked.take().unwrap();
        self.rqs[cpu].put_prev(&mut self.arena, self.now, outcome);
        let task = &mut self.tasks[picked.key as usize];
        task.waits_since = self.now;
        if outcome == Outcome::Blocked {
            task.runnable = false;
            self.nr_runnable -= 1;
        }
    }

    /// Asks for work from elsewhere. Returns whether the CPU should reschedule.
    fn pull(&mut self, cpu: usize) -> bool {
        let now = self.now;
        let mut resched = false;
        for _ in 0..4 {
            let Some(request) = self.rqs[cpu].pull_request(now) else {
                break;
            };
            let random = self.rng.next();
            let shared = &self.shared;
            let victim = select_victim(&request, |i| &*shared[i], self.cpus.len(), now, random);
            let moved = victim.and_then(|v| self.rqs[v].pull_task(&mut self.arena, &request, now));
            self.rqs[cpu].pull_done(now, moved.is_some());
            let Some(moved) = moved else { break };
            self.migrations += 1;
            self.tasks[moved.key() as usize].cpu = cpu;
            let kind = EnqueueKind::Migrated(moved);
            resched |= self.rqs[cpu]
                .enqueue(&mut self.arena, moved.key(), kind, now)
                .is_needed();
        }
        resched
    }

    fn switch(&mut self, cpu: usize) {
        let now = self.now;
        if self.domain.shared().tick_due(now) {
            self.domain.tick(now);
        }
        self.pull(cpu);
        let picked = self.rqs[cpu].pick_next(&mut self.arena, now);
        self.switches += 1;
        if let Some(picked) = picked {
            let task = &mut self.tasks[picked.key as usize];
            assert_eq!(task.group, picked.group);
            assert!(task.runnable);
            task.longest_wait = task.longest_wait.max(now - task.waits_since);
        }
        self.cpus[cpu].picked = picked;
        self.cpus[cpu].at = now;
        if self.validate {
            self.rqs[cpu].validate(&self.arena);
        }
    }

    /// Time of the next event on a CPU.
    fn next_on(&self, cpu: usize) -> u64 {
        let state = &self.cpus[cpu];
        let Some(picked) = state.picked else {
            return u64::MAX;
        };
        let end = state
            .at
            .saturating_add(self.tasks[picked.key as usize].left);
        if self.preemptible(picked.key) {
            end.min(picked.slice_end.min(state.next_tick).max(state.at))
        } else {
            end
        }
    }

    /// Lets virtual time pass until `until`.
    pub fn run_until(&mut self, until: u64) {
        loop {
            let wake = self.wakes.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
            let cpus = 0..self.cpus.len();
            let (next, cpu) = cpus.map(|cpu| (self.next_on(cpu), cpu)).min().unwrap();
            let tick = if self.domain.shared().tick_due(u64::MAX - 1) {
                self.now + MS
            } else {
                u64::MAX
            };
            let time = next.min(wake).min(until).min(tick);
            self.advance(time);
            if time >= until {
                break;
            }
            if wake <= next && wake == time {
                let Reverse((_, key)) = self.wakes.pop().unwrap();
                self.make_runnable(key, EnqueueKind::Wakeup);
            } else if next == time {
                self.event(cpu);
            } else if self.domain.shared().tick_due(time) {
                self.domain.tick(time);
            }
            self.fill_idle();
        }
    }

    fn advance(&mut self, time: u64) {
        let waiting = self.rqs.iter().any(|rq| rq.nr_waiting() > 0);
        for cpu in &mut self.cpus {
            let dt = time - self.now;
            if let Some(picked) = cpu.picked {
                let ran = time - cpu.at;
                let task = &mut self.tasks[picked.key as usize];
                task.used += ran;
                task.left = task.left.saturating_sub(ran);
                cpu.busy += ran;
                cpu.at = time;
            } else if waiting {
                cpu.idle_while_waiting += dt;
            }
        }
        self.now = time;
    }

    /// The running task of a CPU ends its burst, its slice, or a tick.
    fn event(&mut self, cpu: usize) {
        let now = self.now;
        let picked = self.cpus[cpu].picked.unwrap();
        let key = picked.key;
        if self.tasks[key as usize].left == 0 {
            match self.tasks[key as usize].behaviour {
                Behaviour::Sleeper(_, sleep) => {
                    let at = now + self.rng.range(sleep);
                    self.stop(cpu, Outcome::Blocked);
                    self.wakes.push(Reverse((at, key)));
                }
                Behaviour::Batch(_, sleep, grid) => {
                    self.stop(cpu, Outcome::Blocked);
                    let at = (now + sleep).next_multiple_of(grid);
                    self.wakes.push(Reverse((at, key)));
                }
                _ => {
                    self.stop(cpu, Outcome::Yielded);
                    self.tasks[key as usize].left = self.burst(key);
                }
            }
            self.switch(cpu);
            return;
        }
        if now >= self.cpus[cpu].next_tick {
            self.cpus[cpu].next_tick = now + MS;
        }
        let resched = self.rqs[cpu].tick(&mut self.arena, now).is_needed();
        if resched | self.pull(cpu) {
            self.stop(cpu, Outcome::Preempted);
            self.switch(cpu);
        } else {
            if let Some(picked) = &mut self.cpus[cpu].picked {
                picked.slice_end = picked.slice_end.max(now + 100 * US);
            }
        }
    }

    /// Idle CPUs look for work whenever something happened.
    fn fill_idle(&mut self) {
        for cpu in 0..self.cpus.len() {
            let somebody_waits = || self.shared.iter().any(|shared| shared.nr_waiting() > 0);
            if self.cpus[cpu].picked.is_none() && somebody_waits() {
                self.switch(cpu);
            }
        }
    }

    /// Ends the present burst of a task that can be preempted at the next event.
    pub fn finish_burst(&mut self, key: u32) {
        self.tasks[key as usize].left = 0;
    }

    /// What is known of a task, for messages.
    pub fn describe(&self, key: u32) -> String {
        use evenkeel_core::Arena;
        let (entity, task) = (self.arena.entity(key), &self.tasks[key as usize]);
        let order = self.domain.params(task.group).map(|params| params.order);
        let (rate, lag) = (self.domain.rate(task.group), self.domain.lag(task.group));
        format!(
            "{entity:?} {:?} order {order:?} rate {rate:?} lag {lag:?}",
            task.behaviour
        )
    }

    /// Whether a task may legitimately wait for long: idle class, or a low weight in its group.
    pub fn is_low(&self, key: u32) -> bool {
        use evenkeel_core::{Arena, Class};
        let entity = self.arena.entity(key);
        entity.class() == Class::Idle || entity.weight() < 200
    }

    pub fn used_by(&self, group: GroupId) -> u64 {
        self.tasks
            .iter()
            .filter(|task| task.group == group)
            .map(|task| task.used)
            .sum()
    }

    pub fn busy(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.busy).sum()
    }

    pub fn idle_while_waiting(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.idle_while_waiting).sum()
    }

    /// Sum of what the run queues charged to all groups, brought up to date.
    pub fn charged(&mut self, groups: &[GroupId]) -> u64 {
        let now = self.now;
        let (rqs, arena) = (&mut self.rqs, &mut self.arena);
        rqs.iter_mut().for_each(|rq| rq.publish(arena, now));
        let usage = |rq: &RunQueue<VecArena>| groups.iter().map(|&g| rq.usage(g)).sum::<u64>();
        self.rqs.iter().map(usage).sum()
    }
}

/// The exact hierarchical weighted max-min division, in CPUs, by bisection of the water level:
/// slow, obvious, and independent of the crate's `waterfill`.
pub fn exact_rates(
    domain: &Domain,
    demand: impl Fn(GroupId) -> f64 + Copy,
    cpus: f64,
) -> Vec<(GroupId, f64)> {
    let mut rates = Vec::new();
    divide(
        domain,
        GroupId::ROOT,
        cpus.min(cap(domain, GroupId::ROOT, demand, cpus)),
        demand,
        cpus,
        &mut rates,
    );
    rates
}

fn cap(domain: &Domain, id: GroupId, demand: impl Fn(GroupId) -> f64 + Copy, cpus: f64) -> f64 {
    let children = domain
        .children(id)
        .map(|child| cap(domain, child, demand, cpus))
        .sum::<f64>();
    (children + demand(id).min(cpus)).min(cpus)
}

fn divide(
    domain: &Domain,
    id: GroupId,
    amount: f64,
    demand: impl Fn(GroupId) -> f64 + Copy,
    cpus: f64,
    rates: &mut Vec<(GroupId, f64)>,
) {
    let mut claims = vec![(None, 100.0, demand(id).min(cpus))];
    for child in domain.children(id) {
        let weight = f64::from(domain.params(child).unwrap().weight);
        claims.push((Some(child), weight, cap(domain, child, demand, cpus)));
    }
    let total = |level: f64| {
        claims
            .iter()
            .map(|(_, w, cap)| (w * level).min(*cap))
            .sum::<f64>()
    };
    let (mut low, mut high) = (0.0, cpus * 2.0);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if total(middle) < amount {
            low = middle
        } else {
            high = middle
        }
    }
    for (child, weight, cap) in &claims {
        let share = (weight * high).min(*cap);
        match child {
            None => rates.push((id, share)),
            Some(child) => divide(domain, *child, share, demand, cpus, rates),
        }
    }
}
