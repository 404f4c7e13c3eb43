//! The fairness cases: fixed workloads of CPU-bound groups, judged by exact water-filling.

use crate::history::{Class, GroupSpec, History, MachineSpec, Order, RtPolicy, TaskSpec};
use crate::model::Model;
use crate::rng::Rng;

const MS: u64 = 1_000_000;

/// Names a case and makes its history for a number of CPUs.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Name for the command line.
    pub name: &'static str,
    /// What it is, for the table.
    pub title: &'static str,
    build: fn(&mut Workload),
}

/// Lists all cases.
pub const CASES: &[Case] = &[
    Case {
        name: "3:1",
        title: "weights 3:1",
        build: |w| w.groups(&[(300, 2 * w.cpus), (100, 2 * w.cpus)]),
    },
    Case {
        name: "1:1:1",
        title: "weights 1:1:1, one task each",
        build: |w| w.groups(&[(100, 1), (100, 1), (100, 1)]),
    },
    Case {
        name: "1:1:1-many",
        title: "weights 1:1:1, as many tasks each as CPUs",
        build: |w| w.groups(&[(100, w.cpus), (100, w.cpus), (100, w.cpus)]),
    },
    Case {
        name: "100:1",
        title: "weights 100:1",
        build: |w| w.groups(&[(10_000, 2 * w.cpus), (100, 2 * w.cpus)]),
    },
    Case {
        name: "nested",
        title: "1:1 over 1:3",
        build: Workload::nested,
    },
    Case {
        name: "1-100",
        title: "one task against a hundred",
        build: |w| w.groups(&[(100, 1), (100, 100)]),
    },
    Case {
        name: "n+1",
        title: "one group of one task more than CPUs",
        build: |w| w.groups(&vec![(100, 1); w.cpus + 1]),
    },
    Case {
        name: "random",
        title: "300 random nested groups",
        build: |w| w.random_tree(300, 0),
    },
    Case {
        name: "sleepers",
        title: "300 random nested groups, 20 % sleepers",
        build: |w| w.random_tree(300, 20),
    },
    Case {
        name: "fair",
        title: "equal tasks in a Fair group, beside a Fifo group",
        build: Workload::fair_equal,
    },
    Case {
        name: "nice",
        title: "nice -5, 0, 5 in a Fair group, beside a Fifo group",
        build: Workload::fair_nice,
    },
    Case {
        name: "nice-cap",
        title: "nice -10, 0, 0 in a Fair group, beside a Fifo group",
        build: Workload::fair_capped,
    },
    Case {
        name: "rt",
        title: "RealTime hogs on every CPU (95 %) over Fair",
        build: Workload::real_time,
    },
    Case {
        name: "idle",
        title: "one Fair task fewer than CPUs, Idle takes the rest",
        build: Workload::idle,
    },
];

/// Collects groups and tasks of a case.
#[derive(Debug)]
struct Workload {
    cpus: usize,
    rng: Rng,
    kind: Kind,
    groups: Vec<GroupSpec>,
    tasks: Vec<TaskSpec>,
}

/// Says how the hogs of a case use the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Polls of 50 to 150 µs that cannot be interrupted.
    Polls,
    /// Computing without an end, interrupted at the end of the slice.
    Threads,
}

impl Case {
    /// Finds a case by name.
    pub fn find(name: &str) -> Option<&'static Self> {
        CASES.iter().find(|c| c.name == name)
    }

    /// Makes the history: `warm_up_ns`, then `judged_ns` under the judge.
    pub fn history(&self, cpus: u32, kind: Kind, warm_up_ns: u64, judged_ns: u64) -> History {
        let mut workload = Workload {
            cpus: cpus as usize,
            rng: Rng::new(1),
            kind,
            groups: Vec::new(),
            tasks: Vec::new(),
        };
        (self.build)(&mut workload);
        History {
            seed: 1,
            machine: MachineSpec::new(cpus),
            groups: workload.groups,
            tasks: workload.tasks,
            ops: Vec::new(),
            busy_ns: warm_up_ns,
            settle_ns: 0,
            judged_ns,
            poll_ns: 100_000,
            keeps_models: true,
        }
    }
}

