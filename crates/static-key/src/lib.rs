//! Branches patched in running code: optional work on a fast path that costs one instruction while
//! nobody has switched it on, and can be switched at any time.
//!
//! ```
//! use evenkeel_static_key::{StaticKey, static_branch_unlikely};
//!
//! static TRACING: StaticKey = StaticKey::new_false("tracing");
//!
//! fn send(message: &str) {
//!     if static_branch_unlikely!(TRACING) {
//!         trace(message);
//!     }
//!     // ...
//! }
//!
//! #[cold]
//! fn trace(message: &str) {
//!     eprintln!("sending {message}");
//! }
//!
//! send("not traced");
//! TRACING.enable()?;
//! send("traced");
//! # Ok::<(), evenkeel_static_key::Error>(())
//! ```
//!
//! # What is guaranteed
//!
//! - **A branch that begins after a flip has returned gives the new value**, on every thread. A
//!   branch that runs during the flip gives the old or the new one. Keys may be flipped from any
//!   thread while any number of threads execute their branches; branches may stand in signal
//!   handlers, flips may not (they take a lock).
//! - **A flip that fails changes nothing**: the key keeps its value for every branch, and the call
//!   says why.
//! - **Being right never depends on patching.** Where code cannot be written, every branch loads
//!   the key's flag. That holds for unsupported targets, Miri and loom, the cargo feature
//!   `portable`, sandboxes, a missing `/proc`, branches in other shared objects, and a program that
//!   never calls [`arm_all`].
//! - A branch that gives `true` by loading the flag does so with `Acquire` ordering and sees what
//!   happened before the flip. A branch that falls through in armed code orders nothing.
//!
//! This assumes that storing a single byte of code is seen by other cores as the old or the new
//! byte; see [vendor rules](#vendor-rules) below.
//!
//! # How it works today
//!
//! (Subject to change.) A branch site on x86-64 is the five bytes `E9 rel32`: a jump to a block
//! that loads the flag. To *arm* it, the first byte is replaced by `A9`, which makes the same five
//! bytes `test eax, imm32`: execution falls through, and only the arithmetic flags are changed. One
//! byte changes, ever, so there is no torn instruction, no alignment rule and no trap handler. On
//! AArch64 a site is one aligned word, `B` or `NOP`. **The AArch64 part has been reviewed and
//! assembled, but never run on hardware.**
//!
//! A site falls through for one value: `false` with [`static_branch_unlikely!`], `true` with
//! [`static_branch_likely!`]. It is armed only while the key has that value:
//!
//! 1. A flip first disarms the sites that fall through for the old value: their bytes are written,
//!    and `membarrier` makes every thread of the process execute a serialising instruction. This
//!    can fail; then the flip has failed.
//! 2. Then the flag is stored. All sites follow that one store.
//! 3. Then, if the key is one that [`StaticKey::arm`] or [`arm_all`] was called for, and its last
//!    arming is at least [`REARM_INTERVAL`] past, the sites that fall through for the new value are
//!    armed. This may fail without harm.
//!
//! Bytes are written with `pwrite` on `/proc/self/mem`, opened anew for each flip (so a forked
//! child writes to itself). No mapping is ever writable and executable. A page of code that is
//! written to becomes private to the process: 4 KiB a page that has sites.
//!
//! The table of sites lies in a section of its own, made by the macros and linked to the code: a
//! function that the linker drops takes its records along (with lld, and with GNU ld if given `-z
//! start-stop-gc`; other linkers keep such functions). Sites are known per shared object. A C
//! library (`cdylib`) has its own copy of this crate and of its keys, and works by itself. Where
//! keys are in a Rust `dylib`, the sites in other objects are right, but never armed.
//!
//! # What it costs
//!
//! Instructions that a branch adds to a small function, counted with callgrind (`cargo test -p
//! evenkeel-static-key --test valgrind -- --nocapture`, which fails if they change):
//!
//! | disabled site | load of a flag | site that is not armed |
//! |---|---|---|
//! | 1 | 3 | 4 |
//!
//! Nanoseconds a branch, 200 different branches in a row, on a virtual machine with two cores of an
//! AMD EPYC (`cargo run --release -p evenkeel-static-key --example sites`; ranges are over several
//! runs, on a machine that was not quite idle):
//!
//! | | hot | L1 evicted | L2 evicted | another core writes the flags |
//! |---|---|---|---|---|
//! | no branch | 0.20–0.29 | 0.25–0.30 | 0.25–0.35 | 0.20–0.27 |
//! | disabled site | 0.26–0.31 | 0.25–0.30 | 0.25–0.60 | 0.26–0.31 |
//! | load of one flag for all | 0.26–0.33 | 0.25–0.50 | 0.35–1.1 | 0.9–1.0 |
//! | load of 200 flags | 0.26–0.34 | 0.55–0.80 | 0.9–1.8 | 6–17 |
//! | site that is not armed | 1.3–2.3 | 1.1–2.5 | 2.4–5.9 | 1.3–2.3 |
//!
//! So: *a single flag that stays in the first-level cache costs as little as a site*. A site pays
//! when there are many flags, when the caches are under pressure, and when others write to the
//! flag's cache line. A site that is not armed is the slowest form, for its two jumps: arm the keys
//! that matter.
//!
//! A flip to or from the armed state takes 6 to 9 µs with one site and 310 to 430 µs with 200
//! (same machine and program); one without code to change, 0.3 to 1 µs. The first arming takes
//! 60 µs in a process with one thread, and 6 to 16 ms if there are more, because the kernel waits
//! for a grace period then: arm before threads are started.
//!
//! What else it costs: an asm block is opaque to the optimiser. Registers are saved for a call
//! behind the branch unless that is a tail (`if static_branch_unlikely!(KEY) { return cold(x) }`),
//! and a loop with a site in it is not vectorised. Turn a branch off at compile time with a
//! constant in front, `if const { COMPILED_IN } && static_branch_unlikely!(KEY)`: nothing of it is
//! left in the object file, which a test checks.
//!
//! # Sandboxes, debuggers, emulators
//!
//! - *Before arming is forbidden* (seccomp, no `/proc`): arming fails, flips work.
//! - *After sites were armed*: flips that have to disarm them fail with [`Error::is_denied`]. Call
//!   [`disarm_all`] before entering a sandbox; from then on flips make no system call. A filter
//!   that pretends success without doing the work cannot be noticed where it answers for
//!   `membarrier`.
//! - `PR_SET_MDWE` does not concern patching.
//! - *A breakpoint on an armed site*: the flip fails with [`Error::is_foreign_code`] and works once
//!   the breakpoint is gone. Otherwise the debugger, when it puts the old byte back, would arm a
//!   site against the rule. A site that was not armed does not stand in the way.
//! - *Valgrind* executes translations; it is told to discard them. Other translators that keep
//!   stale code are found out before the first arming, by a branch of this crate's own, and then
//!   nothing is armed.
//! - After `fork` parent and child are independent, also if another thread was flipping meanwhile
//!   (then, without patching, the child must not flip). A `vfork` child must not flip.
//!
//! # Vendor rules
//!
//! AMD's manual (volume 2, *Cross-Modifying Code*) permits code to be changed by one store within
//! an aligned quadword while other cores execute it; a single byte always is. Intel's manual
//! (volume 3, *Handling Self- and Cross-Modifying Code*) documents only modification during which
//! the other cores wait and then serialise. It does not promise that a single byte may be stored
//! while others execute it; that it may is what every breakpoint set in a running program relies
//! on, and with it the Linux kernel's own patching. This crate does not wait for the other cores
//! while it stores; it does have them serialise before a flip returns. If that is not enough for
//! you, use the cargo feature `portable`, which never patches. On AArch64, `B` and `NOP` are on the
//! architecture's list of instructions that may be exchanged while they are executed.
//!
//! `cargo run --release -p evenkeel-static-key --example stress` looks for violations, and with
//! `--control torn` shows that a torn write does crash the machine that it runs on.
//!
//! # Prior art
//!
//! The idea, and the names, are those of the Linux kernel's jump labels and static keys. The pair
//! of opcodes that differ in one byte, `TEST` and `JMP`, is an idea of `dynamic_flag` by Backtrace
//! Labs. The `static-keys` crate brought static keys to Rust programs; it flips while the process
//! has one thread. This crate shares no code with them.
#![deny(unsafe_code)]

