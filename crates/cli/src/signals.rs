//! The signals that end a run or a benchmark before its time.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end the program after it has printed what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signalled {
    /// SIGINT, Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// The signals, caught.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Catches the signals from now on. Call it inside a Tokio runtime with I/O.
    ///
    /// # Errors
    ///
    /// The system refuses.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Signalled {
        tokio::select! {
            Some(()) = self.interrupt.recv() => Signalled::Interrupt,
            Some(()) = self.terminate.recv() => Signalled::Terminate,
        }
    }
}
