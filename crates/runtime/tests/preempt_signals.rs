//! Signals of others beside those of preemption, on alternate stacks and without them.
//!
//! In a program of its own: handlers belong to the whole process.

#![allow(unsafe_code, reason = "installs and sends signals")]

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use evenkeel::{Builder, Level, Runtime};

const WORKERS: usize = 2;

fn runtime(signal: i32) -> Result<Runtime, evenkeel::Error> {
    Builder::new()
        .worker_threads(WORKERS)
        .preempt(Level::Park)
        .preempt_signal(signal)
        .build()
}

static FOREIGN: AtomicUsize = AtomicUsize::new(0);

extern "C" fn foreign(_signal: libc::c_int) {
    FOREIGN.fetch_add(1, Ordering::Relaxed);
}

/// Installs a handler as a program would that knows nothing of the runtime.
fn install(signal: i32) {
    // SAFETY: all zeros is a valid `sigaction`; the handler only counts.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = foreign as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &action, std::ptr::null_mut())
    };
    assert_eq!(result, 0);
}

/// Makes the calling thread's signals run on its ordinary stack.
fn disable_alternate_stack() {
    // SAFETY: all zeros but the flag: no stack.
    let result = unsafe {
        let mut stack: libc::stack_t = std::mem::zeroed();
        stack.ss_flags = libc::SS_DISABLE;
        libc::sigaltstack(&stack, std::ptr::null_mut())
    };
    assert_eq!(result, 0);
}

/// Runs polls that end only when another task has run, beside `disturb` on this thread.
fn run_hogs(runtime: &Runtime, prepare: fn(), mut disturb: impl FnMut()) {
    let flag = Arc::new(AtomicBool::new(false));
    let begun = Arc::new(AtomicUsize::new(0));
    let hogs: Vec<_> = (0..3 * WORKERS)
        .map(|_| {
            let (flag, begun) = (flag.clone(), begun.clone());
            runtime.spawn(async move {
                prepare();
                begun.fetch_add(1, Ordering::Relaxed);
                let mut sum = 0.0_f64;
                while !flag.load(Ordering::Acquire) {
                    for n in 0..1000 {
                        sum += f64::from(n).sqrt();
                    }
                    assert_eq!(sum, 21_065.833_110_879_048, "registers are kept");
                    sum = 0.0;
                }
            })
        })
        .collect();
    while begun.load(Ordering::Relaxed) < 3 * WORKERS {
        disturb();
    }
    for _ in 0..200 {
        disturb();
    }
    let setter = runtime.spawn(async move { flag.store(true, Ordering::Release) });
    while !setter.is_finished() {
        disturb();
    }
    runtime.block_on(async {
        for hog in hogs {
            hog.await.unwrap();
        }
    });
}

/// Sends a signal to every thread of this process.
fn storm(signal: i32) {
    let process = std::process::id() as libc::pid_t;
    for entry in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let thread: libc::pid_t = entry.file_name().to_str().unwrap().parse().unwrap();
        // SAFETY: no memory is touched; the signal has a handler.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) };
    }
}

#[test]
fn storms_of_the_runtimes_own_signal_and_of_others_do_no_harm() {
    install(libc::SIGUSR1);
    let runtime = runtime(libc::SIGURG).unwrap();
    run_hogs(&runtime, || (), || storm(libc::SIGURG));
    run_hogs(&runtime, || (), || storm(libc::SIGUSR1));
    assert!(FOREIGN.load(Ordering::Relaxed) > 0);
}

#[test]
fn with_and_without_an_alternate_stack() {
    let runtime = runtime(libc::SIGURG).unwrap();
    run_hogs(&runtime, || (), spin_loop);
    run_hogs(&runtime, disable_alternate_stack, spin_loop);
    run_hogs(&runtime, || (), spin_loop);
}

#[test]
fn a_signal_with_a_handler_is_refused_and_another_one_can_be_chosen() {
    install(libc::SIGUSR2);
    let error = runtime(libc::SIGUSR2).map(drop).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&libc::SIGUSR2.to_string()), "{text}");
    let runtime = runtime(libc::SIGRTMIN() + 3).unwrap();
    run_hogs(&runtime, || (), spin_loop);
}

#[test]
fn a_child_made_by_fork_runs_on_without_the_runtime() {
    let runtime = runtime(libc::SIGURG).unwrap();
    let statuses = Arc::new(AtomicUsize::new(0));
    let seen = statuses.clone();
    let hogs: Vec<_> = (0..2 * WORKERS)
        .map(|_| {
            let seen = seen.clone();
            runtime.spawn(async move {
                for _ in 0..3 {
                    for _ in 0..2_000_000 {
                        spin_loop();
                    }
                    // SAFETY: the child only computes, signals itself, and leaves by `_exit`.
                    let child = unsafe { libc::fork() };
                    if child == 0 {
                        for _ in 0..2_000_000 {
                            spin_loop();
                        }
                        // SAFETY: the handler finds no runtime; ends the child.
                        unsafe {
                            libc::raise(libc::SIGURG);
                            libc::_exit(7)
                        };
                    }
                    assert!(child > 0);
                    let mut status = 0;
                    // SAFETY: `status` outlives the call.
                    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
                    assert_eq!(waited, child);
                    assert_eq!(libc::WEXITSTATUS(status), 7);
                    seen.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    runtime.block_on(async {
        for hog in hogs {
            hog.await.unwrap();
        }
    });
    assert_eq!(statuses.load(Ordering::Relaxed), 6 * WORKERS);
}
