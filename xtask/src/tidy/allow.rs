//! Exceptions to the rules, each with its reason. One that is no longer needed is a violation.

/// A file or directory (ending in `/`) that may contain `unsafe`, and why it does.
pub(crate) struct UnsafeModule {
    pub(crate) path: &'static str,
    pub(crate) reason: &'static str,
}

/// Everything that may contain `unsafe`.
pub(crate) const UNSAFE_MODULES: &[UnsafeModule] = &[
    UnsafeModule {
        path: "benches/src/alloc.rs",
        reason: "counts what the global allocator hands out",
    },
    UnsafeModule {
        path: "xtask/no-std/src/lib.rs",
        reason: "defines the allocator that the standard library would",
    },
];

/// A test function that may sleep.
pub(crate) struct SleepingTest {
    pub(crate) path: &'static str,
    pub(crate) function: &'static str,
    pub(crate) reason: &'static str,
}

/// Every test that may sleep: their subject is the timer itself.
pub(crate) const SLEEPING_TESTS: &[SleepingTest] = &[];

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
