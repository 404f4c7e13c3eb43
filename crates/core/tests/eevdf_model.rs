//! `EevdfQueue` against a reference model: a plain list, linear searches, exact fractions.
//!
//! The model decides by itself which task is eligible, which is picked, who is delayed, what lag
//! a task leaves with, and whether a wake-up preempts. It takes over from the queue only the
//! integers to which virtual times were rounded, after checking that they are the exact values
//! within the rounding that the arithmetic allows.

use evenkeel_core::weight::nice_to_weight;
use evenkeel_core::{
    Arena, Config, EevdfQueue, Entity, GroupId, Placement, TaskParams, TaskState, VecArena,
};
use proptest::prelude::*;

const TASKS: u32 = 12;

/// A fraction with a positive denominator.
#[derive(Clone, Copy, Debug)]
struct Fraction(i128, i128);

impl Fraction {
    fn minus(self, other: i128) -> Fraction {
        Fraction(self.0 - other * self.1, self.1)
    }

    fn at_most(self, other: Fraction) -> bool {
        self.0 * other.1 <= other.0 * self.1
    }

    fn clamp(self, limit: i128) -> Fraction {
        if !self.at_most(Fraction(limit, 1)) {
            return Fraction(limit, 1);
        }
        if Fraction(-limit, 1).at_most(self) {
            self
        } else {
            Fraction(-limit, 1)
        }
    }

    /// Whether the two differ by at most `distance`.
    fn is_near(self, other: Fraction, distance: i128) -> bool {
        let difference = self.0 * other.1 - other.0 * self.1;
        difference.abs() <= distance * self.1 * other.1
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Out,
    Waiting,
    Delayed,
    Running,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    state: State,
    weight: i128,
    slice: i128,
    v: i128,
    d: i128,
    /// Order of insertion into the tree.
    seq: u64,
    /// Lag / weight that the task left with.
    lag: Fraction,
    relative: Option<i128>,
}

struct Model {
    tasks: Vec<Task>,
    seq: u64,
    protected_until: i128,
    config: Config,
}

impl Model {
    fn new(config: Config) -> Self {
        let task = Task {
            state: State::Out,
            weight: 1024,
            slice: config.base_slice_ns.into(),
            v: 0,
            d: 0,
            seq: 0,
            lag: Fraction(0, 1),
            relative: None,
        };
        Model {
            tasks: vec![task; TASKS as usize],
            seq: 0,
            protected_until: 0,
            config,
        }
    }

    fn present(&self) -> impl Iterator<Item = &Task> {
        self.tasks.iter().filter(|task| task.state != State::Out)
    }

    fn in_tree(&self) -> impl Iterator<Item = (u32, &Task)> {
        let waits = |task: &Task| matches!(task.state, State::Waiting | State::Delayed);
        (0..).zip(&self.tasks).filter(move |(_, task)| waits(task))
    }

    fn curr(&self) -> Option<u32> {
        (0..)
            .zip(&self.tasks)
            .find(|(_, task)| task.state == State::Running)
            .map(|(key, _)| key)
    }

    fn weight(&self) -> i128 {
        self.present().map(|task| task.weight).sum()
    }

    /// V, exactly; `None` if nobody is here.
    fn average(&self) -> Option<Fraction> {
        let sum = self.present().map(|task| task.weight * task.v).sum();
        (self.weight() > 0).then(|| Fraction(sum, self.weight()))
    }

    fn is_eligible(&self, v: i128) -> bool {
        self.average()
            .is_none_or(|average| Fraction(v, 1).at_most(average))
    }

    fn virtual_time(&self, ns: i128, weight: i128) -> i128 {
        ns * 1024 / weight
    }

    /// The lag of a task, clamped as the queue documents it.
    fn lag(&self, key: u32) -> Fraction {
        let task = self.tasks[key as usize];
        let largest = self
            .in_tree()
            .map(|(_, task)| (task.slice + 2047) / 2048 * 2048)
            .max();
        let largest = largest.unwrap_or(0).max(task.slice) + i128::from(self.config.tick_ns);
        let average = self.average().expect("the task is here");
        average
            .minus(task.v)
            .clamp(self.virtual_time(largest, task.weight))
    }

    fn pick(&self, protect: bool) -> Option<u32> {
        let curr = self
            .curr()
            .filter(|&key| self.is_eligible(self.tasks[key as usize].v));
        if let Some(key) = curr
            && protect
            && self.tasks[key as usize].v < self.protected_until
        {
            return curr;
        }
        let eligible = self.in_tree().filter(|(_, task)| self.is_eligible(task.v));
        let best = eligible
            .min_by_key(|(_, task)| (task.d, task.seq))
            .map(|(key, _)| key);
        match (best, curr) {
            (Some(a), Some(b)) if self.tasks[b as usize].d < self.tasks[a as usize].d => Some(b),
            (None, None) => self.curr(),
            _ => best.or(curr),
        }
    }

