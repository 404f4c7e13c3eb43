//! The lock that is contended for: plain, or with sections.

use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_slice::{SpinLock, SpinLockGuard};

/// Which spin lock a subject's contenders share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// One word, and nobody is told that it is held.
    Plain,
    /// [`evenkeel_slice::SpinLock`]: its holder is in a section, from before it takes the lock
    /// until after it has released it.
    Sectioned,
}

/// The lock of one round.
#[derive(Debug)]
pub(crate) enum Word {
    Plain(AtomicBool),
    Sectioned(SpinLock<()>),
}

/// The lock is held; dropping this releases it, and then ends the section if there is one.
pub(crate) enum Held<'a> {
    Plain(&'a AtomicBool),
    Sectioned {
        #[expect(dead_code, reason = "kept for its destructor")]
        guard: SpinLockGuard<'a, ()>,
    },
}

impl Word {
    pub(crate) fn new(lock: Lock) -> Word {
        match lock {
            Lock::Plain => Word::Plain(AtomicBool::new(false)),
            Lock::Sectioned => Word::Sectioned(SpinLock::new(())),
        }
    }

    /// Returns whether somebody has the lock at this moment.
    pub(crate) fn is_locked(&self) -> bool {
        match self {
            Word::Plain(word) => word.load(Ordering::Relaxed),
            Word::Sectioned(lock) => lock.is_locked(),
        }
    }

    /// Takes the lock if nobody has it.
    pub(crate) fn try_lock(&self) -> Option<Held<'_>> {
        match self {
            Word::Plain(word) => (!word.swap(true, Ordering::Acquire)).then_some(Held::Plain(word)),
            Word::Sectioned(lock) => Some(Held::Sectioned {
                guard: lock.try_lock()?,
            }),
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Held::Plain(word) = self {
            word.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_slice::runtime::{Kind, kind};

    use super::*;

    #[test]
    fn a_lock_is_held_once_and_only_one_of_them_is_a_section() {
        for (lock, section) in [(Lock::Plain, None), (Lock::Sectioned, Some(Kind::Lock))] {
            let word = Word::new(lock);
            for _ in 0..2 {
                let held = word.try_lock().expect("nobody has it");
                assert!(word.is_locked());
                assert_eq!(kind(), section);
                assert!(word.try_lock().is_none());
                assert_eq!(kind(), section);
                drop(held);
                assert!(!word.is_locked());
                assert_eq!(kind(), None);
            }
        }
    }
}
