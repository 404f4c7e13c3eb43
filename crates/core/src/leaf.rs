//! What the CPUs share of a group that can hold tasks.
//!
//! # Who writes what
//! | field | writer | readers |
//! |---|---|---|
//! | [`DomainShared`] | coordinator; a CPU where a second group wakes | every CPU |
//! | `Leaf::clock`, `version`, `slice_ns` | coordinator | CPUs with a fragment, at a new epoch |
//! | `Leaf::vclock` | any CPU, once in a pull interval | a CPU whose fragment becomes active |
//! | `Slot` of CPU c | run queue of CPU c | coordinator, statistics, pullers |
//! | `Slot::taken` of CPU c | coordinator | run queue of CPU c |
//! | `Leaf::pool`, `capped` | see [`bandwidth`](crate::bandwidth); any CPU, domain | every CPU |
//! | `Throttle` of CPU c | run queue of CPU c sets, domain clears | both |
//!
//! All of it is atomic, and nobody waits for anybody. No line is written by all CPUs on a switch.

use core::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

use alloc::boxed::Box;
use alloc::sync::Arc;

use crate::bandwidth::Pool;
use crate::entity::TaskParams;
use crate::group::{GroupId, GroupParams, Order};
use crate::seqcell::SeqCell;

/// Rate 1, that is one CPU, in the fixed-point form of rates.
pub(crate) const RATE_ONE: u64 = 1 << 32;

/// Binary digits of a nanosecond in a fluid clock.
const FLUID_BITS: u32 = 20;

/// log2 of the weight that rates refer to (nice 0).
const UNIT_BITS: u32 = 10;

/// Returns a × b / c, rounded down. The wide division is slow and rarely needed.
#[inline]
pub(crate) fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    match a.checked_mul(b) {
        Some(product) => product / c,
        None => (u128::from(a) * u128::from(b) / u128::from(c)) as u64,
    }
}

/// Fluid clock of a leaf group: F(t) = f0 + rate × (t − t0).
///
/// F is the service due to a task of weight 1024 since some origin, in 2^-20 ns, and wraps: only
/// differences count. A fragment with tasks of total weight U is due (ΔF × U / 1024).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FluidClock {
    pub(crate) f0: u64,
    pub(crate) t0: u64,
    /// CPUs per 1024 units of weight, × 2^32.
    pub(crate) rate: u64,
    /// Part of the group's total lag that each fragment heeds in addition to its own, in ns.
    pub(crate) bias: i64,
}

impl FluidClock {
    /// Returns F(now); before t0, F(t0).
    #[inline]
    pub(crate) fn at(&self, now: u64) -> u64 {
        if self.rate == 0 {
            return self.f0;
        }
        let elapsed = u128::from(now.saturating_sub(self.t0));
        let grown = (u128::from(self.rate) * elapsed) >> (32 - FLUID_BITS);
        self.f0.wrapping_add(grown as u64)
    }

    /// Returns the service due to `units` of weight between two readings of the clock, in ns.
    #[inline]
    pub(crate) fn due(from: u64, to: u64, units: u64) -> i64 {
        let difference = i128::from(to.wrapping_sub(from) as i64);
        ((difference * i128::from(units)) >> (FLUID_BITS + UNIT_BITS)) as i64
    }

    /// Returns the step of F that gives `due_ns` to `units` of weight.
    pub(crate) fn step(due_ns: i64, units: u64) -> i64 {
        let step = mul_div(
            due_ns.unsigned_abs(),
            1 << (FLUID_BITS + UNIT_BITS),
            units.max(1),
        );
        if due_ns < 0 {
            -(step as i64)
        } else {
            step as i64
        }
    }

    /// Returns the rate of a fragment of `units`, × 2^32.
    #[inline]
    pub(crate) fn rate_of(rate: u64, units: u64) -> u64 {
        rate.saturating_mul(units) >> UNIT_BITS
    }

    /// Returns the part of a fragment's weight that can be served: `nr` tasks are not due more
    /// than `nr` CPUs, however heavy they are.
    #[inline]
    pub(crate) fn servable(rate: u64, weight: u64, nr: u32) -> u64 {
        let most = u64::from(nr) * RATE_ONE;
        if Self::rate_of(rate, weight) <= most {
            weight
        } else {
            mul_div(most, 1 << UNIT_BITS, rate)
        }
    }

