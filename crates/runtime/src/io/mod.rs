//! Tokio's I/O and timers under our workers.
//!
//! One current-thread Tokio runtime serves a whole [`Runtime`](crate::Runtime). Whoever holds its
//! *seat* (the lock around it) drives it: an idle worker sits in it while it waits for work, a busy
//! one takes the seat for a moment to turn it, or, with
//! [`Io::Dedicated`], a thread of its own sits in it for good.
//!
//! Workers poll tasks inside [`Driver::run`], that is inside `Handle::block_on`: so `tokio::net`,
//! `tokio::time` and the rest find their runtime, a nested `block_on` panics as it does in Tokio,
//! and polls have a cooperative budget. The budget is Tokio's 128 operations, shared by the polls
//! between two entries; the worker leaves and enters again once it is used up, so entering costs
//! nothing per poll.

use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::runtime as tokio_rt;

use crate::clock;
use crate::context;
use crate::task::outcome::forget_payload;

/// Who drives Tokio's I/O and timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Io {
    /// Idle workers wait in the driver, busy ones turn it now and then. No extra thread; the least
    /// CPU per request.
    #[default]
    Shared,
    /// A companion thread drives it and runs what libraries `tokio::spawn`. It moves on while every
    /// worker computes, for about 1.3 times the CPU per request.
    Dedicated,
    /// No I/O and no timers: `tokio::net` and `tokio::time` panic in tasks, as they do outside any
    /// Tokio runtime.
    Off,
}

/// The right to drive Tokio's runtime.
pub(crate) type Seat<'a> = MutexGuard<'a, Option<tokio_rt::Runtime>>;

/// Tokio's runtime and who drives it.
pub(crate) struct Driver {
    mode: Io,
    handle: tokio_rt::Handle,
    seat: Mutex<Option<tokio_rt::Runtime>>,
    /// Wakes whoever sits in the seat.
    waker: Waker,
    last_turn_ns: AtomicU64,
    /// Tokio's driver is gone, see [`Driver::give_up`].
    is_broken: AtomicBool,
}

impl Driver {
    pub(crate) fn new(mode: Io, name: &str, max_blocking: usize) -> io::Result<Self> {
        let mut builder = tokio_rt::Builder::new_current_thread();
        builder
            .thread_name(format!("{name}-blocking"))
            .max_blocking_threads(max_blocking);
        if mode != Io::Off {
            builder.enable_all();
        }
        let runtime = builder.build()?;
        let waker = waker_of(&runtime)?;
        Ok(Self {
            mode,
            handle: runtime.handle().clone(),
            seat: Mutex::new(Some(runtime)),
            waker,
            last_turn_ns: AtomicU64::new(clock::now_ns()),
            is_broken: AtomicBool::new(false),
        })
    }

    pub(crate) fn mode(&self) -> Io {
        self.mode
    }

    pub(crate) fn handle(&self) -> &tokio_rt::Handle {
        &self.handle
    }

    /// Runs a stretch of a worker's loop where Tokio finds its runtime and a fresh budget.
    ///
    /// # Panics
    ///
    /// Panics inside another runtime's context, as `Handle::block_on` does.
    #[inline]
    pub(crate) fn run<R>(&self, mut stretch: impl FnMut() -> R) -> R {
        if self.mode == Io::Off {
            return stretch();
        }
        self.handle.block_on(poll_fn(|_| Poll::Ready(stretch())))
    }

