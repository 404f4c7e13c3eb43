//! Keys: optional parts of the core that cost next to nothing until somebody uses them.
//!
//! **Guarantee.** A part whose key is off is skipped; no task, count or sum depends on it then. A
//! key goes on while tasks are queued and running, at any moment, and nothing has to be prepared,
//! repaired or counted for that.
//!
//! **Mechanism, as of now.** With the cargo feature `static-keys`, [`key_on!`](crate::key_on) is a
//! branch that is patched in running code (`evenkeel_static_key`, which needs the standard
//! library): once armed, one instruction while the key is off. Without it, it is the constant
//! `true`: the same code, whose own tests (is the queue empty? has the group a quota?) decide, and
//! nothing to switch. A key whose part is compiled out (`realtime`,
//! `bandwidth`) is the constant `false` in both.
//!
//! # To add a key
//! 1. A line in the list below: name, name in reports, whether it is compiled in, and what it
//!    guards.
//! 2. On the path: `if key_on!(NAME) { … }`; cold code behind it, as a call.
//! 3. Whoever makes use of the part turns the key on **before** the first object that needs it can
//!    be seen by a path, and **returns the error** if that fails, with nothing changed:
//!    - *counted*: `let hold = keys::NAME.hold()?;` and keep the [`Hold`] in the object that needs
//!      the part (a group with a quota: `Option<Hold>` beside the quota). The reference goes when
//!      the object does, so the count is balanced by ownership. Right where the object itself has
//!      a place for it, and where nothing remains to be done for it once it is gone.
//!    - *for good*: `keys::NAME.enable()?`. Right where the users are too small or too scattered
//!      to own a reference.
//! 4. Never count behind a key what has to be taken back behind it: an object that was queued
//!    while the key was off is dequeued while it is on. Keep a mark in the object that says whether
//!    its accounting has begun, and heed the mark, not the key (the lesson of the kernel's
//!    `sched_uclamp_used`).
//!
//! A key that is only tested with [`key_on!`](crate::key_on) cannot fail to go off: no site is ever
//! armed for `true`. So dropping a [`Hold`] has no error to report.
//!
//! # What has no key
//! The idle class is looked at only when nothing else is runnable, and per-task fair order is
//! decided by the kind of queue that a fragment has, which the path has in hand anyway: a branch
//! would cost what it saves.

#[cfg_attr(feature = "static-keys", path = "patched.rs")]
#[cfg_attr(not(feature = "static-keys"), path = "constant.rs")]
mod twin;

pub(crate) use twin::FlipError;
pub use twin::{Hold, Key};

macro_rules! keys {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, $compiled:expr;)+) => {
        twin::keys! { $($name = $text, $compiled, [$($doc)+];)+ }

        $($(#[doc = $doc])+ pub static $name: Key = twin::key!($name, $text, $compiled);)+

        /// Lists every key.
        pub static KEYS: &[&Key] = &[$(&$name,)+];
    };
}

keys! {
    /// The real-time class. On for good from the first [check](crate::TaskParams::check) of
    /// settings that ask for it: a task can change its class in every state, and its entity has
    /// no room for a reference, so a count could not be proved balanced.
    REALTIME = "realtime", cfg!(feature = "realtime");
    /// CPU bandwidth control: one reference for each group that has a quota.
    BANDWIDTH = "bandwidth", cfg!(feature = "bandwidth");
}

#[cfg(test)]
#[allow(unreachable_pub, reason = "the keys of these tests are nobody else's")]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (i, key) in KEYS.iter().enumerate() {
            assert!(KEYS[..i].iter().all(|other| other.name() != key.name()));
        }
    }

    twin::keys! {
        OWN = "own", true, ["A key of these tests alone."];
        ABSENT = "absent", false, ["A key whose part is compiled out."];
    }
    static OWN: Key = twin::key!(OWN, "own", true);
    static ABSENT: Key = twin::key!(ABSENT, "absent", false);

    /// The value without a reason to be on.
    const AT_REST: bool = cfg!(not(feature = "static-keys"));

    /// Reads the branch; `key_on!` has no access to the keys of this module.
    macro_rules! own_on {
        ($name:ident) => {
            cfg_select! {
                feature = "static-keys" => branch::$name(),
                _ => branch::$name,
            }
        };
    }

    #[test]
    fn a_key_is_on_while_it_is_held_or_enabled() {
        assert_eq!((OWN.is_on(), own_on!(OWN)), (AT_REST, AT_REST));
        let first = OWN.hold().expect("no site is armed");
        let second = OWN.hold().expect("no site is armed");
        assert!(OWN.is_on() && own_on!(OWN));
        drop(first);
        assert!(OWN.is_on() && own_on!(OWN));
        OWN.enable().expect("no site is armed");
        drop(second);
        assert_eq!(OWN.references(), 0);
        assert!(OWN.is_on() && own_on!(OWN));
        OWN.disable().expect("no site is armed");
        assert_eq!((OWN.is_on(), own_on!(OWN)), (AT_REST, AT_REST));
    }

    #[test]
    fn a_part_that_is_compiled_out_cannot_be_turned_on() {
        assert!(ABSENT.hold().expect_err("compiled out").is_not_compiled());
        assert!(ABSENT.enable().expect_err("compiled out").is_not_compiled());
        assert!(!ABSENT.is_on() && !own_on!(ABSENT));
    }
}
