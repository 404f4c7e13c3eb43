//! `kind = "compress"`: zlib compression of files, over and over, a chunk between two yields.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::{Context, Failure, Outcome};
use crate::engine::yield_now;
use crate::kinds::meter::Unit;
use crate::workload::files::Inputs;
use crate::workload::model::Compress;

/// Compresses for ever. The meter counts bytes of input.
///
/// # Errors
///
/// A file's compressed size differs from that of the round before.
pub(crate) async fn run(compress: Compress, inputs: Inputs, mut context: Context) -> Outcome {
    let mut sizes: Vec<Option<u64>> = vec![None; inputs.len()];
    let mut at = context.rng.index(inputs.len());
    loop {
        let level = Compression::new(compress.level);
        let mut encoder = ZlibEncoder::new(Counter::default(), level);
        for chunk in inputs[at].chunks(compress.chunk) {
            encoder.write_all(chunk).map_err(Failure::io("compress"))?;
            context.meter.add(Unit::Bytes, chunk.len() as u64);
            yield_now().await;
        }
        let size = encoder.finish().map_err(Failure::io("compress"))?.bytes;
        if sizes[at].replace(size).is_some_and(|before| before != size) {
            return Err(Failure::Mismatch);
        }
        at = (at + 1) % inputs.len();
    }
}

/// Takes the compressed bytes and keeps their number.
#[derive(Default)]
struct Counter {
    bytes: u64,
}

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
