//! Quotas under random live changes: a virtual machine of its own, with its own books.
//!
//! **Guarantee.** [`check`] runs one random history and returns the first promise that was broken:
//! - quota: in every window that contains n period starts, each group with a quota used at most
//!   quota × (n + 1) + burst, one slice per CPU, and what tasks overran ([`book`]);
//! - use: a group that was throttled in every period of the last second used at least 99 % of its
//!   quota there, up to the slices and overruns at both ends;
//! - nothing stranded: no CPU stays idle for 2 ms beside a throttled task all of whose groups have
//!   runtime, and a CPU that does not run a group holds none of its runtime;
//! - charges: what the core charged to a group is what its tasks ran;
//! - no lost task: whatever is runnable is picked, and when all limits are removed, nothing is
//!   throttled;
//! - the core's own sums are right, after every few events; the key is on exactly while a group
//!   has a quota.
//!
//! **Mechanism.** [`Machine`] drives the core as the runtime does: a
//! pick, a pull, a tick each millisecond, and a refill when it is due. Groups get, change and
//! lose quotas, tasks move between groups, groups are removed while throttled.

pub mod book;
pub mod machine;
pub mod scenario;
mod table;

pub use machine::{Fault, Machine};
pub use scenario::{check, check_with};
pub use table::{Row, large};
