//! The judge: exact hierarchical weighted max-min fairness, integrated over time.
//!
//! Guarantee: at every instant each node's rate is the one that water-filling gives. At each
//! level the parent's rate is divided among the children with runnable tasks by weight, a
//! child with `k` runnable tasks below it takes at most `min(k, cpus)` CPUs, and what it
//! cannot take is divided among the others in the same way (progressive filling, Bertsekas
//! and Gallager, "Data Networks", section 6.5.2). Classes are served in order: what RealTime
//! leaves over is Fair's capacity, and what Fair leaves over is Idle's. Such rates are
//! feasible: they sum to at most the number of CPUs and no task gets more than one
//! (McNaughton's wrap-around rule schedules them).
//!
//! Rates are exact fractions. Their integral is kept in units of 2^-64 ns and each interval is
//! rounded down, so an interval of `t` ns loses less than `t * 2^-64` ns.

use crate::frac::Frac;

/// Counts the classes that the judge serves in order: RealTime, Fair, Idle.
pub const CLASSES: usize = 3;

/// Names a node of the judged tree, from [`Judge::add`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(usize);

/// States what one competitor at a level may claim.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// Weight, above zero.
    pub weight: u64,
    /// Largest rate it can use, in CPUs.
    pub cap: u64,
}

/// Divides `capacity` CPUs among `claims` by weight, nobody above its cap.
///
/// Returns one rate per claim. With the claims in order of `cap / weight`, those that reach
/// their cap form a prefix, so one pass over the sorted claims finds the water level.
pub fn fill(capacity: Frac, claims: &[Claim]) -> Vec<Frac> {
    let mut rates = vec![Frac::ZERO; claims.len()];
    let mut order: Vec<usize> = (0..claims.len()).filter(|&i| claims[i].cap > 0).collect();
    order.sort_by_key(|&i| Frac::new(claims[i].cap.into(), claims[i].weight.into()));
    let mut weight: i128 = order.iter().map(|&i| i128::from(claims[i].weight)).sum();
    let mut left = capacity;
    for (at, &i) in order.iter().enumerate() {
        let level = left / Frac::whole(weight);
        let cap = Frac::whole(claims[i].cap.into());
        if level * Frac::whole(claims[i].weight.into()) < cap {
            for &j in &order[at..] {
                rates[j] = level * Frac::whole(claims[j].weight.into());
            }
            break;
        }
        rates[i] = cap;
        left = left - cap;
        weight -= i128::from(claims[i].weight);
    }
    rates
}

#[derive(Clone, Debug)]
struct Node {
    parent: Option<usize>,
    weight: u64,
    children: Vec<usize>,
    /// Runnable tasks attached to this very node, by class.
    runnable: [u64; CLASSES],
    /// The same, summed over the subtree.
    demand: [u64; CLASSES],
    /// Current rate in CPUs, 64 fraction bits.
    rate: u128,
    /// Integral of the rate, in ns with 64 fraction bits.
    due: u128,
}

/// Integrates the exact rates of a tree of groups and tasks over virtual time.
///
/// A node either has children or runnable tasks of its own; a group with both is written as a
/// node whose own tasks sit on a child of their own.
#[derive(Clone, Debug)]
pub struct Judge {
    cpus: u64,
    nodes: Vec<Node>,
    /// Part of all CPUs that RealTime tasks may take.
    rt_share: Frac,
    now: u64,
    is_stale: bool,
}

impl Judge {
    /// Makes a judge of `cpus` CPUs with a root node, at time 0.
    pub fn new(cpus: u32) -> Self {
        let mut judge = Self {
            cpus: cpus.into(),
            nodes: Vec::new(),
            rt_share: Frac::ONE,
            now: 0,
            is_stale: true,
        };
        judge.push(None, 1);
        judge
    }

    /// Returns the root node.
    pub const fn root(&self) -> NodeId {
        NodeId(0)
    }

    /// Limits RealTime tasks to `share` of all CPUs while other classes have runnable tasks.
    pub fn set_rt_share(&mut self, share: Frac) {
        self.rt_share = share;
        self.is_stale = true;
    }

    /// Adds a child of `parent` with `weight` (above zero) and no tasks.
    ///
    /// # Panics
    /// When `weight` is zero or `parent` has tasks of its own.
    pub fn add(&mut self, parent: NodeId, weight: u64) -> NodeId {
        assert!(weight > 0, "a node needs a weight above zero");
        assert_eq!(
            self.nodes[parent.0].runnable, [0; CLASSES],
            "parent is a leaf"
        );
        self.push(Some(parent.0), weight)
    }

