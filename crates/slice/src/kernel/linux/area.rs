//! The areas that can be registered: glibc's, and one of our own in each thread's state.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use super::super::Status;
use super::super::abi::{AT_RSEQ_ALIGN, AT_RSEQ_FEATURE_SIZE, CPU_ID_OFFSET, LEGACY_LEN};
use super::sys;

/// An area of the calling thread: at least 32 bytes that live as long as it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Area(NonNull<u8>);

impl Area {
    /// Returns the area that glibc has registered for this thread, and the length in bytes of the
    /// registration.
    pub(super) fn of_libc() -> Option<(Self, u32)> {
        let (offset, size) = sys::libc_symbols();
        if offset.is_null() || size.is_null() {
            return None;
        }
        // SAFETY: they are glibc's, written once before the program starts.
        let (offset, size) = unsafe { (offset.read_volatile(), size.read_volatile()) };
        // Size 0: registration was switched off by the tunable, or refused by the kernel.
        let area = Self(NonNull::new(sys::thread_pointer().wrapping_offset(offset))?);
        // In newer versions the size is that of the features only, 20 or 28 of 32 registered bytes.
        (size != 0 && area.is_registered()).then_some((area, size.max(LEGACY_LEN)))
    }

    /// Tells whether the kernel fills this area: an area that is not registered has a negative
    /// number for its CPU.
    pub(super) fn is_registered(self) -> bool {
        // SAFETY: an area of this thread; the kernel writes to it on this thread's behalf.
        unsafe {
            self.0
                .as_ptr()
                .add(CPU_ID_OFFSET)
                .cast::<i32>()
                .read_volatile()
                >= 0
        }
    }

    pub(super) fn as_ptr(self) -> *mut u8 {
        self.0.as_ptr()
    }
}

/// The length of [`OwnArea`], and the length that it is registered with.
const OWN_LEN: usize = size_of::<OwnArea>();

/// An area in the thread's state. Accessed by the kernel, and by its thread through pointers.
#[repr(C, align(64))]
pub(super) struct OwnArea([AtomicU32; 16]);

impl fmt::Debug for OwnArea {
    /// Does not read the area, which is its thread's alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnArea").finish_non_exhaustive()
    }
}

impl OwnArea {
    pub(super) const fn new() -> Self {
        let mut words = [const { AtomicU32::new(0) }; 16];
        words[CPU_ID_OFFSET / 4] = AtomicU32::new(u32::MAX);
        Self(words)
    }

    pub(super) fn area(&self) -> Area {
        Area(NonNull::from(self).cast())
    }

    /// Registers this area for the calling thread, whose it must be.
    pub(super) fn register(&self) -> Result<(), Status> {
        let len = sys::auxiliary(AT_RSEQ_FEATURE_SIZE);
        let align = sys::auxiliary(AT_RSEQ_ALIGN);
        if len > OWN_LEN || align > align_of::<Self>() {
            return Err(Status::AreaTooSmall);
        }
        sys::register(self.area().as_ptr(), OWN_LEN as u32)
    }

    /// Undoes [`OwnArea::register`].
    pub(super) fn unregister(&self) {
        // Refused only if it is not registered.
        let _ = sys::unregister(self.area().as_ptr(), OWN_LEN as u32);
    }
}

const _: () = assert!(OWN_LEN >= super::EXTENDED_LEN as usize && align_of::<OwnArea>() == 64);
