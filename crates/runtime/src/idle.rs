//! Who sleeps, who searches, and whom to wake.
//!
//! # Protocol
//!
//! `state` packs two counts: *searching* workers (awake, without work, looking for it) and *parked*
//! ones. The list of sleepers lies under a lock that is taken only to park or to wake, never by a
//! worker that stays busy.
//!
//! A producer: push work to a queue; **fence A** (`SeqCst`); read `state`; wake one sleeper if
//! somebody is parked and nobody searches. The worker woken counts as searching from that moment,
//! so a burst of pushes wakes one worker, and whoever ends the search by finding work wakes the
//! next one if it was the last searcher: it leaves the count; **fence C** (pairs with A); looks
//! into the queues again. Either it sees the work that a producer pushed while it searched, or the
//! producer sees that nobody searches any more.
//!
//! A sleeper: enter the list and change `state`; **fence B** (`SeqCst`, pairs with A); look into
//! all queues once more; only then sleep. Either the producer sees the sleeper, or the sleeper sees
//! the work.
//!
//! At most half of the workers search at once, so that a lone task does not keep the others busy
//! looking.

use crate::sync::{AtomicU64, Mutex, Ordering, fence};

const SEARCHING_ONE: u64 = 1;
const PARKED_ONE: u64 = 1 << 32;

fn searching(state: u64) -> u64 {
    state & (PARKED_ONE - 1)
}

fn parked(state: u64) -> u64 {
    state >> 32
}

/// The sleepers of a runtime.
pub(crate) struct Idle {
    state: AtomicU64,
    sleepers: Mutex<Vec<usize>>,
    workers: u64,
}

/// How a worker left the list of sleepers.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Woken {
    /// Somebody took it off the list to look for work: it counts as searching.
    Notified,
    /// It was still on the list, and took itself off.
    Unasked,
}

impl Idle {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            state: AtomicU64::new(0),
            sleepers: Mutex::new(Vec::with_capacity(workers)),
            workers: workers as u64,
        }
    }

    /// Picks the worker to wake after work was pushed to a queue that others can take from; `None`
    /// when nobody needs to be woken.
    #[inline]
    pub(crate) fn worker_to_notify(&self) -> Option<usize> {
        fence(Ordering::SeqCst); // A
        let state = self.state.load(Ordering::Relaxed);
        if searching(state) > 0 || parked(state) == 0 {
            return None;
        }
        self.take_sleeper()
    }

    #[cold]
    fn take_sleeper(&self) -> Option<usize> {
        let mut sleepers = self.sleepers.lock();
        if searching(self.state.load(Ordering::SeqCst)) > 0 {
            return None;
        }
        let worker = sleepers.pop()?;
        self.state
            .fetch_add(SEARCHING_ONE.wrapping_sub(PARKED_ONE), Ordering::SeqCst);
        Some(worker)
    }

    /// Returns a sleeper without taking it off the list.
    pub(crate) fn peek_sleeper(&self) -> Option<usize> {
        self.sleepers.lock().last().copied()
    }

    /// Takes every sleeper off the list, at shutdown.
    pub(crate) fn take_all(&self) -> Vec<usize> {
        let mut sleepers = self.sleepers.lock();
        let all = std::mem::take(&mut *sleepers);
        let n = all.len() as u64;
        self.state.fetch_add(
            (n * SEARCHING_ONE).wrapping_sub(n * PARKED_ONE),
            Ordering::SeqCst,
        );
        all
    }

    /// Puts a worker on the list. The caller looks into all queues after this and before it sleeps.
    pub(crate) fn park(&self, worker: usize, is_searching: bool) {
        let mut sleepers = self.sleepers.lock();
        sleepers.push(worker);
        let searching = if is_searching { SEARCHING_ONE } else { 0 };
        self.state
            .fetch_add(PARKED_ONE.wrapping_sub(searching), Ordering::SeqCst);
        drop(sleepers);
        fence(Ordering::SeqCst); // B
    }

    /// Takes a worker that woke up off the list, if it is still on it.
    pub(crate) fn unpark(&self, worker: usize) -> Woken {
        let mut sleepers = self.sleepers.lock();
        let Some(at) = sleepers.iter().position(|&w| w == worker) else {
            return Woken::Notified;
        };
        sleepers.swap_remove(at);
        self.state.fetch_sub(PARKED_ONE, Ordering::SeqCst);
        Woken::Unasked
    }

    /// Lets a worker without work search, unless enough do so already.
    pub(crate) fn try_search(&self) -> bool {
        let state = self.state.load(Ordering::SeqCst);
        if 2 * searching(state) >= self.workers {
            return false;
        }
        self.state.fetch_add(SEARCHING_ONE, Ordering::SeqCst);
        true
    }

    /// Ends a search that found something; true when nobody else searches, so that the caller
    /// should wake another worker.
    #[must_use]
    pub(crate) fn end_search(&self) -> bool {
        let was_last = searching(self.state.fetch_sub(SEARCHING_ONE, Ordering::SeqCst)) == 1;
        fence(Ordering::SeqCst); // C
        was_last
    }

    /// Returns whether any worker is parked.
    pub(crate) fn has_parked(&self) -> bool {
        parked(self.state.load(Ordering::Relaxed)) > 0
    }

    /// Returns whether every worker is parked.
    pub(crate) fn all_parked(&self) -> bool {
        parked(self.state.load(Ordering::SeqCst)) == self.workers
    }
}
