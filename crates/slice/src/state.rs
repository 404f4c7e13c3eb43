//! The state of a thread, and the two ends of a section.
//!
//! # Protocol
//!
//! Three may meet here: the thread itself, a signal handler *on this thread*, and a monitor on
//! another thread, which looks and may ask, but decides nothing by what it sees.
//!
//! - **begin**: add the kind's unit to `count`; compiler fence; look at `attention`.
//! - **end**: compiler fence; subtract the unit; compiler fence; if the count is now 0, look at
//!   `attention`.
//! - **handler**: if `count` is above 0, set `REQUEST` and return; otherwise the thread may be
//!   switched where it is.
//!
//! No request is lost: a handler that saw a count above 0 ran before the subtraction (a handler
//! runs at one point of its thread's program order, which the compiler fences keep), and the end
//! reads `attention` after it. None is granted twice: whoever serves a request (the end of a
//! section, [`ThreadState::force`], [`ThreadState::cancel`]) takes the bit by an atomic exchange,
//! off the fast path. Hence no instruction on the fast path is a fence or has a lock prefix.

use std::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, compiler_fence};
use std::thread;

use crate::kernel;
use crate::runtime;
use crate::section::Kind;

/// Somebody wants this thread's CPU, and a section was in the way. Set by the handler or the
/// monitor, taken once.
const REQUEST: u32 = 1 << 0;
/// This thread has the kernel's word: the two ends of the outermost section write to it. Set and
/// cleared by the thread itself.
const KERNEL: u32 = 1 << 1;
/// The thread has not yet begun a section, and so has not looked whether the kernel is wanted.
const UNPROBED: u32 = 1 << 2;
/// The hook is running: sections that end inside it do not call it again.
const IN_HOOK: u32 = 1 << 3;

/// What one section adds to the count. The kinds share the word, so that one addition enters and
/// one look tells whether and in what the thread is: 16 bits of slice sections, 32 of lock
/// sections, 16 of the runtime's. Slice sections that flow over count as a lock's, which have a
/// deadline too; of the others no thread has so many. The sum stays balanced.
const fn unit(kind: Kind) -> u64 {
    match kind {
        Kind::Slice => 1,
        Kind::Lock => LOCK_UNIT,
        Kind::Runtime => RUNTIME_UNIT,
    }
}

const LOCK_UNIT: u64 = 1 << 16;
const RUNTIME_UNIT: u64 = 1 << 48;

/// What a thread's sections and requests are at this moment, and how many there were.
///
/// All methods may be called from any thread and in signal handlers, and allocate nothing. What
/// another thread reads may be out of date when it is returned.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ThreadState {
    /// The sum of the units of the sections that have begun and not ended. Written by this thread
    /// only.
    count: AtomicU64,
    /// `REQUEST`, `KERNEL`, `UNPROBED`, `IN_HOOK`.
    attention: AtomicU32,
    requests: AtomicUsize,
    extended: AtomicUsize,
    forced: AtomicUsize,
    cancelled: AtomicUsize,
    kernel: kernel::Thread,
}

/// How many requests a thread has had, and what became of them.
///
/// `requests` is the sum of the other three, and one more while a request is pending. Monotonic;
/// they wrap around.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Requests that met a section. Repeated ones, while one is pending, are not counted.
    pub requests: usize,
    /// Of these, served at the end of the section.
    pub extended: usize,
    /// Of these, [forced](ThreadState::force): the section had not ended at its deadline.
    pub forced: usize,
    /// Of these, withdrawn by [`ThreadState::cancel`].
    pub cancelled: usize,
}

thread_local! {
    /// Constant and without a destructor: it is there from the thread's first instruction to its
    /// last, and a signal handler reaches it without a call.
    static STATE: ThreadState = const { ThreadState::new() };
}

/// Runs `f` with this thread's state.
#[inline]
pub(crate) fn with<T>(f: impl FnOnce(&ThreadState) -> T) -> T {
    STATE.with(f)
}

/// Begins a section.
#[inline]
pub(crate) fn begin(kind: Kind) {
    let is_quick = with(|state| {
        let count = state.count.load(Relaxed).wrapping_add(unit(kind));
        state.count.store(count, Relaxed);
        compiler_fence(SeqCst);
        state.attention.load(Relaxed) & (KERNEL | UNPROBED) == 0
    });
    if !is_quick {
        begin_slow(kind);
    }
}

/// Ends a section that [`begin`] began.
#[inline]
pub(crate) fn end(kind: Kind) {
    let is_quick = with(|state| {
        compiler_fence(SeqCst);
        let count = state.count.load(Relaxed).wrapping_sub(unit(kind));
        state.count.store(count, Relaxed);
        compiler_fence(SeqCst);
        count != 0 || state.attention.load(Relaxed) == 0
    });
    if !is_quick {
        end_slow();
    }
}

/// Not methods: the fast paths then need not make the address of the state.
#[inline(never)]
fn begin_slow(kind: Kind) {
    with(|state| state.begin_slow(kind));
}

#[inline(never)]
fn end_slow() {
    with(ThreadState::end_slow);
}

impl ThreadState {
    const fn new() -> Self {
        Self {
            count: AtomicU64::new(0),
            attention: AtomicU32::new(UNPROBED),
            requests: AtomicUsize::new(0),
            extended: AtomicUsize::new(0),
            forced: AtomicUsize::new(0),
            cancelled: AtomicUsize::new(0),
            kernel: kernel::Thread::new(),
        }
    }