    fn push(&mut self, parent: Option<usize>, weight: u64) -> NodeId {
        let id = self.nodes.len();
        self.nodes.push(Node {
            parent,
            weight,
            children: Vec::new(),
            runnable: [0; CLASSES],
            demand: [0; CLASSES],
            rate: 0,
            due: 0,
        });
        if let Some(parent) = parent {
            self.nodes[parent].children.push(id);
        }
        NodeId(id)
    }

    /// Changes a weight from now on; call [`Judge::advance`] first.
    pub fn set_weight(&mut self, node: NodeId, weight: u64) {
        assert!(weight > 0, "a node needs a weight above zero");
        self.nodes[node.0].weight = weight;
        self.is_stale = true;
    }

    /// Adds `delta` runnable tasks of `class` to a leaf from now on; call
    /// [`Judge::advance`] first.
    ///
    /// # Panics
    /// When `node` has children or its count would fall below zero.
    pub fn change_runnable(&mut self, node: NodeId, class: usize, delta: i64) {
        assert!(
            self.nodes[node.0].children.is_empty(),
            "only leaves have tasks"
        );
        let own = &mut self.nodes[node.0].runnable[class];
        *own = own
            .checked_add_signed(delta)
            .expect("runnable count below zero");
        let mut at = Some(node.0);
        while let Some(i) = at {
            let demand = &mut self.nodes[i].demand[class];
            *demand = demand.checked_add_signed(delta).expect("demand below zero");
            at = self.nodes[i].parent;
        }
        self.is_stale = true;
    }

    /// Counts the runnable tasks of all classes at or below `node`.
    pub fn demand(&self, node: NodeId) -> u64 {
        self.nodes[node.0].demand.iter().sum()
    }

    /// Integrates the present rates up to `now` (ns).
    ///
    /// # Panics
    /// When time runs backwards.
    pub fn advance(&mut self, now: u64) {
        let dt = now
            .checked_sub(self.now)
            .expect("virtual time runs backwards");
        if dt == 0 {
            return;
        }
        if self.is_stale {
            self.solve();
        }
        for node in self.nodes.iter_mut().filter(|n| n.rate > 0) {
            node.due += node.rate * u128::from(dt);
        }
        self.now = now;
    }

    /// Returns what `node` was due since time 0, in ns, rounded down.
    pub fn due_ns(&self, node: NodeId) -> u64 {
        u64::try_from(self.nodes[node.0].due >> 64).expect("an integral of less than 2^64 ns")
    }

    /// Returns the rate of `node` in CPUs as of the last [`Judge::advance`], for bounds.
    pub fn rate(&self, node: NodeId) -> f64 {
        self.nodes[node.0].rate as f64 / 2f64.powi(64)
    }

    /// Returns the exact rate of every node, in the order of their making.
    pub fn rates(&self) -> Vec<Frac> {
        let mut total = vec![Frac::ZERO; self.nodes.len()];
        let mut left = Frac::whole(self.cpus.into());
        let demand = self.nodes[0].demand;
        for class in 0..CLASSES {
            let mut capacity = left.min(Frac::whole(demand[class].into()));
            let is_limited = class == 0 && demand[1] + demand[2] > 0;
            if is_limited {
                let most = self.rt_share * Frac::whole(self.cpus.into());
                capacity = capacity.min(most);
            }
            if !capacity.is_zero() {
                self.divide(class, capacity, &mut total);
            }
            left = left - capacity;
        }
        total
    }

    fn solve(&mut self) {
        let rates = self.rates();
        for (node, rate) in self.nodes.iter_mut().zip(rates) {
            node.rate = rate.to_fixed64();
        }
        self.is_stale = false;
    }

    /// Adds the rates of one class, from the root down, to `total`.
    fn divide(&self, class: usize, capacity: Frac, total: &mut [Frac]) {
        let mut stack = vec![(0, capacity)];
        let mut claims = Vec::new();
        let mut who = Vec::new();
        while let Some((id, rate)) = stack.pop() {
            total[id] = total[id] + rate;
            let node = &self.nodes[id];
            claims.clear();
            who.clear();
            for &child in &node.children {
                let demand = self.nodes[child].demand[class];
                if demand > 0 {
                    who.push(child);
                    claims.push(Claim {
                        weight: self.nodes[child].weight,
                        cap: demand.min(self.cpus),
                    });
                }
            }
            stack.extend(who.iter().copied().zip(fill(rate, &claims)));
        }
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
