//! Quotas, as a driver sees them.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::{
    Arena, Bandwidth, Class, Config, Domain, DomainShared, EnqueueKind, Entity, GroupId,
    GroupParams, Order, Outcome, RunQueue, TaskParams, TaskState, VecArena, keys,
};

const MS: u64 = 1_000_000;

fn limit(quota_ms: u64, period_ms: u64) -> Bandwidth {
    let ms = Duration::from_millis;
    Bandwidth::new(ms(quota_ms), ms(period_ms)).expect("valid")
}

struct Rig {
    domain: Domain,
    shared: Arc<DomainShared>,
    arena: VecArena,
    rqs: Vec<RunQueue<VecArena>>,
    now: u64,
}

impl Rig {
    fn new(cpus: usize) -> Self {
        let config = Config::for_cpus(cpus);
        let domain = Domain::new(cpus, config.clone());
        let rqs = (0..cpus).map(|cpu| RunQueue::new(cpu, cpus, config.clone()));
        let mut rig = Rig {
            shared: domain.shared(),
            domain,
            arena: VecArena::new(),
            rqs: rqs.collect(),
            now: 0,
        };
        rig.attach(GroupId::ROOT);
        rig
    }

    fn attach(&mut self, id: GroupId) {
        for rq in &mut self.rqs {
            rq.attach(self.domain.leaf(id).expect("exists"));
        }
    }

    fn group(&mut self, parent: GroupId, order: Order) -> GroupId {
        let params = GroupParams {
            order,
            ..GroupParams::default()
        };
        let id = self.domain.create(parent, params).expect("valid");
        self.attach(id);
        id
    }

    fn cap(&mut self, id: GroupId, bandwidth: Bandwidth) {
        let set = self.domain.set_bandwidth(id, bandwidth, self.now);
        set.expect("the key can be flipped");
    }

    fn spawn(&mut self, cpu: usize, group: GroupId, class: Class) -> u32 {
        let params = TaskParams {
            class,
            ..TaskParams::default()
        };
        params.check().expect("valid");
        let key = self.arena.insert(Entity::new(group, params));
        let rq = &mut self.rqs[cpu];
        let _ = rq.enqueue(&mut self.arena, key, EnqueueKind::New, self.now);
        key
    }

    /// Refills if due, then runs the next task of each CPU for up to `poll` ns, all side by side.
    fn step(&mut self, poll: u64) {
        if self.shared.refill_due(self.now) {
            self.domain.refill(self.now, |_| {});
        }
        let mut length = poll;
        for rq in &mut self.rqs {
            if let Some(picked) = rq.pick_next(&mut self.arena, self.now) {
                length = length.min(picked.slice_end.saturating_sub(self.now).max(1));
            }
        }
        if let Some(at) = self.shared.next_refill() {
            length = length.min(at.saturating_sub(self.now).max(1));
        }
        self.now += length;
        for rq in &mut self.rqs {
            if rq.curr().is_some() {
                rq.put_prev(&mut self.arena, self.now, Outcome::Yielded);
            }
            rq.validate(&self.arena);
        }
    }

    fn run(&mut self, to: u64, poll: u64) {
        while self.now < to {
            self.step(poll.min(to - self.now));
        }
    }

    fn used(&self, id: GroupId) -> u64 {
        self.rqs.iter().map(|rq| rq.usage(id)).sum()
    }
}

