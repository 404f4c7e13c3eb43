//! The kinds of tasks that a workload is made of. Each is an ordinary future doing real work.
//!
//! | module | kind |
//! |---|---|
//! | `hash` | SHA-256 over files |
//! | `compress` | zlib compression of files |
//! | `http` | a hyper server and the load on it |
//! | `tick` | a heartbeat |
//! | `spin` | calibrated CPU work |
//! | `lock` | contention for one lock |
//! | `cpu` | calibration of CPU work, used by several kinds |
//! | `meter` | what tasks report: work done, latencies, late heartbeats |
//! | `rng` | the random numbers of a task, from the workload's seed |
//!
//! A body runs until it is aborted, and returns only with an error. It knows nothing of groups: it
//! is spawned into one, and what it spawns itself inherits that group.

pub(crate) mod compress;
pub(crate) mod cpu;
pub(crate) mod hash;
pub(crate) mod http;
pub(crate) mod lock;
pub(crate) mod meter;
pub(crate) mod rng;
pub(crate) mod spin;
pub(crate) mod tick;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use cpu::Cpu;
use meter::Meter;
use rng::Rng;

/// What every body is given.
#[derive(Clone)]
pub(crate) struct Context {
    /// Where the body reports its work.
    pub(crate) meter: Arc<Meter>,
    /// Its own random numbers.
    pub(crate) rng: Rng,
    /// Calibrated CPU work.
    pub(crate) cpu: Cpu,
}

/// How a body ends: never well.
pub(crate) type Outcome = Result<Infallible, Failure>;

/// Why a body could not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// An HTTP exchange failed.
    #[error("the HTTP connection broke: {0}")]
    Http(#[from] hyper::Error),
    /// The server answered with something else than it should.
    #[error("the HTTP server answered with status {status} and {bytes} bytes")]
    Answer {
        /// The status.
        status: hyper::StatusCode,
        /// The size of the body.
        bytes: usize,
    },
    /// A file gave another result than before.
    #[error("the same bytes gave a different result the second time")]
    Mismatch,
}

impl Failure {
    /// Makes a function that wraps an I/O error with what was tried.
    fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}
