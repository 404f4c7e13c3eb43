//! The lock experiment: what it costs to lose the CPU while holding a spin lock.
//!
//! It is the experiment by which the kernel's time-slice extension was argued for: one contender
//! more than there are CPUs shares one spin lock. Each takes the lock, works inside for a while,
//! raises a counter, releases, and goes on when somebody else has raised the counter. A contender
//! that is preempted while it holds the lock stops all others for as long as it waits for a CPU.
//! A contender that may ask for a little more time first finishes its section.
//!
//! What a contender is, and which [`Lock`] it takes, is a [`Subject`]. OS threads under the
//! kernel's scheduler are [`Threads`]; a runtime's tasks are `Tasks` (cargo feature `runtime`). Who
//! asks for time takes [`evenkeel_slice::SpinLock`], whose holder is in a section; who does not
//! takes a plain spin lock, and waits for it in the same way. [`compare`] runs several subjects by
//! turns, so that what else happens on the machine meets all of them.
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//! use evenkeel_bench::lock::{compare, Config, Subject, Threads};
//!
//! let config = Config::new().with_duration(Duration::from_millis(20));
//! let comparison = compare(&config, &[&Threads::without_extension() as &dyn Subject])?;
//! assert!(comparison.outcomes()[0].acquisitions() > 0);
//! println!("{}", comparison.table());
//! # Ok::<(), evenkeel_bench::lock::Error>(())
//! ```

mod compare;
mod config;
mod contest;
mod error;
mod figures;
mod probe;
mod spin;
mod subject;
mod table;
#[cfg(feature = "runtime")]
mod tasks;
mod threads;

pub use compare::{Comparison, Outcome, Round, compare};
pub use config::Config;
pub use contest::{Contender, Contest, Exit, Grant, Tally};
pub use error::Error;
#[cfg(feature = "runtime")]
pub use evenkeel::Level;
pub use figures::{Distribution, Figures};
pub use spin::Lock;
pub use subject::Subject;
#[cfg(feature = "runtime")]
pub use tasks::Tasks;
pub use threads::Threads;
