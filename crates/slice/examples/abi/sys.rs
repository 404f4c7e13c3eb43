//! The calls and the area, by themselves: what is checked must not be checked by the crate's own
//! wrappers.

use std::hint;
use std::time::{Duration, Instant};

const PR_RSEQ_SLICE_EXTENSION: i32 = 79;
pub(crate) const GET: u64 = 1;
pub(crate) const SET: u64 = 2;
const SYS_RSEQ_SLICE_YIELD: i64 = 471;
#[cfg(target_arch = "x86_64")]
const SYS_RSEQ: i64 = 334;
#[cfg(target_arch = "aarch64")]
const SYS_RSEQ: i64 = 293;
#[cfg(target_arch = "x86_64")]
const SIGNATURE: u32 = 0x5305_3053;
#[cfg(target_arch = "aarch64")]
const SIGNATURE: u32 = 0xd428_bc00;
pub(crate) const UNREGISTER: i32 = 1;

fn outcome(result: i64) -> Result<i64, i32> {
    match result {
        -1 => Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
        value => Ok(value),
    }
}

/// Calls prctl with the slice extension's operation; gives its result or errno.
pub(crate) fn extension(arg2: u64, arg3: u64, arg4: u64) -> Result<i64, i32> {
    // SAFETY: passes numbers only.
    outcome(i64::from(unsafe {
        libc::prctl(PR_RSEQ_SLICE_EXTENSION, arg2, arg3, arg4, 0_u64)
    }))
}

/// Calls rseq.
pub(crate) fn rseq(area: *mut u8, len: u32, flags: i32) -> Result<i64, i32> {
    // SAFETY: the callers pass areas that live as long as the registration, or are to be refused.
    outcome(unsafe { libc::syscall(SYS_RSEQ, area, len, flags, SIGNATURE) })
}

/// Calls rseq_slice_yield: 1 if it ended a grant.
pub(crate) fn slice_yield() -> Result<i64, i32> {
    // SAFETY: takes no arguments.
    outcome(unsafe { libc::syscall(SYS_RSEQ_SLICE_YIELD) })
}

/// Makes a system call that knows nothing of grants.
pub(crate) fn foreign_call() {
    // SAFETY: takes no arguments.
    unsafe { libc::syscall(libc::SYS_getppid) };
}

/// Returns what the auxiliary vector says.
pub(crate) fn auxiliary(key: u64) -> u64 {
    // SAFETY: takes a number.
    unsafe { libc::getauxval(key) }
}

/// Keeps the calling thread on CPU 0 from now on.
pub(crate) fn pin_to_cpu_0() {
    // SAFETY: the set is all zeroes, which is valid, and alive during the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// An area to register; leaked, so that it outlives its thread.
pub(crate) struct Area(pub(crate) *mut u8);

#[repr(C, align(64))]
struct Memory([u8; 64]);

impl Area {
    pub(crate) fn new() -> Self {
        Self(Box::into_raw(Box::new(Memory([0; 64]))).cast())
    }

    /// Returns the status flags that the kernel writes.
    pub(crate) fn flags(&self) -> u32 {
        // SAFETY: inside the leaked memory.
        unsafe { self.0.add(16).cast::<u32>().read_volatile() }
    }

    /// Returns the CPU number; negative if not registered.
    pub(crate) fn cpu(&self) -> i32 {
        // SAFETY: inside the leaked memory.
        unsafe { self.0.add(4).cast::<i32>().read_volatile() }
    }

    pub(crate) fn request(&self, request: bool) {
        // SAFETY: inside the leaked memory; the byte is this thread's to write.
        unsafe { self.0.add(28).write_volatile(u8::from(request)) };
    }

    /// Returns both bytes: request, granted.
    pub(crate) fn word(&self) -> (u8, u8) {
        // SAFETY: inside the leaked memory.
        unsafe {
            (
                self.0.add(28).read_volatile(),
                self.0.add(29).read_volatile(),
            )
        }
    }

    /// Requests, again and again, and spins until the kernel grants; false if it does not within
    /// `limit`.
    pub(crate) fn wait_for_grant(&self, limit: Duration) -> bool {
        let start = Instant::now();
        loop {
            // Both bytes set would be misuse: the last request may have been granted meanwhile.
            if self.word() == (0, 0) {
                self.request(true);
            }
            for _ in 0..1000 {
                if self.word().1 != 0 {
                    return true;
                }
                hint::spin_loop();
            }
            if start.elapsed() > limit {
                self.request(false);
                return false;
            }
        }
    }
}
