//! The twin for builds without the runtime.

use super::{Meter, Probe};
use crate::tick::Error;

/// Refuses.
///
/// # Errors
/// Always: the runtime is not in this build.
pub(super) fn run(probe: &Probe, _: Meter) -> Result<Meter, Error> {
    let place = probe.place.name();
    Err(Error::usage(
        "place",
        place,
        "one of the core; this build is without the cargo feature `runtime`",
    ))
}
