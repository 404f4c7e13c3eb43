//! Somebody else's byte on a site: what a debugger or a uprobe does to set a breakpoint.
//!
//! Unsafe is allowed in this file: two functions have unmangled names, for the debugger to find.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod common;

use std::fs::OpenOptions;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::process::Command;

use common::{PATCHES, has_program, in_child_under, texts};
use evenkeel_static_key::{Error, StaticKey, static_branch_likely, static_branch_unlikely};

/// `int3`
const BREAKPOINT: u8 = 0xcc;

/// Writes `byte` to `address` as a debugger does; returns the byte that was there.
fn poke(address: usize, byte: u8) -> u8 {
    let memory = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/proc/self/mem");
    let memory = memory.expect("the memory file opens");
    let mut old = [0];
    memory
        .read_exact_at(&mut old, address as u64)
        .expect("code is readable");
    memory
        .write_all_at(&[byte], address as u64)
        .expect("code can be written");
    old[0]
}

/// What the second function of a test gives; the first gives booleans, so that the compiler does
/// not make one function of the two.
const ON: u32 = 11;
const OFF: u32 = 22;

fn is_at(error: &Error, address: usize) -> bool {
    let text = error.to_string();
    error.is_foreign_code() && text.contains(&format!("{address:#x}")) && text.contains("0xcc")
}

#[test]
fn a_breakpoint_on_an_armed_site_refuses_the_flip() {
    static KEY: StaticKey = StaticKey::new_false("breakpoint on an armed site");
    #[inline(never)]
    fn first() -> bool {
        static_branch_unlikely!(KEY)
    }
    #[inline(never)]
    fn second() -> u32 {
        if static_branch_unlikely!(KEY) {
            ON
        } else {
            OFF
        }
    }
    if !PATCHES {
        return;
    }
    assert_eq!((first(), second(), KEY.arm()), (false, OFF, Ok(2)));
    for index in 0..2 {
        let address = KEY.sites()[index].address;
        let other = KEY.sites()[1 - index].address;
        let old = poke(address, BREAKPOINT);
        let error = KEY
            .enable()
            .expect_err("the breakpoint may hide an armed site");
        assert!(is_at(&error, address), "{error}");
        assert!(KEY.inc().is_err_and(|error| is_at(&error, address)));
        assert!(KEY.disarm().is_err_and(|error| is_at(&error, address)));
        assert!(!KEY.is_enabled() && KEY.references() == 0 && !KEY.is_patched());
        // All or nothing: the other site has not been touched.
        let untouched = KEY
            .sites()
            .iter()
            .any(|site| site.address == other && site.is_patched);
        assert!(untouched);
        poke(address, old);
        assert_eq!((first(), second()), (false, OFF));
        KEY.enable().expect("the breakpoint is gone");
        assert_eq!((first(), second()), (true, ON));
        KEY.disable().expect("no site is armed for true");
        assert_eq!(KEY.arm(), Ok(2));
    }
}

#[test]
fn a_breakpoint_on_an_unarmed_site_stands_in_nobodys_way() {
    static KEY: StaticKey = StaticKey::new_true("breakpoint on an unarmed site");
    #[inline(never)]
    fn first() -> bool {
        static_branch_likely!(KEY)
    }
    #[inline(never)]
    fn second() -> u32 {
        if static_branch_likely!(KEY) { ON } else { OFF }
    }
    if !PATCHES {
        return;
    }
    assert_eq!((first(), second()), (true, ON));
    let address = KEY.sites()[0].address;
    let old = poke(address, BREAKPOINT);
    assert!(KEY.arm().is_err_and(|error| is_at(&error, address)));
    let patched: Vec<bool> = KEY.sites().iter().map(|site| site.is_patched).collect();
    assert_eq!(patched, [false, true]);
    KEY.disable()
        .expect("the site under the breakpoint is known to be unarmed");
    KEY.enable().expect("no site is armed for false");
    poke(address, old);
    assert_eq!((first(), second(), KEY.arm()), (true, ON, Ok(2)));
    KEY.disable().expect("no breakpoint");
    assert_eq!((first(), second()), (false, OFF));
}

/// Where the debugger of the next test stops first, and sets a breakpoint at the address.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn evenkeel_test_set_breakpoint(address: usize) {
    black_box(address);
}

/// Where it deletes the breakpoint.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn evenkeel_test_delete_breakpoint() {
    black_box(());
}

/// What the debugger does: at each stop, what is said here.
const GDB_SCRIPT: &str = "
set breakpoint pending on
set debuginfod enabled off
break evenkeel_test_set_breakpoint
commands
silent
break *$rdi
commands
silent
printf \"stopped at the site\\n\"
continue
end
continue
end
break evenkeel_test_delete_breakpoint
commands
silent
delete 3
continue
end
run
";

/// Tells whether the debugger may trace a process, and says that `test` is skipped if not.
fn may_trace(test: &str) -> bool {
    let traced = Command::new("gdb")
        .args(["-batch", "-ex", "run", "true"])
        .output();
    let may = traced.is_ok_and(|output| texts(&output).0.contains("exited normally"));
    if !may {
        println!("{test}: skipped: gdb may not trace processes here");
    }
    may
}

#[test]
fn a_real_debugger_can_stop_at_a_site() {
    const NAME: &str = "a_real_debugger_can_stop_at_a_site";
    static KEY: StaticKey = StaticKey::new_false("under a debugger");
    #[inline(never)]
    fn branch() -> bool {
        static_branch_unlikely!(KEY)
    }
    if !has_program("gdb", NAME) || !may_trace(NAME) || !PATCHES {
        return;
    }
    let script = std::env::temp_dir().join(format!("evenkeel-{}.gdb", std::process::id()));
    std::fs::write(&script, GDB_SCRIPT).expect("a file");
    let path = script.to_str().expect("a path in UTF-8");
    let out = in_child_under(&["gdb", "-batch", "-x", path, "--args"], NAME, || {
        assert_eq!((branch(), KEY.arm()), (false, Ok(1)));
        evenkeel_test_set_breakpoint(KEY.sites()[0].address);
        let error = KEY
            .enable()
            .expect_err("the breakpoint hides an armed site");
        assert!(error.is_foreign_code(), "{error}");
        assert!(
            !branch() && !KEY.is_enabled(),
            "the site is stepped over as it was"
        );
        evenkeel_test_delete_breakpoint();
        assert!(KEY.is_patched());
        KEY.enable().expect("the breakpoint is gone");
        assert!(branch());
        KEY.disable().expect("no site is armed for true");
        assert!(!branch());
    });
    std::fs::remove_file(script).expect("it was there");
    assert_eq!(out.matches("stopped at the site").count(), 1, "{out}");
}
