//! Keys: the public face of the flip protocol.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::error::{Error, Kind};
use crate::keys::SiteInfo;
use crate::patch::{self, Patcher};
use crate::state::{Attempt, RefError, State};

/// The shortest time between two armings of a key that follow from flips: a key that is flipped
/// faster stays unarmed meanwhile, and its flips then write no code.
pub const REARM_INTERVAL: Duration = Duration::from_millis(100);

/// A boolean that branches test almost for free while it has the value they expect.
///
/// Make it a `static` item and test it with
/// [`static_branch_unlikely!`](crate::static_branch_unlikely) or
/// [`static_branch_likely!`](crate::static_branch_likely). The key is on while it is
/// [enabled](StaticKey::enable) or any [reference](StaticKey::inc) to it is held. It may be flipped
/// at any time, from any thread, but not from a signal handler (flips take a lock).
///
/// # Examples
/// ```
/// use evenkeel_static_key::{StaticKey, static_branch_unlikely};
///
/// static TRACING: StaticKey = StaticKey::new_false("tracing");
///
/// fn work(x: u64) -> u64 {
///     if static_branch_unlikely!(TRACING) {
///         return traced_work(x);
///     }
///     x + 1
/// }
///
/// #[cold]
/// fn traced_work(x: u64) -> u64 {
///     x + 1001
/// }
///
/// assert_eq!(work(1), 2);
/// TRACING.enable()?;
/// assert_eq!(work(1), 1002);
/// TRACING.disable()?;
/// assert_eq!(work(1), 2);
/// # Ok::<(), evenkeel_static_key::Error>(())
/// ```
pub struct StaticKey {
    state: State,
    name: &'static str,
    /// Whether flips should be followed by arming. Written under the lock.
    is_wanted: AtomicBool,
    /// When the sites were last armed, ns on this module's clock. Written under the lock.
    armed_ns: AtomicU64,
    /// When a pending deferred drop is due, ns on this module's clock.
    due_ns: AtomicU64,
    /// The key that was noted after this one.
    next: OnceLock<&'static StaticKey>,
}

/// The first of the keys that were ever flipped, armed, or deferred; `next` leads to the others.
/// Nothing is ever taken out.
static NOTED: OnceLock<&'static StaticKey> = OnceLock::new();

impl StaticKey {
    /// Makes a key that starts off. `name` is for reports; it should be unique in the program.
    pub const fn new_false(name: &'static str) -> Self {
        Self::with_word(name, State::initial_word(false))
    }

    /// Makes a key that starts on, as if [enabled](StaticKey::enable).
    pub const fn new_true(name: &'static str) -> Self {
        Self::with_word(name, State::initial_word(true))
    }

