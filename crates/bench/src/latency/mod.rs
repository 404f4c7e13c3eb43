//! The latency experiment: how long a task waits that does little, often, beside tasks that compute
//! in long polls.
//!
//! Some tasks, the hogs, compute in polls of a given length on a runtime with a worker for each
//! CPU. A thread wakes one more task, the beat, a thousand times a second. What is measured is the
//! time from each wake to the run that answers it, and how much work the hogs get done meanwhile:
//! by loop iterations, whose pace is measured first, since a poll that is interrupted takes longer
//! without doing more. A hundred per cent is what they do at [`Level::Off`] with neither the beat
//! nor the thread that wakes it, so the cost of that thread counts against every subject.
//!
//! All this needs CPUs of one's own. On a machine that others use as well the kernel gives each
//! subject what it likes, by its number of threads and by how long those have slept; what is left
//! to compare is the work for each second of CPU time.
//!
//! Subjects are the levels of preemption and a multi-threaded runtime of Tokio, each a [`Subject`].
//! [`compare`] runs them by turns, so that what else happens on the machine meets all of them.
//!
//! [`shares`] is the other half: tasks of long polls beside tasks of short ones, of equal weight,
//! and how the CPUs are divided among them.
//!
//! # Examples
//!
//! ```
//! # #[cfg(feature = "groups")] {
//! use std::time::Duration;
//! use evenkeel_bench::latency::{compare, Config, Level, Subject};
//!
//! let config = Config::new()
//!     .with_poll(Duration::from_millis(1))
//!     .with_duration(Duration::from_millis(50));
//! let comparison = compare(&config, &[Subject::Runtime(Level::Off), Subject::Tokio])?;
//! assert!(comparison.outcomes()[0].waits().count() > 0);
//! println!("{}", comparison.table());
//! # }
//! # Ok::<(), evenkeel_bench::latency::Error>(())
//! ```

mod compare;
mod config;
mod error;
mod hog;
mod host;
mod round;
mod shares;
mod table;

pub use compare::{Comparison, Outcome, compare};
pub use config::Config;
pub use error::Error;
pub use evenkeel::Level;
pub use host::Subject;
pub use round::Round;
pub use shares::{Share, Shares, SharesConfig, shares};
