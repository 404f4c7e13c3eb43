//! The exact answer: hierarchical weighted max-min fairness ("water-filling") over all CPUs
//! together, where a task cannot use more than one CPU.

use crate::cases::GroupSpec;

/// Returns each group's share of what all groups together get, its children's included.
///
/// All tasks are taken to be always ready. A parent's own tasks are not supported: a group has
/// tasks or children.
pub(crate) fn shares(groups: &[GroupSpec], cpus: usize) -> Vec<f64> {
    let mut given = vec![0.0; groups.len()];
    let total = fill("", cpus as f64, groups, cpus, &mut given);
    given.iter().map(|cpus| cpus / total).collect()
}

/// Shares out `amount` CPUs below the group at `path`; returns how much of it was used.
fn fill(path: &str, amount: f64, groups: &[GroupSpec], cpus: usize, given: &mut [f64]) -> f64 {
    let children: Vec<usize> = (0..groups.len())
        .filter(|&index| is_child(groups[index].path, path))
        .collect();
    let wants: Vec<(f64, f64)> = children
        .iter()
        .map(|&index| {
            (
                f64::from(groups[index].weight),
                most(&groups[index], groups, cpus),
            )
        })
        .collect();
    let filled = water_fill(amount, &wants);
    for (&index, &cpus_given) in children.iter().zip(&filled) {
        given[index] = cpus_given;
        fill(groups[index].path, cpus_given, groups, cpus, given);
    }
    filled.iter().sum()
}

/// Returns the most CPUs that the group can use: one for each task, its children's included.
fn most(group: &GroupSpec, groups: &[GroupSpec], cpus: usize) -> f64 {
    let below = |path: &str| path == group.path || path.starts_with(&format!("{}/", group.path));
    let tasks: usize = groups
        .iter()
        .filter(|g| below(g.path))
        .map(|g| g.tasks)
        .sum();
    tasks.min(cpus) as f64
}

/// Gives each `(weight, most)` its part of `amount` by weight, but no more than its `most`; what is
/// left over goes to the others by weight.
fn water_fill(amount: f64, wants: &[(f64, f64)]) -> Vec<f64> {
    let mut given = vec![0.0; wants.len()];
    let mut left = amount;
    let mut open: Vec<usize> = (0..wants.len()).collect();
    loop {
        let weights: f64 = open.iter().map(|&index| wants[index].0).sum();
        let (full, rest): (Vec<usize>, Vec<usize>) = open
            .iter()
            .partition(|&&index| left * wants[index].0 / weights >= wants[index].1);
        for &index in &full {
            given[index] = wants[index].1;
            left -= wants[index].1;
        }
        open = rest;
        if full.is_empty() || open.is_empty() {
            break;
        }
    }
    let weights: f64 = open.iter().map(|&index| wants[index].0).sum();
    for index in open {
        given[index] = left * wants[index].0 / weights;
    }
    given
}

fn is_child(path: &str, parent: &str) -> bool {
    let rest = path
        .strip_prefix(parent)
        .and_then(|rest| rest.strip_prefix('/'));
    rest.is_some_and(|name| !name.contains('/'))
}

#[cfg(test)]
mod tests {
    //! Answers that can be worked out by hand.
    use super::*;

    fn check(groups: &[(&'static str, u32, usize)], cpus: usize, expected: &[f64]) {
        let spec = |&(path, weight, tasks): &(&'static str, u32, usize)| GroupSpec {
            path,
            weight,
            tasks,
        };
        let groups: Vec<GroupSpec> = groups.iter().map(spec).collect();
        let shares = shares(&groups, cpus);
        let is_close = shares
            .iter()
            .zip(expected)
            .all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(
            is_close && shares.len() == expected.len(),
            "{shares:?}, expected {expected:?}"
        );
    }

    #[test]
    fn weights_decide_among_the_busy() {
        check(&[("/a", 3, 4), ("/b", 1, 4)], 2, &[0.75, 0.25]);
        check(
            &[("/a", 100, 4), ("/b", 1, 4)],
            2,
            &[100.0 / 101.0, 1.0 / 101.0],
        );
        check(
            &[("/a", 1, 1), ("/b", 1, 1), ("/c", 1, 1)],
            2,
            &[1.0 / 3.0; 3],
        );
    }

    #[test]
    fn a_task_uses_one_cpu_at_most() {
        check(&[("/a", 3, 1), ("/b", 1, 100)], 2, &[0.5, 0.5]);
        check(&[("/a", 1, 1), ("/b", 3, 100)], 2, &[0.25, 0.75]);
        check(
            &[("/a", 9, 1), ("/b", 2, 9), ("/c", 1, 9)],
            4,
            &[0.25, 0.5, 0.25],
        );
        check(&[("/a", 3, 1), ("/b", 1, 1)], 4, &[0.5, 0.5]);
    }

    #[test]
    fn levels_are_filled_from_the_top() {
        let groups = [("/a", 1, 0), ("/b", 1, 4), ("/a/x", 1, 2), ("/a/y", 3, 2)];
        check(&groups, 2, &[0.5, 0.5, 0.125, 0.375]);
        let capped = [("/a", 3, 0), ("/b", 1, 8), ("/a/x", 1, 1), ("/a/y", 1, 1)];
        check(&capped, 4, &[0.5, 0.5, 0.25, 0.25]);
    }
}