#[test]
fn a_group_uses_its_quota_and_no_more() {
    for (order, class) in [
        (Order::Fifo, Class::Fair),
        (Order::Fair, Class::Fair),
        (Order::Fifo, Class::Idle),
    ] {
        let mut rig = Rig::new(2);
        let id = rig.group(GroupId::ROOT, order);
        (0..4).for_each(|task| {
            rig.spawn(task % 2, id, class);
        });
        rig.cap(id, limit(20, 50));
        assert!(keys::BANDWIDTH.is_on());
        let start = rig.domain.next_period(id).expect("capped");
        rig.run(start, 100_000);
        let before = rig.used(id);
        rig.run(start + 1_000 * MS, 100_000);
        let used = rig.used(id) - before;
        assert!(
            (399 * MS..=401 * MS).contains(&used),
            "{order:?} {class:?}: {used}"
        );
        let stat = rig.domain.bandwidth_stat(id).expect("exists");
        assert!(
            (20..=22).contains(&stat.nr_periods) && stat.nr_throttled >= 20,
            "{stat:?}"
        );
        let waited = stat.throttled_usec;
        assert!((1_450_000..1_750_000).contains(&waited), "{waited}");
    }
}

#[test]
fn without_throttling_no_timer_is_wanted_and_no_rest_is_kept() {
    let mut rig = Rig::new(1);
    let id = rig.group(GroupId::ROOT, Order::Fifo);
    rig.cap(id, limit(50, 100));
    let key = rig.spawn(0, id, Class::Fair);
    let picked = rig.rqs[0].pick_next(&mut rig.arena, 0).expect("runnable");
    assert_eq!(picked.key, key);
    assert!(rig.rqs[0].reserved_runtime() > 0);
    rig.rqs[0].put_prev(&mut rig.arena, 300_000, Outcome::Blocked);
    assert_eq!(rig.rqs[0].reserved_runtime(), 0);
    assert_eq!(
        rig.domain.bandwidth_runtime(id),
        Some(50 * MS as i64 - 300_000)
    );
    assert_eq!(rig.shared.next_refill(), None);
}

#[test]
fn a_throttled_task_is_counted_nowhere() {
    let mut rig = Rig::new(2);
    let id = rig.group(GroupId::ROOT, Order::Fifo);
    let other = rig.group(GroupId::ROOT, Order::Fifo);
    rig.cap(id, limit(1, 100));
    let keys = [rig.spawn(0, id, Class::Fair), rig.spawn(0, id, Class::Fair)];
    rig.run(10 * MS, 250_000);
    let rq = &mut rig.rqs[0];
    let leaf = rig.domain.leaf(id).expect("exists");
    assert_eq!(
        (rq.nr_running(), rq.nr_waiting(), rq.nr_throttled()),
        (0, 0, 2)
    );
    assert_eq!((leaf.nr_running(), leaf.nr_throttled()), (0, 2));
    assert!(rq.shared().is_idle() && rq.shared().nr_waiting() == 0);
    let request = rig.rqs[1].pull_request(rig.now).expect("idle");
    assert_eq!(
        rig.rqs[0].pull_task(&mut rig.arena, &request, rig.now),
        None
    );
    assert!(rig.domain.remove(id).expect_err("it has tasks").is_busy());
    assert!(rig.rqs[0].detach(id).expect_err("it has tasks").is_busy());
    // Its tasks can be found, moved, and the group removed meanwhile.
    for key in keys {
        let found = rig.rqs[0].any_waiting(&rig.arena, Some(id));
        assert_eq!(found, Some(key));
        rig.rqs[0].dequeue(&mut rig.arena, key, rig.now);
        rig.arena.entity_mut(key).set_group(other);
        let kind = EnqueueKind::Requeue;
        assert!(
            rig.rqs[0]
                .enqueue(&mut rig.arena, key, kind, rig.now)
                .is_needed()
        );
    }
    rig.rqs
        .iter_mut()
        .for_each(|rq| rq.detach(id).expect("no tasks"));
    rig.domain.remove(id).expect("empty");
    assert_eq!(rig.domain.refill(rig.now, |_| {}), None);
    assert_eq!(rig.rqs[0].nr_running(), 2);
}

