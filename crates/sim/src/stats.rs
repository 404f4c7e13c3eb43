//! What is measured while a history runs.

/// Counts and integrals over a whole run, and the same over its judged phase.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Number of CPUs.
    pub cpus: usize,
    /// Virtual time that has passed, in ns.
    pub elapsed_ns: u64,
    /// CPU time without a task, summed over CPUs, in ns.
    pub idle_ns: u64,
    /// Idle CPU time that a waiting task could have used: the integral of
    /// min(idle CPUs, waiting tasks), in ns.
    pub wasted_ns: u64,
    /// Switches: times a task left its CPU.
    pub switches: u64,
    /// Tasks that were pulled from one CPU to another.
    pub migrations: u64,
    /// Longest time from runnable to running, in ns.
    pub worst_wait_ns: u64,
    /// State at the start of the judged phase.
    before: Option<Box<Self>>,
}

impl Stats {
    /// Makes statistics of a machine with `cpus` CPUs.
    pub fn new(cpus: usize) -> Self {
        Self {
            cpus,
            ..Self::default()
        }
    }

    /// Lets `dt` ns pass with so many idle CPUs and waiting tasks.
    pub fn pass(&mut self, dt: u64, idle: usize, waiting: usize) {
        let wasted = idle.min(waiting) as u64;
        self.elapsed_ns += dt;
        self.idle_ns += dt * idle as u64;
        self.wasted_ns += dt * wasted;
    }

    /// Books that a task was picked after a wait.
    pub fn picked(&mut self, waited_ns: u64) {
        self.worst_wait_ns = self.worst_wait_ns.max(waited_ns);
    }

    /// Marks the start of the judged phase.
    pub fn start_judging(&mut self) {
        self.before = None;
        self.before = Some(Box::new(self.clone()));
        self.worst_wait_ns = 0;
    }

    /// Returns the statistics of the judged phase alone; of everything when there was none.
    pub fn judged(&self) -> Self {
        let Some(before) = &self.before else {
            return self.clone();
        };
        Self {
            cpus: self.cpus,
            elapsed_ns: self.elapsed_ns - before.elapsed_ns,
            idle_ns: self.idle_ns - before.idle_ns,
            wasted_ns: self.wasted_ns - before.wasted_ns,
            switches: self.switches - before.switches,
            migrations: self.migrations - before.migrations,
            worst_wait_ns: self.worst_wait_ns,
            before: None,
        }
    }

    /// Returns `count` per second and CPU.
    pub fn per_second_and_cpu(&self, count: u64) -> f64 {
        count as f64 * 1e9 / (self.elapsed_ns.max(1) as f64 * self.cpus as f64)
    }

    /// Returns the idle time with waiting tasks as a part of all CPU time.
    pub fn wasted_share(&self) -> f64 {
        self.wasted_ns as f64 / (self.elapsed_ns.max(1) as f64 * self.cpus as f64)
    }
}
