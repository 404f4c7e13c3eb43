//! The control plane: creation, removal, limits, errors, attaching.

use evenkeel_core::{
    Class, Config, Domain, EnqueueKind, Entity, GroupId, GroupParams, Outcome, RtPolicy, RunQueue,
    TaskParams, VecArena,
};

fn weight(weight: u32) -> GroupParams {
    GroupParams {
        weight,
        ..GroupParams::default()
    }
}

#[test]
fn groups_come_and_go() {
    let mut domain = Domain::new(2, Config::default());
    let a = domain.create(GroupId::ROOT, weight(200)).unwrap();
    let b = domain.create(a, weight(1)).unwrap();
    assert_eq!(domain.children(GroupId::ROOT).collect::<Vec<_>>(), [a]);
    assert_eq!(
        (domain.parent(b), domain.parent(GroupId::ROOT)),
        (Some(a), None)
    );
    assert!(domain.remove(a).unwrap_err().is_busy());
    assert!(domain.remove(GroupId::ROOT).unwrap_err().is_busy());
    domain.remove(b).unwrap();
    domain.remove(a).unwrap();
    assert!(domain.remove(a).unwrap_err().is_removed());
    // The index is used again, the identifier is not.
    let c = domain.create(GroupId::ROOT, weight(5)).unwrap();
    assert_eq!(c.index(), a.index());
    assert_ne!(c, a);
    assert!(domain.leaf(a).is_none() && domain.leaf(c).is_some());
    assert!(domain.create(a, weight(1)).unwrap_err().is_removed());
}

#[test]
fn bad_values_are_refused_and_named() {
    let mut domain = Domain::new(1, Config::default());
    for bad in [0, 10_001] {
        let error = domain.create(GroupId::ROOT, weight(bad)).unwrap_err();
        assert!(error.is_invalid_value());
        assert_eq!(
            error.to_string(),
            format!("weight is {bad}; allowed: 1 to 10000")
        );
        assert!(
            domain
                .set_weight(GroupId::ROOT, bad)
                .unwrap_err()
                .is_invalid_value()
        );
    }
    let class = Class::RealTime {
        priority: 100,
        policy: RtPolicy::Fifo,
    };
    let task = TaskParams {
        class,
        ..TaskParams::default()
    };
    assert!(
        domain
            .set_task_defaults(GroupId::ROOT, task)
            .unwrap_err()
            .is_invalid_value()
    );
}

#[test]
fn a_group_in_use_is_neither_detached_nor_removed() {
    let mut domain = Domain::new(1, Config::default());
    let mut rq: RunQueue<VecArena> = RunQueue::new(0, 1, Config::default());
    let mut arena = VecArena::new();
    let group = domain.create(GroupId::ROOT, weight(100)).unwrap();
    rq.attach(domain.leaf(group).unwrap());
    let key = arena.insert(Entity::new(group, TaskParams::default()));
    assert!(rq.enqueue(&mut arena, key, EnqueueKind::New, 0).is_needed());
    assert_eq!(
        rq.pick_next(&mut arena, 0).map(|picked| picked.key),
        Some(key)
    );
    assert!(rq.detach(group).unwrap_err().is_busy());
    assert!(domain.remove(group).unwrap_err().is_busy());
    rq.put_prev(&mut arena, 1000, Outcome::Exited);
    assert_eq!(rq.usage(group), 1000);
    rq.detach(group).unwrap();
    assert!(rq.detach(group).unwrap_err().is_removed());
    domain.remove(group).unwrap();
}

/// A task that ends its polls at once is charged the least charge, in lag but not in usage.
#[test]
fn polls_that_end_at_once_pay() {
    let config = Config::default();
    let mut domain = Domain::new(1, config.clone());
    let mut rq: RunQueue<VecArena> = RunQueue::new(0, 1, config.clone());
    let mut arena = VecArena::new();
    let groups = [100, 100].map(|w| domain.create(GroupId::ROOT, weight(w)).unwrap());
    for group in groups {
        rq.attach(domain.leaf(group).unwrap());
        let key = arena.insert(Entity::new(group, TaskParams::default()));
        let _ = rq.enqueue(&mut arena, key, EnqueueKind::New, 0);
    }
    // Both groups poll in no time at all; turns change by charge alone.
    let mut picks = [0u64; 2];
    for _ in 0..100_000 {
        let picked = rq.pick_next(&mut arena, 0).unwrap();
        picks[picked.key as usize] += 1;
        rq.put_prev(&mut arena, 0, Outcome::Yielded);
    }
    let turn = u64::from(config.group_slice_ns / config.min_charge_ns);
    assert!(picks[0].abs_diff(picks[1]) <= turn, "{picks:?}");
    assert_eq!((rq.usage(groups[0]), rq.usage(groups[1])), (0, 0));
}
