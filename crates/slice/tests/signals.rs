//! Requests by real signals, at every instruction of a section's two ends, in sequences from a
//! seed, and from another thread at any time.
//!
//! Unsafe is allowed in this file: signal handlers have no wrapper in the standard library.
#![cfg(target_os = "linux")]

use std::cell::Cell;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::thread;

use evenkeel_slice::runtime::{self, Counts};
use evenkeel_slice::{Section, enter, enter_lock};

thread_local! {
    /// Switches at a section's end.
    static AT_END: Cell<usize> = const { Cell::new(0) };
    /// Switches in the handler.
    static AT_ONCE: Cell<usize> = const { Cell::new(0) };
    /// Signals handled.
    static HANDLED: Cell<usize> = const { Cell::new(0) };
}

fn hook() {
    assert!(!runtime::is_in_section());
    AT_END.set(AT_END.get() + 1);
}

/// What a runtime's handler does: ask if there is a section, otherwise switch at once.
fn ask() {
    HANDLED.set(HANDLED.get() + 1);
    if !runtime::request() {
        AT_ONCE.set(AT_ONCE.get() + 1);
    }
}

extern "C" fn on_signal(_: libc::c_int) {
    ask();
}

fn install(signal: libc::c_int, handler: usize, flags: libc::c_int) {
    // SAFETY: the action is valid, and its handler only does what handlers may.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags | libc::SA_RESTART;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

fn start() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        runtime::set_hook(hook);
        install(libc::SIGUSR1, on_signal as *const () as usize, 0);
    });
}

fn raise() {
    // SAFETY: the signal has a handler.
    assert_eq!(unsafe { libc::raise(libc::SIGUSR1) }, 0);
}

/// Numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

#[test]
fn grants_are_the_section_ends_after_a_signal() {
    start();
    for seed in 0..20 {
        let mut random = Random(seed);
        let (mut open, mut asked): (Vec<Section>, bool) = (Vec::new(), false);
        let (mut ends, mut at_once) = (AT_END.get(), AT_ONCE.get());
        for step in 0..500 {
            match random.below(5) {
                0 | 1 => open.push(if random.below(2) == 0 {
                    enter()
                } else {
                    enter_lock()
                }),
                2 | 3 if !open.is_empty() => {
                    drop(open.swap_remove(random.below(open.len() as u64) as usize));
                    ends += usize::from(asked && open.is_empty());
                    asked &= !open.is_empty();
                }
                _ => {
                    raise();
                    asked |= !open.is_empty();
                    at_once += usize::from(open.is_empty());
                }
            }
            let counted = (AT_END.get(), AT_ONCE.get());
            assert_eq!(counted, (ends, at_once), "seed {seed}, step {step}");
        }
        drop(open);
        assert!(!runtime::is_in_section() && !runtime::has_request());
    }
}

/// A handler that has a section of its own, in which the other signal comes.
extern "C" fn on_outer_signal(_: libc::c_int) {
    let _section = enter();
    raise();
}

#[test]
fn a_signal_inside_a_handlers_section_is_served_once() {
    start();
    install(libc::SIGUSR2, on_outer_signal as *const () as usize, 0);
    let outer_signal = || {
        // SAFETY: the signal has a handler.
        assert_eq!(unsafe { libc::raise(libc::SIGUSR2) }, 0);
    };
    let served = || (AT_END.get(), AT_ONCE.get());
    // In no section: the end of the handler's own serves it.
    outer_signal();
    assert_eq!(served(), (1, 0));
    // In a section: that of the handler is not the outermost.
    let section = enter_lock();
    outer_signal();
    outer_signal();
    assert_eq!(served(), (1, 0));
    drop(section);
    assert_eq!(served(), (2, 0));
    assert!(!runtime::is_in_section() && !runtime::has_request());
}

