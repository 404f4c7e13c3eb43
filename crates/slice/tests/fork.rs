//! Children: sections go on after a fork, while the hook and the request stay with the parent; a
//! panic in the hook ends the process.
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

/// In a program of its own rather than a forked child: a panic takes locks of the standard library,
/// which another test's thread may hold at the moment of the fork.
#[test]
fn a_panic_in_the_hook_aborts() {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio, exit};

    const IS_CHILD: &str = "EVENKEEL_SLICE_TEST_PANICS";
    /// The guard against hanging; nothing is timed.
    const GUARD_SECONDS: u32 = 60;
    if std::env::var_os(IS_CHILD).is_some() {
        // SAFETY: it takes a number.
        unsafe { libc::alarm(GUARD_SECONDS) };
        runtime::set_hook(|| panic!("in the hook"));
        let caught = std::panic::catch_unwind(|| {
            let _section = enter();
            runtime::request()
        });
        exit(i32::from(caught.is_err()));
    }
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_panic_in_the_hook_aborts"])
        .env(IS_CHILD, "1")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.signal(), Some(libc::SIGABRT), "{status}");
}
