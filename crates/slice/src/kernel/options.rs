//! Asking for the kernel's part.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::Status;
use crate::state;

const ASKED: u32 = 1 << 0;
const REGISTER: u32 = 1 << 1;
const REPLACE: u32 = 1 << 2;

/// What threads are to do when they begin their first section.
static WANTED: AtomicU32 = AtomicU32::new(0);

/// How threads may come by the kernel's slice extension.
///
/// # Examples
///
/// ```
/// use evenkeel_slice::kernel::Options;
///
/// let status = Options::new().replace_registration(true).enable();
/// println!("{status}");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    register: bool,
    replace: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// Returns the options by default: register an area where there is none, replace none.
    pub const fn new() -> Self {
        Self {
            register: true,
            replace: false,
        }
    }

    /// Sets whether a thread that has no rseq area registers one. Default: true.
    pub const fn register_area(mut self, register: bool) -> Self {
        self.register = register;
        self
    }

    /// Sets whether the C library's area, where it is the legacy one of 32 bytes, is unregistered
    /// and replaced by a longer one. Default: false.
    ///
    /// If the kernel then has no extension after all, the old registration is put back. While it is
    /// replaced, the C library's `sched_getcpu` asks the kernel instead of reading the area. Code
    /// that uses the C library's area for restartable sequences of its own (some allocators do)
    /// finds it unregistered: do not ask for this beside such code.
    pub const fn replace_registration(mut self, replace: bool) -> Self {
        self.replace = replace;
        self
    }

    /// Asks for the extension on the calling thread now, and on other threads when they begin their
    /// first section. Returns what was found on the calling thread.
    pub fn enable(self) -> Status {
        WANTED.store(self.bits() | ASKED, Relaxed);
        enable_thread()
    }

    fn bits(self) -> u32 {
        let bit = |set, bit| if set { bit } else { 0 };
        bit(self.register, REGISTER) | bit(self.replace, REPLACE)
    }

    pub(super) fn registers(self) -> bool {
        self.register
    }

    pub(super) fn replaces(self) -> bool {
        self.replace
    }
}

/// Asks for the extension with the [default options](Options::new). Returns what was found on the
/// calling thread.
pub fn enable() -> Status {
    Options::new().enable()
}

/// Looks for the extension on the calling thread, as its first section would, and returns what was
/// found. Does nothing unless [`Options::enable`] was called before.
///
/// For threads that have had sections before that, and for looking again. Inside a section it
/// concerns the sections after it.
pub fn enable_thread() -> Status {
    state::with(|state| {
        state.look_for_kernel();
        state.kernel().status()
    })
}

/// Returns the options that threads are to use; `None` while nobody has asked.
pub(crate) fn wanted() -> Option<Options> {
    let bits = WANTED.load(Relaxed);
    (bits & ASKED != 0).then_some(Options {
        register: bits & REGISTER != 0,
        replace: bits & REPLACE != 0,
    })
}
