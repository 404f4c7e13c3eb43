//! The flip protocol: who may change what, in which order. No code is touched here; that is the
//! [`Text`] that the caller passes in.
//!
//! # Guarantee
//! A branch that begins after a flip returned gives the new value. A flip that fails leaves the
//! value as it was.
//!
//! # Protocol
//! Two words describe a key.
//!
//! - `flag` is the value. Only a holder of the crate's lock writes it.
//! - `word` says why the value is `true`: any bit set means on.
//!   - [`EXPLICIT`]: `enable` was called last, not `disable`.
//!   - [`LINGER`]: the last reference was dropped by a deferred `dec`, whose time is not up.
//!   - [`COUNT`]: number of references held by `inc`.
//!
//!   `word` goes from zero to non-zero, and back, only under the lock. Between two non-zero values
//!   anybody may move it with a compare-and-exchange.
//!
//! A site is *armed* when its code falls through without loading the flag. It may be armed only
//! while the flag has the value that falling through means. Hence, to turn the value from `old`:
//!
//! 1. `text.disarm(old)`: no thread executes an armed site any more once this returns. It can fail;
//!    then nothing else has been changed.
//! 2. `flag.swap(new, SeqCst)`. All sites follow this one store. It pairs with the `Acquire` load
//!    in the label block of each site. It is a read-modify-write, so that the new value is visible
//!    to all cores before the flip returns.
//! 3. Going on, `word` is set last (`Release`), so whoever finds it non-zero (`Acquire`) finds the
//!    flag true: the lock-free path of `inc` relies on it. Going off, `word` is cleared before the
//!    flag, so an `inc` that comes between the two finds zero and waits for the lock.

use super::sync::{AtomicBool, AtomicU32, Ordering};

/// `enable` was called last, not `disable`.
const EXPLICIT: u32 = 1 << 31;
/// The last reference was dropped by a deferred `dec`, whose time is not up.
const LINGER: u32 = 1 << 30;
/// The bits of the reference count.
const COUNT: u32 = LINGER - 1;

/// The largest number of references that a key can count.
pub(crate) const MAX_REFERENCES: u32 = COUNT;

/// Code that can be made to load the flag.
pub(crate) trait Text {
    /// Why the code could not be changed.
    type Error;

    /// Makes every site whose fall-through means `value` load the flag, on all threads.
    ///
    /// # Errors
    /// Returns what the system or the code at a site objected to; then some sites may load the flag
    /// and some not, which gives the same value.
    fn disarm(&mut self, value: bool) -> Result<(), Self::Error>;
}

/// Why a reference could not be taken or dropped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RefError<E> {
    /// The count is at its largest value.
    Overflow,
    /// The count is zero.
    Underflow,
    /// The value would have had to flip, and the code could not be changed.
    Text(E),
}

/// What a lock-free attempt came to.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// Done; the value has not changed.
    Done,
    /// The value must flip: take the lock and call the `_locked` method.
    NeedsLock,
    /// The count is at its limit (0 or [`MAX_REFERENCES`]).
    Refused,
}

/// The flag and the reference word of one key, each in a cache line of its own: sites read the
/// flag, threads that come and go write the word.
///
/// The alignment keeps both in one page. Fork copies page by page while other threads go on, so
/// only within a page does a child find stores in the order in which they were made.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct State {
    flag: Line<AtomicBool>,
    word: Line<AtomicU32>,
}

/// A value alone in its cache line.
#[derive(Debug)]
#[repr(align(64))]
struct Line<T>(T);

impl State {
    /// Makes a state out of its two words, which [`State::initial_word`] keeps consistent.
    pub(crate) const fn from_parts(flag: AtomicBool, word: AtomicU32) -> Self {
        Self {
            flag: Line(flag),
            word: Line(word),
        }
    }

    /// Returns the first value of the reference word for a key that starts as `value`.
    pub(crate) const fn initial_word(value: bool) -> u32 {
        if value { EXPLICIT } else { 0 }
    }

