//! `kind = "tick"`: a heartbeat, counting how late it is.

use std::sync::Arc;
use std::time::Instant;

use super::meter::Heartbeat;
use super::{Context, Outcome};
use crate::kinds::meter::Unit;
use crate::workload::model::Tick;

/// Beats for ever. Due times keep to the period: a late beat does not move the later ones, and
/// when several have become due meanwhile, each counts with its own lateness.
pub(crate) async fn run(tick: Tick, heart: Arc<Heartbeat>, context: Context) -> Outcome {
    let mut due = heart.start();
    loop {
        tokio::time::sleep_until(due.into()).await;
        let now = Instant::now();
        while due <= now {
            due = heart.beat(now);
            context.meter.add(Unit::Ticks, 1);
        }
        context.cpu.burn(tick.work);
    }
}
