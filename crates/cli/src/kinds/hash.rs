//! `kind = "hash"`: SHA-256 over files, over and over, a chunk between two yields.

use sha2::{Digest as _, Sha256};

use super::{Context, Failure, Outcome};
use crate::engine::yield_now;
use crate::kinds::meter::Unit;
use crate::workload::files::Inputs;
use crate::workload::model::Hash;

/// Hashes for ever.
///
/// # Errors
///
/// A file's digest differs from that of the round before.
pub(crate) async fn run(hash: Hash, inputs: Inputs, mut context: Context) -> Outcome {
    let mut digests: Vec<Option<[u8; 32]>> = vec![None; inputs.len()];
    let mut at = context.rng.index(inputs.len());
    loop {
        let mut hasher = Sha256::new();
        for chunk in inputs[at].chunks(hash.chunk) {
            hasher.update(chunk);
            context.meter.add(Unit::Bytes, chunk.len() as u64);
            yield_now().await;
        }
        let digest = hasher.finalize().into();
        if digests[at]
            .replace(digest)
            .is_some_and(|before| before != digest)
        {
            return Err(Failure::Mismatch);
        }
        at = (at + 1) % inputs.len();
    }
}
