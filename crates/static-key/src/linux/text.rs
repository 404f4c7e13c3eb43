//! Reading and writing the code of sites.
//!
//! Code is written with `pwrite` on `/proc/self/mem`, which needs no writable mapping: the page
//! stays mapped read-only and executable throughout, and the first write to it gives this process
//! its own copy. The file is opened anew for each batch, because a descriptor that a forked child
//! inherits still writes to its parent.
//!
//! Unsafe is allowed in this file: it reads code through its address.
#![allow(unsafe_code)]

use core::ptr;
use core::sync::atomic::{AtomicU8, Ordering};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

use super::arch::{self, Code};
use super::registry::Site;
use crate::error::{Error, Kind};

/// What a site contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A jump to the label block, which loads the flag.
    Jump,
    /// Fall-through.
    Armed,
    /// Neither: somebody else, such as a debugger, has written there. The first byte.
    Foreign(u8),
}

impl Form {
    /// Tells whether the site falls through.
    pub(crate) fn is_armed(self) -> bool {
        self == Form::Armed
    }
}

/// Returns what `site` contains at the moment.
pub(crate) fn form(site: &Site) -> Form {
    let code = read(site.code);
    if code == arch::jump(site.code, site.target) {
        Form::Jump
    } else if code == arch::fall_through() {
        Form::Armed
    } else {
        Form::Foreign(code[0])
    }
}

fn read(address: usize) -> Code {
    let mut code = Code::default();
    for (offset, byte) in code.iter_mut().enumerate() {
        let place = ptr::with_exposed_provenance::<AtomicU8>(address + offset);
        // SAFETY: sites are in the mapped, readable text of this shared object. Atomic, because
        // whoever holds a debugger on this process may write at the same time.
        *byte = unsafe { (*place).load(Ordering::Relaxed) };
    }
    code
}

/// A batch of writes to the code of this process.
#[derive(Debug)]
pub(crate) struct Batch {
    mem: File,
}

impl Batch {
    /// Opens this process's memory.
    ///
    /// # Errors
    /// [`Error::is_denied`], with `key` as the name.
    pub(crate) fn open(key: &'static str) -> Result<Self, Error> {
        // The standard library opens with O_CLOEXEC.
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/proc/self/mem");
        let mem = opened.map_err(|error| denied("opening /proc/self/mem", &error, key))?;
        Ok(Self { mem })
    }

    /// Writes `code` to `site`.
    ///
    /// # Errors
    /// [`Error::is_denied`] if the write is refused; [`Error::is_unsupported`] if it succeeds
    /// but the memory does not show it, as when `/proc` belongs to somebody else.
    pub(crate) fn write(&self, site: &Site, code: Code, key: &'static str) -> Result<(), Error> {
        self.mem
            .write_all_at(&code, site.code as u64)
            .map_err(|error| denied("writing to /proc/self/mem", &error, key))?;
        arch::discard_translation(site.code, code.len());
        if read(site.code) != code {
            let why = "what is written to /proc/self/mem does not arrive";
            return Err(Error::new(Kind::Unsupported(why), key));
        }
        Ok(())
    }

    /// Tells whether the file shows the same code at `site` as the memory does.
    pub(crate) fn shows(&self, site: &Site) -> bool {
        let mut seen = Code::default();
        let read_back = self.mem.read_exact_at(&mut seen, site.code as u64);
        read_back.is_ok() && seen == read(site.code)
    }
}

/// Makes an error of a refused system call.
pub(crate) fn denied(call: &'static str, error: &io::Error, key: &'static str) -> Error {
    // Errors that the standard library makes up itself, such as a write of zero bytes, have none.
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    Error::new(Kind::Denied { call, errno }, key)
}
