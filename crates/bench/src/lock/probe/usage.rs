//! Involuntary switches of this thread, as the kernel counts them.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// Says what the numbers are worth.
pub(super) const METHOD: &str = "involuntary switches by getrusage, read before each attempt and \
    after each release (a loss of the CPU in between but outside the lock is counted as well)";

/// Returns how often this thread was switched away from though it could have gone on.
pub(super) fn involuntary_switches() -> i64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to memory of the size that the call fills. All bytes were zero before,
    // which is a value of the type, so the result may be read even where the call failed.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_nivcsw
}
