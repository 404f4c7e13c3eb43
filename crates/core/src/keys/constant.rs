//! The twin with constants: every part that is compiled in is on.

use crate::error::{Error, Kind};

/// Why a key could not be flipped: does not happen, there is nothing to flip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FlipError {}

impl core::fmt::Display for FlipError {
    fn fmt(&self, _: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {}
    }
}

impl core::error::Error for FlipError {}

/// A switch for an optional part of the core; see the [module](crate::keys).
#[derive(Debug)]
pub struct Key {
    pub(super) name: &'static str,
    pub(super) is_compiled: bool,
}

impl Key {
    /// Returns the name, as it appears in reports.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns whether the part is in this build.
    pub fn is_compiled(&self) -> bool {
        self.is_compiled
    }

    /// Returns whether the key is on. Paths ask with [`key_on!`](crate::key_on).
    pub fn is_on(&self) -> bool {
        self.is_compiled
    }

    /// Returns the number of [`Hold`]s; always 0 without the cargo feature `static-keys`.
    pub fn references(&self) -> u32 {
        0
    }

    /// Turns the key on for as long as the result lives.
    ///
    /// # Errors
    /// [`Error::is_not_compiled`] if the part is not in this build; [`Error::is_key`] if the system
    /// refuses to have code changed, and the key was off and stays off.
    pub fn hold(&'static self) -> Result<Hold, Error> {
        self.enable().map(|()| Hold(()))
    }

    /// Turns the key on. There is no need to undo it.
    ///
    /// # Errors
    /// As [`Key::hold`].
    pub fn enable(&'static self) -> Result<(), Error> {
        if self.is_compiled {
            return Ok(());
        }
        Err(Kind::NotCompiled(self.name).into())
    }

    /// Undoes [`Key::enable`]: for tests and simulations, which know that no object needs the part
    /// any more. The key stays on while it is held. Without the cargo feature `static-keys` it
    /// stays on.
    ///
    /// # Errors
    /// [`Error::is_key`]; does not happen to a key that is only tested with
    /// [`key_on!`](crate::key_on).
    pub fn disable(&'static self) -> Result<(), Error> {
        Ok(())
    }
}

/// A reference to a [`Key`], which keeps it on.
#[derive(Debug)]
#[must_use = "the key goes off when the last reference is dropped"]
pub struct Hold(());

impl Drop for Hold {
    fn drop(&mut self) {}
}

/// Defines the values of the branches.
macro_rules! keys {
    ($($name:ident = $text:literal, $compiled:expr, [$($doc:literal)+];)+) => {
        /// The branches.
        pub mod branch {
            $($(#[doc = $doc])+ pub const $name: bool = $compiled;)+
        }
    };
}
pub(super) use keys;

/// Makes the handle of one key.
macro_rules! key {
    ($name:ident, $text:literal, $compiled:expr) => {
        Key {
            name: $text,
            is_compiled: $compiled,
        }
    };
}
pub(super) use key;

/// Tests whether a [key](crate::keys) is on.
///
/// With the cargo feature `static-keys` it is a branch that costs one instruction while the key is
/// off, otherwise a constant.
///
/// # Examples
/// ```
/// let is_on = evenkeel_core::key_on!(BANDWIDTH);
/// assert_eq!(is_on, evenkeel_core::keys::BANDWIDTH.is_on());
/// ```
#[macro_export]
macro_rules! key_on {
    ($name:ident) => {
        $crate::keys::branch::$name
    };
}