#[test]
fn a_long_poll_is_paid_off() {
    let mut rig = Rig::new(1);
    let id = rig.group(GroupId::ROOT, Order::Fifo);
    rig.cap(id, limit(10, 100));
    let start = rig.domain.next_period(id).expect("capped");
    rig.spawn(0, id, Class::Fair);
    rig.rqs[0].pick_next(&mut rig.arena, 0);
    // It does not heed its slice, and runs for 35 ms: three and a half quotas.
    rig.now = 35 * MS;
    rig.rqs[0].put_prev(&mut rig.arena, rig.now, Outcome::Yielded);
    rig.rqs[0].charge_outside(id, 5 * MS, rig.now);
    assert_eq!(rig.domain.bandwidth_runtime(id), Some(-30 * MS as i64));
    assert_eq!(rig.used(id), 40 * MS);
    for _ in 0..2 {
        rig.run(rig.domain.next_period(id).expect("capped"), MS);
    }
    rig.run(start + 299 * MS, MS);
    assert_eq!(rig.used(id), 40 * MS, "three periods pay for it");
    rig.run(start + 399 * MS, MS);
    assert!(rig.used(id).abs_diff(50 * MS) < 10_000, "{}", rig.used(id));
}

#[test]
fn every_group_above_is_charged_and_the_tightest_rules() {
    let mut rig = Rig::new(1);
    let outer = rig.group(GroupId::ROOT, Order::Fifo);
    let inner = rig.group(outer, Order::Fifo);
    let beside = rig.group(outer, Order::Fifo);
    rig.cap(outer, limit(40, 100));
    rig.cap(inner, limit(10, 100));
    for id in [inner, beside] {
        rig.spawn(0, id, Class::Fair);
    }
    rig.run(2_000 * MS, 100_000);
    let (a, b) = (rig.used(inner), rig.used(beside));
    assert!((790 * MS..=842 * MS).contains(&(a + b)), "{a} + {b}");
    assert!((190 * MS..=212 * MS).contains(&a), "{a}");
    // The outer limit goes: the inner one stays.
    rig.cap(outer, Bandwidth::UNLIMITED);
    rig.run(3_000 * MS, 100_000);
    assert!(rig.used(inner) - a <= 112 * MS);
    assert!(rig.used(inner) + rig.used(beside) - a - b >= 990 * MS);
}

#[test]
fn burst_lets_the_next_period_use_what_is_left() {
    let mut rig = Rig::new(1);
    let id = rig.group(GroupId::ROOT, Order::Fifo);
    let bursting = limit(10, 100)
        .burst(Duration::from_millis(5))
        .expect("valid");
    rig.cap(id, bursting);
    let start = rig.domain.next_period(id).expect("capped");
    rig.now = start + 350 * MS;
    rig.spawn(0, id, Class::Fair);
    rig.run(start + 399 * MS, 100_000);
    assert!(rig.used(id).abs_diff(15 * MS) < 10_000, "{}", rig.used(id));
    rig.run(start + 499 * MS, 100_000);
    assert!(rig.used(id).abs_diff(25 * MS) < 10_000, "{}", rig.used(id));
    let stat = rig.domain.bandwidth_stat(id).expect("exists");
    assert_eq!((stat.nr_bursts, stat.burst_usec / 10), (1, 500), "{stat:?}");
}

#[test]
fn only_what_runs_from_then_on_is_charged() {
    let mut rig = Rig::new(1);
    let id = rig.group(GroupId::ROOT, Order::Fifo);
    rig.spawn(0, id, Class::Fair);
    rig.rqs[0].pick_next(&mut rig.arena, 0);
    rig.now = 30 * MS;
    // In the middle of a poll of 40 ms that began before.
    rig.cap(id, limit(20, 100));
    assert!(rig.rqs[0].tick(&mut rig.arena, rig.now + MS).is_needed());
    rig.now = 40 * MS;
    rig.rqs[0].put_prev(&mut rig.arena, rig.now, Outcome::Yielded);
    rig.rqs[0].pick_next(&mut rig.arena, rig.now);
    let held = rig.rqs[0].reserved_runtime() as i64;
    assert_eq!(
        rig.domain.bandwidth_runtime(id),
        Some(10 * MS as i64 - held)
    );
}

