//! The judge against the definition: naive rounds, and the two conditions that fix the answer.

use super::*;
use proptest::prelude::*;

/// Divides by rounds: share by weight, freeze whoever would exceed its cap at the cap, repeat.
fn naive(capacity: Frac, claims: &[Claim]) -> Vec<Frac> {
    let mut rates = vec![Frac::ZERO; claims.len()];
    let mut frozen: Vec<bool> = claims.iter().map(|c| c.cap == 0).collect();
    loop {
        let taken = rates.iter().fold(Frac::ZERO, |s, &r| s + r);
        let left = capacity - taken;
        let open: Vec<usize> = (0..claims.len()).filter(|&i| !frozen[i]).collect();
        let weight: i128 = open.iter().map(|&i| i128::from(claims[i].weight)).sum();
        let share = |i: usize| left * Frac::new(claims[i].weight.into(), weight);
        let over: Vec<usize> = open
            .iter()
            .copied()
            .filter(|&i| share(i) >= Frac::whole(claims[i].cap.into()))
            .collect();
        if over.is_empty() {
            for &i in &open {
                rates[i] = share(i);
            }
            return rates;
        }
        for i in over {
            rates[i] = Frac::whole(claims[i].cap.into());
            frozen[i] = true;
        }
    }
}

fn sum(rates: &[Frac]) -> Frac {
    rates.iter().fold(Frac::ZERO, |s, &r| s + r)
}

fn claims() -> impl Strategy<Value = Vec<Claim>> {
    let claim = (1u64..=10_000, 0u64..=9).prop_map(|(weight, cap)| Claim { weight, cap });
    prop::collection::vec(claim, 1..12)
}

proptest! {
    #[test]
    fn fill_agrees_with_naive_rounds(claims in claims(), num in 1i128..64, den in 1i128..8) {
        let capacity = Frac::new(num, den);
        prop_assert_eq!(fill(capacity, &claims), naive(capacity, &claims));
    }

    /// All capacity that can be used is used, and whoever is below its cap has the largest
    /// rate per weight: together these two conditions have exactly one solution.
    #[test]
    fn fill_is_max_min_fair(claims in claims(), num in 1i128..64, den in 1i128..8) {
        let capacity = Frac::new(num, den);
        let rates = fill(capacity, &claims);
        let caps: i128 = claims.iter().map(|c| i128::from(c.cap)).sum();
        prop_assert_eq!(sum(&rates), capacity.min(Frac::whole(caps)));
        let level = |i: usize| rates[i] / Frac::whole(claims[i].weight.into());
        for i in 0..claims.len() {
            let cap = Frac::whole(claims[i].cap.into());
            prop_assert!(rates[i] <= cap);
            if rates[i] < cap {
                prop_assert!((0..claims.len()).all(|j| level(j) <= level(i)));
            }
        }
    }

    /// In a random tree every node's rate is the naive division of its parent's rate.
    #[test]
    fn trees_agree_with_naive_rounds(
        cpus in 1u32..9,
        nodes in prop::collection::vec((0usize..40, 1u64..=10_000, 0i64..6, 0usize..3), 1..40),
    ) {
        let mut judge = Judge::new(cpus);
        let mut ids = vec![judge.root()];
        for &(parent, weight, ..) in &nodes {
            ids.push(judge.add(ids[parent % ids.len()], weight));
        }
        for (i, &(_, _, k, class)) in nodes.iter().enumerate() {
            if judge.nodes[i + 1].children.is_empty() {
                judge.change_runnable(ids[i + 1], class, k);
            }
        }
        let mut expected = vec![Frac::ZERO; ids.len()];
        let mut left = Frac::whole(cpus.into());
        for class in 0..CLASSES {
            let mut rates = vec![Frac::ZERO; ids.len()];
            let demand = judge.nodes[0].demand[class];
            rates[0] = left.min(Frac::whole(demand.into()));
            left = left - rates[0];
            // A parent is always made before its children.
            for id in 0..ids.len() {
                let children = &judge.nodes[id].children;
                let claims: Vec<Claim> = children.iter().map(|&c| Claim {
                    weight: judge.nodes[c].weight,
                    cap: judge.nodes[c].demand[class].min(cpus.into()),
                }).collect();
                for (&c, rate) in children.iter().zip(naive(rates[id], &claims)) {
                    rates[c] = rate;
                }
            }
            for (e, r) in expected.iter_mut().zip(rates) {
                *e = *e + r;
            }
        }
        prop_assert_eq!(judge.rates(), expected);
    }
}

/// One leaf per `(weight, tasks)`, directly under the root.
fn flat(cpus: u32, leaves: &[(u64, i64)]) -> Vec<Frac> {
    let mut judge = Judge::new(cpus);
    for &(weight, tasks) in leaves {
        let id = judge.add(judge.root(), weight);
        judge.change_runnable(id, 1, tasks);
    }
    judge.rates()[1..].to_vec()
}

#[test]
fn known_answers() {
    let half = Frac::new(1, 2);
    assert_eq!(
        flat(2, &[(300, 4), (100, 4)]),
        [Frac::new(3, 2), half],
        "3:1 on two CPUs"
    );
    assert_eq!(
        flat(2, &[(100, 1), (100, 1), (100, 1)]),
        [Frac::new(2, 3); 3],
        "1:1:1 on two CPUs"
    );
    assert_eq!(
        flat(7, &[(100, 1), (100, 100)]),
        [Frac::ONE, Frac::whole(6)],
        "one task cannot use more than one CPU"
    );
    assert_eq!(
        flat(2, &[(10_000, 1), (100, 1), (100, 1)]),
        [Frac::ONE, half, half],
        "the heavy group is capped and the rest is divided by weight"
    );
}

#[test]
fn classes_are_served_in_order() {
    let mut judge = Judge::new(2);
    let rt = judge.add(judge.root(), 1);
    let fair = judge.add(judge.root(), 100);
    let idle = judge.add(judge.root(), 10_000);
    judge.change_runnable(rt, 0, 1);
    judge.change_runnable(fair, 1, 3);
    judge.change_runnable(idle, 2, 5);
    let whole = |judge: &Judge| judge.rates()[1..].to_vec();
    assert_eq!(whole(&judge), [Frac::ONE, Frac::ONE, Frac::ZERO]);
    judge.change_runnable(rt, 0, 1);
    judge.set_rt_share(Frac::new(19, 20));
    assert_eq!(
        whole(&judge),
        [Frac::new(19, 10), Frac::new(1, 10), Frac::ZERO]
    );
    judge.change_runnable(fair, 1, -3);
    judge.change_runnable(rt, 0, -2);
    assert_eq!(whole(&judge), [Frac::ZERO, Frac::ZERO, Frac::whole(2)]);
}

#[test]
fn integrates_over_changing_sets() {
    let mut judge = Judge::new(1);
    let a = judge.add(judge.root(), 100);
    let b = judge.add(judge.root(), 200);
    judge.change_runnable(a, 1, 1);
    judge.advance(1_000);
    judge.change_runnable(b, 1, 1);
    judge.advance(4_000);
    judge.set_weight(a, 200);
    judge.advance(6_000);
    judge.change_runnable(a, 1, -1);
    judge.advance(7_000);
    // a: 1000 alone, a third of 3000, half of 2000; b the rest. Thirds round down.
    assert_eq!(judge.due_ns(a), 2_999);
    assert_eq!(judge.due_ns(b), 3_999);
    assert_eq!(judge.due_ns(judge.root()), 7_000);
}
