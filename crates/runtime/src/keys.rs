//! Keys: what is optional on the runtime's fast paths, and what each part's state is.
//!
//! **Guarantee.** A part that nobody uses costs next to nothing: no flag of it is read. A part goes
//! on while tasks are queued and running, at any moment, and no task, count or time is lost by
//! that.
//!
//! **Mechanism, as of now.** Each part has a `StaticKey`, a branch that is patched in running code
//! (`evenkeel_static_key`). A key counts runtimes: one takes a reference when it first uses the
//! part, and drops it when it ends; a moment after the last one the key goes off. Behind a key that
//! is on each runtime still has a flag of its own. Without a part's cargo feature its branches are
//! the constant `false`, its code is gone, and asking for it is an error for which
//! [`Error::is_not_compiled`] holds.
//!
//! # What a flip at any time means
//!
//! A branch that begins after the flip has returned gives the new value. So whoever begins to use a
//! part turns the key on **first**, then sets its runtime's flag, and only then shows anybody what
//! depends on it (a group, a level). A thread that finds the key off meanwhile does what it would
//! have done a moment earlier; how long a busy worker may take to look is said in the module
//! `worker`. Off again is only what no runtime uses, so that nobody is left who could miss it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_core::keys as core_keys;
use evenkeel_static_key::{StaticKey, static_branch_unlikely};

use crate::context;
use crate::error::{Error, Kind};

/// How long a key stays on after its last user has gone: who comes and goes causes no flips.
const LINGER: Duration = Duration::from_millis(100);

/// A key of this crate, and what there is to say about it.
#[derive(Debug)]
pub(crate) struct Key {
    key: &'static StaticKey,
    feature: &'static str,
    is_compiled: bool,
    guards: &'static str,
    turned_on_by: &'static str,
}

impl Key {
    /// Takes a reference to the key, which turns it on.
    ///
    /// # Errors
    ///
    /// [`Error::is_not_compiled`] without the cargo feature, [`Error::is_key`] when the system
    /// refuses to have code changed.
    fn inc(&self) -> Result<(), Error> {
        self.check_compiled()?;
        let _section = context::section();
        self.key.inc().map_err(Error::key)
    }

    /// Returns an error for which [`Error::is_not_compiled`] holds if the part is not in this
    /// build.
    pub(crate) fn check_compiled(&self) -> Result<(), Error> {
        if self.is_compiled {
            return Ok(());
        }
        Err(Error::new(Kind::NotCompiled {
            feature: self.feature,
        }))
    }

    /// Drops a reference that [`Key::inc`] took.
    fn dec(&self) {
        let dropped = self.key.dec_deferred(LINGER);
        debug_assert!(dropped.is_ok(), "{dropped:?}");
    }
}

/// One runtime's use of a part, from its first use to the end of the runtime.
#[derive(Debug)]
pub(crate) struct Use {
    key: &'static Key,
    is_held: AtomicBool,
}

impl Use {
    pub(crate) const fn of(key: &'static Key) -> Self {
        Self {
            key,
            is_held: AtomicBool::new(false),
        }
    }

    /// Turns the key on for this runtime, unless that was done. When this returns `Ok`, branches on
    /// the key that begin afterwards give `true` until this is dropped.
    ///
    /// # Errors
    ///
    /// As [`Key::inc`]; nothing has changed then.
    pub(crate) fn begin(&self) -> Result<(), Error> {
        if self.is_held.load(Ordering::Acquire) {
            return Ok(());
        }
        self.key.inc()?;
        if let Err(error) = ANY.inc() {
            self.key.dec();
            return Err(error);
        }
        if self.is_held.swap(true, Ordering::AcqRel) {
            // Somebody else began at the same time.
            self.dec();
        }
        context::look_around();
        Ok(())
    }
}

impl Use {
    fn dec(&self) {
        ANY.dec();
        self.key.dec();
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        if *self.is_held.get_mut() {
            self.dec();
        }
    }
}

