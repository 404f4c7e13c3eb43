//! Slices of runtime, charging, and throttled fragments of one CPU.
//!
//! At most one fragment has a reservation: the one whose turn it is, or that of the running
//! idle-class task. The same amount is reserved in each capped group on its path. What a fragment
//! has executed is accounted whenever its lag is brought up to date, which ends no later than its
//! turn: first out of the reservation, then as a charge.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::{FairClass, Fragment, NONE};
use crate::bandwidth::SLACK_NS;
use crate::config::Config;
use crate::fifo::FifoList;
use crate::key_on;
use crate::leaf::{Leaf, NO_LEVEL};

/// Runtime that was taken out of the pools of a fragment's path and is not used yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reservation {
    /// [`NONE`], or the fragment.
    at: u32,
    left: u64,
    /// Pools that got their limit later took no part in it.
    epoch: u64,
}

impl Reservation {
    pub(super) const NONE: Reservation = Reservation {
        at: NONE,
        left: 0,
        epoch: 0,
    };
}

/// The tasks of a throttled fragment that would be runnable.
#[derive(Debug)]
pub(crate) struct Parked<K> {
    /// Those in the fragment's queue, and their weight.
    pub(crate) nr: u32,
    pub(crate) weight: u64,
    /// Those of the idle class.
    pub(crate) idle: FifoList<K>,
}

impl<K: Copy + Eq> Parked<K> {
    /// Number of tasks.
    pub(crate) fn nr_running(&self) -> u32 {
        self.nr + self.idle.len() as u32
    }
}

impl<K: Copy + Eq> Fragment<K> {
    /// Returns whether the fragment is throttled.
    #[inline]
    pub(crate) fn is_throttled(&self) -> bool {
        self.parked.is_some()
    }

    pub(crate) fn parked(&self) -> Option<&Parked<K>> {
        self.parked.as_ref()
    }

    pub(crate) fn parked_mut(&mut self) -> Option<&mut Parked<K>> {
        self.parked.as_mut()
    }
}

/// Returns the groups on a path that have a limit of epoch 1 to `epoch`.
fn capped(leaf: &Leaf, epoch: u64) -> impl Iterator<Item = &Leaf> {
    leaf.path()
        .filter(move |leaf| (1..=epoch).contains(&leaf.pool.epoch()))
}

/// Records that a fragment no longer waits for runtime.
fn end_wait(leaf: &Leaf, cpu: usize, now: u64) {
    let throttle = leaf.throttle(cpu);
    throttle.is_set.store(false, SeqCst);
    leaf.nr_throttles.fetch_sub(1, SeqCst);
    let level = throttle.level.swap(NO_LEVEL, SeqCst);
    if let Some(refusing) = leaf.above(level) {
        let since = throttle.since.load(SeqCst);
        refusing.pool.resume(now.saturating_sub(since));
    }
}

impl<K: Copy + Eq + core::fmt::Debug> FairClass<K> {
    /// Accounts what a fragment has executed since the last time. With the key off, it only
    /// remembers that: nothing from before is charged when the key goes on.
    #[inline]
    pub(crate) fn account(&mut self, at: u32, now: u64) {
        let fragment = self.fragment_mut(at);
        let covered = fragment.usage - fragment.exempt;
        let used = covered - core::mem::replace(&mut fragment.accounted, covered);
        if key_on!(BANDWIDTH) && used > 0 && self.fragment(at).leaf.is_capped() {
            self.charge_path(at, used, now);
        }
    }

    #[inline(never)]
    fn charge_path(&mut self, at: u32, used: u64, now: u64) {
        let mut reserved = 0;
        if self.reservation.at == at {
            reserved = used.min(self.reservation.left);
            self.reservation.left -= reserved;
        }
        let epoch = self.reservation.epoch;
        for leaf in capped(&self.fragment(at).leaf, u64::MAX) {
            let paid = if leaf.pool.epoch() <= epoch {
                reserved
            } else {
                0
            };
            // Nothing from before the group had a limit.
            let used = used.min(now.saturating_sub(leaf.pool.since()));
            if used > paid {
                leaf.pool.charge(used - paid, now);
            }
        }
    }

