//! Switches of this thread, as the kernel counts them.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// Says what the numbers are worth.
pub(super) const METHOD: &str = "involuntary switches by getrusage, read before each attempt and \
    after each release (a loss of the CPU in between but outside the lock is counted as well)";

/// Says what the numbers of voluntary switches are worth.
#[cfg(feature = "runtime")]
pub(super) const PARKED_METHOD: &str = "parked by the runtime, which is the only one to block a \
    task there: voluntary switches by getrusage, read just after taking and just before releasing \
    (what the kernel does to the workers is not counted)";

/// Returns how often this thread was switched away from though it could have gone on.
pub(super) fn involuntary_switches() -> i64 {
    usage().ru_nivcsw
}

/// Returns how often this thread blocked.
#[cfg(feature = "runtime")]
pub(super) fn voluntary_switches() -> i64 {
    usage().ru_nvcsw
}

fn usage() -> libc::rusage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to memory of the size that the call fills. All bytes were zero before,
    // which is a value of the type, so the result may be read even where the call failed.
    unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    }
}
