//! `kind = "spin"`: polls of a given CPU time.

use super::{Context, Outcome};
use crate::engine::yield_now;
use crate::kinds::meter::Unit;
use crate::workload::model::Spin;

/// Computes for ever, `poll` at a time, and pauses or yields in between.
pub(crate) async fn run(spin: Spin, context: Context) -> Outcome {
    loop {
        context.cpu.burn(spin.poll);
        context.meter.add(Unit::Polls, 1);
        if spin.pause.is_zero() {
            yield_now().await;
        } else {
            tokio::time::sleep(spin.pause).await;
        }
    }
}
