//! Forked children: sections go on; the hook and the request stay with the parent.
//!
//! Unsafe is allowed in this file: fork has no wrapper in the standard library.
#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel_slice::{enter, enter_lock, runtime};

static HOOKS: AtomicUsize = AtomicUsize::new(0);

fn hook() {
    HOOKS.fetch_add(1, Ordering::Relaxed);
}

/// Runs `body` in a forked child and checks that it gives true.
fn in_child(body: impl FnOnce() -> bool) {
    /// A guard against hanging; nothing is timed.
    const GUARD_SECONDS: u32 = 60;
    // SAFETY: the child takes no lock that another thread may hold, and leaves without running
    // destructors.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", std::io::Error::last_os_error());
    if child == 0 {
        // SAFETY: alarm and _exit take numbers.
        unsafe {
            libc::alarm(GUARD_SECONDS);
            libc::_exit(i32::from(!body()));
        }
    }
    let mut status = 0;
    // SAFETY: waitpid writes to the status, which is alive.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child failed or was killed");
}

#[test]
fn a_child_forked_in_a_section_ends_it_without_the_parents_hook() {
    runtime::set_hook(hook);
    let outer = enter_lock();
    assert!(runtime::request());
    let mut outer = Some(outer);
    in_child(|| {
        let began = runtime::is_in_section() && !runtime::has_request();
        drop(outer.take());
        let ended = !runtime::is_in_section() && HOOKS.load(Ordering::Relaxed) == 0;
        // The child can have a hook of its own.
        runtime::set_hook(hook);
        let section = enter();
        let asked = runtime::request();
        drop(section);
        began && ended && asked && HOOKS.load(Ordering::Relaxed) == 1
    });
    assert!(runtime::is_in_section() && runtime::has_request());
    drop(outer);
    assert_eq!(HOOKS.load(Ordering::Relaxed), 1);
    assert!(!runtime::is_in_section());
}

#[test]
fn a_panic_in_the_hook_aborts() {
    /// The guard against a panic that is caught after all.
    const GUARD_SECONDS: u32 = 60;
    // SAFETY: the child takes no lock that another thread may hold but that of standard error,
    // which is silenced first, and ends here.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", std::io::Error::last_os_error());
    if child == 0 {
        // SAFETY: they take numbers.
        unsafe { libc::alarm(GUARD_SECONDS) };
        std::panic::set_hook(Box::new(|_| {}));
        runtime::set_hook(|| panic!("in the hook"));
        let caught = std::panic::catch_unwind(|| {
            let _section = enter();
            runtime::request()
        });
        // SAFETY: takes a number.
        unsafe { libc::_exit(i32::from(caught.is_err())) };
    }
    let mut status = 0;
    // SAFETY: waitpid writes to the status, which is alive.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFSIGNALED(status), "{status:#x}");
    assert_eq!(libc::WTERMSIG(status), libc::SIGABRT);
}
