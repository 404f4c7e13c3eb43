//! The kernel's part: rseq time-slice extension (Linux 7.2 has it, where it is configured).
//!
//! Guarantee: whatever the kernel, the C library or the registration, sections work; where the
//! kernel takes part, a thread that loses its time slice inside a section is, once, let run on for
//! the few microseconds that the kernel grants, and gives the CPU back as soon as the section ends.
//! [`status`] says for each thread whether the kernel takes part, and if not, why.
//!
//! It is off until the program asks, once, best before it starts threads:
//!
//! ```
//! let status = evenkeel_slice::kernel::Options::new().enable();
//! println!("{status}");
//! ```
//!
//! Each thread looks for the extension when it begins its first section after that. Threads that
//! had sections before take part from their own call of [`enable_thread`] on.
//!
//! # The kernel's protocol, and ours
//!
//! A thread registers an area with the system call `rseq`. Byte 28 of it is the *request*, byte 29
//! says *granted*. The outermost section writes 1 to the request when it begins. When it ends it
//! writes 0, and, if granted is set, makes the system call `rseq_slice_yield` and no other. The
//! kernel (`__rseq_grant_slice_extension`, `rseq_syscall_enter_work`) clears the request when it
//! grants, and both when it revokes. The bytes are only touched by this thread and by the kernel on
//! this thread's CPU, so no atomic operations are needed.
//!
//! Any other system call inside a granted section ends the grant: the thread loses the CPU there.
//! Code of this crate makes none.
//!
//! # The C library's registration
//!
//! The extension needs a registration of at least 33 bytes. glibc 2.35 to 2.40 registers 32 for
//! each thread, and there can be only one. Either start the program with
//! `GLIBC_TUNABLES=glibc.pthread.rseq=0`, or ask for
//! [`replace_registration`](Options::replace_registration). Where there is no registration, this
//! crate makes its own, in an area that lives as long as the thread. From glibc 2.41 on the C
//! library's area is used.
//!
//! An own registration needs this crate linked into the program: a shared object that contains it
//! must not be unloaded by `dlclose` while threads live that have used it.

mod abi;
mod options;
mod status;
mod word;

#[cfg_attr(
    all(
        target_os = "linux",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(any(miri, loom)),
    ),
    path = "linux/mod.rs"
)]
#[cfg_attr(
    not(all(
        target_os = "linux",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(any(miri, loom)),
    )),
    path = "absent.rs"
)]
mod platform;

pub(crate) use options::wanted;
pub use options::{Options, enable, enable_thread};
pub use platform::PreemptProbe;
pub(crate) use platform::Thread;
pub use status::Status;

use crate::state;

/// Tells whether the kernel extends slices for the calling thread's sections, and if not, why.
///
/// Does not look again: gives what was found when the thread last looked.
pub fn status() -> Status {
    state::with(|state| state.kernel().status())
}

/// Returns how many of the calling thread's sections ended with the kernel's grant in force, and
/// so with a yield. Wraps around.
pub fn grants() -> usize {
    state::with(|state| state.kernel().grants())
}
