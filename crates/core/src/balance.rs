//! Choosing where to pull from, and where to put a task that wakes.
//!
//! Every CPU publishes a few hints about itself in its [`CpuShared`], at its own switches. A CPU
//! that wants work reads those of others and chooses a victim; the decision which task moves is
//! made under the victim's lock, on exact values
//! ([`RunQueue::pull_task`](crate::RunQueue::pull_task)). Stale hints cost a futile attempt, never
//! a wrong result.

use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::group::GroupId;
use crate::leaf::RATE_ONE;

/// Victims looked at by an attempt for fairness; an attempt of an idle CPU looks at all.
const PROBES: usize = 8;

/// Difference in total rate from which on a CPU takes over tasks: 1/64 of a CPU.
pub(crate) const PACK_RATE: u64 = RATE_ONE / 64;

/// What a CPU runs, as a rank: higher preempts lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank(pub(crate) u8);

impl Rank {
    pub(crate) const NOTHING: Rank = Rank(0);
    pub(crate) const IDLE: Rank = Rank(1);
    pub(crate) const FAIR: Rank = Rank(2);

    pub(crate) fn real_time(priority: u8) -> Self {
        Rank(2 + priority)
    }
}

/// Hints that one CPU publishes, on cache lines of its own. Only that CPU's run queue writes it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CpuShared {
    nr_running: AtomicU32,
    fair_waiting: AtomicU32,
    idle_waiting: AtomicU32,
    /// Rank of the best real-time task that waits, 0 if none does.
    rt_waiting: AtomicU32,
    running: AtomicU32,
    slice_end: AtomicU64,
    lag: AtomicI64,
    rate: AtomicU64,
    lag_at: AtomicU64,
}

impl CpuShared {
    /// Returns the number of runnable tasks, the running one included.
    pub fn nr_running(&self) -> usize {
        self.nr_running.load(Relaxed) as usize
    }

    /// Returns the number of tasks that wait here and can be pulled.
    pub fn nr_waiting(&self) -> usize {
        let rt = usize::from(self.rt_waiting.load(Relaxed) > 0);
        let waiting = self.fair_waiting.load(Relaxed) + self.idle_waiting.load(Relaxed);
        waiting as usize + rt
    }

    /// Returns whether nothing is runnable here.
    pub fn is_idle(&self) -> bool {
        self.nr_running.load(Relaxed) == 0
    }

    /// Returns when the running task's slice ends, in ns; meaningless while idle.
    pub fn slice_end(&self) -> u64 {
        self.slice_end.load(Relaxed)
    }

    /// Returns the total lag of the CPU's groups, extrapolated to `now`, in ns: positive where they
    /// are owed service.
    pub fn lag_total(&self, now: u64) -> i64 {
        let elapsed = now.saturating_sub(self.lag_at.load(Relaxed)) as i64;
        let service = if self.running.load(Relaxed) == Rank::FAIR.0.into() {
            elapsed
        } else {
            0
        };
        let grown = (i128::from(self.rate.load(Relaxed)) * i128::from(elapsed)) >> 32;
        self.lag.load(Relaxed) + grown as i64 - service
    }

    /// Returns the total rate of the CPU's groups in CPUs × 2^32.
    pub fn rate_total(&self) -> u64 {
        self.rate.load(Relaxed)
    }

    pub(crate) fn set_lag(&self, lag: i64, rate: u64, now: u64) {
        self.lag.store(lag, Relaxed);
        self.rate.store(rate, Relaxed);
        self.lag_at.store(now, Relaxed);
    }

    pub(crate) fn set_counts(&self, nr_running: u32, fair: u32, idle: u32, rt: Rank) {
        self.nr_running.store(nr_running, Relaxed);
        self.fair_waiting.store(fair, Relaxed);
        self.idle_waiting.store(idle, Relaxed);
        self.rt_waiting.store(rt.0.into(), Relaxed);
    }

    pub(crate) fn set_running(&self, rank: Rank, slice_end: u64) {
        self.running.store(rank.0.into(), Relaxed);
        self.slice_end.store(slice_end, Relaxed);
    }

