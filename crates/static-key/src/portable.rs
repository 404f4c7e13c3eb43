//! The twin of `linux/` where no code is patched: every branch loads the flag.
//!
//! The lock is the standard library's. Unlike the other twin's it stays locked in a child that is
//! forked while another thread of the parent flips a key; such a child must not flip keys.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::StaticKey;
use crate::error::{Error, Kind};
use crate::state::Text;

/// What a site contains; here there are no sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {}

impl Form {
    /// Tells whether the site falls through.
    pub(crate) fn is_armed(self) -> bool {
        match self {}
    }
}

static LOCK: Mutex<()> = Mutex::new(());

/// The right to flip: the lock.
#[derive(Debug)]
pub(crate) struct Patcher {
    _held: MutexGuard<'static, ()>,
}

/// Takes the lock.
pub(crate) fn lock() -> Patcher {
    Patcher {
        _held: LOCK.lock().unwrap_or_else(PoisonError::into_inner),
    }
}

impl Patcher {
    /// Returns the code of `key`, for the flip protocol.
    pub(crate) fn text(&mut self, _key: &'static StaticKey) -> KeyText {
        KeyText
    }

    /// Returns the keys that have sites in this shared object: none are known.
    pub(crate) fn keys(&self) -> Vec<&'static StaticKey> {
        Vec::new()
    }

    /// Returns the sites of `key`: none are known.
    pub(crate) fn sites(&self, _key: &'static StaticKey) -> Vec<(usize, bool, Form)> {
        Vec::new()
    }

    /// Tells whether `key` has a site that can be armed: never.
    pub(crate) fn can_arm(&self, _key: &'static StaticKey, _value: bool) -> bool {
        false
    }

    /// Finds out whether patching works here: it does not.
    ///
    /// # Errors
    /// Always [`Error::is_unsupported`].
    pub(crate) fn probe(&mut self, key: &'static str) -> Result<(), Error> {
        Err(Error::new(Kind::Unsupported("built without patching"), key))
    }

    /// Refuses to arm.
    ///
    /// # Errors
    /// Always [`Error::is_unsupported`].
    pub(crate) fn arm(&mut self, key: &'static StaticKey, _value: bool) -> Result<usize, Error> {
        self.probe(key.name()).map(|()| 0)
    }
}

/// The code of one key: every branch loads the flag at all times.
#[derive(Debug)]
pub(crate) struct KeyText;

impl Text for KeyText {
    type Error = Error;

    fn disarm(&mut self, _value: bool) -> Result<(), Error> {
        Ok(())
    }
}

/// Emits one branch. Not for use outside of this crate's macros.
#[doc(hidden)]
#[macro_export]
macro_rules! __static_branch {
    ($key:path, $fall_through:literal) => {{
        // Where sites are patched a key must be a `static` item: refuse anything else here as well.
        const _: *const $crate::StaticKey = &raw const $key;
        $crate::StaticKey::is_enabled(&$key)
    }};
}