    /// Returns the value.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.flag.0.load(Ordering::Acquire)
    }

    /// Returns the number of references.
    pub(crate) fn references(&self) -> u32 {
        self.word.0.load(Ordering::Acquire) & COUNT
    }

    /// Tells whether a deferred drop is pending.
    pub(crate) fn is_lingering(&self) -> bool {
        self.word.0.load(Ordering::Acquire) & LINGER != 0
    }

    /// Takes a reference if the key is on already. A pending deferred drop is thereby cancelled.
    pub(crate) fn try_inc(&self) -> Attempt {
        let mut word = self.word.0.load(Ordering::Acquire);
        loop {
            if word == 0 {
                return Attempt::NeedsLock;
            }
            if word & COUNT == MAX_REFERENCES {
                return Attempt::Refused;
            }
            match self.exchange(word, (word & !LINGER) + 1) {
                Ok(()) => return Attempt::Done,
                Err(now) => word = now,
            }
        }
    }

    /// Takes a reference, turning the key on if need be. The caller holds the lock.
    ///
    /// # Errors
    /// See [`RefError`].
    pub(crate) fn inc_locked<T: Text>(&self, text: &mut T) -> Result<(), RefError<T::Error>> {
        match self.try_inc() {
            Attempt::Done => Ok(()),
            Attempt::Refused => Err(RefError::Overflow),
            Attempt::NeedsLock => self.turn_on(1, text).map_err(RefError::Text),
        }
    }

    /// Drops a reference if the key stays on all the same.
    pub(crate) fn try_dec(&self) -> Attempt {
        let mut word = self.word.0.load(Ordering::Acquire);
        loop {
            if word & COUNT == 0 {
                return Attempt::Refused;
            }
            if word == 1 {
                return Attempt::NeedsLock;
            }
            match self.exchange(word, word - 1) {
                Ok(()) => return Attempt::Done,
                Err(now) => word = now,
            }
        }
    }

    /// Drops a reference, turning the key off if it was the last. The caller holds the lock.
    ///
    /// # Errors
    /// See [`RefError`]; the reference is then still held.
    pub(crate) fn dec_locked<T: Text>(&self, text: &mut T) -> Result<(), RefError<T::Error>> {
        loop {
            match self.try_dec() {
                Attempt::Done => return Ok(()),
                Attempt::Refused => return Err(RefError::Underflow),
                Attempt::NeedsLock => {}
            }
            if self.turn_off(1, text).map_err(RefError::Text)? {
                return Ok(());
            }
        }
    }

    /// Drops a reference; if it was the last, the key stays on until [`State::expire_locked`].
    /// `before` runs before each attempt that would leave the key lingering.
    pub(crate) fn linger(&self, mut before: impl FnMut()) -> Attempt {
        let mut word = self.word.0.load(Ordering::Acquire);
        loop {
            if word & COUNT == 0 {
                return Attempt::Refused;
            }
            let next = if word == 1 {
                before();
                LINGER
            } else {
                word - 1
            };
            match self.exchange(word, next) {
                Ok(()) => return Attempt::Done,
                Err(now) => word = now,
            }
        }
    }

    /// Carries out a pending deferred drop. The caller holds the lock.
    ///
    /// # Errors
    /// Returns the text's error; the drop is then still pending.
    pub(crate) fn expire_locked<T: Text>(&self, text: &mut T) -> Result<(), T::Error> {
        self.clear_locked(LINGER, text)
    }

    /// Turns the key on until [`State::disable_locked`]. The caller holds the lock.
    ///
    /// # Errors
    /// Returns the text's error; the key is then as before.
    pub(crate) fn enable_locked<T: Text>(&self, text: &mut T) -> Result<(), T::Error> {
        let mut word = self.word.0.load(Ordering::Acquire);
        while word != 0 {
            match self.exchange(word, word | EXPLICIT) {
                Ok(()) => return Ok(()),
                Err(now) => word = now,
            }
        }
        self.turn_on(EXPLICIT, text)
    }

    /// Undoes [`State::enable_locked`] and any pending deferred drop; references keep the key on.
    /// The caller holds the lock.
    ///
    /// # Errors
    /// Returns the text's error; the key is then as before.
    pub(crate) fn disable_locked<T: Text>(&self, text: &mut T) -> Result<(), T::Error> {
        self.clear_locked(EXPLICIT | LINGER, text)
    }

    fn clear_locked<T: Text>(&self, bits: u32, text: &mut T) -> Result<(), T::Error> {
        loop {
            let word = self.word.0.load(Ordering::Acquire);
            // Zero with the flag still up: forked in the middle of the parent's flip. Finish it.
            let is_half_off = word == 0 && self.is_on();
            if word & bits == 0 && !is_half_off {
                return Ok(());
            }
            let done = if word & !bits == 0 {
                self.turn_off(word, text)?
            } else {
                self.exchange(word, word & !bits).is_ok()
            };
            if done {
                return Ok(());
            }
        }
    }

    fn turn_on<T: Text>(&self, word: u32, text: &mut T) -> Result<(), T::Error> {
        text.disarm(false)?;
        self.flag.0.swap(true, Ordering::SeqCst);
        self.word.0.store(word, Ordering::Release);
        Ok(())
    }

    /// Turns the key off if the word still is `word`; tells whether it did.
    fn turn_off<T: Text>(&self, word: u32, text: &mut T) -> Result<bool, T::Error> {
        text.disarm(true)?;
        if self.exchange(word, 0).is_err() {
            return Ok(false);
        }
        self.flag.0.swap(false, Ordering::SeqCst);
        Ok(true)
    }

    fn exchange(&self, old: u32, new: u32) -> Result<(), u32> {
        let word = &self.word.0;
        word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
    }
}
