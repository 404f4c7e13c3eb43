//! The system calls of preemption. All of them may be made in a signal handler.

#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::AtomicU32;

use libc::{c_int, c_long};

const MEMBARRIER_PRIVATE_EXPEDITED: c_int = 1 << 3;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED: c_int = 1 << 4;

fn membarrier(command: c_int) -> io::Result<()> {
    // SAFETY: membarrier touches no memory of ours.
    match unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Announces that this process will use [`barrier_everywhere`].
pub(crate) fn register_barrier() -> io::Result<()> {
    membarrier(MEMBARRIER_REGISTER_PRIVATE_EXPEDITED)
}

/// Makes every running thread of this process execute a full memory barrier.
///
/// # Panics
///
/// Aborts the process when the kernel refuses what it has accepted at registration: two threads
/// would go on as carriers of one CPU.
pub(crate) fn barrier_everywhere() {
    if membarrier(MEMBARRIER_PRIVATE_EXPEDITED).is_err() {
        std::process::abort();
    }
}

/// Waits until `word` is not `value`, or a spurious wake-up.
pub(crate) fn futex_wait(word: &AtomicU32, value: u32) {
    futex_wait_for(word, value, None);
}

/// Waits until `word` is not `value`, for `limit` at the most, or a spurious wake-up.
pub(crate) fn futex_wait_for(word: &AtomicU32, value: u32, limit: Option<std::time::Duration>) {
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_nsec: limit.subsec_nanos() as c_long,
    });
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the word and the time limit outlive the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            limit,
        );
    }
}

/// Wakes the thread that waits on `word`.
pub(crate) fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word outlives the call; the kernel does not write to it.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        );
    }
}

/// Returns the kernel's number of this thread.
pub(crate) fn thread_id() -> i32 {
    // SAFETY: always succeeds.
    unsafe { libc::gettid() }
}

/// Sends a signal to one thread of this process; false when that thread has ended.
pub(crate) fn send_signal(tid: i32, signal: c_int) -> bool {
    // SAFETY: a plain system call.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal) == 0 }
}

/// A set of CPUs as the kernel knows it.
pub(crate) type Mask = libc::cpu_set_t;

/// Returns the affinity mask of a thread of this process; 0 is the calling one.
pub(crate) fn affinity(tid: i32) -> Option<Mask> {
    let mut mask = MaybeUninit::<Mask>::zeroed();
    // SAFETY: the kernel writes at most `size_of::<Mask>()` bytes, and all zeros is a valid mask.
    let read = unsafe { libc::sched_getaffinity(tid, size_of::<Mask>(), mask.as_mut_ptr()) };
    // SAFETY: as above.
    (read == 0).then(|| unsafe { mask.assume_init() })
}

/// Sets the affinity mask of a thread of this process; a refusal changes nothing.
pub(crate) fn set_affinity(tid: i32, mask: &Mask) {
    // SAFETY: the mask outlives the call.
    unsafe { libc::sched_setaffinity(tid, size_of::<Mask>(), mask) };
}

/// Returns the mask of one CPU; an empty one when the number is too large.
pub(crate) fn mask_with(cpu: usize) -> Mask {
    let mut words = [0; size_of::<Mask>() / 8];
    if let Some(word) = words.get_mut(cpu / 64) {
        *word = 1 << (cpu % 64);
    }
    mask_of(words)
}

/// Turns a mask into words, CPU 0 in the lowest bit of the first.
pub(crate) fn mask_words(mask: &Mask) -> [u64; size_of::<Mask>() / 8] {
    // SAFETY: a mask is an array of words of 64 bits, and every value is valid for both.
    unsafe { std::mem::transmute::<Mask, [u64; size_of::<Mask>() / 8]>(*mask) }
}

/// Undoes [`mask_words`].
pub(crate) fn mask_of(words: [u64; size_of::<Mask>() / 8]) -> Mask {
    // SAFETY: as in `mask_words`.
    unsafe { std::mem::transmute::<[u64; size_of::<Mask>() / 8], Mask>(words) }
}

/// Returns the mask of the CPU that this thread runs on, if it is in `allowed`.
pub(crate) fn this_cpu(allowed: &Mask) -> Option<Mask> {
    // SAFETY: no memory is touched.
    let cpu = usize::try_from(unsafe { libc::sched_getcpu() }).ok()?;
    let word = mask_words(allowed).get(cpu / 64).copied()?;
    (word >> (cpu % 64) & 1 == 1).then(|| mask_with(cpu))
}

