//! OS threads under the kernel's scheduler.

use std::sync::Arc;
use std::thread;

use evenkeel_slice::kernel::{self, Status};

use super::contest::{Contender, Contest, Exit, Grant, Tally};
use super::probe::Probe;
use super::{Error, Lock, Subject};

/// OS threads, with or without the kernel's time-slice extension.
///
/// Threads of both kinds register the same rseq area and have the extension switched on, where the
/// kernel has it; those without never request it. So all that differs is the request.
#[derive(Debug)]
pub struct Threads {
    requests: bool,
    status: Status,
    method: &'static str,
}

impl Threads {
    /// Returns threads that request nothing.
    ///
    /// Switches the extension on for this process, where the kernel has it: see
    /// [`kernel::Options::replace_registration`].
    pub fn without_extension() -> Threads {
        Threads::new(false)
    }

    /// Returns threads that request an extension of their slice for each section.
    ///
    /// # Errors
    ///
    /// The kernel does not extend slices here; the error says why.
    pub fn with_extension() -> Result<Threads, Error> {
        let threads = Threads::new(true);
        if threads.status.is_enabled() {
            Ok(threads)
        } else {
            Err(Error::no_extension(threads.status))
        }
    }

    fn new(requests: bool) -> Threads {
        let status = kernel::Options::new().replace_registration(true).enable();
        Threads {
            requests,
            status,
            method: Probe::of_this_thread().method(),
        }
    }
}

impl Subject for Threads {
    fn name(&self) -> &str {
        if self.requests {
            "with extension"
        } else {
            "without extension"
        }
    }

    fn lock(&self) -> Lock {
        if self.requests {
            Lock::Sectioned
        } else {
            Lock::Plain
        }
    }

    fn probe(&self) -> &'static str {
        self.method
    }

    fn run(&self, contest: &Arc<Contest>) -> Result<Vec<Tally>, Error> {
        let threads: Vec<_> = (0..contest.contenders())
            .map(|_| {
                let contest = Arc::clone(contest);
                thread::Builder::new()
                    .name("contender".to_owned())
                    .spawn(move || contest.contend(&mut ThreadContender::new()))
            })
            .collect();
        // All that could be started are waited for, whatever became of the others.
        let ended: Vec<_> = threads
            .into_iter()
            .map(|thread| thread.map(thread::JoinHandle::join))
            .collect();
        ended
            .into_iter()
            .map(|ended| match ended {
                Ok(Ok(tally)) => Ok(tally),
                Ok(Err(_)) => Err(Error::panicked()),
                Err(error) => Err(Error::spawn(error)),
            })
            .collect()
    }
}

/// One thread's dealings with the kernel.
struct ThreadContender {
    grants: usize,
    probe: Probe,
}

impl ThreadContender {
    /// Prepares the calling thread, so that no section later has to.
    fn new() -> ThreadContender {
        kernel::enable_thread();
        ThreadContender {
            grants: kernel::grants(),
            probe: Probe::of_this_thread(),
        }
    }
}

impl Contender for ThreadContender {
    fn enter(&mut self) {
        self.probe.enter();
    }

    fn acquired(&mut self) {
        self.probe.arm();
    }

    fn releasing(&mut self) {
        self.probe.disarm();
    }

    fn exit(&mut self) -> Exit {
        let grants = kernel::grants();
        let was_granted = grants != std::mem::replace(&mut self.grants, grants);
        Exit {
            is_preempted: self.probe.exit(),
            grant: if was_granted {
                Grant::Yielded
            } else {
                Grant::None
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::lock::{Config, compare};

    #[test]
    fn threads_contend_for_one_lock() {
        let config = Config::new()
            .with_contenders(3)
            .with_duration(Duration::from_millis(20))
            .with_section(Duration::from_micros(5))
            .with_rounds(2);
        let comparison = compare(&config, &[&Threads::without_extension()]).unwrap();
        let outcome = &comparison.outcomes()[0];
        assert_eq!(outcome.rounds().len(), 2);
        assert!(outcome.acquisitions() > 0);
        assert_eq!(outcome.per_round(|round| round.yielded).total, 0.0);
        // Threads do not see that, so the table has no row for it.
        assert_eq!(outcome.expired(), None);
        assert!(!comparison.table().contains("over too early"));
    }

    #[test]
    fn where_the_kernel_has_no_extension_the_reason_is_told() {
        match Threads::with_extension() {
            Ok(threads) => assert!(threads.status.is_enabled()),
            Err(error) => {
                assert!(error.is_no_extension());
                assert!(error.to_string().contains("extension"), "{error}");
            }
        }
    }
}