    /// Returns whether nothing above the rank `most` runs or waits here.
    fn is_free(&self, most: Rank) -> bool {
        let runs = self.running.load(Relaxed) <= most.0.into();
        self.is_idle() || most > Rank::NOTHING && runs && self.waiting() <= most
    }

    /// Returns the rank of the best task that waits.
    fn waiting(&self) -> Rank {
        let rt = self.rt_waiting.load(Relaxed);
        if rt > 0 {
            return Rank(rt as u8);
        }
        if self.fair_waiting.load(Relaxed) > 0 {
            Rank::FAIR
        } else if self.idle_waiting.load(Relaxed) > 0 {
            Rank::IDLE
        } else {
            Rank::NOTHING
        }
    }
}

/// Why a CPU wants a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PullKind {
    /// It has nothing to run, or nothing of a class as high as what others have waiting.
    Idle,
    /// Its groups have received more than they are due, or are due less than one CPU.
    Lag,
    /// Its tasks of a `Fair` group are ahead of the same group's on CPU `victim`.
    Vruntime {
        /// The group.
        group: GroupId,
        /// The CPU that is most behind.
        victim: usize,
    },
}

/// A request to pull a task, made by [`RunQueue::pull_request`](crate::RunQueue::pull_request).
#[derive(Clone, Copy, Debug)]
pub struct PullRequest {
    pub(crate) kind: PullKind,
    pub(crate) cpu: usize,
    /// Best rank that the CPU has to run itself.
    pub(crate) rank: Rank,
    pub(crate) lag: i64,
    pub(crate) rate: u64,
    pub(crate) threshold: i64,
}

impl PullRequest {
    /// Returns the reason.
    pub fn kind(&self) -> PullKind {
        self.kind
    }

    /// Returns the CPU that asks.
    pub fn cpu(&self) -> usize {
        self.cpu
    }

    /// Returns whether the CPU would be idle without it.
    pub fn is_idle(&self) -> bool {
        self.rank == Rank::NOTHING
    }
}

/// Chooses the CPU to pull from, or `None` if no CPU seems to have what the request wants.
///
/// `cpus` gives the hints of each CPU below `nr_cpus`; `random` spreads attempts of several CPUs.
/// A request of an idle CPU considers every CPU, so it fails only if nothing waits anywhere.
pub fn select_victim<'a>(
    request: &PullRequest,
    cpus: impl Fn(usize) -> &'a CpuShared,
    nr_cpus: usize,
    now: u64,
    random: u64,
) -> Option<usize> {
    let probes = match request.kind {
        PullKind::Vruntime { victim, .. } => return Some(victim),
        PullKind::Idle => nr_cpus,
        PullKind::Lag => PROBES.min(nr_cpus),
    };
    let start = (random % nr_cpus.max(1) as u64) as usize;
    let mut best: Option<((Rank, i64), usize)> = None;
    for i in 0..probes {
        let cpu = (start + i) % nr_cpus;
        if cpu == request.cpu {
            continue;
        }
        let Some(merit) = merit(request, cpus(cpu), now) else {
            continue;
        };
        if best.is_none_or(|(other, _)| merit > other) {
            best = Some((merit, cpu));
        }
    }
    best.map(|(_, cpu)| cpu)
}

/// Returns how good a victim is: the rank of what it has waiting, then its lag.
fn merit(request: &PullRequest, shared: &CpuShared, now: u64) -> Option<(Rank, i64)> {
    let waiting = shared.waiting();
    let lag = shared.lag_total(now);
    if waiting > request.rank {
        return Some((waiting, lag));
    }
    if request.kind != PullKind::Lag || waiting != Rank::FAIR {
        return None;
    }
    let gap = lag.saturating_sub(request.lag);
    let lighter = shared.rate_total() > RATE_ONE + PACK_RATE && request.rate + PACK_RATE < RATE_ONE;
    (gap > 2 * request.threshold || lighter).then_some((waiting, gap))
}

