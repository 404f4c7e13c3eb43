//! The tick experiment: what an optional part of the scheduler costs while it is off.
//!
//! It is the experiment by which the kernel's authors put utilization clamps behind a static key: a
//! tight loop through the path that enters and leaves the scheduler, with the part in the build and
//! off, in the build and on, and not in the build. Here the loop is a [`Place`] in the core or in
//! the runtime; a part's key is off, or on without that anything uses the part; and builds without
//! the part are made with cargo, inside a source tree.
//!
//! Every subject runs in a process of its own, the [`probe`], so that all begin alike. Times are
//! taken by turns ([`stats`](crate::stats)); instructions and branches are counted once, by
//! Valgrind's callgrind, as the difference of two runs of different length; and by hardware
//! counters where the machine has them.
//!
//! The programs differ by their layout as well, which is worth some percent of time either way in
//! loops this short. Instructions do not depend on it.

mod build;
mod callgrind;
mod core_loop;
mod error;
mod experiment;
mod findings;
mod part;
mod place;
mod probe;
mod subject;

pub use build::source_tree;
pub use error::Error;
pub use experiment::{Options, run};
pub use findings::{Findings, Missing};
pub use place::Place;
pub use probe::probe;