    /// Returns the rate per 1024 units of weight when `units` share `rate`.
    pub(crate) fn rate_per_unit(rate: u64, units: u64) -> u64 {
        mul_div(rate, 1 << UNIT_BITS, units.max(1)).min(1 << 40)
    }
}

/// What the run queue of one CPU publishes about its fragment of a leaf.
///
/// The lag at a later time t is `lag + due(f, F(t), units) − (t − running_since)`, the last term
/// only while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotData {
    pub(crate) lag: i64,
    /// Reading of the fluid clock up to which `lag` is accrued.
    pub(crate) fluid: u64,
    /// Total weight of the runnable tasks, as far as they can be served: see
    /// [`FluidClock::servable`].
    pub(crate) units: u64,
    /// Total weight of the runnable tasks.
    pub(crate) weight: u64,
    /// Time up to which the running fragment is charged; [`NOT_RUNNING`] otherwise.
    pub(crate) running_since: u64,
    /// Service charged to fair-class tasks, in ns, since the attach.
    pub(crate) charged: u64,
    /// ∫ nr dt up to `runnable_at`, in ns.
    pub(crate) runnable: u64,
    pub(crate) runnable_at: u64,
    /// Runnable fair-class tasks.
    pub(crate) nr: u32,
    /// Counts the times that the fragment became empty.
    pub(crate) generation: u32,
    /// [`DomainShared::period`] in which this was written.
    pub(crate) period: u32,
}

/// Marks a fragment that does not run.
pub(crate) const NOT_RUNNING: u64 = u64::MAX;

impl SlotData {
    /// Time that the running fragment has run since it was charged last.
    pub(crate) fn running_ns(&self, now: u64) -> u64 {
        if self.running_since == NOT_RUNNING {
            0
        } else {
            now.saturating_sub(self.running_since)
        }
    }

    pub(crate) fn lag_at(&self, clock: &FluidClock, now: u64) -> i64 {
        let due = FluidClock::due(self.fluid, clock.at(now), self.units);
        self.lag + due - self.running_ns(now) as i64
    }

    pub(crate) fn charged_at(&self, now: u64) -> u64 {
        self.charged + self.running_ns(now)
    }

    pub(crate) fn runnable_at(&self, now: u64) -> u64 {
        self.runnable + u64::from(self.nr) * now.saturating_sub(self.runnable_at)
    }
}

/// One CPU's part of a leaf, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Slot {
    data: SeqCell<10>,
    /// Generation of an empty fragment whose lag the coordinator has taken back.
    pub(crate) taken: AtomicU32,
    /// Runnable tasks of all classes.
    pub(crate) nr_running: AtomicU32,
    /// Fair-class tasks that wait.
    pub(crate) nr_waiting: AtomicU32,
    /// Execution time of all classes, in ns.
    pub(crate) usage: AtomicU64,
    /// V of the fragment's queue, for groups of `Fair` order.
    pub(crate) vruntime: AtomicI64,
}

impl Slot {
    fn new() -> Self {
        let slot = Slot {
            data: SeqCell::new([0; 10]),
            taken: AtomicU32::new(0),
            nr_running: AtomicU32::new(0),
            nr_waiting: AtomicU32::new(0),
            usage: AtomicU64::new(0),
            vruntime: AtomicI64::new(0),
        };
        slot.write(&SlotData {
            running_since: NOT_RUNNING,
            ..SlotData::default()
        });
        slot
    }

    #[inline]
    pub(crate) fn write(&self, data: &SlotData) {
        self.data.write([
            data.lag as u64,
            data.fluid,
            data.units,
            data.weight,
            data.running_since,
            data.charged,
            data.runnable,
            data.runnable_at,
            u64::from(data.generation) << 32 | u64::from(data.nr),
            data.period.into(),
        ]);
    }

    pub(crate) fn read(&self) -> Option<SlotData> {
        let [
            lag,
            fluid,
            units,
            weight,
            running_since,
            charged,
            runnable,
            runnable_at,
            nr,
            period,
        ] = self.data.read()?;
        Some(SlotData {
            lag: lag as i64,
            fluid,
            units,
            weight,
            running_since,
            charged,
            runnable,
            runnable_at,
            nr: nr as u32,
            generation: (nr >> 32) as u32,
            period: period as u32,
        })
    }
}

/// Marks a [`Throttle`] that is not in use.
pub(crate) const NO_LEVEL: u32 = u32::MAX;