    /// Returns how long the turn that begins may be: as long as `wanted` and as there is runtime.
    /// 0: the fragment has to be throttled.
    #[inline]
    pub(super) fn reserve_turn(&mut self, at: u32, wanted: u64, now: u64) -> u64 {
        if key_on!(BANDWIDTH) {
            self.reserve(at, wanted, now)
        } else {
            wanted
        }
    }

    /// Gives back the present reservation and takes one for `at`. Returns its amount.
    pub(crate) fn reserve(&mut self, at: u32, wanted: u64, now: u64) -> u64 {
        self.release(now);
        let epoch = self.fragment(at).leaf.domain().cap_epoch();
        let leaf = &self.fragment(at).leaf;
        if !leaf.is_capped() {
            return wanted;
        }
        let mut amount = wanted;
        let mut is_capped = false;
        for group in capped(leaf, epoch) {
            is_capped = true;
            let got = group.pool.take(amount, now);
            if got < amount {
                let is_below = |below: &&Leaf| !core::ptr::eq(*below, group);
                for below in capped(leaf, epoch).take_while(is_below) {
                    if below.pool.give(amount - got, now) {
                        below.domain().refill_at(now + SLACK_NS);
                    }
                }
            }
            amount = got;
            if amount == 0 {
                return 0;
            }
        }
        if is_capped {
            self.reservation = Reservation {
                at,
                left: amount,
                epoch,
            };
        }
        amount
    }

    /// Returns whether the turn of `curr` could not begin for want of runtime.
    #[inline]
    pub(crate) fn is_starved(&self) -> bool {
        key_on!(BANDWIDTH) && self.budget == 0
    }

    /// Gives back what is left of the reservation.
    pub(crate) fn release(&mut self, now: u64) {
        if self.reservation.at == NONE {
            return;
        }
        self.account(self.reservation.at, now);
        let Reservation { at, left, epoch } =
            core::mem::replace(&mut self.reservation, Reservation::NONE);
        if left == 0 {
            return;
        }
        for leaf in capped(&self.fragment(at).leaf, epoch) {
            if leaf.pool.give(left, now) {
                leaf.domain().refill_at(now + SLACK_NS);
            }
        }
    }

    /// Gives back what is left of the reservation of `at`, if it has one.
    #[inline]
    pub(super) fn release_of(&mut self, at: u32, now: u64) {
        if self.reservation.at == at {
            self.release(now);
        }
    }

    /// Gives back the reservation of `curr`, whose turn then is over: others run now.
    #[inline]
    pub(crate) fn interrupt_turn(&mut self, now: u64) {
        if self.reservation.at != NONE {
            self.release(now);
            self.budget = 0;
        }
    }

    /// Returns the runtime that is held here, in ns.
    pub(crate) fn reserved(&self) -> u64 {
        self.reservation.left
    }

    /// Returns whether a group on the path of `at` has a limit that the running turn knows
    /// nothing of.
    pub(crate) fn lacks_reservation(&self, at: u32) -> bool {
        let leaf = &self.fragment(at).leaf;
        if !leaf.is_capped() {
            return false;
        }
        let Reservation { at: has, epoch, .. } = self.reservation;
        let known = if has == at { epoch } else { 0 };
        leaf.domain().cap_epoch() > known && leaf.path().any(|leaf| leaf.pool.epoch() > known)
    }

    /// Announces that a fragment has to wait for runtime. Takes it back and returns `None` if there
    /// is some by now.
    fn wait(&mut self, at: u32, now: u64) -> Option<()> {
        let (cpu, lag) = (self.cpu, self.lag_of(at, now));
        let leaf = &self.fragment(at).leaf;
        let is_refused = |leaf: &Leaf| leaf.pool.epoch() != 0 && !leaf.pool.has_runtime(now);
        let level = leaf.path().position(is_refused)? as u32;
        let refusing = leaf.above(level)?;
        let throttle = leaf.throttle(cpu);
        throttle.lag.store(lag, Relaxed);
        throttle.since.store(now, SeqCst);
        throttle.level.store(level, SeqCst);
        leaf.nr_throttles.fetch_add(1, SeqCst);
        refusing.pool.wait();
        throttle.is_set.store(true, SeqCst);
        if leaf.has_runtime(now) && throttle.is_set.swap(false, SeqCst) {
            end_wait(leaf, cpu, now);
            return None;
        }
        leaf.domain().refill_at(refusing.pool.next());
        Some(())
    }