    /// The kernel's part; only for the thread itself.
    pub(crate) fn kernel(&self) -> &kernel::Thread {
        &self.kernel
    }

    /// Tells whether the thread is in a section.
    #[inline]
    pub fn is_in_section(&self) -> bool {
        self.count.load(Relaxed) != 0
    }

    /// Returns the kind of the section that the thread is in, the greatest of the nested ones;
    /// `None` if it is in none.
    pub fn kind(&self) -> Option<Kind> {
        match self.count.load(Relaxed) {
            0 => None,
            count if count < LOCK_UNIT => Some(Kind::Slice),
            count if count < RUNTIME_UNIT => Some(Kind::Lock),
            _ => Some(Kind::Runtime),
        }
    }

    /// Requests that the end of the current section call the hook. Returns whether the thread is
    /// in a section, and so the request is pending; if it is in none, nothing is done.
    ///
    /// In a signal handler on this thread the answer is exact. A monitor's request may come when
    /// the section is just over; it then stays pending until the thread's next section ends, or
    /// until it is [cancelled](Self::cancel).
    pub fn request(&self) -> bool {
        if !self.is_in_section() {
            return false;
        }
        if self.attention.fetch_or(REQUEST, AcqRel) & REQUEST == 0 {
            self.requests.fetch_add(1, Relaxed);
        }
        true
    }

    /// Tells whether a request is pending.
    #[inline]
    pub fn has_request(&self) -> bool {
        self.attention.load(Relaxed) & REQUEST != 0
    }

    /// Takes a pending request because the section's deadline has passed, and counts it as forced.
    /// Returns whether there was one: then the caller switches the thread where it is, and the end
    /// of the section will not.
    ///
    /// Whoever forces must see to it that the section is not of [`Kind::Runtime`].
    pub fn force(&self) -> bool {
        let taken = self.take();
        self.forced.fetch_add(usize::from(taken), Relaxed);
        taken
    }

    /// Withdraws a pending request: nobody wants the CPU any more. Returns whether there was one.
    pub fn cancel(&self) -> bool {
        let taken = self.take();
        self.cancelled.fetch_add(usize::from(taken), Relaxed);
        taken
    }

    /// Returns the numbers of requests so far.
    pub fn counts(&self) -> Counts {
        Counts {
            requests: self.requests.load(Relaxed),
            extended: self.extended.load(Relaxed),
            forced: self.forced.load(Relaxed),
            cancelled: self.cancelled.load(Relaxed),
        }
    }

    fn take(&self) -> bool {
        self.has_request() && self.attention.fetch_and(!REQUEST, AcqRel) & REQUEST != 0
    }

    /// Forgets what concerns threads that a forked child does not have.
    #[cfg(unix)]
    pub(crate) fn clear_after_fork(&self) {
        self.cancel();
    }

    /// Looks for the kernel's extension, if somebody has asked for it. Only for the thread itself.
    pub(crate) fn look_for_kernel(&self) {
        self.attention.fetch_and(!UNPROBED, AcqRel);
        let Some(options) = kernel::wanted() else {
            return;
        };
        // The outermost section, if the thread is in one, has then not made a request, which is as
        // good as one that the kernel did not grant.
        if self.kernel.look(options) {
            self.attention.fetch_or(KERNEL, AcqRel);
        } else {
            self.attention.fetch_and(!KERNEL, AcqRel);
        }
    }

    /// Has the thread's sections use memory that a test plays the kernel on.
    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn use_fake_kernel(&self, area: *mut u8) {
        self.kernel.use_fake(area);
        self.attention.store(KERNEL, Relaxed);
    }

    fn begin_slow(&self, kind: Kind) {
        if self.attention.load(Relaxed) & UNPROBED != 0 {
            self.look_for_kernel();
        }
        if self.count.load(Relaxed) == unit(kind) {
            self.kernel.begin();
        }
    }

    fn end_slow(&self) {
        self.kernel.end();
        while self.take_for_hook() {
            self.extended.fetch_add(1, Relaxed);
            let _running = Running(self);
            run_hook();
        }
    }

    /// Takes a request and marks the hook as running, unless it is already.
    fn take_for_hook(&self) -> bool {
        if !self.has_request() {
            return false;
        }
        let taken = self.attention.fetch_update(AcqRel, Relaxed, |seen| {
            (seen & (REQUEST | IN_HOOK) == REQUEST).then_some(seen & !REQUEST | IN_HOOK)
        });
        taken.is_ok()
    }
}

/// Calls the hook. A panic in it ends the process here, since an allocator, whose call a section
/// may be, must not unwind.
extern "C" fn run_hook() {
    match runtime::hook() {
        Some(hook) => hook(),
        None => thread::yield_now(),
    }
}

/// The mark that the hook is running.
struct Running<'a>(&'a ThreadState);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.attention.fetch_and(!IN_HOOK, AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_as_large_as_the_readme_says() {
        let size = size_of::<ThreadState>();
        assert!(size <= 192, "{size}");
    }

    #[test]
    fn more_sections_than_a_kind_has_room_for_stay_balanced() {
        for _ in 0..3 * LOCK_UNIT {
            begin(Kind::Slice);
        }
        // It has flowed over; its deadline is longer, but it has one.
        assert_eq!(with(ThreadState::kind), Some(Kind::Lock));
        for _ in 0..3 * LOCK_UNIT {
            assert!(with(ThreadState::is_in_section));
            end(Kind::Slice);
        }
        assert!(!with(ThreadState::is_in_section));
    }
}
