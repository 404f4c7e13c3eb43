//! `kind = "lock"`: tasks that contend for one lock.

use std::sync::{Arc, PoisonError};

use super::{Context, Outcome};
use crate::engine::yield_now;
use crate::kinds::meter::Unit;
use crate::workload::model::{Lock, Mutex};

/// The lock that all tasks of one entry share. It guards a count of its acquisitions.
#[derive(Clone)]
pub(crate) enum Shared {
    /// Tokio's.
    Async(Arc<tokio::sync::Mutex<u64>>),
    /// The standard library's.
    Std(Arc<std::sync::Mutex<u64>>),
}

impl Shared {
    /// Makes the lock of an entry.
    pub(crate) fn new(lock: &Lock) -> Self {
        match lock.mutex {
            Mutex::Async => Self::Async(Arc::default()),
            Mutex::Std => Self::Std(Arc::default()),
        }
    }
}

/// Computes outside, takes the lock, computes inside, gives it back and yields, for ever.
pub(crate) async fn run(lock: Lock, shared: Shared, context: Context) -> Outcome {
    loop {
        context.cpu.burn(lock.outside);
        match &shared {
            Shared::Async(mutex) => {
                let mut count = mutex.lock().await;
                context.cpu.burn(lock.held);
                *count += 1;
            }
            Shared::Std(mutex) => {
                let mut count = mutex.lock().unwrap_or_else(PoisonError::into_inner);
                context.cpu.burn(lock.held);
                *count += 1;
            }
        }
        context.meter.add(Unit::Acquires, 1);
        yield_now().await;
    }
}
