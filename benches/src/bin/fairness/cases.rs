//! The cases: groups, their weights and the number of their tasks.

/// A group of a case. Parents come before their children.
#[derive(Clone, Copy)]
pub(crate) struct GroupSpec {
    /// Path from the root.
    pub(crate) path: &'static str,
    /// Weight among its siblings.
    pub(crate) weight: u32,
    /// Tasks directly in it.
    pub(crate) tasks: usize,
}

/// A set of groups that compete.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) groups: &'static [GroupSpec],
}

const fn group(path: &'static str, weight: u32, tasks: usize) -> GroupSpec {
    GroupSpec {
        path,
        weight,
        tasks,
    }
}

/// Every case.
pub(crate) const CASES: &[Case] = &[
    Case {
        name: "3:1",
        groups: &[group("/a", 300, 4), group("/b", 100, 4)],
    },
    Case {
        name: "1:1:1 of one task each",
        groups: &[
            group("/a", 100, 1),
            group("/b", 100, 1),
            group("/c", 100, 1),
        ],
    },
    Case {
        name: "1:1:1",
        groups: &[
            group("/a", 100, 4),
            group("/b", 100, 4),
            group("/c", 100, 4),
        ],
    },
    Case {
        name: "100:1",
        groups: &[group("/a", 1000, 4), group("/b", 10, 4)],
    },
    Case {
        name: "nested: 1:1 over 1:3",
        groups: &[
            group("/a", 100, 0),
            group("/b", 100, 0),
            group("/a/x", 100, 2),
            group("/a/y", 300, 2),
            group("/b/x", 100, 2),
            group("/b/y", 300, 2),
        ],
    },
    Case {
        name: "nested beside a leaf",
        groups: &[
            group("/a", 100, 0),
            group("/b", 100, 4),
            group("/a/x", 100, 4),
            group("/a/y", 300, 4),
        ],
    },
    Case {
        name: "one task against a hundred",
        groups: &[group("/a", 100, 1), group("/b", 100, 100)],
    },
    Case {
        name: "one task against a hundred, 1:3",
        groups: &[group("/a", 100, 1), group("/b", 300, 100)],
    },
    Case {
        name: "one task cannot use its weight, 3:1",
        groups: &[group("/a", 300, 1), group("/b", 100, 100)],
    },
];