impl Workload {
    fn group(&mut self, parent: Option<usize>, weight: u32, order: Order) -> usize {
        self.groups.push(GroupSpec {
            parent,
            weight,
            order,
            class: Class::Fair,
            from_start: true,
        });
        self.groups.len() - 1
    }

    fn class_group(&mut self, class: Class) -> usize {
        let group = self.group(None, 100, Order::Fifo);
        self.groups[group].class = class;
        group
    }

    fn task(&mut self, group: usize, nice: i8, model: Model) {
        self.tasks.push(TaskSpec {
            group: Some(group),
            model,
            is_preemptible: self.kind == Kind::Threads,
            nice,
            slice_ns: None,
            class: None,
            start: self.rng.below(MS),
        });
    }

    fn hogs(&mut self, group: usize, nice: i8, count: usize) {
        for _ in 0..count {
            let poll = match self.kind {
                Kind::Polls => self.rng.range(50_000, 150_000),
                Kind::Threads => 1_000 * MS,
            };
            self.task(group, nice, Model::Hog { poll });
        }
    }

    fn groups(&mut self, groups: &[(u32, usize)]) {
        for &(weight, tasks) in groups {
            let group = self.group(None, weight, Order::Fifo);
            self.hogs(group, 0, tasks);
        }
    }

    fn nested(&mut self) {
        for _ in 0..2 {
            let parent = self.group(None, 100, Order::Fifo);
            for weight in [100, 300] {
                let group = self.group(Some(parent), weight, Order::Fifo);
                self.hogs(group, 0, 2 * self.cpus);
            }
        }
    }

    /// Makes `count` groups in up to four levels with weights from 20 to 2,000. Leaves have one
    /// to eight tasks; `sleepers` percent of these sleep half of the time or more.
    fn random_tree(&mut self, count: usize, sleepers: u64) {
        let mut level: Vec<u32> = Vec::new();
        for index in 0..count {
            let weight = self.rng.log_range(20, 2_000) as u32;
            let above = self.rng.below(index as u64 + 1) as usize;
            let parent = above
                .checked_sub(1)
                .filter(|&p| level[p] < 3 && p < count / 6);
            level.push(parent.map_or(0, |p| level[p] + 1));
            self.group(parent, weight, Order::Fifo);
        }
        for group in 0..count {
            if self.groups.iter().any(|g| g.parent == Some(group)) {
                continue;
            }
            for _ in 0..self.rng.range(1, 8) {
                if self.rng.percent(sleepers) {
                    let run = self.rng.log_range(100_000, MS);
                    let sleep = self.rng.range(run, 20 * MS);
                    self.task(group, 0, Model::Bursty { run, sleep });
                } else {
                    self.hogs(group, 0, 1);
                }
            }
        }
    }

    fn fair_equal(&mut self) {
        let fair = self.group(None, 100, Order::Fair);
        self.hogs(fair, 0, self.cpus + 1);
        let fifo = self.group(None, 100, Order::Fifo);
        self.hogs(fifo, 0, 2 * self.cpus);
    }

    fn fair_nice(&mut self) {
        let fair = self.group(None, 300, Order::Fair);
        for nice in [-5, 0, 5] {
            self.hogs(fair, nice, self.cpus);
        }
        let fifo = self.group(None, 100, Order::Fifo);
        self.hogs(fifo, 0, 2 * self.cpus);
    }

    /// From two CPUs on, the weight of the first task is more than it can use.
    fn fair_capped(&mut self) {
        let fair = self.group(None, 300, Order::Fair);
        for nice in [-10, 0, 0] {
            self.hogs(fair, nice, 1);
        }
        let fifo = self.group(None, 100, Order::Fifo);
        self.hogs(fifo, 0, 2 * self.cpus);
    }

    fn real_time(&mut self) {
        let class = Class::RealTime {
            priority: 50,
            policy: RtPolicy::RoundRobin,
        };
        let rt = self.class_group(class);
        self.hogs(rt, 0, self.cpus);
        let fair = self.class_group(Class::Fair);
        self.hogs(fair, 0, 2 * self.cpus);
    }

    fn idle(&mut self) {
        let fair = self.class_group(Class::Fair);
        self.hogs(fair, 0, self.cpus - 1);
        let idle = self.class_group(Class::Idle);
        self.hogs(idle, 0, self.cpus + 1);
    }
}
