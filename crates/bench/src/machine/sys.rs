//! Questions to the Linux kernel that only system calls ask.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read};
use std::mem::{MaybeUninit, size_of};
use std::os::fd::FromRawFd;
#[cfg(feature = "runtime")]
use std::time::Duration;

/// Turns the result of a system call into an error.
fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// Returns how often a thread of this process, ended ones included, or of a child process that has
/// ended and was waited for, was switched away from though it could have gone on.
pub fn involuntary_switches() -> Option<u64> {
    let of = |who| {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to memory of the size that the call fills; all bytes were zero
        // before, which is a value of the type.
        let (result, usage) = unsafe {
            let result = libc::getrusage(who, usage.as_mut_ptr());
            (result, usage.assume_init())
        };
        (result == 0).then_some(u64::try_from(usage.ru_nivcsw).unwrap_or(0))
    };
    Some(of(libc::RUSAGE_SELF)? + of(libc::RUSAGE_CHILDREN)?)
}

/// Returns the CPU time that this process has used, in user space and in the kernel, all of its
/// threads together.
#[cfg(feature = "runtime")]
pub(crate) fn process_cpu_time() -> Option<Duration> {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the pointer is to memory of the size that the call fills; all bytes were zero before,
    // which is a value of the type.
    let (result, time) = unsafe {
        let result = libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, time.as_mut_ptr());
        (result, time.assume_init())
    };
    let (seconds, nanos) = (time.tv_sec.try_into().ok()?, time.tv_nsec.try_into().ok()?);
    (result == 0).then(|| Duration::new(seconds, nanos))
}

/// Kills every process of the group that a process leads.
pub(crate) fn kill_group(leader: u32) -> io::Result<()> {
    let leader = libc::pid_t::try_from(leader).map_err(io::Error::other)?;
    // SAFETY: the call takes no pointer.
    check(libc::c_long::from(unsafe {
        libc::kill(-leader, libc::SIGKILL)
    }))
    .map(drop)
}

/// Returns the set of `membarrier` commands that the kernel knows.
pub(super) fn membarrier_query() -> io::Result<u32> {
    const NO_FLAGS: libc::c_long = 0;
    let query = libc::c_long::from(libc::MEMBARRIER_CMD_QUERY);
    // SAFETY: the call takes no pointer and changes nothing.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, query, NO_FLAGS) };
    check(result).map(|commands| commands as u32)
}

/// `struct sched_attr` of `linux/sched/types.h`, up to its clamps.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
    util_min: u32,
    util_max: u32,
}

/// Asks for the calling thread's attributes.
fn sched_attr() -> io::Result<SchedAttr> {
    let mut attr = SchedAttr::default();
    let size = size_of::<SchedAttr>() as libc::c_long;
    const THIS_THREAD: libc::c_long = 0;
    const NO_FLAGS: libc::c_long = 0;
    // SAFETY: the pointer is to `size` bytes that may be written, and every value of them is one
    // of the type.
    check(unsafe {
        let attr: *mut SchedAttr = &raw mut attr;
        libc::syscall(libc::SYS_sched_getattr, THIS_THREAD, attr, size, NO_FLAGS)
    })?;
    Ok(attr)
}

/// Returns how many bytes of `sched_attr` the kernel knows, of those that this program does.
pub(super) fn sched_attr_size() -> io::Result<usize> {
    Ok(sched_attr()?.size as usize)
}

/// Returns the clamps of the calling thread.
#[cfg(test)]
pub(super) fn clamps() -> Option<(u32, u32)> {
    sched_attr().ok().map(|attr| (attr.util_min, attr.util_max))
}

/// Asks for clamps of the calling thread whose least exceeds their greatest, and for nothing else
/// to be changed.
pub(super) fn set_impossible_clamps() -> io::Result<()> {
    /// `SCHED_CAPACITY_SCALE` of the kernel, the greatest utilization.
    const SCALE: u32 = 1024;
    /// `SCHED_FLAG_KEEP_POLICY`, `_KEEP_PARAMS`, `_UTIL_CLAMP_MIN` and `_UTIL_CLAMP_MAX` of
    /// `linux/sched.h`.
    const FLAGS: u64 = 0x08 | 0x10 | 0x20 | 0x40;
    let attr = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        flags: FLAGS,
        util_min: SCALE,
        util_max: 0,
        ..SchedAttr::default()
    };
    const THIS_THREAD: libc::c_long = 0;
    const NO_FLAGS: libc::c_long = 0;
    // SAFETY: the pointer is to as many readable bytes as `size` says.
    check(unsafe {
        let attr: *const SchedAttr = &raw const attr;
        libc::syscall(libc::SYS_sched_setattr, THIS_THREAD, attr, NO_FLAGS)
    })?;
    Ok(())
}