    fn insert(&mut self, key: u32, state: State) {
        self.seq += 1;
        let seq = self.seq;
        let task = &mut self.tasks[key as usize];
        (task.state, task.seq) = (state, seq);
    }

    fn start(&mut self, key: u32) {
        self.tasks[key as usize].state = State::Running;
        let task = self.tasks[key as usize];
        let waiting = self
            .in_tree()
            .map(|(_, task)| task.slice / 2048 * 2048)
            .min();
        let shortest = waiting.map_or(task.slice, |slice| slice.min(task.slice));
        let until = task.v + self.virtual_time(shortest, task.weight);
        self.protected_until = if shortest < task.slice {
            until.min(task.d)
        } else {
            task.d
        };
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Enqueue(u32),
    Move(u32),
    Dequeue(u32),
    Pick,
    Run(u64),
    Put(bool),
    Block,
    Exit,
    Change(u32, i8, u32),
}

fn op() -> impl Strategy<Value = Op> {
    let slice = prop_oneof![Just(0u32), 100_000u32..4_000_000, Just(100_000_000)];
    let long = prop_oneof![1u64..1000, 1000u64..3_000_000, Just(20_000_000)];
    prop_oneof![
        6 => (0..TASKS).prop_map(Op::Enqueue),
        1 => (0..TASKS).prop_map(Op::Move),
        2 => (0..TASKS).prop_map(Op::Dequeue),
        8 => Just(Op::Pick),
        8 => long.prop_map(Op::Run),
        4 => any::<bool>().prop_map(Op::Put),
        4 => Just(Op::Block),
        1 => Just(Op::Exit),
        2 => (0..TASKS, -20i8..=19, slice)
            .prop_map(|(key, nice, slice)| Op::Change(key, nice, slice)),
    ]
}

struct Pair {
    arena: VecArena,
    queue: EevdfQueue<u32>,
    model: Model,
    started: Vec<bool>,
}

impl Pair {
    fn new() -> Self {
        let config = Config::for_cpus(4);
        let mut arena = VecArena::new();
        for _ in 0..TASKS {
            arena.insert(Entity::new(GroupId::ROOT, TaskParams::default()));
        }
        let model = Model::new(config);
        Pair {
            arena,
            queue: EevdfQueue::new(),
            model,
            started: vec![false; TASKS as usize],
        }
    }

    fn task(&mut self, key: u32) -> &mut Task {
        &mut self.model.tasks[key as usize]
    }

    /// Takes over the rounded times of a task that was just placed, having checked them: it
    /// has the lag that it left with, and the deadline that its slice says.
    fn adopt(&mut self, key: u32, placement: Placement, wanted: Fraction) {
        let was_empty = self.model.average().is_none();
        let entity = self.arena.entity(key);
        let (v, d) = (i128::from(entity.vruntime()), i128::from(entity.deadline()));
        let task = self.task(key);
        (task.v, task.d) = (v, d);
        let (vslice, relative) = (task.slice * 1024 / task.weight, task.relative.take());
        let expected = match (placement, relative) {
            (Placement::Initial, _) => vslice / 2,
            (Placement::Restore, Some(relative)) => relative.min(vslice),
            _ => vslice,
        };
        assert_eq!(d - v, expected, "deadline of {key}");
        self.model.insert(key, State::Waiting);
        if !was_empty {
            let lag = self.model.average().unwrap().minus(v);
            assert!(
                lag.is_near(wanted, 3),
                "lag of {key} is {lag:?}, should be {wanted:?}"
            );
        }
    }

    fn enqueue(&mut self, key: u32) {
        let placement = match self.model.tasks[key as usize].state {
            State::Waiting | State::Running => return,
            State::Delayed => Placement::Wakeup,
            State::Out if !self.started[key as usize] => Placement::Initial,
            State::Out if self.model.tasks[key as usize].relative.is_some() => Placement::Restore,
            State::Out => Placement::Wakeup,
        };
        self.started[key as usize] = true;
        let was_delayed = self.model.tasks[key as usize].state == State::Delayed;
        let gained = was_delayed && {
            let average = self.model.average().unwrap();
            average.0.div_euclid(average.1) > self.model.tasks[key as usize].v
        };
        let config = self.model.config.clone();
        let preempts = self.queue.enqueue(&mut self.arena, key, placement, &config);
        let wanted = self.model.tasks[key as usize].lag;
        match (was_delayed, gained) {
            (true, false) => self.task(key).state = State::Waiting,
            (true, true) => {
                self.task(key).state = State::Out;
                self.adopt(key, Placement::Wakeup, Fraction(0, 1));
            }
            _ if placement == Placement::Initial => self.adopt(key, placement, Fraction(0, 1)),
            _ => self.adopt(key, placement, wanted),
        }
        self.check_preemption(key, placement, preempts);
    }