    /// Takes the seat if it is free and workers may sit in it.
    #[inline]
    pub(crate) fn try_sit(&self) -> Option<Seat<'_>> {
        if self.mode != Io::Shared {
            return None;
        }
        let seat = self.seat.try_lock().filter(|seat| seat.is_some())?;
        (!self.is_broken.load(Ordering::Relaxed)).then_some(seat)
    }

    /// Returns whether workers may sit in the seat and nobody does.
    pub(crate) fn is_seat_free(&self) -> bool {
        self.mode == Io::Shared && !self.seat.is_locked() && !self.is_broken.load(Ordering::Relaxed)
    }

    /// Nobody sits in the seat from now on, because a waker panicked there: Tokio's driver does not
    /// survive that, and each further turn would panic at once.
    #[cold]
    pub(crate) fn give_up(&self) {
        self.is_broken.store(true, Ordering::Relaxed);
        tracing::error!("a waker panicked in the I/O driver, which has ended");
    }

    /// Returns whether the driver has ended, see [`Driver::give_up`].
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// Handles the events that are there, without waiting.
    pub(crate) fn turn(&self, seat: &Seat<'_>) {
        let Some(runtime) = seat.as_ref() else {
            return;
        };
        let mut is_first = true;
        runtime.block_on(poll_fn(|cx| {
            if !std::mem::take(&mut is_first) {
                return Poll::Ready(());
            }
            // Woken by itself, the root future makes Tokio look for events without blocking and
            // then come back to it.
            cx.waker().wake_by_ref();
            Poll::Pending
        }));
        self.note_turn(clock::now_ns());
    }

    /// Waits for events, until one has woken a task, [`Driver::wake`] was called, or `limit` is
    /// over; not at all when `is_called` says so.
    pub(crate) fn wait(
        &self,
        seat: &Seat<'_>,
        is_called: impl Fn() -> bool,
        limit: Option<Duration>,
    ) {
        let Some(runtime) = seat.as_ref() else {
            return;
        };
        let mut is_first = true;
        let woken = poll_fn(|_| {
            if !std::mem::take(&mut is_first) || is_called() {
                return Poll::Ready(());
            }
            Poll::Pending
        });
        runtime.block_on(async {
            match limit {
                None => woken.await,
                Some(limit) => drop(tokio::time::timeout(limit, woken).await),
            }
        });
        self.note_turn(clock::now_ns());
    }

    /// Makes whoever sits in the seat leave it soon.
    pub(crate) fn wake(&self) {
        self.waker.wake_by_ref();
    }

    fn note_turn(&self, now_ns: u64) {
        self.last_turn_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Returns when the driver was last turned, in ns of the runtime's clock.
    pub(crate) fn last_turn_ns(&self) -> u64 {
        self.last_turn_ns.load(Ordering::Relaxed)
    }

    /// Sits in the seat until `is_over` is set and [`Driver::wake`] called: the body of the
    /// companion thread.
    pub(crate) fn drive(&self, is_over: &AtomicBool) {
        context::set_companion();
        while !is_over.load(Ordering::SeqCst) {
            let seat = self.seat.lock();
            if seat.is_none() {
                return;
            }
            let wait =
                AssertUnwindSafe(|| self.wait(&seat, || is_over.load(Ordering::SeqCst), None));
            if let Err(payload) = catch_unwind(wait) {
                forget_payload(payload);
                return self.give_up();
            }
        }
    }

    /// Shuts Tokio's runtime down, waiting for blocking work until `deadline`; at once where
    /// waiting is not allowed.
    pub(crate) fn shutdown(&self, deadline: Instant, may_wait: bool) {
        self.wake();
        let left = || deadline.saturating_duration_since(Instant::now());
        let Some(mut seat) = self.seat.try_lock_for(left().max(Duration::from_millis(1))) else {
            tracing::warn!(
                "shutdown: the I/O driver is in use past the deadline; it is left behind"
            );
            return;
        };
        let Some(runtime) = seat.take() else { return };
        drop(seat);
        if may_wait {
            runtime.shutdown_timeout(left());
        } else {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Driver {
    /// Nobody waits for what is left behind: this may happen on any thread, also inside a runtime.
    fn drop(&mut self) {
        if let Some(runtime) = self.seat.get_mut().take() {
            runtime.shutdown_background();
        }
    }
}

/// Returns the waker of whoever blocks on `runtime`.
fn waker_of(runtime: &tokio_rt::Runtime) -> io::Result<Waker> {
    let enter = || runtime.block_on(poll_fn(|cx| Poll::Ready(cx.waker().clone())));
    if tokio_rt::Handle::try_current().is_err() {
        return Ok(enter());
    }
    // Inside a runtime only another thread may do this.
    thread::scope(|scope| {
        let entered = thread::Builder::new().spawn_scoped(scope, enter)?.join();
        entered.map_err(|_| io::Error::other("Tokio's runtime could not be entered"))
    })
}
