//! The scheduling policy of Evenkeel.
//!
//! **Guarantee.** With every CPU reporting at its switches and [`Domain::tick`] called about every
//! millisecond, each group of runnable tasks receives its hierarchical weighted max-min share of
//! the CPU time that all groups used together, within a few slices, whatever CPU its tasks sit on;
//! a group with k runnable tasks is never owed more than k CPUs. No CPU that asks
//! ([`RunQueue::pull_request`]) stays idle while another has a task waiting.
//!
//! **Mechanism, as of now.** Leaf groups have a *fluid clock*, set by a coordinator that fills the
//! hierarchy with water ([`Domain`]); every CPU runs EEVDF over its *fragments* (a leaf group on
//! this CPU) against that clock ([`RunQueue`]); CPUs pull waiting tasks from each other by lag
//! ([`balance`]). Inside a group tasks run in FIFO order, or by the kernel's EEVDF
//! ([`EevdfQueue`]). Real-time tasks go before all of this, idle-class tasks after it.
//!
//! **Absences.** Nothing here reads a clock, draws randomness, blocks, locks, spawns or starts a
//! thread; time and randomness come in as arguments. Enqueue, dequeue, pick, put, tick and pull
//! do not allocate. There is no unsafe code. Tasks are linked intrusively through an [`Arena`]
//! that the driver owns.
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod account;
mod arena;
pub mod balance;
pub mod bandwidth;
mod config;
mod domain;
mod eevdf;
mod entity;
mod error;
pub mod features;
mod fifo;
mod fragment;
mod group;
mod idle;
pub mod keys;
mod leaf;
mod rt;
mod runqueue;
mod seqcell;
mod tree;
pub mod waterfill;
pub mod weight;

pub use arena::{Arena, VecArena};
pub use balance::{CpuShared, PullKind, PullRequest};
pub use bandwidth::{Bandwidth, BandwidthStat};
pub use config::Config;
pub use domain::Domain;
pub use eevdf::{EevdfQueue, Placement};
pub use entity::{Class, Entity, RtPolicy, TaskParams, TaskState};
pub use error::Error;
pub use fifo::FifoList;
pub use group::{GroupId, GroupParams, Order};
pub use leaf::{DomainShared, Leaf};
pub use runqueue::{EnqueueKind, Migrating, Outcome, Picked, Resched, RunQueue};
pub use tree::Tree;
