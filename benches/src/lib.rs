//! What the benchmark programs share: the executors behind one trait, interleaved repetitions,
//! medians of paired ratios, and tables.
//!
//! Each program runs its candidates in one process run (or in child processes started by one run),
//! in rotated order: A B C, B C A, C A B. A ratio is taken between neighbours of the same
//! repetition, so that a machine that becomes faster or slower meanwhile changes both sides.

#![deny(unsafe_code)]

#[allow(unsafe_code)]
pub mod alloc;
pub mod exec;
pub mod proc;
pub mod stats;
pub mod table;
pub mod workloads;