/// Suggests a CPU for a task that wakes or is new: `prev` if it is idle, else an idle one, else one
/// that runs idle-class work only, else the one among `prev` and four others whose running slice
/// ends first, lag considered (kernel: `select_task_rq_fair`, without topology).
pub fn select_cpu<'a>(
    prev: usize,
    cpus: impl Fn(usize) -> &'a CpuShared,
    nr_cpus: usize,
    now: u64,
    random: u64,
) -> usize {
    let start = (random % nr_cpus.max(1) as u64) as usize;
    let rotated = |i: usize| (start + i) % nr_cpus;
    // A CPU without work; failing that, one with work of the idle class only (kernel:
    // `sched_idle_cpu`).
    for most in [Rank::NOTHING, Rank::IDLE] {
        let is_free = |cpu: usize| cpus(cpu).is_free(most);
        let others = (0..nr_cpus).map(rotated);
        if let Some(free) = core::iter::once(prev)
            .chain(others)
            .find(|&cpu| is_free(cpu))
        {
            return free;
        }
    }
    let wait = |cpu: usize| {
        let left = cpus(cpu)
            .slice_end()
            .saturating_sub(now)
            .min(i64::MAX as u64 / 2) as i64;
        left + cpus(cpu).lag_total(now).max(0) * 3 / 10
    };
    let others = (0..nr_cpus.min(4)).map(rotated);
    others.fold(
        prev,
        |best, cpu| if wait(cpu) < wait(best) { cpu } else { best },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn cpus(waiting: &[u32]) -> Vec<CpuShared> {
        let make = |&waiting: &u32| {
            let shared = CpuShared::default();
            shared.set_counts(1 + waiting, waiting, 0, Rank::NOTHING);
            shared.set_running(Rank::FAIR, 0);
            shared
        };
        waiting.iter().map(make).collect()
    }

    fn request(kind: PullKind, rank: Rank, lag: i64) -> PullRequest {
        PullRequest {
            kind,
            cpu: 0,
            rank,
            lag,
            rate: RATE_ONE,
            threshold: 500,
        }
    }

    #[test]
    fn an_idle_cpu_finds_the_only_waiting_task() {
        for random in 0..20 {
            let all = cpus(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            let idle = request(PullKind::Idle, Rank::NOTHING, 0);
            assert_eq!(
                select_victim(&idle, |i| &all[i], all.len(), 0, random),
                Some(11)
            );
        }
    }

    #[test]
    fn lag_decides_between_fair_tasks() {
        let all = cpus(&[3, 1, 1, 0]);
        all[1].set_lag(900, RATE_ONE, 0);
        all[2].set_lag(1200, RATE_ONE, 0);
        all[3].set_lag(9000, RATE_ONE, 0);
        let pull = |lag| {
            let request = request(PullKind::Lag, Rank::FAIR, lag);
            select_victim(&request, |i| &all[i], all.len(), 0, 7)
        };
        assert_eq!(pull(-600), Some(2));
        assert_eq!(pull(300), None);
    }

    #[test]
    fn real_time_goes_first() {
        let all = cpus(&[0, 5, 0]);
        all[2].set_counts(2, 0, 0, Rank::real_time(40));
        let pull = |rank| {
            let request = request(PullKind::Lag, rank, 0);
            select_victim(&request, |i| &all[i], all.len(), 0, 1)
        };
        assert_eq!(pull(Rank::FAIR), Some(2));
        assert_eq!(pull(Rank::real_time(40)), None);
    }

    #[test]
    fn wakeups_prefer_idle_cpus() {
        let all = cpus(&[0, 0, 0]);
        assert_ne!(select_cpu(0, |i| &all[i], 3, 0, 1), 3);
        all[1].set_counts(0, 0, 0, Rank::NOTHING);
        assert_eq!(select_cpu(0, |i| &all[i], 3, 0, 0), 1);
        assert_eq!(select_cpu(1, |i| &all[i], 3, 0, 0), 1);
        all[1].set_counts(1, 0, 0, Rank::NOTHING);
        all[2].set_running(Rank::IDLE, 0);
        assert_eq!(select_cpu(0, |i| &all[i], 3, 0, 0), 2);
    }
}