    const fn with_word(name: &'static str, word: u32) -> Self {
        Self {
            state: State::from_parts(AtomicBool::new(word != 0), AtomicU32::new(word)),
            name,
            is_wanted: AtomicBool::new(false),
            armed_ns: AtomicU64::new(0),
            due_ns: AtomicU64::new(0),
            next: OnceLock::new(),
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Tells whether the key is on: one load with `Acquire` ordering.
    #[inline(always)]
    pub fn is_enabled(&self) -> bool {
        self.state.is_on()
    }

    /// Returns the number of references that [`StaticKey::inc`] took and nobody dropped.
    pub fn references(&self) -> u32 {
        self.state.references()
    }

    /// Turns the key on until [`StaticKey::disable`]. Does nothing if that was done before.
    ///
    /// A branch that begins after this returned gives `true`; what happened before this call in
    /// the calling thread also happened before whatever a branch that gives `true` guards, unless
    /// the branch is armed for `true` (see the crate documentation).
    ///
    /// # Errors
    /// Fails only if a site is armed for `false`: [`Error::is_denied`] if the system refuses to
    /// have it disarmed (see
    /// [`disarm_all`](crate::disarm_all)), [`Error::is_foreign_code`] if a debugger's breakpoint
    /// lies on it. The key is then as before, for every branch.
    pub fn enable(&'static self) -> Result<(), Error> {
        self.flip(|state, patcher| state.enable_locked(&mut patcher.text(self)))
    }

    /// Undoes [`StaticKey::enable`], and ends the time of a [deferred
    /// drop](StaticKey::dec_deferred). The key stays on while references are held.
    ///
    /// If no reference is held, a branch that begins after this returned gives `false`.
    ///
    /// # Errors
    /// As [`StaticKey::enable`], only if a site is armed for `true`. Only
    /// [`static_branch_likely!`](crate::static_branch_likely) makes such sites: the key of a
    /// program that has none cannot fail to be disabled.
    pub fn disable(&'static self) -> Result<(), Error> {
        self.flip(|state, patcher| state.disable_locked(&mut patcher.text(self)))
    }

    /// Takes a reference, which keeps the key on. Lock-free if the key is on already.
    ///
    /// # Errors
    /// As [`StaticKey::enable`], and [`Error::is_overflow`] beyond
    /// [`MAX_REFERENCES`](crate::MAX_REFERENCES). No reference is held then.
    pub fn inc(&'static self) -> Result<(), Error> {
        match self.state.try_inc() {
            Attempt::Done => Ok(()),
            Attempt::Refused => Err(self.error(RefError::Overflow)),
            Attempt::NeedsLock => self.flip(|state, patcher| {
                let taken = state.inc_locked(&mut patcher.text(self));
                taken.map_err(|why| self.error(why))
            }),
        }
    }

    /// Drops a reference. Lock-free unless it is the last. If it is the last and the key is not
    /// enabled besides, the key goes off.
    ///
    /// # Errors
    /// As [`StaticKey::disable`], and the reference is then still held; [`Error::is_underflow`] if
    /// none is held.
    pub fn dec(&'static self) -> Result<(), Error> {
        match self.state.try_dec() {
            Attempt::Done => Ok(()),
            Attempt::Refused => Err(self.error(RefError::Underflow)),
            Attempt::NeedsLock => self.flip(|state, patcher| {
                let dropped = state.dec_locked(&mut patcher.text(self));
                dropped.map_err(|why| self.error(why))
            }),
        }
    }

    /// Drops a reference; if it is the last, the key stays on for `delay` and goes off at the first
    /// call of [`run_deferred`](crate::run_deferred) after that. An [`inc`](StaticKey::inc) in
    /// between cancels that, so a user who comes and goes quickly causes no flips. Lock-free.
    ///
    /// # Errors
    /// [`Error::is_underflow`] if no reference is held.
    pub fn dec_deferred(&'static self, delay: Duration) -> Result<(), Error> {
        self.note();
        let due = now_ns().saturating_add(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX));
        let dropped = self
            .state
            .linger(|| self.due_ns.store(due, Ordering::Release));
        match dropped {
            Attempt::Done | Attempt::NeedsLock => Ok(()),
            Attempt::Refused => Err(self.error(RefError::Underflow)),
        }
    }

    /// Arms the key's sites that expect its present value, and has later flips do so, at most once
    /// in [`REARM_INTERVAL`]. Returns the number of sites that are armed.
    ///
    /// This is a speed-up only; every branch is right without it. The first arming in a process
    /// that has several threads takes milliseconds (the kernel waits for a grace period).
    ///
    /// # Errors
    /// [`Error::is_unsupported`], [`Error::is_denied`], or [`Error::is_foreign_code`] if some site
    /// could not be armed. The others are armed.
    pub fn arm(&'static self) -> Result<usize, Error> {
        self.note();
        let mut patcher = patch::lock();
        self.arm_locked(&mut patcher)
    }

    /// Makes all of the key's sites load the flag, and has no later flip arm them.
    ///
    /// # Errors
    /// As [`StaticKey::enable`]; then some sites may still be armed.
    pub fn disarm(&'static self) -> Result<(), Error> {
        self.disarm_locked(&mut patch::lock())
    }

    /// Tells whether every site that expects the present value is armed, and there is one. Sites in
    /// other shared objects than this crate's are not counted; they are never armed.
    pub fn is_patched(&'static self) -> bool {
        let patcher = patch::lock();
        let value = self.is_enabled();
        let sites = patcher.sites(self);
        let mut expecting = sites.iter().filter(|site| site.1 == value).peekable();
        expecting.peek().is_some() && expecting.all(|site| site.2.is_armed())
    }

    /// Returns the key's branch sites in this shared object, by address.
    pub fn sites(&'static self) -> Vec<SiteInfo> {
        let sites = patch::lock().sites(self).into_iter();
        sites
            .map(|(address, expects, form)| SiteInfo {
                address,
                expects,
                is_patched: form.is_armed(),
            })
            .collect()
    }

    /// Runs `flip` under the lock and then, if it is time, arms what may be armed.
    fn flip<E>(
        &'static self,
        flip: impl FnOnce(&State, &mut Patcher) -> Result<(), E>,
    ) -> Result<(), E> {
        self.note();
        let mut patcher = patch::lock();
        let flipped = flip(&self.state, &mut patcher);
        self.settle(&mut patcher);
        flipped
    }

    /// Arms the sites if that is wanted, due, and not done.
    fn settle(&'static self, patcher: &mut Patcher) {
        let is_wanted = self.is_wanted.load(Ordering::Relaxed);
        if !is_wanted || !patcher.can_arm(self, self.is_enabled()) {
            return;
        }
        let since = now_ns().saturating_sub(self.armed_ns.load(Ordering::Relaxed));
        if u128::from(since) >= REARM_INTERVAL.as_nanos() {
            // A key that cannot be armed is slower and still right. The next flip tries again.
            let _ = self.arm_locked(patcher);
        }
    }

    pub(crate) fn arm_locked(&'static self, patcher: &mut Patcher) -> Result<usize, Error> {
        let armed = patcher.arm(self, self.is_enabled());
        let is_possible = !matches!(&armed, Err(error) if error.is_unsupported());
        self.is_wanted.store(is_possible, Ordering::Relaxed);
        if is_possible {
            self.armed_ns.store(now_ns(), Ordering::Relaxed);
        }
        armed
    }

    pub(crate) fn disarm_locked(&'static self, patcher: &mut Patcher) -> Result<(), Error> {
        use crate::state::Text;
        self.is_wanted.store(false, Ordering::Relaxed);
        let mut text = patcher.text(self);
        text.disarm(false).and(text.disarm(true))
    }

    /// Carries out a deferred drop that is due. Returns when to look again, on this module's clock.
    pub(crate) fn run_due(&'static self, patcher: &mut Patcher, now: u64) -> Option<u64> {
        if !self.state.is_lingering() {
            self.settle(patcher);
            return None;
        }
        let due = self.due_ns.load(Ordering::Acquire);
        if now < due {
            return Some(due);
        }
        let expired = self.state.expire_locked(&mut patcher.text(self));
        self.settle(patcher);
        let retry = now.saturating_add(REARM_INTERVAL.as_nanos() as u64);
        expired.is_err().then_some(retry)
    }

    /// Puts the key at the end of the list of noted keys, if it is not in it.
    pub(crate) fn note(&'static self) {
        let mut place = &NOTED;
        loop {
            let there = *place.get_or_init(|| self);
            if core::ptr::eq(there, self) {
                return;
            }
            place = &there.next;
        }
    }

    fn error(&self, why: RefError<Error>) -> Error {
        match why {
            RefError::Overflow => Error::new(Kind::Overflow, self.name),
            RefError::Underflow => Error::new(Kind::Underflow, self.name),
            RefError::Text(error) => error,
        }
    }
}

impl fmt::Debug for StaticKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticKey")
            .field("name", &self.name)
            .field("is_enabled", &self.is_enabled())
            .field("references", &self.references())
            .finish_non_exhaustive()
    }
}