    /// Throttles a fragment for which there is no runtime: none of its tasks is runnable any more.
    /// Returns how many were, or `None` if there is runtime now. It must not be running.
    pub(crate) fn throttle(&mut self, at: u32, now: u64, config: &Config) -> Option<u32> {
        self.wait(at, now)?;
        let fragment = self.fragment_mut(at);
        let (nr, weight) = (fragment.nr, fragment.weight);
        debug_assert_eq!(nr as usize, fragment.queue.nr_waiting());
        fragment.nr_running -= nr;
        fragment.parked = Some(Parked {
            nr,
            weight,
            idle: FifoList::new(),
        });
        self.throttled.push(at);
        self.nr_waiting -= nr;
        if nr > 0 {
            self.set_load(at, 0, 0, now, config);
        }
        self.publish_parked(at);
        Some(nr)
    }

    /// Lets a throttled fragment go on. Returns what was parked, for the caller to count, and
    /// whether it has just become active; its idle-class tasks are the caller's to queue.
    pub(crate) fn unthrottle(
        &mut self,
        at: u32,
        now: u64,
        config: &Config,
    ) -> Option<(Parked<K>, bool)> {
        end_wait(&self.fragment(at).leaf, self.cpu, now);
        self.throttled.retain(|&other| other != at);
        let parked = self.fragment_mut(at).parked.take()?;
        self.publish_parked(at);
        let fragment = self.fragment_mut(at);
        fragment.nr_running += parked.nr_running();
        let is_new = parked.nr > 0;
        if is_new {
            self.nr_waiting += parked.nr;
            self.set_load(at, parked.nr, parked.weight, now, config);
        } else {
            self.publish(at, now);
        }
        Some((parked, is_new))
    }

    /// Tells how many tasks are parked, and stops throttling a fragment that has none.
    pub(crate) fn parked_changed(&mut self, at: u32, now: u64) {
        let empty = |parked: &Parked<K>| parked.nr_running() == 0;
        if self.fragment(at).parked().is_some_and(empty) {
            end_wait(&self.fragment(at).leaf, self.cpu, now);
            self.throttled.retain(|&other| other != at);
            self.fragment_mut(at).parked = None;
        }
        self.publish_parked(at);
    }

    fn publish_parked(&self, at: u32) {
        let fragment = self.fragment(at);
        let nr = fragment.parked().map_or(0, Parked::nr_running);
        fragment.leaf.throttle(self.cpu).nr.store(nr, Relaxed);
    }

    /// Returns whether any fragment is throttled.
    #[inline]
    pub(crate) fn has_throttled(&self) -> bool {
        !self.throttled.is_empty()
    }

    pub(crate) fn throttled(&self) -> &[u32] {
        &self.throttled
    }

    /// Returns a throttled fragment that may go on, the one with the most lag first.
    pub(crate) fn allowed(&self) -> Option<u32> {
        let throttle = |at: u32| self.fragment(at).leaf.throttle(self.cpu);
        let allowed = self.throttled.iter().copied();
        allowed
            .filter(|&at| !throttle(at).is_set.load(SeqCst))
            .max_by_key(|&at| throttle(at).lag.load(Relaxed))
    }

    /// Returns whether a task of `at` may move to `cpu`: not where its group is throttled, nor
    /// while it is about to be.
    #[inline]
    pub(crate) fn may_move(&self, at: u32, cpu: usize, now: u64) -> bool {
        !key_on!(BANDWIDTH) || self.may_move_capped(at, cpu, now)
    }

    fn may_move_capped(&self, at: u32, cpu: usize, now: u64) -> bool {
        let leaf = &self.fragment(at).leaf;
        !leaf.is_capped() || !leaf.throttle(cpu).is_set.load(SeqCst) && leaf.has_runtime(now)
    }

    /// Charges execution that took place outside of a pick.
    pub(crate) fn charge_outside(&mut self, at: u32, ns: u64, now: u64) {
        self.account(at, now);
        self.fragment_mut(at).usage += ns;
        self.account(at, now);
        self.fragment_mut(at).charged += ns;
        self.add_lag(at, -(ns.min(i64::MAX as u64) as i64), now);
    }
}
