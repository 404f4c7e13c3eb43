//! Patching that the system refuses, before and after sites were armed.
//!
//! Each case runs in a process of its own, because what it gives up cannot be taken back.
//! Unsafe is allowed in this file: seccomp and chroot have no wrapper in the standard library.
#![cfg(target_os = "linux")]

mod common;

use common::{PATCHES, in_child};
use evenkeel_static_key::{
    Error, StaticKey, arm_all, disarm_all, static_branch_likely, static_branch_unlikely,
};

static OFF: StaticKey = StaticKey::new_false("off at rest");
static ON: StaticKey = StaticKey::new_true("on at rest");

fn branches() -> [bool; 4] {
    [
        static_branch_unlikely!(OFF),
        static_branch_likely!(OFF),
        static_branch_unlikely!(ON),
        static_branch_likely!(ON),
    ]
}

/// Checks that all branches, and the keys themselves, agree.
fn check(off: bool, on: bool) {
    assert_eq!(branches(), [off, off, on, on]);
    assert_eq!((OFF.is_enabled(), ON.is_enabled()), (off, on));
}

/// Flips both keys every way that there is.
fn flips_work() {
    let ok = "an unarmed key flips";
    for _ in 0..2 {
        OFF.enable().expect(ok);
        ON.disable().expect(ok);
        check(true, false);
        OFF.disable().expect(ok);
        ON.inc().expect(ok);
        check(false, true);
        ON.enable().expect(ok);
        ON.dec().expect(ok);
        check(false, true);
    }
}

/// Flips that have to disarm are refused, by the errno that the test's filter gives.
fn flips_fail(errno: i32) {
    let is_right = |error: Error| error.is_denied() && error.raw_os_error() == Some(errno);
    for _ in 0..2 {
        assert!(is_right(OFF.enable().expect_err("denied")));
        assert!(is_right(OFF.inc().expect_err("denied")));
        assert!(is_right(ON.disable().expect_err("denied")));
        check(false, true);
        assert_eq!((OFF.references(), ON.references()), (0, 0));
    }
    // What needs no patching goes on working.
    ON.inc().expect("on already");
    ON.dec().expect("stays on");
    OFF.disable().expect("off already");
    check(false, true);
}

/// Applies `deny` to a process that has armed nothing.
fn denied_before_arming(deny: impl FnOnce(), errno: i32) {
    deny();
    let error = arm_all().expect_err("denied");
    assert!(
        error.is_denied() && error.raw_os_error() == Some(errno),
        "{error}"
    );
    check(false, true);
    flips_work();
    assert!(!OFF.is_patched() && !ON.is_patched());
    disarm_all().expect("nothing is armed");
}

/// Applies `deny` to a process that has armed both keys.
fn denied_after_arming(deny: impl FnOnce(), errno: i32) {
    arm_all().expect("not denied yet");
    assert!(OFF.is_patched() && ON.is_patched());
    deny();
    check(false, true);
    flips_fail(errno);
    assert!(disarm_all().is_err_and(|error| error.is_denied()));
    flips_fail(errno);
}

/// Has the system call `number` fail with `EPERM`, or end the process.
fn filter(number: i64, action: u32) {
    const NUMBER_OFFSET: u32 = 0;
    let instruction = |code: u32, jump_false: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: jump_false,
        k,
    };
    let number = u32::try_from(number).expect("system call numbers are small");
    let mut program = [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, NUMBER_OFFSET),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, number),
        instruction(libc::BPF_RET | libc::BPF_K, 0, action),
        instruction(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: prctl reads the program, which is alive, and copies it.
    let results = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program),
        ]
    };
    assert_eq!(results, [0, 0], "{}", std::io::Error::last_os_error());
}

const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;

/// The system calls that patching makes.
const CALLS: [i64; 3] = [libc::SYS_openat, libc::SYS_pwrite64, libc::SYS_membarrier];

macro_rules! seccomp_tests {
    ($($before:ident, $after:ident: $call:expr;)*) => {$(
        #[test]
        fn $before() {
            if PATCHES {
                in_child(stringify!($before), || {
                    denied_before_arming(|| filter($call, REFUSE), libc::EPERM);
                });
            }
        }

        #[test]
        fn $after() {
            if PATCHES {
                in_child(stringify!($after), || {
                    denied_after_arming(|| filter($call, REFUSE), libc::EPERM);
                });
            }
        }
    )*};
}

seccomp_tests! {
    openat_denied_before_arming, openat_denied_after_arming: libc::SYS_openat;
    pwrite_denied_before_arming, pwrite_denied_after_arming: libc::SYS_pwrite64;
    membarrier_denied_before_arming, membarrier_denied_after_arming: libc::SYS_membarrier;
}

/// Where each of the calls would end the process, a program that has disarmed runs on.
#[test]
fn after_disarm_all_flips_make_no_call() {
    in_child("after_disarm_all_flips_make_no_call", || {
        let _ = arm_all();
        disarm_all().expect("not denied yet");
        for call in CALLS {
            filter(call, libc::SECCOMP_RET_KILL_PROCESS);
        }
        check(false, true);
        flips_work();
        assert!(!OFF.is_patched() && !ON.is_patched());
    });
}

/// Enters an empty directory as the root: there is no /proc any more.
fn leave_proc() {
    let empty = std::env::temp_dir().join(format!("evenkeel-static-key-{}", std::process::id()));
    std::fs::create_dir(&empty).expect("a new directory");
    std::env::set_current_dir(&empty).expect("the directory is there");
    std::fs::remove_dir(&empty).expect("the directory is empty");
    // SAFETY: chroot reads the path, which is alive.
    let result = unsafe { libc::chroot(c".".as_ptr()) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Tells whether this process may change its root, and says so if not.
fn may_chroot(test: &str) -> bool {
    // SAFETY: geteuid has no arguments and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root {
        println!("{test}: skipped: changing the root directory needs root");
    }
    is_root && PATCHES
}

#[test]
fn proc_missing_before_arming() {
    if may_chroot("proc_missing_before_arming") {
        in_child("proc_missing_before_arming", || {
            denied_before_arming(leave_proc, libc::ENOENT);
        });
    }
}

#[test]
fn proc_missing_after_arming() {
    if may_chroot("proc_missing_after_arming") {
        in_child("proc_missing_after_arming", || {
            denied_after_arming(leave_proc, libc::ENOENT);
        });
    }
}

/// Has the system refuse executable mappings that were or become writable.
fn deny_write_execute() {
    const REFUSE_EXEC_GAIN: libc::c_ulong = 1;
    // SAFETY: prctl takes numbers here.
    let result = unsafe { libc::prctl(libc::PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0) };
    if result != 0 {
        println!("PR_SET_MDWE is not there (Linux before 6.3): nothing denied");
    }
}

/// Patching writes through the memory file and changes no mapping, so nothing is refused.
fn works_without_write_execute(name: &str, deny_before_arming: bool) {
    in_child(name, || {
        if deny_before_arming {
            deny_write_execute();
        }
        let armed = arm_all();
        deny_write_execute();
        assert_eq!(armed.is_ok(), PATCHES, "{armed:?}");
        assert_eq!((OFF.is_patched(), ON.is_patched()), (PATCHES, PATCHES));
        check(false, true);
        flips_work();
    });
}

#[test]
fn write_execute_denied_before_arming() {
    works_without_write_execute("write_execute_denied_before_arming", true);
}

#[test]
fn write_execute_denied_after_arming() {
    works_without_write_execute("write_execute_denied_after_arming", false);
}