/// Whether a fragment is throttled.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    /// Set by the CPU. Cleared by the domain, or by the CPU itself: the fragment may go on.
    pub(crate) is_set: AtomicBool,
    /// Lag with which the fragment was throttled.
    pub(crate) lag: AtomicI64,
    /// Its tasks that would be runnable.
    pub(crate) nr: AtomicU32,
    /// Levels above the leaf of the group that has no runtime, and since when it has had to wait
    /// for that one. The domain may change them while `is_set`.
    pub(crate) level: AtomicU32,
    pub(crate) since: AtomicU64,
}

/// A group as the CPUs see it: fluid clock, settings, and one slot for each CPU.
#[derive(Debug)]
pub struct Leaf {
    id: GroupId,
    order: Order,
    domain: Arc<DomainShared>,
    slice_ns: AtomicU32,
    clock: SeqCell<4>,
    version: AtomicU32,
    vclock: AtomicI64,
    slots: Box<[Slot]>,
    parent: Option<Arc<Leaf>>,
    pub(crate) pool: Pool,
    /// Groups with a quota, of this one and those above.
    pub(crate) capped: AtomicU32,
    /// Fragments that are throttled.
    pub(crate) nr_throttles: AtomicU32,
    throttles: Box<[Throttle]>,
}

impl Leaf {
    pub(crate) fn new(
        id: GroupId,
        params: &GroupParams,
        cpus: usize,
        domain: Arc<DomainShared>,
        parent: Option<Arc<Leaf>>,
    ) -> Self {
        let capped = parent.as_ref().map_or(0, |leaf| leaf.capped.load(SeqCst));
        let pool = Pool::new(cpus, domain.clone());
        Leaf {
            id,
            order: params.order,
            domain,
            slice_ns: AtomicU32::new(params.task.slice_ns),
            clock: SeqCell::new([0; 4]),
            version: AtomicU32::new(0),
            vclock: AtomicI64::new(0),
            slots: (0..cpus).map(|_| Slot::new()).collect(),
            parent,
            pool,
            capped: AtomicU32::new(capped),
            nr_throttles: AtomicU32::new(0),
            throttles: (0..cpus).map(|_| Throttle::default()).collect(),
        }
    }

    /// Returns the group that this leaf belongs to.
    #[inline]
    pub fn id(&self) -> GroupId {
        self.id
    }

    /// Returns the order of its tasks.
    #[inline]
    pub fn order(&self) -> Order {
        self.order
    }

    /// Returns the CPU time that the group's own tasks have used, all CPUs together, in ns, as of
    /// the last switches; [`RunQueue::publish`](crate::RunQueue::publish) brings it up to date.
    pub fn usage_ns(&self) -> u64 {
        self.slots.iter().map(|slot| slot.usage.load(Relaxed)).sum()
    }

    /// Returns the number of the group's own tasks that are runnable, all CPUs together.
    pub fn nr_running(&self) -> usize {
        self.slots
            .iter()
            .map(|slot| slot.nr_running.load(Relaxed) as usize)
            .sum()
    }

    #[inline]
    pub(crate) fn slice_ns(&self) -> u32 {
        self.slice_ns.load(Relaxed)
    }

    pub(crate) fn set_task_defaults(&self, params: &TaskParams) {
        self.slice_ns.store(params.slice_ns, Relaxed);
    }

    #[inline]
    pub(crate) fn domain(&self) -> &Arc<DomainShared> {
        &self.domain
    }

    #[inline]
    pub(crate) fn slot(&self, cpu: usize) -> &Slot {
        &self.slots[cpu]
    }

    #[inline]
    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    #[inline]
    pub(crate) fn version(&self) -> u32 {
        self.version.load(Relaxed)
    }

    #[inline]
    pub(crate) fn clock(&self) -> Option<FluidClock> {
        let [f0, t0, rate, bias] = self.clock.read()?;
        Some(FluidClock {
            f0,
            t0,
            rate,
            bias: bias as i64,
        })
    }