mod error;
mod key;
mod keys;
mod state;
mod sync;

#[cfg_attr(
    all(
        target_os = "linux",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(any(miri, loom, feature = "portable")),
    ),
    path = "linux/mod.rs"
)]
#[cfg_attr(
    not(all(
        target_os = "linux",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(any(miri, loom, feature = "portable")),
    )),
    path = "portable.rs"
)]
mod patch;

pub use crate::error::Error;
pub use crate::key::{REARM_INTERVAL, StaticKey};
pub use crate::keys::{KeyInfo, Keys, SiteInfo, arm_all, disarm_all, keys, run_deferred};

/// The largest number of references that a key can count.
pub const MAX_REFERENCES: u32 = state::MAX_REFERENCES;

/// Tests a key that is mostly off. Gives the key's value.
///
/// Armed, a site costs one instruction while the key is off. The argument is the path of a `static`
/// item of type [`StaticKey`]; the expression cannot stand in a `const fn`.
///
/// Put what belongs to the key into a cold function and return its result, so that the compiler
/// need not save registers for it: `if static_branch_unlikely!(KEY) { return cold(x) }`. A site
/// keeps a loop from being vectorised: hoist it out of inner loops.
///
/// # Examples
/// ```
/// use evenkeel_static_key::{StaticKey, static_branch_unlikely};
///
/// static STATS: StaticKey = StaticKey::new_false("stats");
///
/// fn is_counting() -> bool {
///     static_branch_unlikely!(STATS)
/// }
/// assert!(!is_counting());
/// ```
///
/// Only statics are accepted, only of this type, and not in a `const fn`:
/// ```compile_fail
/// # use evenkeel_static_key::{StaticKey, static_branch_unlikely};
/// const NOT_STATIC: StaticKey = StaticKey::new_false("not static");
/// fn f() -> bool {
///     static_branch_unlikely!(NOT_STATIC)
/// }
/// ```
/// ```compile_fail
/// # use evenkeel_static_key::static_branch_unlikely;
/// # use std::sync::atomic::AtomicBool;
/// static NOT_A_KEY: AtomicBool = AtomicBool::new(false);
/// fn f() -> bool {
///     static_branch_unlikely!(NOT_A_KEY)
/// }
/// ```
/// ```compile_fail
/// # use evenkeel_static_key::{StaticKey, static_branch_unlikely};
/// static KEY: StaticKey = StaticKey::new_false("key");
/// const fn f() -> bool {
///     static_branch_unlikely!(KEY)
/// }
/// ```
#[macro_export]
macro_rules! static_branch_unlikely {
    ($key:path) => {
        $crate::__static_branch!($key, false)
    };
}

/// Tests a key that is mostly on. Gives the key's value.
///
/// Armed, a site costs one instruction while the key is on. Such a site makes switching the key
/// *off* something that can fail, see [`StaticKey::disable`]. For the rest see
/// [`static_branch_unlikely!`].
///
/// # Examples
/// ```
/// use evenkeel_static_key::{StaticKey, static_branch_likely};
///
/// static CHECKS: StaticKey = StaticKey::new_true("checks");
///
/// fn is_checking() -> bool {
///     static_branch_likely!(CHECKS)
/// }
/// assert!(is_checking());
/// CHECKS.disable()?;
/// assert!(!is_checking());
/// # Ok::<(), evenkeel_static_key::Error>(())
/// ```
#[macro_export]
macro_rules! static_branch_likely {
    ($key:path) => {
        $crate::__static_branch!($key, true)
    };
}

/// The example in the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
