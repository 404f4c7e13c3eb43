//! Experiments that both the program `evenkeel` and small static programs run.
//!
//! Each experiment is a module that measures, and returns figures that print themselves as a table
//! and as JSON; nothing here prints.
//!
//! | module | |
//! |---|---|
//! | [`tick`], [`lock`], `latency` | the experiments; the last with the cargo feature `runtime` |
//! | [`stats`] | runs by turns, what is said about samples, whether a difference is one |
//! | [`machine`] | what the machine is and offers, and what disturbs a measurement |
//! | [`children`] | processes that a benchmark starts |
//! | [`work`] | work of a known length |
#![deny(unsafe_code)]

pub mod children;
#[cfg(feature = "runtime")]
pub mod latency;
pub mod lock;
pub mod machine;
pub mod stats;
pub mod tick;
pub mod work;
