//! For runtimes: how whoever takes CPUs away from threads works together with their sections.
//!
//! A runtime that preempts does it like this:
//!
//! 1. At start it installs a hook, [`set_hook`]: a function that gives the CPU of the calling
//!    thread to somebody else, and returns when it has got one back.
//! 2. Its signal handler, on the thread that is to lose its CPU, calls [`request`]. If that is
//!    false, the thread is in no section and the handler may switch there. If it is true, the
//!    handler returns. The end of the outermost section then calls the hook.
//! 3. Its monitor remembers when it first asked. If the request is still pending after
//!    [`Kind::deadline`] of [`ThreadState::kind`], it signals again, and the handler calls
//!    [`force`]: if that is true it switches although the thread is in its section.
//! 4. Its own code that must not be switched runs inside [`enter`].
//!
//! While the hook runs, the count is 0 and the request is taken. Requests that are made meanwhile
//! (the hook is in a section of its own, and the handler comes) stay pending; when the hook
//! returns, it is called again for them, unless it [cancels](cancel) them after it has got its CPU
//! back.
//!
//! Handlers may call everything here but [`set_hook`] and [`clear_hook`]. In a shared object that
//! was loaded by `dlopen`, a thread's first use of its state may allocate: there, call [`current`]
//! on each thread before it can be signalled.
//!
//! In a forked child there is no hook and, if one has ever been set, no request: the threads that
//! would serve them are not there. (Children made with `vfork` or a bare `clone` share or copy
//! everything, and should make no sections before `exec`.)

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

pub use crate::section::Kind;
use crate::section::Section;
use crate::state;
pub use crate::state::{Counts, ThreadState};

/// The hook, or null.
static HOOK: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// Returns the state of the calling thread. The pointer is valid until that thread ends.
///
/// A monitor may read through it from outside for as long as it knows that the thread has not
/// ended.
#[inline]
pub fn current() -> NonNull<ThreadState> {
    state::with(|state| NonNull::from(state))
}

/// Begins a section of the runtime's own: never forced.
///
/// Hold it briefly; it is no place for user code.
#[inline]
pub fn enter() -> Section {
    Section::new(Kind::Runtime)
}

/// Tells whether the calling thread is in a section.
#[inline]
pub fn is_in_section() -> bool {
    state::with(ThreadState::is_in_section)
}

/// Returns the kind of the section that the calling thread is in; see [`ThreadState::kind`].
#[inline]
pub fn kind() -> Option<Kind> {
    state::with(ThreadState::kind)
}

/// Tells whether a request to the calling thread is pending.
#[inline]
pub fn has_request() -> bool {
    state::with(ThreadState::has_request)
}

/// Requests that the end of the calling thread's section call the hook; see
/// [`ThreadState::request`].
#[inline]
pub fn request() -> bool {
    state::with(ThreadState::request)
}

/// Takes the calling thread's request because its deadline has passed; see [`ThreadState::force`].
#[inline]
pub fn force() -> bool {
    state::with(ThreadState::force)
}

/// Withdraws the calling thread's request; see [`ThreadState::cancel`].
#[inline]
pub fn cancel() -> bool {
    state::with(ThreadState::cancel)
}

/// Returns how many requests the calling thread has had.
pub fn counts() -> Counts {
    state::with(ThreadState::counts)
}

/// Installs the function that the end of an outermost section calls, on its thread, if a request
/// is pending; returns the one that was installed before. Without one, the thread yields to the
/// operating system.
///
/// It is called with the count at 0 and the request taken, never within another call of it on the
/// same thread. A section can end anywhere, also in a destructor or an allocation: a panic in the
/// hook aborts the process, and the hook must not take locks that the code around a section may
/// hold.
pub fn set_hook(hook: fn()) -> Option<fn()> {
    clear_in_children();
    from_pointer(HOOK.swap(hook as *mut (), Ordering::AcqRel))
}

/// Removes the hook and returns it.
pub fn clear_hook() -> Option<fn()> {
    from_pointer(HOOK.swap(ptr::null_mut(), Ordering::AcqRel))
}

/// Returns the hook.
pub(crate) fn hook() -> Option<fn()> {
    from_pointer(HOOK.load(Ordering::Acquire))
}

#[allow(unsafe_code)]
fn from_pointer(pointer: *mut ()) -> Option<fn()> {
    // SAFETY: only `set_hook` and `clear_hook` write to HOOK: a `fn()` or null. `Option<fn()>` has
    // the size of a pointer, with null for `None`.
    unsafe { std::mem::transmute::<*mut (), Option<fn()>>(pointer) }
}

#[cfg(unix)]
fn clear_in_children() {
    use std::sync::Once;
    static REGISTERED: Once = Once::new();

    extern "C" fn in_child() {
        HOOK.store(ptr::null_mut(), Ordering::Release);
        state::with(ThreadState::clear_after_fork);
    }

    #[allow(unsafe_code)]
    REGISTERED.call_once(|| {
        // SAFETY: the function is there as long as the program; it only stores to atomics. Out of
        // memory, the only failure, leaves children as they are without this crate's help.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

#[cfg(not(unix))]
fn clear_in_children() {}
