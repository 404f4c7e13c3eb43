//! The system calls. All are async-signal-safe.
#![allow(unsafe_code)]

use std::ptr;

use super::super::Status;
use super::super::abi::{
    PR_RSEQ_SLICE_EXTENSION, SLICE_EXT_ENABLE, SLICE_EXTENSION_SET, SYS_RSEQ_SLICE_YIELD,
    UNREGISTER,
};

#[cfg(target_arch = "x86_64")]
const SYS_RSEQ: i64 = 334;
#[cfg(target_arch = "aarch64")]
const SYS_RSEQ: i64 = 293;

/// `RSEQ_SIG`: what glibc registers with, and what stands in front of the address to which an
/// interrupted restartable sequence is sent.
#[cfg(target_arch = "x86_64")]
pub(super) const SIGNATURE: u32 = 0x5305_3053;
#[cfg(target_arch = "aarch64")]
pub(super) const SIGNATURE: u32 = 0xd428_bc00;

pub(super) fn errno() -> i32 {
    // SAFETY: gives the address of this thread's errno.
    unsafe { *libc::__errno_location() }
}

pub(super) fn set_errno(errno: i32) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

fn slice_extension(value: u64) -> Result<(), Status> {
    let (set, zero) = (SLICE_EXTENSION_SET, 0_u64);
    // SAFETY: passes numbers only. With a registered area the kernel writes to its flags, which
    // nobody else writes.
    let result = unsafe { libc::prctl(PR_RSEQ_SLICE_EXTENSION, set, value, zero, zero) };
    match result {
        0 => Ok(()),
        _ => Err(Status::from_prctl(errno())),
    }
}

/// Switches the extension on for this thread.
pub(super) fn enable_extension() -> Result<(), Status> {
    slice_extension(SLICE_EXT_ENABLE)
}

/// Switches it off.
pub(super) fn disable_extension() {
    let _ = slice_extension(0);
}

fn rseq(area: *mut u8, len: u32, flags: i32) -> Result<(), Status> {
    // SAFETY: the callers pass an area that lives as long as this thread, of that length.
    match unsafe { libc::syscall(SYS_RSEQ, area, len, flags, SIGNATURE) } {
        0 => Ok(()),
        _ => Err(Status::from_rseq(errno())),
    }
}

/// Registers this thread's area. It must live as long as the thread or its registration.
pub(super) fn register(area: *mut u8, len: u32) -> Result<(), Status> {
    rseq(area, len, 0)
}

/// Undoes [`register`].
pub(super) fn unregister(area: *mut u8, len: u32) -> Result<(), Status> {
    rseq(area, len, UNREGISTER)
}

/// Gives the CPU back at the end of a granted section.
pub(super) fn slice_yield() {
    // SAFETY: takes no arguments and touches no memory but the registered area.
    unsafe { libc::syscall(SYS_RSEQ_SLICE_YIELD) };
}

/// Returns what the kernel says in the auxiliary vector; 0 if it does not.
pub(super) fn auxiliary(key: u64) -> usize {
    // SAFETY: takes a number and reads the vector.
    unsafe { libc::getauxval(key as libc::c_ulong) as usize }
}

/// Returns the addresses of glibc's `__rseq_offset` and `__rseq_size`; null in programs whose C
/// library has none. Weak references, which link with any C library, static ones too.
pub(super) fn libc_symbols() -> (*const isize, *const u32) {
    let (mut offset, mut size) = (ptr::null(), ptr::null());
    symbols(&mut offset, &mut size);
    (offset, size)
}

#[cfg(target_arch = "x86_64")]
fn symbols(offset: &mut *const isize, size: &mut *const u32) {
    // SAFETY: reads two entries of the global offset table.
    unsafe {
        std::arch::asm!(
            ".weak __rseq_offset",
            ".weak __rseq_size",
            "mov {offset}, qword ptr [rip + __rseq_offset@GOTPCREL]",
            "mov {size}, qword ptr [rip + __rseq_size@GOTPCREL]",
            offset = out(reg) * offset,
            size = out(reg) * size,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
}

#[cfg(target_arch = "aarch64")]
fn symbols(offset: &mut *const isize, size: &mut *const u32) {
    // SAFETY: reads two entries of the global offset table.
    unsafe {
        std::arch::asm!(
            ".weak __rseq_offset",
            ".weak __rseq_size",
            "adrp {offset}, :got:__rseq_offset",
            "ldr {offset}, [{offset}, :got_lo12:__rseq_offset]",
            "adrp {size}, :got:__rseq_size",
            "ldr {size}, [{size}, :got_lo12:__rseq_size]",
            offset = out(reg) * offset,
            size = out(reg) * size,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
}

/// Returns the thread pointer, to which `__rseq_offset` is relative.
#[cfg(target_arch = "x86_64")]
pub(super) fn thread_pointer() -> *mut u8 {
    let pointer;
    // SAFETY: the word at `fs:0` is the thread pointer itself (x86-64 ABI).
    unsafe {
        std::arch::asm!(
            "mov {}, qword ptr fs:0",
            out(reg) pointer,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    pointer
}

/// Returns the thread pointer, to which `__rseq_offset` is relative.
#[cfg(target_arch = "aarch64")]
pub(super) fn thread_pointer() -> *mut u8 {
    let pointer;
    // SAFETY: reads a register that user space may read.
    unsafe {
        std::arch::asm!(
            "mrs {}, tpidr_el0",
            out(reg) pointer,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    pointer
}