#[test]
fn signals_from_another_thread_are_lost_nowhere() {
    const SIGNALS: usize = 1000;
    static GO: AtomicBool = AtomicBool::new(false);
    static DONE: AtomicBool = AtomicBool::new(false);
    static SENT: AtomicUsize = AtomicUsize::new(0);
    start();
    // SAFETY: returns this thread's handle.
    let target = unsafe { libc::pthread_self() };
    let sender = thread::spawn(move || {
        while !GO.load(Ordering::Acquire) {
            thread::yield_now();
        }
        for _ in 0..SIGNALS {
            // SAFETY: the target joins this thread, and so is alive.
            assert_eq!(unsafe { libc::pthread_kill(target, libc::SIGUSR1) }, 0);
            SENT.fetch_add(1, Ordering::Relaxed);
            thread::yield_now();
        }
        DONE.store(true, Ordering::Release);
    });
    GO.store(true, Ordering::Release);
    while !DONE.load(Ordering::Acquire) {
        let _outer = enter_lock();
        drop(enter());
    }
    sender.join().expect("the sender does not fail");
    assert_eq!(SENT.load(Ordering::Relaxed), SIGNALS);
    // Each signal that was handled (equal ones merge while one is pending) was served by a switch
    // at once, or by the end of a section, once for all that met this section.
    let counts = runtime::counts();
    assert!(!runtime::has_request());
    assert_eq!(AT_END.get(), counts.extended);
    assert_eq!((counts.requests, counts.forced), (counts.extended, 0));
    assert!(AT_END.get() + AT_ONCE.get() <= HANDLED.get() && HANDLED.get() > 0);
}

/// The instruction of the stepped code at which to ask; counts down.
#[cfg(target_arch = "x86_64")]
static COUNTDOWN: AtomicI32 = AtomicI32::new(0);

/// The x86 flag that traps after each instruction.
#[cfg(target_arch = "x86_64")]
const TRAP_FLAG: i64 = 1 << 8;

#[cfg(target_arch = "x86_64")]
extern "C" fn on_trap(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    if COUNTDOWN.fetch_sub(1, Ordering::Relaxed) == 1 {
        ask();
        // SAFETY: the kernel passes the interrupted context; the rest need not be stepped.
        unsafe {
            let context = &mut *context.cast::<libc::ucontext_t>();
            context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP_FLAG;
        }
    }
}

/// Sets or clears the trap flag.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn step(on: bool) {
    // SAFETY: changes one flag, and the stack as an asm block may without `nostack`.
    unsafe {
        if on {
            std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq");
        } else {
            std::arch::asm!("pushfq", "and qword ptr [rsp], 0xfffffffffffffeff", "popfq");
        }
    }
}

/// One section, stepped through; asks at instruction `place`. Returns whether there was one.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn stepped(place: i32) -> bool {
    COUNTDOWN.store(place, Ordering::Relaxed);
    step(true);
    let section = enter();
    drop(section);
    step(false);
    COUNTDOWN.load(Ordering::Relaxed) <= 0
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_signal_at_any_instruction_is_served_once() {
    start();
    install(
        libc::SIGTRAP,
        on_trap as *const () as usize,
        libc::SA_SIGINFO,
    );
    drop(enter());
    let (mut place, mut at_end, mut at_once) = (1, 0, 0);
    loop {
        let before = (AT_END.get(), AT_ONCE.get(), runtime::counts());
        let asked = stepped(place);
        let ends = AT_END.get() - before.0;
        let onces = AT_ONCE.get() - before.1;
        if !asked {
            assert_eq!((ends, onces), (0, 0));
            break;
        }
        assert_eq!(ends + onces, 1, "at instruction {place}");
        assert!(!runtime::is_in_section() && !runtime::has_request());
        let Counts { extended, .. } = runtime::counts();
        assert_eq!(extended - before.2.extended, ends);
        at_end += ends;
        at_once += onces;
        place += 1;
    }
    println!("{place} instructions: {at_end} served at the end, {at_once} at once");
    assert!(at_end > 0 && at_once > 0, "both were met");
}
