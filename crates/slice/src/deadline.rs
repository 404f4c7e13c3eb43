//! How long a section may delay the loss of the CPU, counted from the first request.
//!
//! Process-wide. This crate keeps the numbers; who makes requests (a runtime's monitor) enforces
//! them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::error::{Error, Kind};

/// The smallest deadline that can be set.
pub const DEADLINE_MIN: Duration = Duration::from_micros(1);
/// The largest deadline that can be set.
pub const DEADLINE_MAX: Duration = Duration::from_secs(1);

/// Slice sections, in nanoseconds, in the upper half; lock sections in the lower: a pair is read
/// as it was set.
static DEADLINES_NS: AtomicU64 = AtomicU64::new(pack(Deadlines::DEFAULT));

/// How long sections may hold off the loss of the CPU, counted from the request, by
/// [kind](crate::Kind).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// Of sections begun with [`enter`](crate::enter). Default: 50 µs.
    pub slice: Duration,
    /// Of sections begun with [`enter_lock`](crate::enter_lock), and of the locks of this crate;
    /// at least `slice`. Default: 5 ms.
    pub lock: Duration,
}

impl Deadlines {
    const DEFAULT: Self = Self {
        slice: Duration::from_micros(50),
        lock: Duration::from_millis(5),
    };
}

impl Default for Deadlines {
    fn default() -> Self {
        Self::DEFAULT
    }
}

const fn pack(deadlines: Deadlines) -> u64 {
    // Both are at most DEADLINE_MAX, 1e9 ns, and fit into 32 bits.
    ((deadlines.slice.as_nanos() as u64) << 32) | deadlines.lock.as_nanos() as u64
}

const _: () = assert!(DEADLINE_MAX.as_nanos() <= u32::MAX as u128);

/// Sets the deadlines of the process. Requests that are pending are held to the new ones.
///
/// # Errors
///
/// [`Error::is_out_of_range`] if one is not from [`DEADLINE_MIN`] to [`DEADLINE_MAX`];
/// [`Error::is_out_of_order`] if `lock` is below `slice`.
///
/// # Examples
///
/// ```
/// use evenkeel_slice::{Deadlines, set_deadlines};
/// use std::time::Duration;
///
/// set_deadlines(Deadlines { lock: Duration::from_millis(2), ..Deadlines::default() })?;
/// let zero = Deadlines { slice: Duration::ZERO, ..Deadlines::default() };
/// assert!(set_deadlines(zero).unwrap_err().is_out_of_range());
/// # Ok::<(), evenkeel_slice::Error>(())
/// ```
pub fn set_deadlines(deadlines: Deadlines) -> Result<(), Error> {
    let Deadlines { slice, lock } = deadlines;
    for (what, given) in [("slice", slice), ("lock", lock)] {
        if !(DEADLINE_MIN..=DEADLINE_MAX).contains(&given) {
            let (min, max) = (DEADLINE_MIN, DEADLINE_MAX);
            return Err(Kind::Range {
                what,
                given,
                min,
                max,
            }
            .into());
        }
    }
    if lock < slice {
        return Err(Kind::Order { slice, lock }.into());
    }
    DEADLINES_NS.store(pack(deadlines), Relaxed);
    Ok(())
}

/// Returns the deadlines in force. Async-signal-safe.
pub fn deadlines() -> Deadlines {
    let packed = DEADLINES_NS.load(Relaxed);
    Deadlines {
        slice: Duration::from_nanos(packed >> 32),
        lock: Duration::from_nanos(packed & u64::from(u32::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pairs_in_range_and_order_are_taken() {
        let us = Duration::from_micros;
        let tiny = Duration::from_nanos(1);
        let check = |slice, lock, expected: Option<(bool, bool)>| {
            let before = deadlines();
            let result = set_deadlines(Deadlines { slice, lock });
            match expected {
                None => assert_eq!((result, deadlines()), (Ok(()), Deadlines { slice, lock })),
                Some(kinds) => {
                    let error = result.expect_err("the pair is wrong");
                    assert_eq!((error.is_out_of_range(), error.is_out_of_order()), kinds);
                    assert_eq!(deadlines(), before, "a refused pair changes nothing");
                }
            }
        };
        check(us(1), us(1), None);
        check(us(1_000_000), us(1_000_000), None);
        check(us(50), us(5000), None);
        check(us(1) - tiny, us(5000), Some((true, false)));
        check(us(50), us(1_000_000) + tiny, Some((true, false)));
        check(Duration::MAX, Duration::MAX, Some((true, false)));
        check(us(51), us(50), Some((false, true)));
        assert_eq!(set_deadlines(Deadlines::default()), Ok(()));
        assert_eq!((deadlines().slice, deadlines().lock), (us(50), us(5000)));
    }
}