    fn check_preemption(&mut self, key: u32, placement: Placement, preempts: bool) {
        let mut expected = false;
        if placement != Placement::Restore
            && let Some(curr) = self.model.curr()
        {
            let (curr, new) = (
                self.model.tasks[curr as usize],
                self.model.tasks[key as usize],
            );
            let short = new.slice < curr.slice;
            expected = self.model.pick(!short) == Some(key);
            if expected && short {
                self.model.protected_until = curr.v;
            }
        }
        assert_eq!(preempts, expected, "wake-up of {key} preempts");
    }

    /// A task leaves to come back from another CPU with the virtual time it had.
    fn migrate(&mut self, key: u32) {
        if self.model.tasks[key as usize].state != State::Waiting
            || self.model.present().count() < 2
        {
            return;
        }
        let v = self.model.tasks[key as usize].v;
        self.dequeue(key);
        let config = self.model.config.clone();
        let preempts = self
            .queue
            .enqueue(&mut self.arena, key, Placement::Migrated, &config);
        let entity = self.arena.entity(key);
        let task = &mut self.model.tasks[key as usize];
        let limit = 4 * config.pull_vruntime_ns.max(task.slice as u64) as i128 * 1024 / task.weight;
        let average = self.model.average().unwrap();
        let average = average.0.div_euclid(average.1);
        let expected = v.clamp(average - limit, average + limit);
        assert_eq!(
            i128::from(entity.vruntime()),
            expected,
            "a task that moves keeps its vruntime"
        );
        let task = &mut self.model.tasks[key as usize];
        (task.v, task.d) = (expected, i128::from(entity.deadline()));
        task.relative = None;
        assert!(task.d - task.v <= task.slice * 1024 / task.weight);
        self.model.insert(key, State::Waiting);
        self.check_preemption(key, Placement::Migrated, preempts);
    }

    fn dequeue(&mut self, key: u32) {
        let state = self.model.tasks[key as usize].state;
        if !matches!(state, State::Waiting | State::Delayed) {
            return;
        }
        self.queue.dequeue(&mut self.arena, key, &self.model.config);
        self.leave_tree(key);
    }

    fn leave_tree(&mut self, key: u32) {
        let lag = self.model.lag(key);
        let task = self.task(key);
        let delayed = task.state == State::Delayed;
        task.lag = if delayed && lag.0 > 0 {
            Fraction(0, 1)
        } else {
            lag
        };
        task.relative = (!delayed).then_some(task.d - task.v);
        task.state = State::Out;
    }

    fn pick(&mut self) {
        if self.model.curr().is_some() {
            return;
        }
        let picked = self.queue.pick(&mut self.arena, &self.model.config);
        // Delayed tasks that come first leave.
        let expected = loop {
            match self.model.pick(true) {
                Some(key) if self.model.tasks[key as usize].state == State::Delayed => {
                    self.leave_tree(key);
                }
                other => break other,
            }
        };
        assert_eq!(picked, expected, "pick");
        if let Some(key) = picked {
            self.model.start(key);
        }
    }

    fn run(&mut self, ns: u64) {
        let resched = self.queue.update_curr(&mut self.arena, ns);
        let Some(key) = self.model.curr() else { return };
        let task = self.task(key);
        task.v += i128::from(ns) * 1024 / task.weight;
        let passed = task.v >= task.d;
        if passed {
            task.d = task.v + task.slice * 1024 / task.weight;
        }
        let protected = task.v < self.model.protected_until;
        let others = self
            .model
            .in_tree()
            .any(|(_, task)| task.state == State::Waiting);
        assert_eq!(resched, others && (passed || !protected), "reschedule");
    }

    fn put(&mut self, yielded: bool) {
        self.queue.put_prev(&mut self.arena, yielded);
        let Some(key) = self.model.curr() else { return };
        let task = self.task(key);
        if yielded {
            task.d = task.v + task.slice * 1024 / task.weight;
        }
        self.model.insert(key, State::Waiting);
    }

