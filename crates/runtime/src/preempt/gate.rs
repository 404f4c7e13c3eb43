//! Who carries a virtual CPU, and when it may be taken from its carrier.
//!
//! A CPU's [`Lease`] names the thread that carries it. It changes hands by one
//! compare-and-exchange, whoever does it, so there is one carrier at any time.
//!
//! A carrier touches the CPU's cells only inside *sections*, which its [`Gate`] counts. Outside of
//! sections, that is in code of a task, the CPU can be taken from it: by another thread
//! ([`take`]), or by a signal handler on the carrier itself.
//!
//! # Protocol
//!
//! The carrier enters a section: count it; **light barrier**; read `request`. Another thread takes
//! the CPU: set `TAKING`; **heavy barrier**; read the count; if it is zero pass the lease on and
//! set `LOST`; clear `TAKING`. The barriers pair: either the carrier sees `TAKING`, and waits the
//! few instructions until it is cleared to learn what became of it, or the taker sees the section
//! and leaves the CPU alone. The light barrier is one of the compiler only; the heavy one is
//! `membarrier`, which makes every running thread of the process execute a full one. So a section
//! costs a carrier plain loads and stores.
//!
//! A taker that finds a section asks with `RESCHED`; the carrier sees that when it leaves the
//! section, or misses it by a few instructions, and is asked again at the next tick.

use crate::sync::{AtomicU32, AtomicU64, Ordering, light_barrier, spin_loop};

/// Somebody is about to take the CPU.
const TAKING: u32 = 1;
/// The CPU was taken.
const LOST: u32 = 2;
/// The CPU should be given up at the end of the section.
const RESCHED: u32 = 4;

/// What a carrier learns when it enters a section.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// It has what it had before.
    Kept,
    /// Its CPU was taken since it last was in a section.
    Lost,
}

/// The sections of one carrier. All but [`Gate::ask`] and [`take`] is for the carrier alone.
pub(crate) struct Gate {
    sections: AtomicU32,
    request: AtomicU32,
}

impl Gate {
    /// Starts inside a section.
    pub(crate) fn new() -> Self {
        Self {
            sections: AtomicU32::new(1),
            request: AtomicU32::new(0),
        }
    }

    /// Enters a section; they nest.
    #[inline]
    pub(crate) fn enter(&self) -> Entry {
        let sections = self.sections.load(Ordering::Relaxed);
        self.sections.store(sections + 1, Ordering::Relaxed);
        light_barrier();
        if self.request.load(Ordering::Relaxed) & (TAKING | LOST) == 0 {
            return Entry::Kept;
        }
        self.settle()
    }

    /// Waits until nobody is about to take the CPU, and says whether it was taken.
    #[cold]
    fn settle(&self) -> Entry {
        while self.request.load(Ordering::Acquire) & TAKING != 0 {
            spin_loop();
        }
        if self.request.load(Ordering::Relaxed) & LOST == 0 {
            return Entry::Kept;
        }
        self.request.fetch_and(!(LOST | RESCHED), Ordering::Relaxed);
        Entry::Lost
    }

    /// Leaves a section; true when it was the outermost one and somebody asked for the CPU
    /// meanwhile.
    #[inline]
    #[must_use]
    pub(crate) fn leave(&self) -> bool {
        let sections = self.sections.load(Ordering::Relaxed) - 1;
        self.sections.store(sections, Ordering::Release);
        light_barrier();
        sections == 0 && self.is_asked()
    }

    /// Returns how deep the sections nest. For the thread itself.
    #[inline]
    pub(crate) fn depth(&self) -> u32 {
        self.sections.load(Ordering::Relaxed)
    }

    /// Returns whether the thread is in a section.
    #[inline]
    pub(crate) fn is_inside(&self) -> bool {
        self.sections.load(Ordering::Acquire) > 0
    }

    /// Returns whether somebody asked for the CPU and has not got it.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.request.load(Ordering::Relaxed) & RESCHED != 0
    }

    /// Asks the carrier to give its CPU up at the end of its section. For any thread.
    pub(crate) fn ask(&self) {
        self.request.fetch_or(RESCHED, Ordering::Relaxed);
    }

    /// Forgets what was asked: the carrier has given its CPU up, or begins something new.
    #[inline]
    pub(crate) fn answer(&self) {
        if self.is_asked() {
            self.request.fetch_and(!RESCHED, Ordering::Relaxed);
        }
    }

    /// Forgets what was asked and that a CPU was lost: the carrier gets a new one.
    pub(crate) fn start_anew(&self) {
        while self.request.load(Ordering::Acquire) & TAKING != 0 {
            spin_loop();
        }
        self.request.fetch_and(!(LOST | RESCHED), Ordering::Relaxed);
    }
}

/// A thread that can carry CPUs, by its number.
pub(crate) type CarrierId = u16;

/// What a lease said at one time: its carrier, and how often it had changed hands (modulo 2⁴⁸).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Term(u64);

impl Term {
    pub(crate) fn carrier(self) -> CarrierId {
        self.0 as u16
    }
}

/// Which thread carries a CPU.
pub(crate) struct Lease(AtomicU64);

impl Lease {
    pub(crate) fn new(carrier: CarrierId) -> Self {
        Self(AtomicU64::new(1 << 16 | u64::from(carrier)))
    }

    #[inline]
    pub(crate) fn load(&self) -> Term {
        Term(self.0.load(Ordering::Acquire))
    }

    /// Passes the CPU to another thread, if `term` still holds.
    #[must_use]
    pub(crate) fn pass(&self, term: Term, to: CarrierId) -> bool {
        let next = ((term.0 >> 16) + 1) << 16 | u64::from(to);
        self.0
            .compare_exchange(term.0, next, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

/// Takes a CPU from its carrier, whose gate is `gate`, for the thread `to`; false when it is in a
/// section (it is asked to give the CPU up then), or the term is over. One taker at a time.
///
/// `on_taken` runs while the carrier cannot yet have gone on from its poll to anything else.
#[must_use]
pub(crate) fn take(
    lease: &Lease,
    term: Term,
    gate: &Gate,
    to: CarrierId,
    heavy_barrier: impl FnOnce(),
    on_taken: impl FnOnce(),
) -> bool {
    gate.request.fetch_or(TAKING, Ordering::Relaxed);
    heavy_barrier();
    let is_inside = gate.is_inside();
    let is_taken = !is_inside && lease.pass(term, to);
    let outcome = match (is_inside, is_taken) {
        (true, _) => RESCHED,
        (false, true) => LOST,
        (false, false) => 0,
    };
    gate.request.fetch_or(outcome, Ordering::Relaxed);
    if is_taken {
        on_taken();
    }
    gate.request.fetch_and(!TAKING, Ordering::Release);
    is_taken
}
