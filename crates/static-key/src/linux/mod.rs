//! Arming and disarming on Linux: under the lock, sites are written and cores are synchronised.
//!
//! # Rules
//! - A site is armed only while the flag has the value that falling through means.
//! - `site.armed` is true whenever the site may contain the armed form; `group.is_stale` is true
//!   whenever a core may still execute the armed form of a site that no longer contains it.
//! - Hence, once no site of a value is marked armed and the group is not stale, every branch of
//!   that value begun from now on loads the flag. [`Text::disarm`] returns `Ok` only then.
//! - Each rule holds after every single store. It also holds in a child forked at any moment:
//!   writes to code take the lock of the address space, as fork does while it copies, so a child
//!   that has such a write has all stores before it, and one that has not has no store after it.

#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
mod arch;
mod lock;
mod probe;
mod registry;
mod sys;
mod text;

use core::sync::atomic::{AtomicU8, Ordering};

use self::lock::Held;
use self::probe::PROBE;
use self::registry::{Group, Site};
pub(crate) use self::text::Form;
use self::text::{Batch, denied};
use crate::StaticKey;
use crate::error::{Error, Kind};
use crate::state::Text;

/// What the probe has found out.
static PROBED: AtomicU8 = AtomicU8::new(NOT_PROBED);
const NOT_PROBED: u8 = 0;
const WORKS: u8 = 1;
const FAILS: u8 = 2;

/// The right to flip, arm and disarm: the lock, and the open memory file once it is needed.
#[derive(Debug)]
pub(crate) struct Patcher {
    held: Held,
    batch: Option<Batch>,
}

/// Takes the lock.
pub(crate) fn lock() -> Patcher {
    Patcher {
        held: lock::acquire(),
        batch: None,
    }
}

impl Patcher {
    /// Returns the code of `key`, for the flip protocol.
    pub(crate) fn text(&mut self, key: &'static StaticKey) -> KeyText<'_> {
        KeyText { patcher: self, key }
    }

    /// Returns the keys that have sites in this shared object.
    pub(crate) fn keys(&self) -> Vec<&'static StaticKey> {
        let groups = registry::groups(&self.held).iter();
        groups
            .map(|group| group.key)
            .filter(|key| !core::ptr::eq(*key, &PROBE))
            .collect()
    }

    /// Returns address, fall-through value and form of each site of `key`.
    pub(crate) fn sites(&self, key: &'static StaticKey) -> Vec<(usize, bool, Form)> {
        let sites = registry::group(&self.held, key).map_or(&[][..], |group| &group.sites);
        let describe = |site: &Site| (site.code, site.fall_through, text::form(site));
        sites.iter().map(describe).collect()
    }

    /// Tells whether `key` has a site that falls through for `value` and is not armed.
    pub(crate) fn can_arm(&self, key: &'static StaticKey, value: bool) -> bool {
        let sites = registry::group(&self.held, key).map_or(&[][..], |group| &group.sites);
        let mut expecting = sites.iter().filter(|site| site.fall_through == value);
        expecting.any(|site| !site.armed.load(Ordering::Relaxed))
    }

    /// Arms the sites of `key` that fall through for its value `value`; returns their number.
    /// A site that somebody else has written to is passed over.
    ///
    /// # Errors
    /// See [`StaticKey::arm`]; then some sites may be armed and some not.
    pub(crate) fn arm(&mut self, key: &'static StaticKey, value: bool) -> Result<usize, Error> {
        let Some(group) = registry::group(&self.held, key) else {
            return Ok(0);
        };
        self.probe(key.name())?;
        let (mut armed, mut foreign) = (0, None);
        for site in group.sites.iter().filter(|s| s.fall_through == value) {
            match text::form(site) {
                Form::Armed => armed += 1,
                Form::Jump => {
                    self.arm_site(site, key.name())?;
                    armed += 1;
                }
                Form::Foreign(byte) => foreign = Some((site.code, byte)),
            }
        }
        match foreign {
            Some((address, byte)) => {
                let kind = Kind::Foreign { address, byte };
                Err(Error::new(kind, key.name()))
            }
            None => Ok(armed),
        }
    }

