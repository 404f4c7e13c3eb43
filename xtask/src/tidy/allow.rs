//! Exceptions to the rules, each with its reason. One that is no longer needed is a violation.

/// A file or directory (ending in `/`) that may contain `unsafe`, and why it does.
pub(crate) struct UnsafeModule {
    pub(crate) path: &'static str,
    pub(crate) reason: &'static str,
}

/// Everything that may contain `unsafe`.
pub(crate) const UNSAFE_MODULES: &[UnsafeModule] = &[
    unsafe_module(
        "benches/src/alloc.rs",
        "counts what the global allocator hands out",
    ),
    unsafe_module(
        "crates/bench/src/lock/probe/usage.rs",
        "asks the C library for this thread's switches",
    ),
    unsafe_module(
        "crates/bench/src/machine/sys.rs",
        "asks the kernel for counters, clamps and barriers",
    ),
    unsafe_module(
        "crates/core/tests/no_alloc.rs",
        "counts allocations in a global allocator",
    ),
    unsafe_module(
        "crates/runtime/src/context.rs",
        "the worker and the task of this thread, by pointer",
    ),
    unsafe_module(
        "crates/runtime/src/preempt/report.rs",
        "walks the stack, and counts a reference, in a signal handler",
    ),
    unsafe_module(
        "crates/runtime/src/preempt/sys.rs",
        "signals, futexes, affinity and clocks of threads",
    ),
    unsafe_module(
        "crates/runtime/src/shared.rs",
        "a counted reference to the current task's group",
    ),
    unsafe_module("crates/runtime/src/task/", "the task cell and its handles"),
    unsafe_module(
        "crates/runtime/src/worker/",
        "workers pass from thread to thread; groups of open tasks",
    ),
    unsafe_module(
        "crates/slice/examples/abi/",
        "calls the kernel by itself, to check it",
    ),
    unsafe_module("crates/slice/src/alloc.rs", "is a global allocator"),
    unsafe_module(
        "crates/slice/src/kernel/linux/",
        "registers areas with the kernel, and writes to them",
    ),
    unsafe_module(
        "crates/slice/src/kernel/linux_tests.rs",
        "plays the kernel on an area",
    ),
    unsafe_module(
        "crates/runtime/tests/denied.rs",
        "installs a seccomp filter",
    ),
    unsafe_module(
        "crates/runtime/tests/preempt_signals.rs",
        "installs and sends signals, forks",
    ),
    unsafe_module("crates/slice/src/locks/", "implements raw locks"),
    unsafe_module(
        "crates/slice/src/runtime.rs",
        "a function pointer in an atomic; a hook on fork",
    ),
    unsafe_module("crates/slice/tests/alloc.rs", "is a global allocator"),
    unsafe_module("crates/slice/tests/fork.rs", "forks"),
    unsafe_module(
        "crates/slice/tests/signals.rs",
        "installs signal handlers and single-steps",
    ),
    unsafe_module(
        "crates/static-key/examples/stress/sites_x86_64.rs",
        "calls machine code of its own",
    ),
    unsafe_module("crates/static-key/src/linux/", "patches code pages"),
    unsafe_module(
        "crates/static-key/tests/denied.rs",
        "installs a seccomp filter",
    ),
    unsafe_module(
        "crates/static-key/tests/fixture/",
        "a plugin, and its loader",
    ),
    unsafe_module(
        "crates/static-key/tests/foreign_code.rs",
        "writes somebody else's byte to a site",
    ),
    unsafe_module("crates/static-key/tests/fork.rs", "forks"),
    unsafe_module(
        "xtask/no-std/src/lib.rs",
        "defines the allocator that the standard library would",
    ),
];

const fn unsafe_module(path: &'static str, reason: &'static str) -> UnsafeModule {
    UnsafeModule { path, reason }
}

/// A test function that may sleep.
pub(crate) struct SleepingTest {
    pub(crate) path: &'static str,
    pub(crate) function: &'static str,
    pub(crate) reason: &'static str,
}

/// Every test that may sleep: their subject is the timer itself.
pub(crate) const SLEEPING_TESTS: &[SleepingTest] = &[
    sleeping_test(
        "crates/runtime/tests/stress_edges.rs",
        "a_payload_of_a_waker_in_the_driver_does_not_end_a_worker",
        "a timer's waker panics",
    ),
    sleeping_test(
        "crates/runtime/tests/stress_mix.rs",
        "wander",
        "timers are one of the ways to be woken",
    ),
    sleeping_test(
        "crates/runtime/tests/basic.rs",
        "sleep_and_blocking_work",
        "timers in every I/O mode",
    ),
    sleeping_test(
        "crates/runtime/tests/faults.rs",
        "shutdown_drops_tasks_in_every_state",
        "a task at a timer is one of the states",
    ),
    sleeping_test(
        "crates/runtime/tests/groups.rs",
        "every_order_and_class_runs_tasks_to_their_end",
        "tasks woken by timers",
    ),
    sleeping_test(
        "crates/runtime/tests/tokio_compat.rs",
        "timers_intervals_and_timeouts",
        "timers",
    ),
    sleeping_test(
        "crates/runtime/tests/tokio_compat.rs",
        "a_timer_set_far_away_is_reset_from_another_thread",
        "timers",
    ),
    sleeping_test(
        "crates/runtime/tests/tokio_compat.rs",
        "tokio_spawn_and_tokio_spawn_blocking_inside_a_task",
        "timers in Tokio's own tasks",
    ),
    sleeping_test(
        "crates/runtime/tests/tokio_compat.rs",
        "a_hot_socket_does_not_starve_a_timer",
        "timers",
    ),
    sleeping_test(
        "crates/runtime/tests/tokio_compat.rs",
        "timers_go_on_while_one_worker_computes",
        "timers",
    ),
    sleeping_test(
        "crates/runtime/tests/tokio_compat.rs",
        "without_io_timers_say_so_and_tasks_run",
        "timers",
    ),
];

const fn sleeping_test(
    path: &'static str,
    function: &'static str,
    reason: &'static str,
) -> SleepingTest {
    SleepingTest {
        path,
        function,
        reason,
    }
}

/// Files that must exist.
pub(crate) const REQUIRED_FILES: &[&str] = &[
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
];
