//! Standard output that goes nowhere for a while.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;

/// While it lives, what is printed goes to `/dev/null`.
pub(crate) struct Silenced {
    kept: OwnedFd,
}

impl Silenced {
    pub(crate) fn new() -> io::Result<Silenced> {
        io::stdout().flush()?;
        let kept = rustix::io::dup(rustix::stdio::stdout())?;
        let nowhere = OpenOptions::new().write(true).open("/dev/null")?;
        rustix::stdio::dup2_stdout(nowhere)?;
        Ok(Silenced { kept })
    }
}

impl Drop for Silenced {
    fn drop(&mut self) {
        // What is left in the buffer belongs to what was silenced.
        let _ = io::stdout().flush();
        let _ = rustix::stdio::dup2_stdout(&self.kept);
    }
}
