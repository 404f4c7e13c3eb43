//! How many CPUs this process may use, and pinning to them.

use std::num::NonZero;

use rustix::thread::{CpuSet, sched_getaffinity};

use crate::error::Error;

/// Returns the number of workers for this process: the CPUs of its affinity mask, but no more than
/// the quota of its cgroup, rounded down; at least 1.
///
/// The standard library reads both: `sched_getaffinity`, and `cpu.max` (v2) or `cpu.cfs_quota_us`
/// over `cpu.cfs_period_us` (v1) of the cgroup and all its ancestors.
pub(crate) fn worker_count() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Returns the CPUs of this thread's affinity mask, ascending.
pub(crate) fn allowed() -> Result<Vec<usize>, Error> {
    let mask =
        sched_getaffinity(None).map_err(|error| Error::os("sched_getaffinity", error.into()))?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&cpu| mask.is_set(cpu))
        .collect())
}
