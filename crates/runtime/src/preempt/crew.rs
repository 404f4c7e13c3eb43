//! The threads of a runtime that carry its CPUs, and the spare ones.
//!
//! A spare thread waits for an order. Taking one and putting one back are lock-free, so that a
//! signal handler can do it. Threads are started one by one as they are needed, up to a limit, and
//! are kept: a thread whose poll went on without a CPU becomes a spare one when that poll ends.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use super::carrier::Carrier;
use super::gate::{CarrierId, Lease};
use super::order::Order;
use super::request::Request;
use super::spares::Spares;
use crate::worker::Worker;

/// All workers of a runtime. Every carrier thread holds it, so that a worker outlives them.
pub(crate) type Roster = Box<[Arc<Worker>]>;

/// Carriers, leases and spares of a runtime.
pub(crate) struct Crew {
    carriers: Box<[OnceLock<Box<Carrier>>]>,
    /// Numbers that no thread has, the lowest last.
    unclaimed: Mutex<Vec<CarrierId>>,
    leases: Box<[Lease]>,
    requests: Box<[CachePadded<Request>]>,
    spares: Spares,
    /// Threads whose polls went on without a CPU and wait for their turn again.
    returning: Spares,
    is_closed: AtomicBool,
    roster: OnceLock<Weak<Roster>>,
    /// The same workers, for signal handlers.
    workers: Box<[AtomicPtr<Worker>]>,
}

impl Crew {
    /// Makes room for `limit` threads; CPU *i* is carried by thread *i* at first.
    pub(crate) fn new(cpus: usize, limit: usize) -> Self {
        let limit = limit.clamp(cpus, usize::from(CarrierId::MAX) - 1);
        Self {
            carriers: (0..limit).map(|_| OnceLock::new()).collect(),
            unclaimed: Mutex::new((0..limit as CarrierId).rev().collect()),
            leases: (0..cpus).map(|cpu| Lease::new(cpu as CarrierId)).collect(),
            requests: (0..cpus)
                .map(|_| CachePadded::new(Request::new()))
                .collect(),
            spares: Spares::new(limit),
            returning: Spares::new(limit),
            is_closed: AtomicBool::new(false),
            roster: OnceLock::new(),
            workers: (0..cpus).map(|_| AtomicPtr::new(ptr::null_mut())).collect(),
        }
    }

    /// Takes note of the workers, before the first thread starts.
    pub(super) fn set_roster(&self, roster: &Arc<Roster>) {
        let _ = self.roster.set(Arc::downgrade(roster));
        for (pointer, worker) in self.workers.iter().zip(roster.iter()) {
            pointer.store(Arc::as_ptr(worker).cast_mut(), Ordering::Release);
        }
    }

    /// Returns the workers, while any thread carries or could carry them.
    pub(crate) fn roster(&self) -> Option<Arc<Roster>> {
        self.roster.get()?.upgrade()
    }

    /// Returns a worker; valid on threads that hold the roster.
    pub(crate) fn worker(&self, cpu: usize) -> *const Worker {
        self.workers[cpu].load(Ordering::Acquire)
    }

    /// Claims a new thread's record; `None` when the limit is reached.
    pub(super) fn claim(&self) -> Option<&Carrier> {
        let id = self.unclaimed.lock().pop()?;
        Some(self.carriers[usize::from(id)].get_or_init(|| Box::new(Carrier::new(id))))
    }

    /// Gives the record of a thread back that could not be started.
    pub(super) fn give_back(&self, id: CarrierId) {
        self.unclaimed.lock().push(id);
    }

    /// Returns all threads that were ever started.
    pub(super) fn carriers(&self) -> impl Iterator<Item = &Carrier> {
        let carriers = self.carriers.iter();
        carriers.filter_map(|carrier| carrier.get().map(|carrier| &**carrier))
    }

    /// Returns a thread by its number.
    pub(crate) fn carrier(&self, id: CarrierId) -> Option<&Carrier> {
        let carrier = self.carriers.get(usize::from(id))?.get();
        carrier.map(|carrier| &**carrier)
    }

    pub(crate) fn lease(&self, cpu: usize) -> &Lease {
        &self.leases[cpu]
    }

    /// Returns whether somebody wants a CPU.
    #[inline]
    pub(crate) fn request(&self, cpu: usize) -> &Request {
        &self.requests[cpu]
    }

    pub(crate) fn nr_spares(&self) -> usize {
        self.spares.len()
    }

    /// Takes a spare thread.
    pub(crate) fn take_spare(&self) -> Option<&Carrier> {
        self.carrier(self.spares.pop()?)
    }

    /// Puts a thread among the spare ones, which it is or soon will be.
    pub(crate) fn put_spare(&self, spare: &Carrier) {
        self.spares.push(spare.id);
        // Whoever closes looks for spares after this, or is seen here.
        if self.is_closed.load(Ordering::SeqCst) {
            self.dismiss_spares();
        }
    }

    pub(super) fn nr_returning(&self) -> usize {
        self.returning.len()
    }

    /// Takes a thread whose poll has come back.
    pub(super) fn take_returning(&self) -> Option<&Carrier> {
        self.carrier(self.returning.pop()?)
    }

    /// Puts a thread among those whose polls have come back.
    pub(super) fn put_returning(&self, carrier: &Carrier) {
        self.returning.push(carrier.id);
    }

    /// Ends all spare threads, now and from now on.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.dismiss_spares();
    }

    fn dismiss_spares(&self) {
        while let Some(spare) = self.take_spare() {
            spare.mailbox.command(Order::Exit);
        }
    }
}
