//! The twin with keys that can be switched.

use evenkeel_static_key::StaticKey;

use crate::error::{Error, Kind};

/// Why a key could not be flipped.
pub(crate) type FlipError = evenkeel_static_key::Error;

/// A switch for an optional part of the core; see the [module](crate::keys).
#[derive(Debug)]
pub struct Key {
    pub(super) key: &'static StaticKey,
    pub(super) is_compiled: bool,
}

impl Key {
    /// Returns the name, as it appears in reports.
    pub fn name(&self) -> &'static str {
        self.key.name()
    }

    /// Returns whether the part is in this build.
    pub fn is_compiled(&self) -> bool {
        self.is_compiled
    }

    /// Returns whether the key is on. Paths ask with [`key_on!`](crate::key_on).
    pub fn is_on(&self) -> bool {
        self.is_compiled && self.key.is_enabled()
    }

    /// Returns the number of [`Hold`]s; always 0 without the cargo feature `static-keys`.
    pub fn references(&self) -> u32 {
        self.key.references()
    }

    /// Turns the key on for as long as the result lives.
    ///
    /// # Errors
    /// [`Error::is_not_compiled`] if the part is not in this build; [`Error::is_key`] if the system
    /// refuses to have code changed, and the key was off and stays off.
    pub fn hold(&'static self) -> Result<Hold, Error> {
        self.check_compiled()?;
        self.key.inc()?;
        Ok(Hold(self))
    }

    /// Turns the key on. There is no need to undo it.
    ///
    /// # Errors
    /// As [`Key::hold`].
    pub fn enable(&'static self) -> Result<(), Error> {
        self.check_compiled()?;
        if self.key.is_enabled() && self.key.references() == 0 {
            return Ok(());
        }
        Ok(self.key.enable()?)
    }

    /// Undoes [`Key::enable`]: for tests and simulations, which know that no object needs the part
    /// any more. The key stays on while it is held. Without the cargo feature `static-keys` it
    /// stays on.
    ///
    /// # Errors
    /// [`Error::is_key`]; does not happen to a key that is only tested with
    /// [`key_on!`](crate::key_on).
    pub fn disable(&'static self) -> Result<(), Error> {
        Ok(self.key.disable()?)
    }

    fn check_compiled(&self) -> Result<(), Error> {
        if self.is_compiled {
            return Ok(());
        }
        Err(Kind::NotCompiled(self.name()).into())
    }
}

/// A reference to a [`Key`], which keeps it on.
#[derive(Debug)]
#[must_use = "the key goes off when the last reference is dropped"]
pub struct Hold(&'static Key);

impl Drop for Hold {
    fn drop(&mut self) {
        let dropped = self.0.key.dec();
        debug_assert!(dropped.is_ok(), "{dropped:?}");
    }
}

/// Defines the statics that the branches refer to, and the branches.
macro_rules! keys {
    ($($name:ident = $text:literal, $compiled:expr, [$($doc:literal)+];)+) => {
        mod word {
            $(pub(super) static $name: evenkeel_static_key::StaticKey =
                evenkeel_static_key::StaticKey::new_false($text);)+
        }

        /// The branches.
        #[allow(non_snake_case, reason = "a branch has the name of its key")]
        pub mod branch {
            $($(#[doc = $doc])+
            #[inline(always)]
            pub fn $name() -> bool {
                if const { $compiled } {
                    evenkeel_static_key::static_branch_unlikely!(super::word::$name)
                } else {
                    false
                }
            })+
        }
    };
}
pub(super) use keys;

/// Makes the handle of one key.
macro_rules! key {
    ($name:ident, $text:literal, $compiled:expr) => {
        Key {
            key: &word::$name,
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
        $crate::keys::branch::$name()
    };
}