#[test]
fn the_tick_asks_for_the_cpu_when_the_quota_is_used_up() {
    let mut rig = Rig::new(1);
    let id = rig.group(GroupId::ROOT, Order::Fifo);
    rig.cap(id, limit(3, 100));
    rig.spawn(0, id, Class::Fair);
    let mut end = rig.rqs[0]
        .pick_next(&mut rig.arena, 0)
        .expect("runnable")
        .slice_end;
    while !rig.rqs[0].tick(&mut rig.arena, end).is_needed() {
        end += 100_000;
    }
    assert!((3 * MS..=3 * MS + 200_000).contains(&end), "{end}");
    rig.rqs[0].put_prev(&mut rig.arena, end, Outcome::Preempted);
    assert_eq!(rig.rqs[0].pick_next(&mut rig.arena, end), None);
    let due = rig.shared.next_refill().expect("a fragment is throttled");
    let mut kicked = Vec::new();
    rig.domain.refill(due, |cpu| kicked.push(cpu));
    assert_eq!(kicked, [0]);
    assert!(rig.rqs[0].unthrottle(&mut rig.arena, due).is_needed());
    assert!(rig.rqs[0].pick_next(&mut rig.arena, due).is_some());
}

#[test]
fn the_cpu_that_is_owed_most_goes_on_first() {
    let mut rig = Rig::new(4);
    let id = rig.group(GroupId::ROOT, Order::Fifo);
    rig.cap(id, limit(1, 100));
    rig.now = 10 * MS;
    for cpu in 0..4 {
        rig.spawn(cpu, id, Class::Fair);
    }
    // More than a quota is used, most of it on CPUs 0 and 3. Then there is too little for all.
    for (cpu, ns) in [(0, 1_100_000), (1, 100_000), (2, 200_000), (3, 400_000)] {
        rig.rqs[cpu].charge_outside(id, ns, rig.now);
    }
    for cpu in 0..4 {
        assert_eq!(rig.rqs[cpu].pick_next(&mut rig.arena, rig.now), None);
    }
    let mut first = Vec::new();
    while first.is_empty() {
        let due = rig.shared.next_refill().expect("throttled");
        rig.domain.refill(due, |cpu| first.push(cpu));
    }
    assert_eq!(first, [1, 2], "0.2 ms are two slices");
}

#[test]
fn settings_of_throttled_tasks_can_change() {
    let mut rig = Rig::new(1);
    let id = rig.group(GroupId::ROOT, Order::Fair);
    rig.cap(id, limit(1, 100));
    let keys: Vec<u32> = (0..3).map(|_| rig.spawn(0, id, Class::Fair)).collect();
    rig.run(10 * MS, 250_000);
    assert_eq!(rig.rqs[0].nr_throttled(), 3);
    for (&key, class) in keys.iter().zip([Class::Idle, Class::Fair, Class::Idle]) {
        let params = TaskParams {
            class,
            nice: 5,
            slice_ns: 0,
        };
        let resched = rig.rqs[0].set_params(&mut rig.arena, key, params, rig.now);
        assert!(!resched.is_needed());
        assert_eq!(rig.arena.entity(key).state(), TaskState::Queued);
        rig.rqs[0].validate(&rig.arena);
    }
    assert_eq!((rig.rqs[0].nr_running(), rig.rqs[0].nr_throttled()), (0, 3));
    rig.cap(id, Bandwidth::UNLIMITED);
    rig.run(30 * MS, 250_000);
    assert_eq!((rig.rqs[0].nr_running(), rig.rqs[0].nr_throttled()), (3, 0));
}

#[test]
fn unknown_groups_are_refused() {
    let mut rig = Rig::new(1);
    let id = rig.group(GroupId::ROOT, Order::Fifo);
    rig.domain.remove(id).expect("empty");
    let result = rig.domain.set_bandwidth(id, limit(1, 10), 0);
    assert!(result.expect_err("removed").is_removed());
    assert_eq!(rig.domain.bandwidth(id), None);
}
