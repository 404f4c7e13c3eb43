//! Linux on x86-64 and AArch64: the registration of the thread's area, and the word in it.

mod area;
mod probe;
mod sys;

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::Relaxed};

use self::area::{Area, OwnArea};
pub use self::probe::PreemptProbe;
use super::abi::{EXTENDED_LEN, GRANTED_OFFSET, LEGACY_LEN, REQUEST_OFFSET};
use super::word::{self, Word};
use super::{Options, Status};

/// The kernel's part of a thread's state. Used by that thread, and its area by the kernel.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Thread {
    own: OwnArea,
    /// The area whose word is in use; null while the kernel takes no part.
    area: AtomicPtr<u8>,
    /// [`Status::code`].
    status: AtomicU32,
    grants: AtomicUsize,
}

impl Thread {
    pub(crate) const fn new() -> Self {
        Self {
            own: OwnArea::new(),
            area: AtomicPtr::new(ptr::null_mut()),
            status: AtomicU32::new(0),
            grants: AtomicUsize::new(0),
        }
    }

    pub(crate) fn status(&self) -> Status {
        Status::from_code(self.status.load(Relaxed))
    }

    pub(crate) fn grants(&self) -> usize {
        self.grants.load(Relaxed)
    }

    /// Looks for the extension and switches it on; returns whether it is in force. Keeps errno.
    ///
    /// A failure leaves the thread's registration as it was.
    pub(crate) fn look(&self, options: Options) -> bool {
        let errno = sys::errno();
        let (status, area) = match self.find(options) {
            Ok((status, area)) => (status, area.as_ptr()),
            Err(status) => (status, ptr::null_mut()),
        };
        self.area.store(area, Relaxed);
        self.status.store(status.code(), Relaxed);
        sys::set_errno(errno);
        status.is_enabled()
    }

    fn find(&self, options: Options) -> Result<(Status, Area), Status> {
        let libc_area = Area::of_libc();
        match sys::enable_extension() {
            Ok(()) => self.registered(libc_area),
            Err(Status::NotRegistered) if options.registers() => self.register(),
            Err(Status::SwitchedOff) => match libc_area {
                Some((area, len)) if len <= LEGACY_LEN && options.replaces() => self.replace(area),
                Some((_, len)) if len <= LEGACY_LEN => Err(Status::LegacyRegistration),
                _ => Err(Status::SwitchedOff),
            },
            Err(status) => Err(status),
        }
    }

    /// Finds the area of a registration that has the extension.
    fn registered(&self, libc_area: Option<(Area, u32)>) -> Result<(Status, Area), Status> {
        let own = self.own.area();
        match libc_area {
            _ if own.is_registered() => Ok((Status::EnabledInOwnArea, own)),
            Some((area, len)) if len >= EXTENDED_LEN => Ok((Status::EnabledInLibcArea, area)),
            _ => {
                sys::disable_extension();
                Err(Status::ForeignRegistration)
            }
        }
    }

    fn register(&self) -> Result<(Status, Area), Status> {
        self.own.register()?;
        match sys::enable_extension() {
            Ok(()) => Ok((Status::EnabledInOwnArea, self.own.area())),
            Err(status) => {
                self.own.unregister();
                Err(status)
            }
        }
    }

    fn replace(&self, legacy: Area) -> Result<(Status, Area), Status> {
        sys::unregister(legacy.as_ptr(), LEGACY_LEN)?;
        self.register().inspect_err(|_| {
            // It was registered a moment ago with the same arguments. Should it be refused now, the
            // thread is without a registration, which the C library copes with.
            let _ = sys::register(legacy.as_ptr(), LEGACY_LEN);
        })
    }

    /// Writes the request, if the kernel takes part.
    #[inline]
    pub(crate) fn begin(&self) {
        let area = self.area.load(Relaxed);
        if !area.is_null() {
            word::begin(&AreaWord(area));
        }
    }

    /// Withdraws the request, and gives a grant back.
    #[inline]
    pub(crate) fn end(&self) {
        let area = self.area.load(Relaxed);
        if !area.is_null() && word::end(&AreaWord(area)) {
            self.grants
                .store(self.grants.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }

    /// Uses memory that a test plays the kernel on.
    #[cfg(test)]
    pub(crate) fn use_fake(&self, area: *mut u8) {
        self.area.store(area, Relaxed);
    }
}

/// The word in a registered area.
struct AreaWord(*mut u8);

#[allow(unsafe_code)]
impl Word for AreaWord {
    #[inline]
    fn set_request(&self, request: bool) {
        // SAFETY: made only from `Thread::area`, which lives as long as this thread; the byte is in
        // it, and only this thread and the kernel on its behalf access it.
        unsafe { self.0.add(REQUEST_OFFSET).write_volatile(u8::from(request)) };
    }

    #[inline]
    fn is_clear(&self) -> bool {
        // SAFETY: as above; the two bytes are adjacent and the offset is even.
        unsafe { self.0.add(REQUEST_OFFSET).cast::<u16>().read_volatile() == 0 }
    }

    #[inline]
    fn is_granted(&self) -> bool {
        // SAFETY: as above.
        unsafe { self.0.add(GRANTED_OFFSET).read_volatile() != 0 }
    }

    #[cold]
    fn slice_yield(&self) {
        sys::slice_yield();
    }
}

#[cfg(test)]
#[path = "../linux_tests.rs"]
mod tests;
