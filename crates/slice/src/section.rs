//! The guard of a critical section.

use std::marker::PhantomData;
use std::time::Duration;

use crate::deadline::deadlines;
use crate::state;

/// What a section is for; decides how long it may hold off the loss of the CPU.
///
/// Where sections of several kinds are nested, the greatest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A few microseconds that had better not be interrupted: [`enter`].
    Slice,
    /// A lock is held, and others may wait for it: [`enter_lock`].
    Lock,
    /// A runtime's own code ([`runtime::enter`](crate::runtime::enter)): never forced.
    Runtime,
}

impl Kind {
    /// Returns how long after a request a section of this kind is forced; `None` for never.
    /// Async-signal-safe.
    pub fn deadline(self) -> Option<Duration> {
        match self {
            Self::Slice => Some(deadlines().slice),
            Self::Lock => Some(deadlines().lock),
            Self::Runtime => None,
        }
    }
}

/// A critical section of this thread, which ends when this is dropped.
///
/// Sections nest, and may end in any order. A panic that unwinds through a section ends it. A
/// section that is leaked ([`mem::forget`](std::mem::forget)) lasts until its thread ends: each
/// later request on that thread then runs into its deadline.
///
/// A section belongs to its thread and is not `Send`:
///
/// ```compile_fail,E0277
/// let section = evenkeel_slice::enter();
/// std::thread::spawn(move || drop(section));
/// ```
#[must_use = "the section ends at once if it is not bound to a name"]
#[derive(Debug)]
pub struct Section {
    kind: Kind,
    not_send: PhantomData<*mut ()>,
}

impl Section {
    #[inline]
    pub(crate) fn new(kind: Kind) -> Self {
        state::begin(kind);
        Self {
            kind,
            not_send: PhantomData,
        }
    }

    /// Returns what this section is for.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

impl Drop for Section {
    #[inline]
    fn drop(&mut self) {
        state::end(self.kind);
    }
}

/// Begins a section for work of a few microseconds: asks that this thread keep its CPU until the
/// section ends, or [`Deadlines::slice`](crate::Deadlines::slice) has passed since somebody asked
/// for the CPU.
///
/// Makes no system call (but in the first section of a thread after
/// [`kernel::Options::enable`](crate::kernel::Options::enable)), does not allocate and
/// cannot fail. May be called in signal handlers.
///
/// # Examples
///
/// ```
/// let section = evenkeel_slice::enter();
/// // ... others wait for what is done here ...
/// drop(section);
/// ```
#[inline]
pub fn enter() -> Section {
    Section::new(Kind::Slice)
}

/// Begins a section in which a lock is held: as [`enter`], with the longer deadline
/// [`Deadlines::lock`](crate::Deadlines::lock).
///
/// Begin it before the lock is taken and end it after the lock is released, or use the locks of
/// this crate, which do.
#[inline]
pub fn enter_lock() -> Section {
    Section::new(Kind::Lock)
}
