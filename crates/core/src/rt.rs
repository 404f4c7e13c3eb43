//! The real-time class: one FIFO list per priority.

use core::array;

use crate::arena::Arena;
use crate::config::Config;
use crate::fifo::FifoList;

const PRIORITIES: usize = 100;

/// Run queue of the real-time class (kernel: `struct rt_rq`, `rt_prio_array`), with the kernel's
/// bandwidth control (`sched_rt_runtime_us` in `sched_rt_period_us`, per CPU).
///
/// Differences: the period is advanced when time is charged or asked for, not by a timer; and the
/// class is throttled only while a lower class has something to run, so no CPU idles beside a
/// runnable task (the effect of the kernel's fair server).
#[derive(Clone, Debug)]
pub(crate) struct RtQueue<K> {
    lists: [FifoList<K>; PRIORITIES],
    /// Bit p: list p is not empty.
    bitmap: u128,
    len: usize,
    /// Execution in the present period, in ns, less what earlier periods allowed.
    time: u64,
    period_start: u64,
    throttled: bool,
}

impl<K: Copy + Eq> RtQueue<K> {
    pub(crate) fn new() -> Self {
        let lists = array::from_fn(|_| FifoList::new());
        RtQueue {
            lists,
            bitmap: 0,
            len: 0,
            time: 0,
            period_start: 0,
            throttled: false,
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.bitmap == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the highest priority that waits, 0 if none does.
    #[inline]
    pub(crate) fn top(&self) -> u8 {
        if self.bitmap == 0 {
            0
        } else {
            127 - self.bitmap.leading_zeros() as u8
        }
    }

    /// Returns the first task of the highest priority.
    pub(crate) fn head(&self) -> Option<K> {
        self.lists[usize::from(self.top())].head()
    }

    pub(crate) fn push<A: Arena<Key = K>>(&mut self, arena: &mut A, key: K, front: bool) {
        let priority = arena.entity(key).rt_priority;
        let list = &mut self.lists[usize::from(priority)];
        if front {
            list.push_front(arena, key);
        } else {
            list.push_back(arena, key);
        }
        self.bitmap |= 1 << priority;
        self.len += 1;
    }

    /// Removes and returns the first task of the highest priority.
    pub(crate) fn pop<A: Arena<Key = K>>(&mut self, arena: &A) -> Option<K> {
        let priority = self.top();
        let key = self.lists[usize::from(priority)].pop_front(arena)?;
        self.removed(priority);
        Some(key)
    }

    pub(crate) fn remove<A: Arena<Key = K>>(&mut self, arena: &mut A, key: K) {
        let priority = arena.entity(key).rt_priority;
        self.lists[usize::from(priority)].remove(arena, key);
        self.removed(priority);
    }

    fn removed(&mut self, priority: u8) {
        self.len -= 1;
        if self.lists[usize::from(priority)].is_empty() {
            self.bitmap &= !(1 << priority);
        }
    }

    /// Returns whether another task of this priority waits.
    pub(crate) fn has_equals(&self, priority: u8) -> bool {
        self.bitmap >> priority & 1 == 1
    }

    /// Charges execution of the class (kernel: `update_curr_rt`).
    pub(crate) fn charge(&mut self, delta_ns: u64, now: u64, config: &Config) {
        self.roll(now, config);
        self.time += delta_ns;
        if self.time > config.rt_runtime_ns && config.rt_runtime_ns < config.rt_period_ns {
            self.throttled = true;
        }
    }

    /// Returns whether the class has used up its bandwidth (kernel: `rt_rq_throttled`).
    pub(crate) fn is_throttled(&mut self, now: u64, config: &Config) -> bool {
        if self.throttled {
            self.roll(now, config);
        }
        self.throttled
    }

    /// Returns when the class, running from `now`, will be throttled.
    pub(crate) fn throttled_at(&self, now: u64, config: &Config) -> u64 {
        if config.rt_runtime_ns >= config.rt_period_ns {
            return u64::MAX;
        }
        now + config.rt_runtime_ns.saturating_sub(self.time)
    }

    /// Begins a new period when it is time: each whole period pays off one budget
    /// (kernel: `do_sched_rt_period_timer`).
    fn roll(&mut self, now: u64, config: &Config) {
        let periods = now.saturating_sub(self.period_start) / config.rt_period_ns.max(1);
        if periods == 0 {
            return;
        }
        self.period_start += periods * config.rt_period_ns;
        self.time = self
            .time
            .saturating_sub(periods.saturating_mul(config.rt_runtime_ns));
        self.throttled &= self.time >= config.rt_runtime_ns;
    }
}