/// Returns the CPU time of a thread of this process, in ns; `None` when it has ended.
pub(crate) fn cpu_time_ns(tid: i32) -> Option<u64> {
    // The kernel's encoding of the CPU clock of one thread (`MAKE_THREAD_CPUCLOCK`).
    let clock = (!tid) << 3 | 6;
    read_clock(clock)
}

/// Returns the CPU time of the calling thread, in ns.
pub(crate) fn own_cpu_time_ns() -> u64 {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0)
}

fn read_clock(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` outlives the call.
    let read = unsafe { libc::clock_gettime(clock, &mut time) };
    (read == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Returns whether a thread of this process waits in the kernel (state S or D in `/proc`); `None`
/// when that cannot be read.
pub(crate) fn is_blocked(tid: i32) -> Option<bool> {
    let mut path = [0u8; 40];
    io::Write::write_fmt(
        &mut &mut path[..],
        format_args!("/proc/self/task/{tid}/stat\0"),
    )
    .ok()?;
    let mut text = [0u8; 64];
    // SAFETY: the path ends in NUL; `text` outlives the read; the descriptor is ours.
    let length = unsafe {
        let file = libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return None;
        }
        let length = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        length
    };
    let text = text.get(..usize::try_from(length).ok()?)?;
    // The name is in parentheses and may hold any byte; it has 15 at most.
    let after = text.iter().rposition(|&byte| byte == b')')? + 2;
    text.get(after).map(|state| matches!(state, b'S' | b'D'))
}

/// Shortest slice that the kernel grants, in ns.
const KERNEL_SLICE_NS: u64 = 100_000;

/// Makes the calling thread's timers end on time, and its slice the shortest that the kernel has,
/// so that it runs soon after it is woken.
pub(crate) fn become_punctual() {
    // SAFETY: no memory is touched.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
    set_kernel_slice(0, KernelSlice::Short);
}

/// How long the kernel lets a thread run on beside others of the same CPU (since Linux 6.12;
/// ignored by earlier ones).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KernelSlice {
    /// 0.1 ms, the shortest: it runs soon after it is woken.
    Short,
    /// What threads have that ask for nothing.
    Usual,
}

/// Sets the slice of a thread of this process, 0 for the calling one. Needs no privilege; a refusal
/// changes nothing. Only for threads of the usual class: others keep theirs.
pub(crate) fn set_kernel_slice(tid: i32, slice: KernelSlice) {
    #[repr(C)]
    #[derive(Default)]
    struct SchedAttr {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    // SAFETY: no memory is touched.
    let (policy, nice) = unsafe {
        (
            libc::sched_getscheduler(tid),
            libc::getpriority(libc::PRIO_PROCESS, tid as libc::id_t),
        )
    };
    if policy != libc::SCHED_OTHER {
        return;
    }
    let attr = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        nice,
        runtime: match slice {
            KernelSlice::Short => KERNEL_SLICE_NS,
            KernelSlice::Usual => 0,
        },
        ..SchedAttr::default()
    };
    // SAFETY: the structure outlives the call; its size is in it.
    unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &attr, 0) };
}

/// Has `forget` called in children that this process forks, once however often it is asked.
pub(crate) fn call_in_children(forget: extern "C" fn()) {
    use std::sync::Once;
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the function is there as long as the program. Out of memory, the only failure,
        // leaves children with what they have copied.
        unsafe { libc::pthread_atfork(None, None, Some(forget)) };
    });
}

/// Makes `handler` the process's handler of `signal`; an error when the signal has another one.
pub(crate) fn install_handler(signal: c_int, handler: extern "C" fn(c_int)) -> io::Result<()> {
    use std::sync::Mutex;
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock();
    let handler = handler as usize;
    // SAFETY: all zeros is a valid `sigaction`; the handler is async-signal-safe, see
    // `preempt::switch`.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, ptr::null(), &mut old) != 0 {
            return Err(io::Error::last_os_error());
        }
        if old.sa_sigaction == handler {
            return Ok(());
        }
        if old.sa_sigaction != libc::SIG_DFL && old.sa_sigaction != libc::SIG_IGN {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let mut new: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = handler;
        new.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigfillset(&mut new.sa_mask);
        if libc::sigaction(signal, &new, ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Keeps `errno` as it was over what a signal handler does.
pub(crate) struct KeepErrno(c_int);

impl KeepErrno {
    pub(crate) fn new() -> Self {
        // SAFETY: the pointer is to this thread's `errno`.
        Self(unsafe { *libc::__errno_location() })
    }
}

impl Drop for KeepErrno {
    fn drop(&mut self) {
        // SAFETY: as in `new`.
        unsafe { *libc::__errno_location() = self.0 }
    }
}
