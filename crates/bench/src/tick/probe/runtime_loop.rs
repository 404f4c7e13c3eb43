//! The loops on a runtime with one worker, without I/O and preemption: what these do depends on the
//! time that passes, which is another under callgrind.

use evenkeel::{Builder, Group, Io, Level, yield_now};

use super::{Meter, Probe};
use crate::tick::{Error, Place};

/// Has the only task of a runtime yield.
///
/// # Errors
/// The runtime did not start, or has no groups.
pub(super) fn run(probe: &Probe, meter: Meter) -> Result<Meter, Error> {
    let runtime = Builder::new()
        .worker_threads(1)
        .io(Io::Off)
        .preempt(Level::Off)
        .build()
        .map_err(Error::runtime)?;
    let root = runtime.handle().root();
    let group: Group = match probe.place {
        Place::Group => root.child("tick").build().map_err(Error::runtime)?,
        _ => root,
    };
    let (lead_in, iterations) = (probe.lead_in, probe.iterations);
    let task = group.spawn(yields(meter, lead_in, iterations));
    let meter = runtime.block_on(task).map_err(Error::runtime)?;
    Ok(meter)
}

async fn yields(mut meter: Meter, lead_in: u64, iterations: u64) -> Meter {
    for _ in 0..lead_in {
        yield_now().await;
    }
    meter.begin();
    for _ in 0..iterations {
        yield_now().await;
    }
    meter.end();
    meter
}
