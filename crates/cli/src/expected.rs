//! The expected share of each group: hierarchical weighted max-min fairness (water-filling).
//!
//! # Guarantee
//!
//! [`shares`] returns, for every group, the fraction of the used CPU time that an exact scheduler
//! would have given to it, from the weights, the classes, the number of CPUs and how much CPU each
//! group asked for. For groups whose tasks are always ready this depends on nothing measured.
//!
//! # How much a group asks for
//!
//! With k tasks that are always ready (`hash`, `compress`, `spin` without a pause) a group asks
//! for k CPUs: it can use that much and no more. For tasks that sleep or wait for each other the
//! demand d must come from the run. Let
//!
//! - u be the CPU the group used ([`Demand::used`]), in CPUs,
//! - w be the mean number of its tasks that were ready and waiting for a CPU
//!   ([`Demand::waiting`]): the sum of all waits divided by the time measured,
//! - k be the number of tasks that could be ready at once ([`Demand::tasks`]).
//!
//! Each of the k goes round: ready, running, asleep. The share w/k of its time it waited; without
//! any wait the same rounds would have taken 1 − w/k of the time. So the group would have used at
//! most
//!
//! ```text
//! d = u / (1 − w/k) = u·k / (k − w)
//! ```
//!
//! (the asymptotic bound of operational analysis: Denning and Buzen, "The operational analysis of
//! queueing network models", 1978). A group that hardly waits asks for what it used, and one whose
//! tasks are all ready all the time (w = k − u) for k CPUs. With a always-ready tasks among the k,
//! d lies between a and k.
//!
//! # Water-filling
//!
//! A level's CPUs are split by weight; a child that asks for less than its part gets what it asks
//! for, and the rest is split again among the others. A parent asks for what its children ask for,
//! at most for all CPUs. A group's own tasks compete with its children as one more child of weight
//! 100. First real-time groups are served, in the order of their priority, from at most
//! 95 % of the CPUs; then fair ones by weight; idle ones, by weight, get what is left.
//!
//! # From CPUs to shares
//!
//! Shares are fractions of the sum of what all groups get. Where the machine gave the groups less
//! than they asked for and less than all CPUs (other processes, the runtime's own work), the CPUs
//! are counted as that much smaller: a task that is always ready then gets at most one such CPU.

use crate::workload::model::Class;

/// The weight of a group's own tasks beside its child groups.
const OWN_TASKS_WEIGHT: u32 = 100;

/// The part of the CPUs that real-time tasks may use together (the kernel's default for
/// `sched_rt_runtime_us` and `sched_rt_period_us`).
const REALTIME_LIMIT: f64 = 0.95;

/// Differences below this many CPUs are rounding.
const EPSILON: f64 = 1e-9;

/// A group with what it asked for.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The weight against its siblings.
    pub(crate) weight: u32,
    /// The class of its own tasks.
    pub(crate) class: Class,
    /// What its own tasks ask for; `None` when it has none.
    pub(crate) demand: Option<Demand>,
    /// The places of its children in the list of all nodes.
    pub(crate) children: Vec<usize>,
}

/// What a group's own tasks did and could have done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Demand {
    /// How many tasks are always ready.
    pub(crate) always_ready: f64,
    /// How many could be ready at once, those included.
    pub(crate) tasks: f64,
    /// The CPU used, in CPUs.
    pub(crate) used: f64,
    /// The mean number of tasks ready and waiting.
    pub(crate) waiting: f64,
}

/// What a group should have got.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Expected {
    /// The fraction of the CPU time of all groups, its children's included.
    pub(crate) share: f64,
    /// Whether it asks for something, gets all of it, and leaves CPUs to others: its demand, and
    /// not its weight or the machine, is what limits it.
    pub(crate) is_satisfied: bool,
}

impl Demand {
    /// How many CPUs the tasks ask for, of `cpus`.
    fn cpus(&self, cpus: f64) -> f64 {
        let most = self.tasks.min(cpus);
        let least = self.always_ready.min(most);
        let gap = self.tasks - self.waiting;
        // With no gap left all tasks waited all the time: nothing is known but that they ask.
        let demand = if gap > EPSILON {
            self.used * self.tasks / gap
        } else {
            most
        };
        demand.clamp(least, most)
    }
}

/// One child of a level: a node, or the own tasks of one.
struct Part {
    node: usize,
    is_own: bool,
    weight: f64,
    cap: f64,
}

/// The state of one computation.
struct Solver<'a> {
    nodes: &'a [Node],
    cpus: f64,
    /// What each node's own tasks ask for.
    own: Vec<f64>,
    /// What each node's own tasks get.
    own_alloc: Vec<f64>,
}

