//! The one clock of the runtime: monotonic nanoseconds since the first reading in this process.

use std::sync::OnceLock;
use std::time::Instant;

static START: OnceLock<Instant> = OnceLock::new();

/// Reads the clock, in ns.
#[inline]
pub(crate) fn now_ns() -> u64 {
    let start = START.get_or_init(Instant::now);
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
