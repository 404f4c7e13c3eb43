//! Whether the thread lost its CPU between two points, without a system call.
#![allow(unsafe_code)]

use std::marker::PhantomData;

use super::super::abi::RSEQ_CS_OFFSET;
use super::area::Area;
use super::sys::SIGNATURE;
use crate::state;

/// `struct rseq_cs`: a restartable sequence. This one is empty: no instruction is in it.
#[repr(C, align(32))]
struct Descriptor {
    version: u32,
    flags: u32,
    start: u64,
    len: u64,
    abort: *const u32,
}

// SAFETY: never written; the pointer is to a static.
unsafe impl Sync for Descriptor {}

/// Older kernels look for the signature in front of the abort address before they see that the
/// sequence is empty. Nothing ever jumps there.
static SIGNED: [u32; 2] = [SIGNATURE, 0];

static EMPTY: Descriptor = Descriptor {
    version: 0,
    flags: 0,
    start: 0,
    len: 0,
    abort: &raw const SIGNED[1],
};

/// Finds out whether the thread lost its CPU between two points, for benchmarks: two stores and a
/// load, no system call.
///
/// It uses the thread's rseq area: the pointer to the current restartable sequence is set to an
/// empty one. The kernel drops a pointer to a sequence that the thread is not in:
///
/// - Kernels with the slice extension, in a registration of more than 32 bytes: when the thread was
///   scheduled out from user space by an interrupt. Blocking in a system call does not count
///   (`rseq_exit_user_update`, `rseq_update_usr`).
/// - Older kernels, and the legacy registration of 32 bytes: also when the thread was scheduled out
///   in a system call, moved to another CPU, or sent a signal (`__rseq_handle_notify_resume`).
///
/// So make no system call between the two points, and expect no signals. Do not use it beside code
/// that has restartable sequences of its own, such as some allocators.
#[derive(Debug)]
pub struct PreemptProbe {
    rseq_cs: *mut u64,
    not_send: PhantomData<*mut ()>,
}

impl PreemptProbe {
    /// Returns a probe for the calling thread. If the thread has no rseq area, registers one,
    /// without the slice extension; `None` if that is refused.
    ///
    /// Make it after [`kernel::enable`](crate::kernel::enable), which may change the area.
    pub fn new() -> Option<Self> {
        let area = state::with(|state| {
            let own = &state.kernel().own;
            let libc_area = || Area::of_libc().map(|(area, _)| area);
            let known = own
                .area()
                .is_registered()
                .then(|| own.area())
                .or_else(libc_area);
            known.or_else(|| own.register().ok().map(|()| own.area()))
        })?;
        let rseq_cs = area.as_ptr().wrapping_add(RSEQ_CS_OFFSET).cast();
        Some(Self {
            rseq_cs,
            not_send: PhantomData,
        })
    }

    /// Begins to watch.
    #[inline]
    pub fn arm(&self) {
        // SAFETY: the field is in a registered area of this thread (the probe is not `Send`), which
        // lives as long as the thread. The descriptor is static and valid.
        unsafe { self.rseq_cs.write_volatile(&raw const EMPTY as u64) };
    }

    /// Tells whether the thread lost its CPU since [`arm`](Self::arm), and goes on watching.
    #[inline]
    pub fn has_lost_cpu(&self) -> bool {
        // SAFETY: as in `arm`.
        unsafe { self.rseq_cs.read_volatile() == 0 }
    }

    /// Returns the address of the registered area that the probe uses.
    pub fn area(&self) -> *mut u8 {
        self.rseq_cs.cast::<u8>().wrapping_sub(RSEQ_CS_OFFSET)
    }

    /// Stops watching, and tells whether the thread lost its CPU since [`arm`](Self::arm).
    #[inline]
    pub fn disarm(&self) -> bool {
        let lost = self.has_lost_cpu();
        // SAFETY: as in `arm`; 0 is "in no sequence".
        unsafe { self.rseq_cs.write_volatile(0) };
        lost
    }
}

impl Drop for PreemptProbe {
    fn drop(&mut self) {
        self.disarm();
    }
}
