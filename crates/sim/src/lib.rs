//! A deterministic driver for the scheduling core, in virtual time.
//!
//! **Guarantee.** A run is a function of its history, and a random history is a function of its
//! seed: the same command gives the same events on every machine. Every run is checked after
//! every event (see [`check`]): no task is lost or queued twice, each runs on one CPU at a
//! time, no CPU idles while a task waits longer than it takes to kick it, the time charged is
//! the time used, and, while the set of runnable tasks stands still, every group receives its
//! exact hierarchical max-min share within a bound. Each of these checks is shown to fail on a
//! scheduler with the matching fault (`tests/faults.rs`).
//!
//! **Mechanism, as of now.** [`history`] describes a machine, groups, tasks and live
//! operations; [`generate`] draws them from a seed, [`cases`] holds the fixed ones. [`machine`]
//! plays a history against anything behind the seam of [`sched`]: the core ([`port`]), a naive
//! scheduler ([`naive`]), or a faulty one ([`fault`]). [`judge`] computes what is due in exact
//! fractions, [`account`] sets it beside what was received. [`runner`] turns a failure into a
//! command that replays it, [`shrink`] into a smaller one. [`bandwidth`] and [`preempt`] are
//! machines of their own, with their own checks.
//!
//! **Absences.** The library starts no threads, reads no clock and draws no randomness but from
//! seeds.
#![forbid(unsafe_code)]

pub mod account;
pub mod bandwidth;
pub mod cases;
pub mod check;
mod exec;
pub mod fault;
pub mod flip;
pub mod frac;
pub mod generate;
pub mod history;
pub mod judge;
pub mod machine;
pub mod model;
pub mod naive;
mod ops;
pub mod port;
pub mod preempt;
pub mod queue;
pub mod rng;
pub mod runner;
pub mod sched;
pub mod shrink;
pub mod state;
pub mod stats;
pub mod trace;
pub mod violation;
