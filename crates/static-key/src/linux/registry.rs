//! The branch sites of this shared object, read once from the records that the linker collected.
//!
//! Sites in other shared objects are not in the table, so they are never armed: they load the flag.
//!
//! Unsafe is allowed in this file: it reads the linker's section and makes references of addresses.
#![allow(unsafe_code)]

use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::arch::{self, Record};
use super::lock::Held;
use super::sys;
use crate::StaticKey;

/// One branch site.
#[derive(Debug)]
pub(crate) struct Site {
    /// Address of the site.
    pub(crate) code: usize,
    /// Address of its label block.
    pub(crate) target: usize,
    /// The value that falling through means.
    pub(crate) fall_through: bool,
    /// Whether the site may be armed. Set before arming, cleared after disarming, under the lock.
    pub(crate) armed: AtomicBool,
}

/// The sites of one key.
#[derive(Debug)]
pub(crate) struct Group {
    /// The key.
    pub(crate) key: &'static StaticKey,
    /// Its sites, by address.
    pub(crate) sites: Vec<Site>,
    /// Whether a core may still execute the armed form of a site that has been disarmed, because
    /// the cores have not been made to synchronise since. Guarded by the lock.
    pub(crate) is_stale: AtomicBool,
}

/// The groups by the address of the key, or null before the first use.
static GROUPS: AtomicPtr<Vec<Group>> = AtomicPtr::new(ptr::null_mut());

/// Returns the sites of this shared object, grouped by key.
pub(crate) fn groups(_held: &Held) -> &'static [Group] {
    let mut groups = GROUPS.load(Ordering::Acquire);
    if groups.is_null() {
        groups = Box::into_raw(Box::new(read_groups()));
        // A child must not find the pointer without what it points to.
        sys::fork_barrier();
        GROUPS.store(groups, Ordering::Release);
    }
    // SAFETY: the pointer came out of a box that nobody frees, and is not changed through.
    unsafe { &*groups }
}

/// Returns the sites of `key` in this shared object, if there are any.
pub(crate) fn group(held: &Held, key: &'static StaticKey) -> Option<&'static Group> {
    let groups = groups(held);
    let address = ptr::from_ref(key).addr();
    let index = groups
        .binary_search_by_key(&address, |group| ptr::from_ref(group.key).addr())
        .ok()?;
    groups.get(index)
}

fn read_groups() -> Vec<Group> {
    let (start, stop, _) = arch::records_and_probe();
    let count = (stop.addr() - start.addr()) / size_of::<Record>();
    // SAFETY: the linker laid the records out from `start` to `stop`; nothing ever changes them.
    let records = unsafe { core::slice::from_raw_parts(start, count) };
    let mut sites: Vec<(usize, Site)> = records.iter().map(decode).collect();
    sites.sort_by_key(|(key, site)| (*key, site.code));
    sites.dedup_by_key(|(_, site)| site.code);
    let mut groups: Vec<Group> = Vec::new();
    for (address, site) in sites {
        match groups.last_mut() {
            Some(group) if ptr::from_ref(group.key).addr() == address => group.sites.push(site),
            _ => groups.push(Group {
                // SAFETY: the macros refuse anything but the path of a static `StaticKey`, whose
                // address the dynamic linker wrote into the table before any code ran.
                key: unsafe { &*ptr::with_exposed_provenance(address) },
                sites: vec![site],
                is_stale: AtomicBool::new(false),
            }),
        }
    }
    groups
}

fn decode(record: &Record) -> (usize, Site) {
    let site = Site {
        code: resolve(&record.code),
        target: resolve(&record.target),
        fall_through: record.fall_through != 0,
        armed: AtomicBool::new(false),
    };
    (record.key_address(), site)
}

/// Returns the address that `field` gives as a distance from itself.
pub(super) fn resolve(field: &i32) -> usize {
    let distance = isize::try_from(*field).unwrap_or(0);
    ptr::from_ref(field).addr().wrapping_add_signed(distance)
}
