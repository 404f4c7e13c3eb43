//! Any raw lock of `lock_api`, with a section around it.
#![allow(unsafe_code)]

use std::mem;

use lock_api::{
    GuardNoSend, RawMutex, RawMutexFair, RawMutexTimed, RawRwLock, RawRwLockDowngrade,
    RawRwLockFair, RawRwLockTimed,
};

use crate::section::{Kind, enter_lock};
use crate::state;

/// A raw lock whose holders are in a lock section, from before they ask for the lock until after
/// they have released it.
///
/// Who blocks for the lock is in a section meanwhile. That does no harm: a thread that blocks gives
/// its CPU up anyway.
///
/// # Examples
///
/// ```
/// use evenkeel_slice::Sectioned;
///
/// type Mutex<T> = lock_api::Mutex<Sectioned<parking_lot::RawMutex>, T>;
/// let list = Mutex::new(Vec::new());
/// list.lock().push(1);
/// assert_eq!(*list.lock(), [1]);
/// ```
#[derive(Debug)]
pub struct Sectioned<R>(R);

/// Runs an attempt to take a lock in a section, which stays begun if it succeeds. If it panics, the
/// section ends.
#[inline]
fn attempt(take: impl FnOnce() -> bool) -> bool {
    let section = enter_lock();
    let taken = take();
    if taken {
        mem::forget(section);
    }
    taken
}

/// Takes a lock in a section, which stays begun. If that panics, the section ends.
#[inline]
fn acquire(take: impl FnOnce()) {
    let section = enter_lock();
    take();
    mem::forget(section);
}

/// Ends the section of a lock.
struct End;

impl Drop for End {
    #[inline]
    fn drop(&mut self) {
        state::end(Kind::Lock);
    }
}

/// Releases a lock, and ends its section, also if that panics.
#[inline]
fn release(give: impl FnOnce()) {
    let _end = End;
    give();
}

// SAFETY: exclusion is that of `R`, whose methods are called one for one.
unsafe impl<R: RawMutex> RawMutex for Sectioned<R> {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "the trait's way to make a lock"
    )]
    const INIT: Self = Self(R::INIT);

    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        acquire(|| self.0.lock());
    }

    #[inline]
    fn try_lock(&self) -> bool {
        attempt(|| self.0.try_lock())
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller's promise is `R`'s condition.
        release(|| unsafe { self.0.unlock() });
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

// SAFETY: as `RawMutex`.
unsafe impl<R: RawMutexFair> RawMutexFair for Sectioned<R> {
    #[inline]
    unsafe fn unlock_fair(&self) {
        // SAFETY: the caller's promise is `R`'s condition.
        release(|| unsafe { self.0.unlock_fair() });
    }
}

// SAFETY: as `RawMutex`.
unsafe impl<R: RawMutexTimed> RawMutexTimed for Sectioned<R> {
    type Duration = R::Duration;
    type Instant = R::Instant;

    #[inline]
    fn try_lock_for(&self, timeout: R::Duration) -> bool {
        attempt(|| self.0.try_lock_for(timeout))
    }

    #[inline]
    fn try_lock_until(&self, timeout: R::Instant) -> bool {
        attempt(|| self.0.try_lock_until(timeout))
    }
}

// SAFETY: exclusion is that of `R`, whose methods are called one for one.
unsafe impl<R: RawRwLock> RawRwLock for Sectioned<R> {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "the trait's way to make a lock"
    )]
    const INIT: Self = Self(R::INIT);

    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock_shared(&self) {
        acquire(|| self.0.lock_shared());
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        attempt(|| self.0.try_lock_shared())
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        // SAFETY: the caller's promise is `R`'s condition.
        release(|| unsafe { self.0.unlock_shared() });
    }

    #[inline]
    fn lock_exclusive(&self) {
        acquire(|| self.0.lock_exclusive());
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        attempt(|| self.0.try_lock_exclusive())
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        // SAFETY: the caller's promise is `R`'s condition.
        release(|| unsafe { self.0.unlock_exclusive() });
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }

    #[inline]
    fn is_locked_exclusive(&self) -> bool {
        self.0.is_locked_exclusive()
    }
}

// SAFETY: as `RawRwLock`.
unsafe impl<R: RawRwLockFair> RawRwLockFair for Sectioned<R> {
    #[inline]
    unsafe fn unlock_shared_fair(&self) {
        // SAFETY: the caller's promise is `R`'s condition.
        release(|| unsafe { self.0.unlock_shared_fair() });
    }

    #[inline]
    unsafe fn unlock_exclusive_fair(&self) {
        // SAFETY: the caller's promise is `R`'s condition.
        release(|| unsafe { self.0.unlock_exclusive_fair() });
    }
}

// SAFETY: as `RawRwLock`; the section goes on.
unsafe impl<R: RawRwLockDowngrade> RawRwLockDowngrade for Sectioned<R> {
    #[inline]
    unsafe fn downgrade(&self) {
        // SAFETY: the caller's promise is `R`'s condition.
        unsafe { self.0.downgrade() };
    }
}

// SAFETY: as `RawRwLock`.
unsafe impl<R: RawRwLockTimed> RawRwLockTimed for Sectioned<R> {
    type Duration = R::Duration;
    type Instant = R::Instant;

    #[inline]
    fn try_lock_shared_for(&self, timeout: R::Duration) -> bool {
        attempt(|| self.0.try_lock_shared_for(timeout))
    }

    #[inline]
    fn try_lock_shared_until(&self, timeout: R::Instant) -> bool {
        attempt(|| self.0.try_lock_shared_until(timeout))
    }

    #[inline]
    fn try_lock_exclusive_for(&self, timeout: R::Duration) -> bool {
        attempt(|| self.0.try_lock_exclusive_for(timeout))
    }

    #[inline]
    fn try_lock_exclusive_until(&self, timeout: R::Instant) -> bool {
        attempt(|| self.0.try_lock_exclusive_until(timeout))
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use lock_api::GuardNoSend;

    use super::*;
    use crate::runtime::{is_in_section, kind};

    /// A lock that nobody gets or gives without a panic, but by `try_lock`.
    struct Broken;

    // SAFETY: used by one thread, and guards nothing.
    unsafe impl RawMutex for Broken {
        const INIT: Self = Self;
        type GuardMarker = GuardNoSend;

        fn lock(&self) {
            panic!("a deadlock was found");
        }

        fn try_lock(&self) -> bool {
            true
        }

        unsafe fn unlock(&self) {
            panic!("not the owner");
        }
    }

    #[test]
    fn a_lock_that_panics_leaves_no_section_behind() {
        let lock = Sectioned(Broken);
        assert!(catch_unwind(|| lock.lock()).is_err());
        assert!(!is_in_section());
        assert!(lock.try_lock());
        assert_eq!(kind(), Some(Kind::Lock));
        // SAFETY: it is locked.
        assert!(catch_unwind(|| unsafe { lock.unlock() }).is_err());
        assert!(!is_in_section());
    }
}