/// Computes what every node should have got. `roots` are the places of the top-level groups.
///
/// Returns one entry for each node. All shares are 0 when nothing asks for anything.
pub(crate) fn shares(nodes: &[Node], roots: &[usize], cpus: usize) -> Vec<Expected> {
    let real = cpus as f64;
    let demand = |node: &Node| node.demand.map_or(0.0, |demand| demand.cpus(real));
    let asked: f64 = nodes.iter().map(demand).sum::<f64>().min(real);
    let used: f64 = nodes
        .iter()
        .filter_map(|node| node.demand)
        .map(|demand| demand.used)
        .sum();
    // How much smaller than whole the CPUs were.
    let scale = if used > EPSILON && used < asked {
        used / asked
    } else {
        1.0
    };
    let cpus = real * scale;
    let own = nodes
        .iter()
        .map(|node| {
            let Some(demand) = node.demand else {
                return 0.0;
            };
            let least = (demand.always_ready * scale).min(cpus);
            demand
                .cpus(real)
                .min(demand.tasks * scale)
                .clamp(least, cpus)
        })
        .collect();
    let own_alloc = vec![0.0; nodes.len()];
    let mut solver = Solver {
        nodes,
        cpus,
        own,
        own_alloc,
    };
    solver.serve_realtime();
    solver.serve(roots, |class| class == Class::Fair);
    solver.serve(roots, |class| class == Class::Idle);
    solver.finish(roots)
}

impl Solver<'_> {
    /// Serves the real-time groups by priority, those of one priority by number of tasks.
    fn serve_realtime(&mut self) {
        let mut free = self.cpus * REALTIME_LIMIT;
        for priority in (1..=99).rev() {
            let members: Vec<usize> = (0..self.nodes.len())
                .filter(|&at| self.nodes[at].class == Class::RealTime { priority })
                .filter(|&at| self.own[at] > 0.0)
                .collect();
            if members.is_empty() {
                continue;
            }
            let parts: Vec<(f64, f64)> = members
                .iter()
                .map(|&at| (self.nodes[at].demand.map_or(1.0, |d| d.tasks), self.own[at]))
                .collect();
            for (at, alloc) in members.into_iter().zip(water_fill(free, &parts)) {
                self.own_alloc[at] = alloc;
                free -= alloc;
            }
        }
    }

    /// Serves the groups of a class by weight with the CPU that nobody has got yet.
    fn serve(&mut self, roots: &[usize], is_served: impl Fn(Class) -> bool + Copy) {
        let free = self.cpus - self.own_alloc.iter().sum::<f64>();
        let parts = roots.iter().map(|&at| self.part(at, is_served)).collect();
        self.split(free, parts, is_served);
    }

    /// A node as one child of its level.
    fn part(&self, node: usize, is_served: impl Fn(Class) -> bool + Copy) -> Part {
        let weight = f64::from(self.nodes[node].weight);
        Part {
            node,
            is_own: false,
            weight,
            cap: self.cap(node, is_served),
        }
    }

    /// What a node and all under it ask for in a class.
    fn cap(&self, node: usize, is_served: impl Fn(Class) -> bool + Copy) -> f64 {
        let own = if is_served(self.nodes[node].class) {
            self.own[node]
        } else {
            0.0
        };
        let children = self.nodes[node].children.iter();
        let below: f64 = children.map(|&child| self.cap(child, is_served)).sum();
        (own + below).min(self.cpus)
    }

    /// Splits CPUs between the parts of one level, and on below them.
    fn split(&mut self, cpus: f64, parts: Vec<Part>, is_served: impl Fn(Class) -> bool + Copy) {
        let limits: Vec<(f64, f64)> = parts.iter().map(|part| (part.weight, part.cap)).collect();
        for (part, alloc) in parts.into_iter().zip(water_fill(cpus, &limits)) {
            let node = &self.nodes[part.node];
            if part.is_own {
                self.own_alloc[part.node] += alloc;
                continue;
            }
            let mut below: Vec<Part> = node
                .children
                .iter()
                .map(|&child| self.part(child, is_served))
                .collect();
            if is_served(node.class) && self.own[part.node] > 0.0 {
                let (node, weight) = (part.node, f64::from(OWN_TASKS_WEIGHT));
                below.push(Part {
                    node,
                    is_own: true,
                    weight,
                    cap: self.own[node],
                });
            }
            self.split(alloc, below, is_served);
        }
    }

    /// Sums up from the bottom and turns CPUs into shares.
    fn finish(&self, roots: &[usize]) -> Vec<Expected> {
        let total: f64 = self.own_alloc.iter().sum();
        let mut expected = vec![Expected::default(); self.nodes.len()];
        for &root in roots {
            self.sum(root, total, &mut expected);
        }
        expected
    }

    /// Fills in a node and all under it; returns its CPUs got and asked for.
    fn sum(&self, node: usize, total: f64, expected: &mut [Expected]) -> (f64, f64) {
        let (mut got, mut asked) = (self.own_alloc[node], self.own[node]);
        for &child in &self.nodes[node].children {
            let (child_got, child_asked) = self.sum(child, total, expected);
            got += child_got;
            asked += child_asked;
        }
        let share = if total > EPSILON { got / total } else { 0.0 };
        // One that got every CPU is limited by the machine, whatever it asked for.
        let is_satisfied = asked > EPSILON && got >= asked - EPSILON && got < self.cpus - EPSILON;
        expected[node] = Expected {
            share,
            is_satisfied,
        };
        (got, asked)
    }
}