impl PartialEq for StaticKey {
    /// Tells whether both are the same key.
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }
}

impl Eq for StaticKey {}

/// Returns the keys that were ever flipped, armed or deferred.
pub(crate) fn noted() -> impl Iterator<Item = &'static StaticKey> {
    core::iter::successors(NOTED.get(), |key| key.next.get()).copied()
}

/// Returns nanoseconds since the first call, and some more, so that no time is near zero.
pub(crate) fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed() + REARM_INTERVAL;
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyInfo, Keys, MAX_REFERENCES};

    #[test]
    fn references_beyond_the_largest_number_are_refused() {
        static FULL: StaticKey = StaticKey::with_word("full", MAX_REFERENCES);
        let error = FULL.inc().expect_err("one too many");
        assert!(error.is_overflow() && !error.is_underflow(), "{error}");
        assert!(
            error.to_string().contains(&MAX_REFERENCES.to_string()),
            "{error}"
        );
        assert_eq!(
            (FULL.references(), FULL.is_enabled()),
            (MAX_REFERENCES, true)
        );
        FULL.dec().expect("a reference is held");
        FULL.inc().expect("there is room for one");
    }

    #[test]
    fn keys_and_errors_can_be_shared_between_threads() {
        fn check<T: Send + Sync + 'static>() {}
        check::<StaticKey>();
        check::<Error>();
        check::<KeyInfo>();
        check::<Keys>();
    }
}
