//! What concerns all keys together: lists of them and their sites, arming and disarming all, and
//! carrying out what was deferred.

use std::time::Duration;

use crate::error::Error;
use crate::key::{StaticKey, noted, now_ns};
use crate::patch::{self, Patcher};

/// The name that errors give where all keys are meant.
const ALL: &str = "*";

/// One branch site, at the time of asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteInfo {
    /// The address of its first byte.
    pub address: usize,
    /// The value for which it can be armed.
    pub expects: bool,
    /// Whether it is armed: it gives the expected value without a load.
    pub is_patched: bool,
}

/// One key, at the time of asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyInfo {
    /// The key.
    pub key: &'static StaticKey,
    /// Its name.
    pub name: &'static str,
    /// Whether it is on.
    pub is_enabled: bool,
    /// The number of references held.
    pub references: u32,
    /// The number of branch sites in this shared object.
    pub sites: usize,
    /// The number of those that are armed.
    pub patched_sites: usize,
}

/// An iterator over keys; see [`keys`].
#[derive(Debug)]
pub struct Keys(std::vec::IntoIter<&'static StaticKey>);

impl Iterator for Keys {
    type Item = KeyInfo;

    fn next(&mut self) -> Option<KeyInfo> {
        let key = self.0.next()?;
        let sites = key.sites();
        Some(KeyInfo {
            key,
            name: key.name(),
            is_enabled: key.is_enabled(),
            references: key.references(),
            sites: sites.len(),
            patched_sites: sites.iter().filter(|site| site.is_patched).count(),
        })
    }
}

/// Iterates over the keys by name: those that have branch sites in this shared object, and those
/// that have been flipped or armed since the start.
pub fn keys() -> Keys {
    Keys(all_keys(&patch::lock()).into_iter())
}

fn all_keys(patcher: &Patcher) -> Vec<&'static StaticKey> {
    let mut keys = patcher.keys();
    keys.extend(noted());
    keys.sort_by_key(|key| (key.name(), core::ptr::from_ref(*key).addr()));
    keys.dedup_by(|a, b| core::ptr::eq(*a, *b));
    keys
}

/// [Arms](StaticKey::arm) every key that has sites in this shared object. Returns the number of
/// sites that are armed. Call it once at the start, if the program's fast paths matter.
///
/// # Errors
/// Returns [`Error::is_unsupported`] or [`Error::is_denied`] at once if no code can be patched;
/// otherwise the first error of [`StaticKey::arm`], after having tried all keys.
pub fn arm_all() -> Result<usize, Error> {
    let mut patcher = patch::lock();
    patcher.probe(ALL)?;
    let mut armed = Ok(0);
    for key in all_keys(&patcher) {
        key.note();
        match (key.arm_locked(&mut patcher), &mut armed) {
            (Ok(more), Ok(sites)) => *sites += more,
            (Err(error), Ok(_)) => armed = Err(error),
            (_, Err(_)) => {}
        }
    }
    armed
}

/// [Disarms](StaticKey::disarm) every key: call it before a sandbox is entered that refuses or
/// punishes writing to code. From then on flips make no system call, cannot fail, and arm nothing,
/// until a key is armed explicitly again.
///
/// # Errors
/// Returns the first error of [`StaticKey::disarm`], after having tried all keys.
pub fn disarm_all() -> Result<(), Error> {
    let mut patcher = patch::lock();
    let mut disarmed = Ok(());
    for key in all_keys(&patcher) {
        disarmed = disarmed.and(key.disarm_locked(&mut patcher));
    }
    disarmed
}

/// Carries out what was deferred and is due: drops by [`StaticKey::dec_deferred`], and arming that
/// [`REARM_INTERVAL`](crate::REARM_INTERVAL) held back. Returns in how long the next drop is due,
/// if one is pending.
///
/// Call it now and then from a thread that has time, such as a monitor. The crate has no thread of
/// its own.
pub fn run_deferred() -> Option<Duration> {
    let now = now_ns();
    let mut patcher = patch::lock();
    let due = noted().filter_map(|key| key.run_due(&mut patcher, now));
    due.min()
        .map(|at| Duration::from_nanos(at.saturating_sub(now)))
}