/// Splits an amount between children given as (weight, cap): each gets min(cap, weight · level),
/// with one level for all, so that the amount is used up or every child has its cap.
fn water_fill(amount: f64, children: &[(f64, f64)]) -> Vec<f64> {
    let mut by_level: Vec<usize> = (0..children.len()).collect();
    let level_of = |at: &usize| children[*at].1 / children[*at].0;
    by_level.sort_by(|a, b| level_of(a).total_cmp(&level_of(b)));
    let mut weight_left: f64 = children.iter().map(|(weight, _)| weight).sum();
    let mut left = amount.max(0.0);
    let mut alloc = vec![0.0; children.len()];
    for at in by_level {
        let (weight, cap) = children[at];
        alloc[at] = cap.min(left * weight / weight_left);
        left -= alloc[at];
        weight_left -= weight;
    }
    alloc
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A leaf with `ready` tasks that are always ready.
    fn busy(weight: u32, ready: f64, used: f64) -> Node {
        let demand = Demand {
            always_ready: ready,
            tasks: ready,
            used,
            waiting: 0.0,
        };
        Node {
            weight,
            class: Class::Fair,
            demand: Some(demand),
            children: Vec::new(),
        }
    }

    /// A leaf whose `tasks` sleep now and then.
    fn sleepy(weight: u32, tasks: f64, used: f64, waiting: f64) -> Node {
        let demand = Demand {
            always_ready: 0.0,
            tasks,
            used,
            waiting,
        };
        Node {
            demand: Some(demand),
            ..busy(weight, 0.0, 0.0)
        }
    }

    fn parent(weight: u32, children: &[usize]) -> Node {
        Node {
            demand: None,
            children: children.to_vec(),
            ..busy(weight, 0.0, 0.0)
        }
    }

    fn check(cpus: usize, roots: &[usize], nodes: &[Node], expected: &[f64]) {
        let got: Vec<f64> = shares(nodes, roots, cpus).iter().map(|e| e.share).collect();
        let is_equal = got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(
            is_equal && got.len() == expected.len(),
            "{got:?} is not {expected:?}"
        );
    }

    #[test]
    fn weights_alone() {
        check(
            2,
            &[0, 1],
            &[busy(300, 4.0, 1.5), busy(100, 4.0, 0.5)],
            &[0.75, 0.25],
        );
        check(
            1,
            &[0, 1],
            &[busy(100, 1.0, 0.5), busy(100, 100.0, 0.5)],
            &[0.5, 0.5],
        );
    }

    #[test]
    fn one_task_uses_one_cpu() {
        check(
            2,
            &[0, 1],
            &[busy(300, 1.0, 1.0), busy(100, 4.0, 1.0)],
            &[0.5, 0.5],
        );
        check(
            2,
            &[0, 1],
            &[busy(100, 1.0, 1.0), busy(100, 100.0, 1.0)],
            &[0.5, 0.5],
        );
        check(
            4,
            &[0, 1],
            &[busy(100, 1.0, 1.0), busy(100, 100.0, 3.0)],
            &[0.25, 0.75],
        );
        let three = [busy(1, 1.0, 0.7), busy(1, 1.0, 0.7), busy(1, 1.0, 0.6)];
        check(2, &[0, 1, 2], &three, &[1.0 / 3.0; 3]);
    }

    #[test]
    fn nested_weights() {
        let nodes = [
            parent(100, &[1, 2]),
            busy(100, 2.0, 0.25),
            busy(300, 2.0, 0.75),
            busy(100, 2.0, 1.0),
        ];
        check(2, &[0, 3], &nodes, &[0.5, 0.125, 0.375, 0.5]);
    }

    #[test]
    fn own_tasks_compete_as_a_child_of_weight_100() {
        let mut nodes = [busy(100, 4.0, 0.5), busy(300, 4.0, 1.5)];
        nodes[0].children = vec![1];
        check(2, &[0], &nodes, &[1.0, 0.75]);
    }

    #[test]
    fn a_group_that_sleeps_gives_its_rest_away() {
        let nodes = [
            sleepy(900, 8.0, 0.2, 0.0),
            busy(300, 4.0, 1.35),
            busy(100, 4.0, 0.45),
        ];
        check(2, &[0, 1, 2], &nodes, &[0.1, 0.675, 0.225]);
        let satisfied: Vec<bool> = shares(&nodes, &[0, 1, 2], 2)
            .iter()
            .map(|e| e.is_satisfied)
            .collect();
        assert_eq!(satisfied, [true, false, false]);
    }

    #[test]
    fn a_group_that_waited_would_have_used_more() {
        // Half of the time of its 4 tasks went into waiting: they ask for twice what they used.
        let nodes = [sleepy(300, 4.0, 0.4, 2.0), busy(100, 4.0, 1.6)];
        check(2, &[0, 1], &nodes, &[0.4, 0.6]);
        // All of them always ready: they ask for all that their weight allows.
        let nodes = [sleepy(300, 4.0, 0.4, 3.6), busy(100, 4.0, 1.6)];
        check(2, &[0, 1], &nodes, &[0.75, 0.25]);
        let nodes = [sleepy(300, 1.0, 0.0, 1.0), busy(100, 4.0, 2.0)];
        check(2, &[0, 1], &nodes, &[0.5, 0.5]);
    }

    #[test]
    fn two_starved_sleepers_are_judged_by_weight() {
        let nodes = [sleepy(300, 8.0, 0.8, 7.2), sleepy(100, 8.0, 0.8, 7.2)];
        check(2, &[0, 1], &nodes, &[0.75, 0.25]);
    }

    #[test]
    fn a_slower_machine_does_not_change_shares() {
        for used in [0.5, 0.8, 1.0] {
            let nodes = [busy(300, 1.0, used), busy(100, 4.0, used)];
            check(2, &[0, 1], &nodes, &[0.5, 0.5]);
            let nodes = [busy(300, 4.0, 1.5 * used), busy(100, 4.0, 0.5 * used)];
            check(2, &[0, 1], &nodes, &[0.75, 0.25]);
        }
    }

    #[test]
    fn idle_groups_get_the_rest() {
        let idle = Node {
            class: Class::Idle,
            ..busy(10_000, 4.0, 0.0)
        };
        check(2, &[0, 1], &[busy(1, 4.0, 2.0), idle.clone()], &[1.0, 0.0]);
        check(2, &[0, 1], &[busy(1, 1.0, 1.0), idle.clone()], &[0.5, 0.5]);
        let nodes = [
            busy(1, 1.0, 1.0),
            idle.clone(),
            Node {
                weight: 5_000,
                ..idle
            },
        ];
        check(2, &[0, 1, 2], &nodes, &[0.5, 1.0 / 3.0, 0.5 / 3.0]);
    }

    #[test]
    fn realtime_groups_come_first_within_their_limit() {
        let class = |priority| Class::RealTime { priority };
        let high = Node {
            class: class(50),
            ..busy(1, 1.0, 1.0)
        };
        check(
            2,
            &[0, 1],
            &[high.clone(), busy(100, 4.0, 1.0)],
            &[0.5, 0.5],
        );
        let many = Node {
            class: class(50),
            ..busy(1, 4.0, 1.9)
        };
        check(2, &[0, 1], &[many, busy(100, 4.0, 0.1)], &[0.95, 0.05]);
        let low = Node {
            class: class(10),
            ..busy(1, 4.0, 0.9)
        };
        let nodes = [low, high, busy(100, 4.0, 0.1)];
        check(2, &[0, 1, 2], &nodes, &[0.45, 0.5, 0.05]);
    }

    #[test]
    fn demand_limits_only_who_leaves_something() {
        let check = |nodes: &[Node], roots: &[usize], expected: &[bool]| {
            let limited: Vec<bool> = shares(nodes, roots, 2)
                .iter()
                .map(|e| e.is_satisfied)
                .collect();
            assert_eq!(limited, expected, "{nodes:?}");
        };
        check(&[busy(100, 1.0, 1.0)], &[0], &[true]);
        check(&[busy(100, 2.0, 2.0)], &[0], &[false]);
        let nested = [
            parent(100, &[1, 2]),
            busy(100, 4.0, 1.0),
            busy(100, 4.0, 1.0),
        ];
        check(&nested, &[0], &[false, false, false]);
        check(
            &[busy(100, 1.0, 1.0), busy(100, 4.0, 1.0)],
            &[0, 1],
            &[true, false],
        );
    }

    #[test]
    fn nothing_asked_nothing_expected() {
        check(
            2,
            &[0, 1],
            &[parent(100, &[]), sleepy(100, 1.0, 0.0, 0.0)],
            &[0.0, 0.0],
        );
    }
}