/// What a [`Counter`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// Instructions that were retired.
    Instructions,
    /// Branches that were retired, taken or not.
    Branches,
    /// Nanoseconds of CPU time; counted by the kernel, so it is there without hardware counters.
    TaskClock,
}

impl Counting {
    /// Returns type and number of the event (`linux/perf_event.h`).
    fn event(self) -> (u32, u64) {
        const HARDWARE: u32 = 0;
        const SOFTWARE: u32 = 1;
        match self {
            Counting::Instructions => (HARDWARE, 1),
            Counting::Branches => (HARDWARE, 4),
            Counting::TaskClock => (SOFTWARE, 1),
        }
    }
}

/// `struct perf_event_attr` of `linux/perf_event.h` in its first version (`PERF_ATTR_SIZE_VER0`).
#[repr(C)]
#[derive(Default)]
struct EventAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// Counts events of this process in user mode: of the thread that makes it, and of the threads that
/// are started from that one afterwards.
#[derive(Debug)]
pub struct Counter(File);

impl Counter {
    /// Starts to count.
    ///
    /// # Errors
    /// What the kernel answers: `ENOENT` where the machine has no such counter (many virtual ones),
    /// `EACCES` or `EPERM` where `kernel.perf_event_paranoid` or a sandbox forbids it.
    pub fn start(what: Counting) -> io::Result<Self> {
        /// Bits of the flags: `inherit`, `exclude_kernel` and `exclude_hv`.
        const FLAGS: u64 = 1 << 1 | 1 << 5 | 1 << 6;
        let (kind, config) = what.event();
        let attr = EventAttr {
            kind,
            size: size_of::<EventAttr>() as u32,
            config,
            flags: FLAGS,
            ..EventAttr::default()
        };
        const THIS_THREAD: libc::c_long = 0;
        const ANY_CPU: libc::c_long = -1;
        const NO_GROUP: libc::c_long = -1;
        const CLOEXEC: libc::c_long = 1 << 3;
        // SAFETY: the pointer is to as many readable bytes as `size` says.
        let descriptor = check(unsafe {
            let attr: *const EventAttr = &raw const attr;
            let call = libc::SYS_perf_event_open;
            libc::syscall(call, attr, THIS_THREAD, ANY_CPU, NO_GROUP, CLOEXEC)
        })?;
        // SAFETY: the descriptor is open, and nobody else has it.
        Ok(Counter(unsafe { File::from_raw_fd(descriptor as i32) }))
    }

    /// Returns how many events were counted so far.
    ///
    /// # Errors
    /// The kernel's.
    pub fn read(&mut self) -> io::Result<u64> {
        let mut bytes = [0; size_of::<u64>()];
        self.0.read_exact(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn structures_have_the_sizes_that_the_kernel_knows() {
        assert_eq!(size_of::<SchedAttr>(), 56);
        assert_eq!(size_of::<EventAttr>(), 64);
    }

    #[test]
    fn threads_that_are_started_later_are_counted_too() {
        let Ok(mut counter) = Counter::start(Counting::TaskClock) else {
            println!("threads_that_are_started_later_are_counted_too: not checked: no counters");
            return;
        };
        // The other thread reads while it runs, as the runtime's worker does.
        let (begin, end) = std::thread::scope(|scope| {
            let work = scope.spawn(|| {
                let begin = counter.read().expect("readable");
                black_box((0..1_000_000_u64).fold(0, |sum, x| black_box(sum ^ x)));
                (begin, counter.read().expect("readable"))
            });
            work.join().expect("no panic")
        });
        // A million dependent steps take at least a tenth of a nanosecond each.
        assert!(end - begin > 100_000, "{begin} to {end}");
    }

    #[test]
    fn counters_count_or_say_why_not() {
        for what in [
            Counting::TaskClock,
            Counting::Instructions,
            Counting::Branches,
        ] {
            let mut counter = match Counter::start(what) {
                Ok(counter) => counter,
                Err(error) => {
                    println!("counters_count_or_say_why_not: {what:?} not checked: {error}");
                    continue;
                }
            };
            let begin = counter.read().expect("readable");
            black_box((0..10_000_u64).fold(0, |sum, x| black_box(sum ^ x)));
            let counted = counter.read().expect("readable") - begin;
            let is_right = match what {
                Counting::TaskClock => counted > 0,
                // At least one branch, and several instructions, for each step of the loop.
                Counting::Branches => counted >= 10_000,
                Counting::Instructions => counted >= 20_000,
            };
            assert!(is_right, "{what:?}: {counted}");
        }
    }
}