    fn arm_site(&mut self, site: &Site, key: &'static str) -> Result<(), Error> {
        let batch = self.batch(key)?;
        site.armed.store(true, Ordering::Relaxed);
        let written = batch.write(site, arch::fall_through(), key);
        if written.is_err() && text::form(site) == Form::Jump {
            site.armed.store(false, Ordering::Relaxed);
        }
        written
    }

    fn batch(&mut self, key: &'static str) -> Result<&Batch, Error> {
        match &mut self.batch {
            Some(batch) => Ok(batch),
            empty => Ok(empty.insert(Batch::open(key)?)),
        }
    }

    /// Disarms the sites of `group` that fall through for `value`.
    fn disarm(&mut self, group: &Group, value: bool) -> Result<(), Error> {
        let name = group.key.name();
        let is_armed =
            |site: &&Site| site.fall_through == value && site.armed.load(Ordering::Relaxed);
        let armed: Vec<&Site> = group.sites.iter().filter(is_armed).collect();
        if armed.is_empty() && !group.is_stale.load(Ordering::Relaxed) {
            return Ok(());
        }
        // Look at all before writing to any: a refusal then mostly changes nothing.
        for site in &armed {
            if let Form::Foreign(byte) = text::form(site) {
                let address = site.code;
                return Err(Error::new(Kind::Foreign { address, byte }, name));
            }
        }
        for site in armed {
            group.is_stale.store(true, Ordering::Relaxed);
            if text::form(site) == Form::Armed {
                let code = arch::jump(site.code, site.target);
                self.batch(name)?.write(site, code, name)?;
            }
            site.armed.store(false, Ordering::Relaxed);
        }
        sync(name)?;
        group.is_stale.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Finds out, once, whether patching works here, with a branch that nobody else executes.
    ///
    /// # Errors
    /// [`Error::is_denied`]: a call was refused; tried again next time. [`Error::is_unsupported`]:
    /// the code that was written is not the code that is executed, as under an emulator that keeps
    /// translations.
    pub(crate) fn probe(&mut self, key: &'static str) -> Result<(), Error> {
        let why = "written code is not what is executed (an emulator?)";
        let unsupported = Error::new(Kind::Unsupported(why), key);
        match PROBED.load(Ordering::Relaxed) {
            WORKS => return Ok(()),
            FAILS => return Err(unsupported),
            _ => {}
        }
        sys::register_sync().map_err(|error| denied("membarrier", &error, key))?;
        let site = registry::group(&self.held, &PROBE)
            .and_then(|group| group.sites.first())
            .ok_or_else(|| unsupported.clone())?;
        let batch = self.batch(key)?;
        let works = batch.shows(site) && follows_writes(batch, site, key)?;
        PROBED.store(if works { WORKS } else { FAILS }, Ordering::Relaxed);
        if works { Ok(()) } else { Err(unsupported) }
    }
}

/// Tells whether the probe's branch follows what is written to it.
fn follows_writes(batch: &Batch, site: &Site, key: &'static str) -> Result<bool, Error> {
    let jump = arch::jump(site.code, site.target);
    // Starting with a write: this process may have been forked in the middle of its parent's probe.
    for (code, expected) in [(jump, true), (arch::fall_through(), false), (jump, true)] {
        batch.write(site, code, key)?;
        sync(key)?;
        if arch::records_and_probe().2 != expected {
            return Ok(false);
        }
    }
    Ok(true)
}

fn sync(key: &'static str) -> Result<(), Error> {
    sys::sync_all_cores().map_err(|error| denied("membarrier", &error, key))
}

/// The code of one key.
#[derive(Debug)]
pub(crate) struct KeyText<'a> {
    patcher: &'a mut Patcher,
    key: &'static StaticKey,
}

impl Text for KeyText<'_> {
    type Error = Error;

    fn disarm(&mut self, value: bool) -> Result<(), Error> {
        if PROBED.load(Ordering::Relaxed) != WORKS {
            // Nothing has ever been armed.
            return Ok(());
        }
        match registry::group(&self.patcher.held, self.key) {
            Some(group) => self.patcher.disarm(group, value),
            None => Ok(()),
        }
    }
}
