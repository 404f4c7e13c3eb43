//! Safe wrappers of the system calls that this crate needs beside file I/O.
//!
//! Unsafe is allowed in this file: the calls have no wrapper in the standard library.
#![allow(unsafe_code)]

use core::sync::atomic::AtomicU32;
use std::io;

/// `MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE` of `linux/membarrier.h`.
const SYNC_CORE: libc::c_long = 1 << 5;
/// `MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE` of `linux/membarrier.h`.
const REGISTER_SYNC_CORE: libc::c_long = 1 << 6;

fn membarrier(command: libc::c_long) -> io::Result<()> {
    const NO_FLAGS: libc::c_long = 0;
    // SAFETY: membarrier takes no pointers and changes nothing that Rust code can observe.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, command, NO_FLAGS) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Announces that this process will call [`sync_all_cores`].
///
/// # Errors
/// Returns the error of the system call; `ENOSYS` before Linux 4.16.
pub(crate) fn register_sync() -> io::Result<()> {
    membarrier(REGISTER_SYNC_CORE)
}

/// Makes every thread of this process execute a core-serialising instruction before it executes
/// another instruction of its own, and returns once that is so.
///
/// # Errors
/// Returns the error of the system call.
pub(crate) fn sync_all_cores() -> io::Result<()> {
    match membarrier(SYNC_CORE) {
        // The registration does not have to survive fork: announce again.
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            register_sync()?;
            membarrier(SYNC_CORE)
        }
        result => result,
    }
}

/// Sleeps while `word` holds `value`, until woken. May return early.
pub(crate) fn futex_wait(word: &AtomicU32, value: u32) {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let for_ever = core::ptr::null::<libc::timespec>();
    // SAFETY: the word is alive during the call; the kernel only reads it. A null timeout means
    // none. The result does not matter: the caller looks at the word again.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, for_ever) };
}

/// Wakes one sleeper of [`futex_wait`] on `word`.
pub(crate) fn futex_wake_one(word: &AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel uses the address as a name and does not write to it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 1) };
}

/// Returns when no other thread is in the middle of a fork that began before.
///
/// Fork copies one page after the other while other threads go on, so a child may find a store
/// without an earlier one to another page. It does so under the lock of the address space: a call
/// that takes that lock lies either before the copying or after it, and with it all stores before,
/// or after, the call.
pub(crate) fn fork_barrier() {
    const BYTES: usize = 1;
    let (any, flags) = (
        core::ptr::null_mut(),
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new mapping at an address that the kernel chooses disturbs nobody, and nobody else
    // knows it when it is removed. Both calls take the lock also if they fail.
    unsafe {
        let page = libc::mmap(any, BYTES, libc::PROT_NONE, flags, -1, 0);
        if page != libc::MAP_FAILED {
            libc::munmap(page, BYTES);
        }
    }
}
