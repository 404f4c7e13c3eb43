//! Forked children: their flips and their parent's are their own.
//!
//! Unsafe is allowed in this file: fork has no wrapper in the standard library.
#![cfg(target_os = "linux")]

mod common;

use std::io::{Read, Write, pipe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::{PATCHES, in_child};
use evenkeel_static_key::{StaticKey, static_branch_likely, static_branch_unlikely};

static KEY: StaticKey = StaticKey::new_false("forked");

fn branches() -> (bool, bool) {
    (static_branch_unlikely!(KEY), static_branch_likely!(KEY))
}

/// The longest that a forked child may take; a guard against hanging, nothing is timed.
const GUARD_SECONDS: u32 = 60;

/// Runs `body` in a forked child; returns the child's process id.
fn fork(body: impl FnOnce() -> bool) -> libc::pid_t {
    // SAFETY: the child only calls `body`, which takes no lock that another thread may hold beside
    // the allocator's, which fork leaves usable, and leaves without running destructors.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", std::io::Error::last_os_error());
    if child == 0 {
        // SAFETY: alarm and _exit take numbers.
        unsafe {
            libc::alarm(GUARD_SECONDS);
            libc::_exit(i32::from(!body()));
        }
    }
    child
}

/// Waits for a child and checks that its body gave true.
fn join(child: libc::pid_t) {
    let mut status = 0;
    // SAFETY: waitpid writes to the status, which is alive.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child failed or was killed");
}

fn flips_and_arms() -> bool {
    [true, false, true].into_iter().all(|value| {
        let flipped = if value { KEY.enable() } else { KEY.disable() };
        let armed = KEY.arm();
        flipped.is_ok() && armed.is_ok() == PATCHES && branches() == (value, value)
    })
}

#[test]
fn flips_stay_in_their_process() {
    in_child("flips_stay_in_their_process", || {
        let _ = KEY.arm();
        let code_before = KEY.sites();
        let (mut go, mut tell) = pipe().expect("a pipe");
        let (mut done, mut say) = pipe().expect("a pipe");
        let child = fork(|| {
            let flipped = flips_and_arms();
            let said = say.write_all(&[1]).is_ok();
            let told = go.read_exact(&mut [0]).is_ok();
            // Meanwhile the parent has turned its key on and off; this one is still on.
            flipped && said && told && branches() == (true, true)
        });
        done.read_exact(&mut [0]).expect("the child has flipped");
        assert_eq!(branches(), (false, false));
        assert_eq!(
            KEY.sites(),
            code_before,
            "the child's flips touched this process"
        );
        KEY.enable().expect("nothing denies patching");
        assert_eq!(branches(), (true, true));
        KEY.disable().expect("nothing denies patching");
        tell.write_all(&[1]).expect("the child waits");
        join(child);
        assert_eq!(branches(), (false, false));
    });
}

/// Children are forked while another thread is in the middle of flips, so some inherit the crate's
/// lock taken, and sites partly written.
#[test]
fn a_child_of_a_flipping_process_can_flip() {
    if !PATCHES {
        println!("skipped: the portable build's lock does not survive a fork by another thread");
        return;
    }
    in_child("a_child_of_a_flipping_process_can_flip", || {
        static STOP: AtomicBool = AtomicBool::new(false);
        let flipper = thread::spawn(|| {
            while !STOP.load(Ordering::Relaxed) {
                KEY.enable().expect("nothing denies patching");
                let _ = KEY.arm();
                KEY.disable().expect("nothing denies patching");
                let _ = KEY.arm();
            }
        });
        for _ in 0..100 {
            join(fork(|| {
                let is_consistent = branches() == (KEY.is_enabled(), KEY.is_enabled());
                is_consistent && flips_and_arms()
            }));
        }
        STOP.store(true, Ordering::Relaxed);
        flipper.join().expect("no panic");
    });
}
