//! Tunable constants: one structure, each field with its unit and its reason.

/// Nanoseconds in a millisecond.
pub(crate) const MSEC: u64 = 1_000_000;

/// Shortest slice that a task or group may ask for, in ns (kernel: `NSEC_PER_MSEC / 10`).
pub(crate) const MIN_SLICE_NS: u32 = 100_000;

/// Longest slice that a task or group may ask for, in ns (kernel: `NSEC_PER_MSEC * 100`).
pub(crate) const MAX_SLICE_NS: u32 = 100_000_000;

/// Tunables of the scheduling core. All times are in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Slice of tasks and groups that ask for none (kernel: `sysctl_sched_base_slice`).
    pub base_slice_ns: u32,
    /// Turn of a group on one CPU against other groups, for groups that ask for no slice. Errors
    /// of fairness are turns × CPUs, so it is shorter than the slice on large machines.
    pub group_slice_ns: u32,
    /// Longest time between two calls of [`RunQueue::tick`](crate::RunQueue::tick) while a task
    /// runs; enters the bound on lag (kernel: `TICK_NSEC`).
    pub tick_ns: u32,
    /// Least that a pick is charged, so that tasks that yield at once pay for the switch.
    pub min_charge_ns: u32,
    /// Time between two calls of [`Domain::tick`](crate::Domain::tick) while groups compete.
    pub coordinator_ns: u64,
    /// Largest lag of a group, and of its fragment on one CPU, in either direction. What exceeds
    /// it is forfeited to (or paid by) the sibling groups.
    pub lag_limit_ns: u64,
    /// Deviation of a leaf's fragments from its exact lag that the coordinator leaves uncorrected.
    pub lag_slack_ns: u64,
    /// Advantage in service (θ) over which a CPU pulls from another.
    pub pull_lag_ns: u64,
    /// Least time between two attempts of one CPU to pull for fairness. Attempts of a CPU that
    /// would be idle are not limited.
    pub pull_interval_ns: u64,
    /// Advantage in virtual time over which a CPU pulls tasks of a group of `Fair` order.
    pub pull_vruntime_ns: u64,
    /// Round-robin slice of real-time tasks (kernel: `RR_TIMESLICE`, 100 ms).
    pub rr_slice_ns: u64,
    /// Length of the real-time bandwidth period (kernel: `sched_rt_period_us`, 1 s).
    pub rt_period_ns: u64,
    /// Real-time execution per period and CPU before lower classes get their turn
    /// (kernel: `sched_rt_runtime_us`, 0.95 s). Equal to the period: no throttling.
    pub rt_runtime_ns: u64,
}

impl Config {
    /// Returns the defaults for a machine of `cpus` CPUs: the base slice is
    /// 0.70 ms × (1 + log2(min(cpus, 8))), as in the kernel's `update_sysctl`.
    pub fn for_cpus(cpus: usize) -> Self {
        let log = cpus.clamp(1, 8).ilog2();
        Config {
            base_slice_ns: 700_000 * (1 + log),
            ..Config::default()
        }
    }

    /// Returns the length of a turn of a group that asks for `slice_ns`, 0 meaning none.
    #[inline]
    pub(crate) fn group_slice(&self, slice_ns: u32) -> u32 {
        if slice_ns == 0 {
            self.group_slice_ns
        } else {
            slice_ns
        }
    }

    /// Returns the slice to use for a request of `slice_ns`, 0 meaning none.
    #[inline]
    pub(crate) fn slice(&self, slice_ns: u32) -> u32 {
        if slice_ns == 0 {
            self.base_slice_ns
        } else {
            slice_ns
        }
    }
}

impl Default for Config {
    /// Returns the defaults for one CPU; see [`Config::for_cpus`].
    fn default() -> Self {
        Config {
            base_slice_ns: 700_000,
            group_slice_ns: 700_000,
            tick_ns: MSEC as u32,
            min_charge_ns: 200,
            coordinator_ns: MSEC,
            lag_limit_ns: 50 * MSEC,
            lag_slack_ns: 20_000,
            pull_lag_ns: MSEC / 2,
            pull_interval_ns: MSEC / 2,
            pull_vruntime_ns: 3 * MSEC,
            rr_slice_ns: 100 * MSEC,
            rt_period_ns: 1000 * MSEC,
            rt_runtime_ns: 950 * MSEC,
        }
    }
}