macro_rules! keys {
    ($(
        $(#[doc = $doc:literal])+
        $key:ident / $test:ident = $name:literal, $feature:literal,
            guards: $guards:literal, on: $on:literal;
    )+) => {
        mod word {
            use super::StaticKey;
            $(pub(super) static $key: StaticKey = StaticKey::new_false($name);)+
            pub(super) static ANY: StaticKey = StaticKey::new_false("optional");
        }

        /// On while any of the others is: the only key that the fastest paths look at.
        static ANY: Key = Key {
            key: &word::ANY,
            feature: "",
            is_compiled: cfg!(any($(feature = $feature),+)),
            guards: "busy workers, and polls that end, look at the keys below at all",
            turned_on_by: "whoever turns on one of those",
        };

        /// Tests whether any part is on.
        #[inline(always)]
        pub(crate) fn any_on() -> bool {
            (const { cfg!(any($(feature = $feature),+)) }) && static_branch_unlikely!(word::ANY)
        }

        $(
            $(#[doc = $doc])+
            pub(crate) static $key: Key = Key {
                key: &word::$key,
                feature: $feature,
                is_compiled: cfg!(feature = $feature),
                guards: $guards,
                turned_on_by: $on,
            };

            #[doc = concat!("Tests the key `", $name, "`.")]
            #[inline(always)]
            pub(crate) fn $test() -> bool {
                (const { cfg!(feature = $feature) }) && static_branch_unlikely!(word::$key)
            }
        )+

        static KEYS: &[&Key] = &[&ANY, $(&$key),+];
    };
}

keys! {
    /// Tasks are queued through the core.
    GROUPS / groups_on = "groups", "groups",
        guards: "tasks are queued through the scheduling core, and charged",
        on: "the first child group, the first request for statistics, or preemption by parking";
    /// Tasks of groups of fair order leave their CPU when their poll ends.
    FAIR_ORDER / fair_order_on = "fair_order", "fair-order",
        guards: "tasks of groups of fair order leave their CPU when their poll ends",
        on: "the first group of fair order";
    /// Wait and run times.
    STATISTICS / statistics_on = "statistics", "statistics",
        guards: "every wait and every poll is timed, for the histograms of groups",
        on: "the first request for statistics of a group";
    /// Trace events.
    TRACING / tracing_on = "tracing", "trace",
        guards: "switches, wake-ups and ends of tasks are reported as events of `tracing`",
        on: "evenkeel::trace::enable, for as long as its guard lives";
    /// Preemption.
    PREEMPT / preempt_on = "preempt", "preempt",
        guards: "polls open a window in which they can be preempted, and the runtime closes it",
        on: "a runtime that is built with a level, otherwise the first long poll while tasks wait";
}

/// A part that can be off, at the time of asking.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyInfo {
    /// The key's name.
    pub name: &'static str,
    /// The cargo feature without which the part is not in a build; empty when it always is.
    pub feature: &'static str,
    /// What happens only while the key is on.
    pub guards: &'static str,
    /// Who turns it on.
    pub turned_on_by: &'static str,
    /// Whether the part is in this build.
    pub is_compiled: bool,
    /// Whether the key is on.
    pub is_on: bool,
    /// How many users hold it on: runtimes, guards, or groups.
    pub references: u32,
    /// The number of branches on it in this program.
    pub sites: usize,
    /// The number of those that are patched, and so cost one instruction.
    pub patched_sites: usize,
}

/// Lists every key, those of the scheduling core last, in a fixed order.
///
/// # Examples
///
/// ```
/// let groups = evenkeel::keys::list().into_iter().find(|key| key.name == "groups");
/// assert!(groups.is_some_and(|key| key.is_compiled));
/// ```
#[must_use]
pub fn list() -> Vec<KeyInfo> {
    let _section = context::section();
    let patched: Vec<_> = evenkeel_static_key::keys().collect();
    let ours = KEYS.iter().map(|key| KeyInfo {
        name: key.key.name(),
        feature: key.feature,
        guards: key.guards,
        turned_on_by: key.turned_on_by,
        is_compiled: key.is_compiled,
        is_on: key.key.is_enabled(),
        references: key.key.references(),
        sites: 0,
        patched_sites: 0,
    });
    let cores = core_keys::KEYS.iter().map(|key| {
        let (feature, guards, turned_on_by) = about_core_key(key.name());
        KeyInfo {
            name: key.name(),
            feature,
            guards,
            turned_on_by,
            is_compiled: key.is_compiled(),
            is_on: key.is_on(),
            references: key.references(),
            sites: 0,
            patched_sites: 0,
        }
    });
    let with_sites = |mut info: KeyInfo| {
        if let Some(key) = patched.iter().find(|key| key.name == info.name) {
            info.sites = key.sites;
            info.patched_sites = key.patched_sites;
        }
        info
    };
    ours.chain(cores).map(with_sites).collect()
}

/// Returns the cargo feature of a key of the core, what it guards, and who turns it on.
fn about_core_key(name: &str) -> (&'static str, &'static str, &'static str) {
    match name {
        "realtime" => (
            "realtime",
            "the queue of real-time tasks is looked at before the others",
            "the first group of the real-time class; it stays on",
        ),
        "bandwidth" => (
            "bandwidth",
            "quotas of groups are charged and enforced",
            "every group that has a quota, for as long as it has",
        ),
        _ => ("", "a part of the scheduling core", "the core"),
    }
}

/// Has branches patched that are not: a speed-up only, which may be refused.
pub(crate) fn arm() {
    run_deferred();
    if let Err(error) = evenkeel_static_key::arm_all() {
        tracing::debug!(%error, "branches of optional parts load a flag");
    }
}

/// Carries out what was deferred and is due. For threads that have time.
pub(crate) fn run_deferred() {
    let _ = evenkeel_static_key::run_deferred();
}
