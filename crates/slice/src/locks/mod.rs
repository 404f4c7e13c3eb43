//! Locks whose holders are in a [section](crate::Section): a lock is not held by a thread that has
//! just lost its CPU, but for the [deadline](crate::Deadlines::lock).
//!
//! The section begins before the lock is taken and ends after it is released. The guards are those
//! of `lock_api`, and are not `Send`, since a section belongs to its thread.
//!
//! | | waits by | fairness |
//! |---|---|---|
//! | [`SpinLock`] | spinning, then `sched_yield` | none: whoever comes at the right moment has it |
//! | [`Mutex`], [`RwLock`] | blocking | that of `parking_lot`: a hand-over about every 0.5 ms |
//! | [`Sectioned`] | as the lock inside | as the lock inside |
//!
//! None of them finds deadlocks, and none is recursive.

mod sectioned;
mod spin;
mod spin_word;

pub use sectioned::Sectioned;
pub use spin::RawSpinLock;

/// The raw lock of [`Mutex`].
pub type RawMutex = Sectioned<parking_lot::RawMutex>;
/// The raw lock of [`RwLock`].
pub type RawRwLock = Sectioned<parking_lot::RawRwLock>;

/// A blocking lock, whose holder is in a section.
///
/// # Examples
///
/// ```
/// use evenkeel_slice::Mutex;
///
/// static TOTAL: Mutex<u64> = Mutex::new(0);
/// *TOTAL.lock() += 1;
/// assert_eq!(*TOTAL.lock(), 1);
/// ```
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;
/// The guard of a [`Mutex`].
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// A blocking lock for one writer or many readers, each of whom is in a section.
///
/// A thread that reads must not read again inside: a writer that waits in between blocks it for
/// ever.
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;
/// The guard of a reader of an [`RwLock`].
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;
/// The guard of the writer of an [`RwLock`].
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;

/// A lock that is waited for by spinning, whose holder is in a section. For sections that are much
/// shorter than a time slice.
///
/// Who waits is in no section, and may lose the CPU.
///
/// ```
/// use evenkeel_slice::SpinLock;
///
/// static LAST: SpinLock<Option<u32>> = SpinLock::new(None);
/// *LAST.lock() = Some(7);
/// assert_eq!(LAST.lock().take(), Some(7));
/// ```
///
/// The guard stays on its thread:
///
/// ```compile_fail,E0277
/// static LOCK: evenkeel_slice::SpinLock<()> = evenkeel_slice::SpinLock::new(());
/// let guard = LOCK.lock();
/// std::thread::spawn(move || drop(guard));
/// ```
pub type SpinLock<T> = lock_api::Mutex<RawSpinLock, T>;
/// The guard of a [`SpinLock`].
pub type SpinLockGuard<'a, T> = lock_api::MutexGuard<'a, RawSpinLock, T>;
