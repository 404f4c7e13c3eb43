//! Ends a benchmark at a signal.

use std::io;
use std::process;
use std::sync::{Arc, OnceLock};
use std::thread;

use evenkeel_bench::children::Children;

use crate::exit;
use crate::signals::{Signalled, Signals};

/// What the first signal does: child processes end, and no further run begins, so that the results
/// so far are printed. The second ends the program at once.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    children: Children,
    by: OnceLock<Signalled>,
}

impl Stop {
    /// Catches signals from now on.
    ///
    /// # Errors
    ///
    /// The system refuses signals or a thread.
    pub(crate) fn on_signal() -> io::Result<Arc<Self>> {
        let stop = Arc::new(Self::default());
        let control = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let mut signals = {
            let _context = control.enter();
            Signals::new()?
        };
        let stopped = Arc::clone(&stop);
        let listen = move || {
            control.block_on(async {
                let signal = signals.next().await;
                stopped.stop(signal);
                process::exit(i32::from(exit::code(signals.next().await)));
            });
        };
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(listen)?;
        Ok(stop)
    }

    /// Does what the first signal does.
    pub(crate) fn stop(&self, signal: Signalled) {
        // Before the child ends: whoever sees that has to know why.
        let _ = self.by.set(signal);
        self.children.stop();
    }

    /// Which signal came, if one did.
    pub(crate) fn by(&self) -> Option<Signalled> {
        self.by.get().copied()
    }

    /// Where child processes are to be started.
    pub(crate) fn children(&self) -> &Children {
        &self.children
    }
}
