//! `RunQueue` and `Domain` on one CPU against a reference model, over random histories.
//!
//! The model keeps plain lists for every class and every group, integrates service and runnable
//! time itself, and divides each window's service by bisection
//! of the water level. It predicts: the class that
//! runs, the task within real-time, idle and `Fifo` queues, usage, counts, states, throttling, and
//! the lag of every group. (`Fair` groups inside are the matter of `eevdf_model`.)

use std::collections::VecDeque;

use evenkeel_core::{
    Arena, Class, Config, Domain, EnqueueKind, Entity, GroupId, GroupParams, Order, Outcome,
    Picked, RtPolicy, RunQueue, TaskParams, TaskState, VecArena,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const TASKS: usize = 18;
const GROUPS: usize = 6;
/// Parent (by position) and weight of each group; 0 is the root, 4 is of `Fair` order.
const TREE: [(usize, u32); GROUPS] = [(0, 100), (0, 300), (0, 100), (2, 50), (2, 150), (0, 1)];

#[derive(Clone, Copy, Debug)]
enum Op {
    Wake(usize),
    Abort(usize),
    Run(u64),
    Switch(Outcome),
    Weight(usize, u32),
    Class(usize, u8),
}

fn op() -> impl Strategy<Value = Op> {
    use Outcome::{Blocked, Exited, Preempted, Yielded};
    let outcome = prop_oneof![Just(Preempted), Just(Yielded), Just(Blocked), Just(Exited)];
    let time = prop_oneof![0u64..50_000, 50_000u64..900_000, Just(7 * MS)];
    prop_oneof![
        5 => (0..TASKS).prop_map(Op::Wake),
        1 => (0..TASKS).prop_map(Op::Abort),
        10 => time.prop_map(Op::Run),
        8 => outcome.prop_map(Op::Switch),
        1 => (1..GROUPS, 1u32..=10_000).prop_map(|(group, weight)| Op::Weight(group, weight)),
        1 => (0..TASKS, 0u8..8).prop_map(|(task, class)| Op::Class(task, class)),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Out,
    Waiting,
    Delayed,
    Running,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    group: usize,
    class: Class,
    at: At,
    rr_left: u64,
}

/// What the model knows of one group.
#[derive(Clone, Debug, Default)]
struct Group {
    waiting: VecDeque<usize>,
    usage: u64,
    /// Fair-class service and runnable time of the present window, in ns.
    served: u64,
    runnable: u64,
    /// Runnable tasks of the fair class.
    nr: u64,
    weight: u32,
    /// Whether it had no runnable task at some time in the window.
    slept: bool,
    lag: f64,
    pool: f64,
}

struct History {
    now: u64,
    ids: Vec<GroupId>,
    domain: Domain,
    rq: RunQueue<VecArena>,
    arena: VecArena,
    config: Config,
    tasks: Vec<Task>,
    groups: Vec<Group>,
    rt: Vec<VecDeque<usize>>,
    idle: VecDeque<usize>,
    picked: Option<Picked<u32>>,
    /// The turn of the running fair task's group may have been cut short or renewed.
    turn_unknown: bool,
    rt_time: u64,
    rt_periods: u64,
    rt_throttled: bool,
    ticks: u64,
    /// Ticks whose outcome hung on a rounding error, and whose lags were believed.
    ticks_unsure: u64,
    last_tick: u64,
    warm: u64,
}

impl History {
    fn new() -> Self {
        let config = Config {
            min_charge_ns: 0,
            rt_period_ns: 20 * MS,
            rt_runtime_ns: 15 * MS,
            ..Config::for_cpus(1)
        };
        let mut domain = Domain::new(1, config.clone());
        let mut rq = RunQueue::new(0, 1, config.clone());
        let mut ids = vec![GroupId::ROOT];
        for (position, &(parent, weight)) in TREE.iter().enumerate().skip(1) {
            let order = if position == 4 {
                Order::Fair
            } else {
                Order::Fifo
            };
            let params = GroupParams {
                weight,
                order,
                ..GroupParams::default()
            };
            ids.push(domain.create(ids[parent], params).unwrap());
        }
        ids.iter()
            .for_each(|&id| rq.attach(domain.leaf(id).unwrap()));
        let mut arena = VecArena::new();
        let task = |i: usize| Task {
            group: i % GROUPS,
            class: Class::Fair,
            at: At::Out,
            rr_left: 0,
        };
        let tasks: Vec<Task> = (0..TASKS).map(task).collect();
        for task in &tasks {
            arena.insert(Entity::new(ids[task.group], TaskParams::default()));
        }
        let group = |&(_, weight): &(usize, u32)| Group {
            weight,
            ..Group::default()
        };
        History {
            now: 0,
            ids,
            domain,
            rq,
            arena,
            config,
            tasks,
            groups: TREE.iter().map(group).collect(),
            rt: vec![VecDeque::new(); 100],
            idle: VecDeque::new(),
            picked: None,
            turn_unknown: false,
            rt_time: 0,
            rt_periods: 0,
            rt_throttled: false,
            ticks: 0,
            ticks_unsure: 0,
            last_tick: 0,
            warm: 0,
        }
    }

    fn running(&self) -> Option<usize> {
        self.picked.map(|picked| picked.key as usize)
    }

    fn nr_running(&self) -> usize {
        self.tasks
            .iter()
            .filter(|task| matches!(task.at, At::Waiting | At::Running))
            .count()
    }

    fn has_lower(&self) -> bool {
        self.groups.iter().any(|group| group.nr > 0) || !self.idle.is_empty()
    }

    fn queue_of(&mut self, task: usize) -> &mut VecDeque<usize> {
        match self.tasks[task].class {
            Class::RealTime { priority, .. } => &mut self.rt[usize::from(priority)],
            Class::Fair => &mut self.groups[self.tasks[task].group].waiting,
            Class::Idle => &mut self.idle,
        }
    }

    fn is_fair(&self, task: usize) -> bool {
        self.tasks[task].class == Class::Fair
    }

    fn wake(&mut self, task: usize, kind: EnqueueKind<u32>) {
        if !matches!(self.tasks[task].at, At::Out | At::Delayed) {
            return;
        }
        self.tasks[task].at = At::Waiting;
        self.tasks[task].rr_left = self.config.rr_slice_ns;
        self.queue_of(task).push_back(task);
        if self.is_fair(task) {
            self.groups[self.tasks[task].group].nr += 1;
        }
        let resched = self
            .rq
            .enqueue(&mut self.arena, task as u32, kind, self.now);
        if resched.is_needed() {
            self.turn_unknown = true;
        }
        let Some(running) = self.running() else {
            assert!(resched.is_needed(), "an idle CPU is told");
            return;
        };
        let rank = |task: usize| match self.tasks[task].class {
            Class::RealTime { priority, .. } => 2 + u32::from(priority),
            Class::Fair => 1,
            Class::Idle => 0,
        };
        let (new, old) = (rank(task), rank(running));
        self.roll_rt();
        let rt_runs = old >= 2;
        if !self.rt_throttled && (new != old || new != 1) {
            assert_eq!(resched.is_needed(), new > old, "ranks {new} and {old}");
        }
        assert!(!rt_runs || new > old || !resched.is_needed() || self.rt_throttled);
    }

    fn abort(&mut self, task: usize) {
        match self.tasks[task].at {
            At::Waiting => {
                self.queue_of(task).retain(|&other| other != task);
                self.one_fewer(task);
            }
            At::Delayed => {}
            At::Out | At::Running => return,
        }
        self.tasks[task].at = At::Out;
        self.rq.dequeue(&mut self.arena, task as u32, self.now);
    }

    fn run(&mut self, ns: u64) {
        self.now += ns;
        for group in &mut self.groups {
            group.runnable += group.nr * ns;
        }
        if let Some(task) = self.running() {
            let group = &mut self.groups[self.tasks[task].group];
            group.usage += ns;
            match self.tasks[task].class {
                Class::Fair => group.served += ns,
                Class::Idle => {}
                Class::RealTime { .. } => {
                    self.tasks[task].rr_left = self.tasks[task].rr_left.saturating_sub(ns);
                    self.charge_rt(ns);
                }
            }
        }
        if self.domain.shared().tick_due(self.now) {
            self.tick_domain();
        }
        let over = self
            .picked
            .is_some_and(|picked| self.now >= picked.slice_end);
        if self.rq.tick(&mut self.arena, self.now).is_needed() {
            self.switch(Outcome::Preempted);
        } else if over {
            self.turn_unknown = true;
        }
    }

    /// The kernel's real-time bandwidth control, period by period.
    fn charge_rt(&mut self, ns: u64) {
        self.roll_rt();
        self.rt_time += ns;
        self.rt_throttled |= self.rt_time > self.config.rt_runtime_ns;
    }

    fn roll_rt(&mut self) {
        while self.rt_periods < self.now / self.config.rt_period_ns {
            self.rt_periods += 1;
            self.rt_time = self.rt_time.saturating_sub(self.config.rt_runtime_ns);
            self.rt_throttled &= self.rt_time >= self.config.rt_runtime_ns;
        }
    }

    fn switch(&mut self, outcome: Outcome) {
        if let Some(picked) = self.picked.take() {
            self.put(picked, outcome);
        }
        let picked = self.rq.pick_next(&mut self.arena, self.now);
        self.check_pick(picked);
        self.picked = picked;
        self.turn_unknown = false;
    }

    fn put(&mut self, picked: Picked<u32>, mut outcome: Outcome) {
        let task = picked.key as usize;
        let fair_fifo = self.is_fair(task) && self.tasks[task].group != 4;
        if fair_fifo && outcome == Outcome::Preempted && self.turn_unknown {
            outcome = Outcome::Yielded;
        }
        self.rq.put_prev(&mut self.arena, self.now, outcome);
        if matches!(outcome, Outcome::Blocked | Outcome::Exited) {
            let delayed = self.arena.entity(picked.key).state() == TaskState::Delayed;
            assert!(!delayed || self.is_fair(task) && self.tasks[task].group == 4);
            self.tasks[task].at = if delayed { At::Delayed } else { At::Out };
            self.one_fewer(task);
            return;
        }
        self.tasks[task].at = At::Waiting;
        let to_front = outcome == Outcome::Preempted
            && match self.tasks[task].class {
                Class::RealTime {
                    policy: RtPolicy::Fifo,
                    ..
                } => true,
                Class::RealTime { .. } => self.tasks[task].rr_left > 0,
                _ => self.now < picked.slice_end,
            };
        if self.tasks[task].rr_left == 0 {
            self.tasks[task].rr_left = self.config.rr_slice_ns;
        }
        let queue = self.queue_of(task);
        if to_front {
            queue.push_front(task)
        } else {
            queue.push_back(task)
        }
    }

    fn check_pick(&mut self, picked: Option<Picked<u32>>) {
        let picked = picked.map(|picked| picked.key as usize);
        self.roll_rt();
        let top = (0..100)
            .rev()
            .find(|&priority| !self.rt[priority].is_empty());
        let expected = match top {
            Some(priority) if !(self.has_lower() && self.rt_throttled) => {
                self.rt[priority].front().copied()
            }
            _ if self.groups.iter().any(|group| group.nr > 0) => {
                let task = picked.expect("a fair task is runnable");
                assert!(
                    self.is_fair(task),
                    "task {task} of a lower class was picked"
                );
                let group = self.tasks[task].group;
                if group == 4 {
                    Some(task)
                } else {
                    self.groups[group].waiting.front().copied()
                }
            }
            _ => self.idle.front().copied(),
        };
        assert_eq!(picked, expected, "pick");
        if let Some(task) = picked {
            self.queue_of(task).retain(|&other| other != task);
            self.tasks[task].at = At::Running;
        }
    }

    fn tick_domain(&mut self) {
        let window = self.now - self.last_tick;
        let next = self.domain.tick(self.now);
        self.ticks += 1;
        self.last_tick = self.now;
        // The first tick asks for reports, the second takes the origin.
        self.warm = if next.is_none() { 0 } else { self.warm + 1 };
        if self.warm <= 2 || window == 0 {
            self.groups
                .iter_mut()
                .for_each(|group| (group.lag, group.pool) = (0.0, 0.0));
            self.rq.publish(&mut self.arena, self.now);
        } else {
            self.account(window);
            for (group, id) in self.groups.iter().zip(&self.ids) {
                let lag = self.domain.lag(*id).unwrap() as f64;
                let tolerance = 50.0 * self.ticks as f64;
                assert!(
                    (lag - group.lag).abs() <= tolerance,
                    "{lag} {} {:?}",
                    group.lag,
                    self.groups
                );
            }
        }
        for group in &mut self.groups {
            (group.served, group.runnable, group.slept) = (0, 0, false);
        }
    }

    /// The rules of `Domain::tick`, spelt out.
    fn account(&mut self, window: u64) {
        let served = self.groups.iter().map(|group| group.served as f64).sum();
        let mut due = vec![0.0; GROUPS];
        self.divide(0, served, window as f64, &mut due);
        let limit = self.config.lag_limit_ns as f64;
        let slice = f64::from(self.config.base_slice_ns + self.config.tick_ns);
        // Which limit holds, and who takes a part of the pools, may hang on a rounding error.
        let edge = 50.0 * self.ticks as f64;
        let (mut takes, mut unsure) = ([false; GROUPS], false);
        for i in 0..GROUPS {
            let told = self.domain.lag(self.ids[i]).unwrap() as f64;
            let own_cap = self.own_cap(i, window as f64);
            let group = &mut self.groups[i];
            let lag = group.lag + due[i] - group.served as f64;
            let active = group.runnable > 0 || group.nr > 0;
            let runnable = group.runnable.max(group.served) as f64;
            let saturated =
                due[i] >= runnable + edge || due[i] > runnable - edge && told <= 2_000_000.0;
            let most = match (group.slept, saturated) {
                (true, _) => slice,
                (false, true) => 2_000_000.0,
                (false, false) => limit,
            };
            group.lag = if active {
                lag.clamp(-limit, most)
            } else {
                lag.min(limit) * 63.0 / 64.0
            };
            let hungry = due[i] < own_cap - 0.01;
            takes[i] = hungry && lag <= most;
            unsure |= hungry && (due[i] > own_cap - edge || (lag - most).abs() < edge);
            let forfeited = lag - group.lag;
            let has_children = (1..GROUPS).any(|child| TREE[child].0 == i);
            let among = if has_children { i } else { TREE[i].0 };
            self.groups[among].pool += forfeited;
        }
        self.pass_up(0, &takes);
        self.hand_down(0, &takes);
        self.ticks_unsure += u64::from(unsure);
        if unsure {
            for (group, id) in self.groups.iter_mut().zip(&self.ids) {
                (group.lag, group.pool) = (self.domain.lag(*id).unwrap() as f64, 0.0);
            }
            self.groups[0].pool = -self.groups.iter().map(|group| group.lag).sum::<f64>();
        }
    }

    fn subtree_takes(i: usize, takes: &[bool]) -> bool {
        let mut children = (1..GROUPS).filter(|&child| TREE[child].0 == i);
        takes[i] || children.any(|child| Self::subtree_takes(child, takes))
    }

    /// Pools of subtrees where nobody takes anything go to their parents.
    fn pass_up(&mut self, i: usize, takes: &[bool]) {
        for child in (1..GROUPS).filter(|&child| TREE[child].0 == i) {
            self.pass_up(child, takes);
            if !Self::subtree_takes(child, takes) {
                self.groups[i].pool += std::mem::take(&mut self.groups[child].pool);
            }
        }
    }

    /// Pools are divided by weight among those who take.
    fn hand_down(&mut self, i: usize, takes: &[bool]) {
        if !Self::subtree_takes(i, takes) {
            return;
        }
        let pool = std::mem::take(&mut self.groups[i].pool);
        let children = (1..GROUPS).filter(|&child| TREE[child].0 == i);
        let takers: Vec<usize> = children
            .filter(|&child| Self::subtree_takes(child, takes))
            .collect();
        let own = if takes[i] { 100.0 } else { 0.0 };
        let weight = |child: usize| f64::from(self.groups[child].weight);
        let weights = own + takers.iter().map(|&child| weight(child)).sum::<f64>();
        let limit = self.config.lag_limit_ns as f64;
        let lag = self.groups[i].lag + pool * own / weights;
        self.groups[i].lag = lag.clamp(-limit, limit);
        self.groups[0].pool += lag - lag.clamp(-limit, limit);
        for child in takers {
            let part = pool * f64::from(self.groups[child].weight) / weights;
            self.groups[child].pool += part;
            self.hand_down(child, takes);
        }
    }

    /// Most service that can have been due to a group's own tasks.
    fn own_cap(&self, i: usize, window: f64) -> f64 {
        let own = &self.groups[i];
        (own.runnable as f64).min(window).max(own.served as f64)
    }

    fn cap(&self, i: usize, window: f64) -> f64 {
        let own = self.own_cap(i, window);
        let children = (1..GROUPS).filter(|&child| TREE[child].0 == i);
        own + children.map(|child| self.cap(child, window)).sum::<f64>()
    }

    fn divide(&mut self, i: usize, amount: f64, window: f64, due: &mut [f64]) {
        let own = self.own_cap(i, window);
        let mut claims = vec![(i, 100.0, own)];
        for child in (1..GROUPS).filter(|&child| TREE[child].0 == i) {
            claims.push((
                child,
                f64::from(self.groups[child].weight),
                self.cap(child, window),
            ));
        }
        let total = |level: f64| {
            claims
                .iter()
                .map(|(_, w, cap)| (w * level).min(*cap))
                .sum::<f64>()
        };
        let (mut low, mut high) = (0.0, 1e12);
        for _ in 0..200 {
            let middle = (low + high) / 2.0;
            if total(middle) < amount {
                low = middle
            } else {
                high = middle
            }
        }
        for (child, weight, cap) in claims {
            let share = (weight * high).min(cap);
            if child == i {
                due[i] = share
            } else {
                self.divide(child, share, window, due)
            }
        }
    }

    fn set_class(&mut self, task: usize, class: u8) {
        let class = match class {
            0..4 => Class::Fair,
            4 => Class::Idle,
            5 => Class::RealTime {
                priority: 10,
                policy: RtPolicy::RoundRobin,
            },
            6 => Class::RealTime {
                priority: 10,
                policy: RtPolicy::Fifo,
            },
            _ => Class::RealTime {
                priority: 60,
                policy: RtPolicy::Fifo,
            },
        };
        let params = TaskParams {
            class,
            ..TaskParams::default()
        };
        match self.tasks[task].at {
            At::Running => {}
            At::Out => {
                self.arena.entity_mut(task as u32).set_params(params);
                self.tasks[task].class = class;
            }
            at @ (At::Waiting | At::Delayed) => {
                if at == At::Waiting {
                    self.queue_of(task).retain(|&other| other != task);
                    self.one_fewer(task);
                }
                self.tasks[task].class = class;
                if at == At::Waiting {
                    self.queue_of(task).push_back(task);
                    self.tasks[task].rr_left = self.config.rr_slice_ns;
                    self.groups[self.tasks[task].group].nr += u64::from(self.is_fair(task));
                } else {
                    self.tasks[task].at = At::Out;
                }
                let key = task as u32;
                if self
                    .rq
                    .set_params(&mut self.arena, key, params, self.now)
                    .is_needed()
                {
                    self.turn_unknown = true;
                }
            }
        }
    }

    /// A task of the fair class stops being runnable.
    fn one_fewer(&mut self, task: usize) {
        if self.is_fair(task) {
            let group = &mut self.groups[self.tasks[task].group];
            group.nr -= 1;
            group.slept |= group.nr == 0;
        }
    }

    fn compare(&self) {
        self.rq.validate(&self.arena);
        assert_eq!(self.rq.nr_running(), self.nr_running());
        assert_eq!(self.rq.curr().map(|key| key as usize), self.running());
        for (group, &id) in self.groups.iter().zip(&self.ids) {
            let uncharged = self.running().is_some() && self.rq.usage(id) < group.usage;
            assert!(uncharged || self.rq.usage(id) == group.usage);
            assert_eq!(self.rq.group_lag(id, self.now).is_some(), group.nr > 0);
        }
        for (key, task) in (0..).zip(&self.tasks) {
            let state = self.arena.entity(key).state();
            match task.at {
                At::Waiting => assert_eq!(state, TaskState::Queued),
                At::Running => assert_eq!(state, TaskState::Running),
                At::Delayed => assert_eq!(state, TaskState::Delayed),
                At::Out => assert!(!matches!(state, TaskState::Queued)),
            }
        }
    }

    fn play(&mut self, ops: &[Op]) {
        let mut started = [false; TASKS];
        for &op in ops {
            match op {
                Op::Wake(task) => {
                    let new = !std::mem::replace(&mut started[task], true);
                    self.wake(
                        task,
                        if new {
                            EnqueueKind::New
                        } else {
                            EnqueueKind::Wakeup
                        },
                    );
                }
                Op::Abort(task) => self.abort(task),
                Op::Run(ns) => self.run(ns),
                Op::Switch(outcome) => self.switch(outcome),
                Op::Weight(group, weight) => {
                    self.groups[group].weight = weight;
                    self.domain.set_weight(self.ids[group], weight).unwrap();
                }
                Op::Class(task, class) => self.set_class(task, class),
            }
            self.let_delayed_leave();
            self.compare();
        }
        let (unsure, ticks) = (self.ticks_unsure, self.ticks);
        assert!(unsure <= 8 + ticks / 8, "{unsure} of {ticks} ticks unsure");
    }

    /// Delayed tasks leave when they have burnt their lag: `eevdf_model` checks when.
    fn let_delayed_leave(&mut self) {
        for (key, task) in (0..).zip(&mut self.tasks) {
            if task.at == At::Delayed && self.arena.entity(key).state() == TaskState::Blocked {
                task.at = At::Out;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn agrees_with_the_model(ops in prop::collection::vec(op(), 1..800)) {
        History::new().play(&ops);
    }
}
