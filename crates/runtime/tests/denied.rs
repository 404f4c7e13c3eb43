//! A system that refuses to have code changed: the runtime works, and says what it cannot turn on.
//!
//! Each case runs in a process of its own, because what it gives up cannot be taken back. Unsafe is
//! allowed in this file: seccomp has no wrapper in the standard library.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::process::Command;

use evenkeel::{Builder, Level, Order, Runtime, keys, trace};

/// Tells a test that it is the child of [`in_child`].
const CHILD: &str = "EVENKEEL_TEST_CHILD";

/// Runs `body` in a process of its own: this program started again with only the test `name`.
fn in_child(name: &str, body: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    let output = command.env(CHILD, "1").output().expect("the child starts");
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}:\n{out}\n{err}");
    assert!(out.contains("1 passed"), "{name}:\n{out}\n{err}");
}

/// Has the system call `number` fail with `EPERM`, in this thread and those it starts.
fn deny(number: i64) {
    let instruction = |code: u32, jump_false: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: jump_false,
        k,
    };
    let number = u32::try_from(number).expect("system call numbers are small");
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut program = [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, number),
        instruction(libc::BPF_RET | libc::BPF_K, 0, refuse),
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

/// Runs tasks of all kinds of waiting in the root group.
fn run_tasks(runtime: &Runtime) {
    let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
    let sum = runtime.spawn(async move {
        let mut sum = 0;
        while let Some(number) = receiver.recv().await {
            evenkeel::yield_now().await;
            sum += number;
        }
        sum
    });
    runtime.block_on(async {
        for number in 1..=100 {
            sender.send(number).await.expect("somebody listens");
        }
        drop(sender);
        assert_eq!(sum.await.expect("a sum"), 5050);
    });
}

fn is_on(name: &str) -> bool {
    let keys = keys::list();
    keys.iter().any(|key| key.name == name && key.is_on)
}

/// Everything works, at the price of a load for each branch.
fn everything_works() {
    let runtime = Builder::new().worker_threads(2).build().expect("a runtime");
    run_tasks(&runtime);
    let root = runtime.handle().root();
    let group = root.child("fair").order(Order::Fair).build();
    let group = group.expect("nothing has to be patched");
    root.start_times().expect("nothing has to be patched");
    let guard = trace::enable().expect("nothing has to be patched");
    runtime.block_on(group.spawn(async {})).expect("it ends");
    run_tasks(&runtime);
    drop(guard);
    assert!(group.stat().run.count() > 0);
}

#[test]
fn denied_before_the_first_runtime() {
    in_child("denied_before_the_first_runtime", || {
        deny(libc::SYS_pwrite64);
        everything_works();
        assert!(keys::list().iter().all(|key| key.patched_sites == 0));
    });
}

#[test]
fn denied_after_branches_were_patched() {
    in_child("denied_after_branches_were_patched", || {
        let runtime = Builder::new()
            .worker_threads(2)
            .preempt(Level::Off)
            .build()
            .expect("a runtime");
        assert!(
            keys::list()
                .iter()
                .all(|key| key.patched_sites == key.sites)
        );
        deny(libc::SYS_pwrite64);
        let root = runtime.handle().root();
        let refused = [
            root.child("a").build().map(drop),
            root.child("b").order(Order::Fair).build().map(drop),
            root.start_times(),
            trace::enable().map(drop),
            Builder::new().preempt(Level::Handoff).build().map(drop),
        ];
        for (at, result) in refused.into_iter().enumerate() {
            let error = result.expect_err("code would have to be changed");
            assert!(error.is_key(), "{at}: {error}");
        }
        // Nothing has changed, and nothing is left behind.
        assert!(root.children().is_empty());
        for name in [
            "optional",
            "groups",
            "fair_order",
            "statistics",
            "tracing",
            "preempt",
        ] {
            assert!(!is_on(name), "{name}");
        }
        assert!(keys::list().iter().all(|key| key.references == 0));
        run_tasks(&runtime);
        assert_eq!(root.stat().run.count(), 0);
    });
}

#[test]
fn disarmed_before_a_sandbox() {
    in_child("disarmed_before_a_sandbox", || {
        let first = Builder::new().worker_threads(1).build().expect("a runtime");
        evenkeel_static_key::disarm_all().expect("nothing is denied yet");
        for call in [libc::SYS_pwrite64, libc::SYS_openat] {
            deny(call);
        }
        run_tasks(&first);
        everything_works();
    });
}
