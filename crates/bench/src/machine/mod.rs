//! The machine that experiments run on: what it is, what it offers, what disturbs it.

mod date;
mod offers;
mod proc;
#[cfg_attr(target_os = "linux", path = "sys.rs")]
#[cfg_attr(not(target_os = "linux"), path = "no_sys.rs")]
mod sys;

pub use offers::{Membarrier, Uclamp, membarrier, uclamp};
pub use proc::{CpuTimes, Machine, cpu_times};
pub(crate) use sys::kill_group;
#[cfg(feature = "runtime")]
pub(crate) use sys::process_cpu_time;
pub use sys::{Counter, Counting, involuntary_switches};