    pub(crate) fn set_clock(&self, clock: FluidClock) {
        self.clock
            .write([clock.f0, clock.t0, clock.rate, clock.bias as u64]);
        self.version
            .store(self.version.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Returns the number of the group's own tasks that would be runnable, but are throttled.
    pub fn nr_throttled(&self) -> usize {
        let nr = |throttle: &Throttle| throttle.nr.load(Relaxed) as usize;
        self.throttles.iter().map(nr).sum()
    }

    /// Returns whether the group or one above has a quota.
    #[inline]
    pub(crate) fn is_capped(&self) -> bool {
        self.capped.load(Relaxed) > 0
    }

    #[inline]
    pub(crate) fn throttle(&self, cpu: usize) -> &Throttle {
        &self.throttles[cpu]
    }

    pub(crate) fn throttles(&self) -> &[Throttle] {
        &self.throttles
    }

    /// Visits the group and those above it, the root last.
    pub(crate) fn path(&self) -> impl Iterator<Item = &Leaf> {
        core::iter::successors(Some(self), |leaf| leaf.parent.as_deref())
    }

    /// Records that a fragment, which is throttled, has to wait for another group of the path.
    pub(crate) fn change_refusal(&self, cpu: usize, level: u32, now: u64) {
        let throttle = self.throttle(cpu);
        let old = throttle.level.load(SeqCst);
        let swapped = throttle.level.compare_exchange(old, level, SeqCst, SeqCst);
        if old == level || old == NO_LEVEL || swapped.is_err() {
            return;
        }
        let since = throttle.since.swap(now, SeqCst);
        if let (Some(old), Some(new)) = (self.above(old), self.above(level)) {
            new.pool.wait();
            old.pool.resume(now.saturating_sub(since));
        }
    }

    /// Returns the group `level` levels above.
    pub(crate) fn above(&self, level: u32) -> Option<&Leaf> {
        self.path().nth(level as usize)
    }

    /// Returns whether no pool on the path is without runtime.
    pub(crate) fn has_runtime(&self, now: u64) -> bool {
        let mut capped = self.path().filter(|leaf| leaf.pool.epoch() != 0);
        capped.all(|leaf| leaf.pool.has_runtime(now))
    }

    /// Returns a virtual time that some CPU of this group has reached.
    #[inline]
    pub(crate) fn vclock(&self) -> i64 {
        self.vclock.load(Relaxed)
    }

    /// Moves the shared virtual time forward to `vruntime`.
    pub(crate) fn advance_vclock(&self, vruntime: i64) {
        if crate::tree::before(self.vclock.load(Relaxed), vruntime) {
            self.vclock.store(vruntime, Relaxed);
        }
    }
}

/// What all CPUs read at their switches: one line, written only when competition begins or ends
/// or a fluid clock changes.
#[derive(Debug)]
#[repr(align(128))]
pub struct DomainShared {
    /// Changes whenever the clock of some leaf did.
    epoch: AtomicU32,
    /// [`COMPETING`], [`NOBODY`], or the index of the only group that has runnable tasks.
    sole: AtomicU32,
    /// Counts the times that competition began.
    period: AtomicU32,
    /// When the coordinator is due; [`NEVER`] while no groups compete.
    next_tick: AtomicU64,
    /// When throttled fragments should be looked at; [`NEVER`] while there are none.
    next_refill: AtomicU64,
    /// Counts the times that a group got a quota.
    cap_epoch: AtomicU64,
}

const COMPETING: u32 = u32::MAX;
const NOBODY: u32 = u32::MAX - 1;
const NEVER: u64 = u64::MAX;

impl DomainShared {
    pub(crate) fn new() -> Self {
        DomainShared {
            epoch: AtomicU32::new(0),
            sole: AtomicU32::new(NOBODY),
            period: AtomicU32::new(0),
            next_tick: AtomicU64::new(NEVER),
            next_refill: AtomicU64::new(NEVER),
            cap_epoch: AtomicU64::new(0),
        }
    }

    /// Returns when [`Domain::refill`](crate::Domain::refill) is due; `None` while nobody is
    /// throttled. It can become earlier at any switch.
    #[inline]
    pub fn next_refill(&self) -> Option<u64> {
        let next = self.next_refill.load(SeqCst);
        (next != NEVER).then_some(next)
    }

    /// Returns whether [`Domain::refill`](crate::Domain::refill) should be called. One load.
    #[inline]
    pub fn refill_due(&self, now: u64) -> bool {
        now >= self.next_refill.load(Relaxed)
    }

    /// Makes a refill due at `at`, or earlier if one is.
    pub(crate) fn refill_at(&self, at: u64) {
        self.next_refill.fetch_min(at, SeqCst);
    }

    pub(crate) fn clear_refill(&self) {
        self.next_refill.store(NEVER, SeqCst);
    }

    #[inline]
    pub(crate) fn cap_epoch(&self) -> u64 {
        self.cap_epoch.load(SeqCst)
    }

    /// Makes known that a group has got its limit; `epoch` is 1 more than the last one.
    pub(crate) fn set_cap_epoch(&self, epoch: u64) {
        self.cap_epoch.store(epoch, SeqCst);
    }

    /// Returns whether [`Domain::tick`](crate::Domain::tick) should be called.
    #[inline]
    pub fn tick_due(&self, now: u64) -> bool {
        now >= self.next_tick.load(Relaxed)
    }

    /// Returns whether two groups or more have had runnable tasks lately, so that the coordinator
    /// is wanted.
    #[inline]
    pub fn is_competing(&self) -> bool {
        self.sole.load(Relaxed) == COMPETING
    }

    #[inline]
    pub(crate) fn period(&self) -> u32 {
        self.period.load(Relaxed)
    }

    #[inline]
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch.load(Relaxed)
    }

    pub(crate) fn advance_epoch(&self) {
        self.epoch.store(self.epoch().wrapping_add(1), Relaxed);
    }

    pub(crate) fn schedule_tick(&self, now: u64, delay_ns: u64) -> u64 {
        let next = now + delay_ns;
        self.next_tick.store(next, Relaxed);
        next
    }

    /// Records that competition has ended; `sole` is the group that is left, if any.
    pub(crate) fn settle(&self, sole: Option<GroupId>) {
        self.next_tick.store(NEVER, Relaxed);
        self.sole
            .store(sole.map_or(NOBODY, |id| id.index() as u32), Relaxed);
    }

    /// Tells that `group` has runnable tasks. The second group to do so starts the coordinator.
    #[inline]
    pub(crate) fn announce(&self, group: GroupId, now: u64) {
        let (index, sole) = (group.index() as u32, self.sole.load(Relaxed));
        if sole != COMPETING && sole != index {
            self.announce_slow(index, now);
        }
    }

    #[cold]
    fn announce_slow(&self, index: u32, now: u64) {
        match self.sole.compare_exchange(NOBODY, index, Relaxed, Relaxed) {
            Ok(_) => {}
            Err(sole) if sole == index || sole == COMPETING => {}
            Err(_) => {
                if self.sole.swap(COMPETING, Relaxed) != COMPETING {
                    self.period.fetch_add(1, Relaxed);
                    self.next_tick.store(now, Relaxed);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fluid_clock_gives_what_the_rate_says() {
        // 3 tasks of weight 1024 share half a CPU for 6 ms: 1 ms each.
        let rate = FluidClock::rate_per_unit(RATE_ONE / 2, 3 * 1024);
        let clock = FluidClock {
            f0: u64::MAX - 5,
            t0: 1000,
            rate,
            bias: 0,
        };
        let due = |units| FluidClock::due(clock.at(1000), clock.at(6_001_000), units);
        assert!((due(1024) - 1_000_000).abs() <= 1, "{}", due(1024));
        assert!((due(3072) - 3_000_000).abs() <= 1);
        assert_eq!(clock.at(0), clock.at(1000));
        let step = FluidClock::step(-700, 512);
        assert_eq!(FluidClock::due(0, step as u64, 512), -700);
    }

    #[test]
    fn slots_keep_what_is_written() {
        let slot = Slot::new();
        let data = SlotData {
            lag: -5,
            fluid: u64::MAX,
            units: 7,
            weight: 8,
            running_since: 100,
            charged: 50,
            runnable: 10,
            runnable_at: 90,
            nr: 2,
            generation: u32::MAX,
            period: 3,
        };
        slot.write(&data);
        assert_eq!(slot.read(), Some(data));
        assert_eq!(data.charged_at(130), 80);
        assert_eq!(data.runnable_at(130), 90);
    }

    #[test]
    fn the_second_group_starts_the_coordinator() {
        let shared = DomainShared::new();
        shared.announce(GroupId::new(3, 0), 10);
        shared.announce(GroupId::new(3, 0), 20);
        assert!(!shared.is_competing() && !shared.tick_due(u64::MAX - 1));
        shared.announce(GroupId::new(4, 0), 30);
        assert!(shared.is_competing() && shared.tick_due(30));
        shared.settle(Some(GroupId::new(4, 0)));
        assert!(!shared.is_competing());
    }
}
