//! Polls that lose their CPU: slices, sections, signals, parked polls and the kernel's grants, in
//! virtual time.
//!
//! **Guarantee.** [`check`] runs one random history and returns the first [`Promise`] that was
//! broken, looked at after every event:
//! - delay: from the moment a CPU is asked for to the switch pass at most the delays of two
//!   signals, the deadline of the sections that are in the way, a tick and its lateness. On top
//!   come sections of the runtime, with a tick and a signal for each since the monitor has to ask
//!   again after it, and times for which the kernel ran something else. Where no thread is left
//!   to take the CPU over, the poll goes on, and the next tick asks again;
//! - grants: at most one for each outermost section, none longer than the kernel's extension, and
//!   each ends once: by the yield, by expiry, by revocation or at a system call;
//! - requests: none is lost, none served twice, none made that nobody asked for;
//! - balance: sections nest, and none is open at the end of a poll;
//! - places: a CPU has one carrier, a thread one role, a poll one thread, and there are never more
//!   threads than allowed;
//! - parked polls: each is resumed, before another poll of its task begins;
//! - sections of the runtime are never forced, and `need_resched` is cleared at a switch.
//!
//! **Mechanism.** [`machine`] drives the core's queues as the runtime's monitor, waker, signal
//! handler and carriers do (`preempt/monitor.rs`, `switch.rs`, `section.rs` and `gate.rs` there);
//! [`sections`] mirrors the state of a thread of `evenkeel-slice`, [`plan`] draws what polls do.
//! Signals take a random time, and often strike between two steps of a section's end; so do the
//! kernel's interrupts. The books that the checks compare with are the machine's own. [`Fault`]
//! names careless drivers; `tests/preempt.rs` shows that each is noticed.
//!
//! **Not modelled.** Threads blocked in the kernel, aborts of tasks, and how the kernel shares its
//! CPUs between polls that go on without one of ours: these simply run.

mod checks;
mod kernel;
pub mod machine;
mod monitor;
pub mod plan;
mod promise;
mod scenario;
pub mod sections;
mod switch;

pub use machine::{Fault, Level, Machine, Stats};
pub use promise::{Broken, Promise};
pub use scenario::{check, check_with};