    fn block(&mut self) {
        self.queue.block_curr(&mut self.arena, &self.model.config);
        let Some(key) = self.model.curr() else { return };
        if self.model.is_eligible(self.model.tasks[key as usize].v) {
            self.leave_curr(key);
        } else {
            self.model.insert(key, State::Delayed);
        }
        if self
            .model
            .in_tree()
            .all(|(_, task)| task.state == State::Delayed)
        {
            while let Some(key) = self.model.pick(false) {
                self.leave_tree(key);
            }
        }
    }

    fn exit(&mut self) {
        self.queue.remove_curr(&mut self.arena, &self.model.config);
        if let Some(key) = self.model.curr() {
            self.leave_curr(key);
        }
    }

    fn leave_curr(&mut self, key: u32) {
        let lag = self.model.lag(key);
        let task = self.task(key);
        (task.lag, task.relative, task.state) = (lag, None, State::Out);
    }

    /// Changes nice and slice, of the running task in place, of others while they are out.
    fn change(&mut self, key: u32, nice: i8, slice_ns: u32) {
        let params = TaskParams {
            nice,
            slice_ns,
            ..TaskParams::default()
        };
        let base = self.model.config.base_slice_ns;
        let slice = i128::from(if slice_ns == 0 { base } else { slice_ns });
        let weight = i128::from(nice_to_weight(nice));
        match self.model.tasks[key as usize].state {
            State::Running => {
                let lag = self.model.lag(key);
                let config = self.model.config.clone();
                self.queue
                    .reweight_curr(&mut self.arena, |e| e.set_params(params), &config);
                let v = i128::from(self.arena.entity(key).vruntime());
                let d = i128::from(self.arena.entity(key).deadline());
                let alone = self.model.present().count() == 1;
                let task = self.task(key);
                let old = task.weight;
                (task.weight, task.slice, task.v, task.d) = (weight, slice, v, d);
                assert!(d - v <= slice * 1024 / weight);
                if !alone {
                    let after = self.model.average().unwrap().minus(v);
                    let wanted = Fraction(lag.0 * old, lag.1 * weight);
                    let rounding = 4 + old / weight;
                    assert!(after.is_near(wanted, rounding), "{after:?} {wanted:?}");
                }
                self.model.start(key);
            }
            State::Out => {
                self.arena.entity_mut(key).set_params(params);
                let task = self.task(key);
                let lag = task.lag;
                // The sleeper's lag is kept in whole ns of virtual time.
                let kept = lag.0.div_euclid(lag.1) * task.weight / weight;
                task.lag = Fraction(kept, 1);
                (task.weight, task.slice) = (weight, slice);
            }
            State::Waiting | State::Delayed => {}
        }
    }

    fn compare(&self) {
        self.queue.validate(&self.arena);
        for (key, task) in (0..).zip(&self.model.tasks) {
            let entity = self.arena.entity(key);
            let state = match task.state {
                State::Out => TaskState::Blocked,
                State::Waiting => TaskState::Queued,
                State::Delayed => TaskState::Delayed,
                State::Running => TaskState::Running,
            };
            assert_eq!(entity.state(), state, "state of {key}");
            if state != TaskState::Blocked {
                let times = (i128::from(entity.vruntime()), i128::from(entity.deadline()));
                assert_eq!(times, (task.v, task.d), "times of {key}");
                assert_eq!(
                    self.queue.is_eligible(&self.arena, key),
                    self.model.is_eligible(task.v)
                );
            }
        }
        if let Some(average) = self.model.average() {
            let floor = average.0.div_euclid(average.1);
            assert_eq!(i128::from(self.queue.avg_vruntime(&self.arena)), floor);
        }
        let behind = self
            .model
            .in_tree()
            .min_by_key(|(_, task)| (task.v, task.d, task.seq));
        if let Some((key, task)) = behind
            && task.state == State::Waiting
        {
            assert_eq!(self.queue.most_behind(&self.arena), Some(key));
        }
    }
}

fn play(ops: &[Op]) {
    let mut pair = Pair::new();
    for &op in ops {
        match op {
            Op::Enqueue(key) => pair.enqueue(key),
            Op::Move(key) => pair.migrate(key),
            Op::Dequeue(key) => pair.dequeue(key),
            Op::Pick => pair.pick(),
            Op::Run(ns) => pair.run(ns),
            Op::Put(yielded) => pair.put(yielded),
            Op::Block => pair.block(),
            Op::Exit => pair.exit(),
            Op::Change(key, nice, slice) => pair.change(key, nice, slice),
        }
        pair.compare();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn agrees_with_the_model(ops in prop::collection::vec(op(), 1..600)) {
        play(&ops);
    }
}
