//! Child processes that a signal can end: what a benchmark runs in processes of their own.
//!
//! Each child leads a process group. So Ctrl-C at a terminal reaches this program alone, which then
//! decides what becomes of the child, and of the processes that the child has started.

use std::fmt;
use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::machine;

/// Starts child processes one at a time, and ends the one that runs when it is told to stop.
#[derive(Debug, Default)]
pub struct Children {
    current: Mutex<Option<Child>>,
    is_stopped: AtomicBool,
}

/// What a child process did.
#[derive(Clone, Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to standard output; bytes that are not UTF-8 are replaced.
    pub out: String,
    /// What it wrote to standard error.
    pub err: String,
}

impl fmt::Display for Ended {
    /// Writes how it ended and the last line that it had to say.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = self.err.lines().rev().find(|line| !line.trim().is_empty());
        write!(f, "{}", self.status)?;
        said.map_or(Ok(()), |line| write!(f, ": {}", line.trim()))
    }
}

impl Children {
    /// Makes one that has not been stopped.
    pub fn new() -> Self {
        Children::default()
    }

    /// Runs a command to its end, without standard input.
    ///
    /// # Errors
    /// It could not be started, or its output not be read; [`io::ErrorKind::Interrupted`] after
    /// [`stop`](Self::stop).
    pub fn run(&self, command: &mut Command) -> io::Result<Ended> {
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(command, 0);
        let mut child = {
            let mut current = self.current();
            if self.is_stopped() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let mut child = command.spawn()?;
            let pipes = (child.stdout.take(), child.stderr.take());
            *current = Some(child);
            pipes
        };
        // The child's own end, or that of its output, ends both of these.
        let err = child.1.take().map(|pipe| thread::spawn(|| read(pipe)));
        let out = child.0.take().map_or(Ok(String::new()), read);
        let err = err.map_or(Ok(String::new()), |thread| {
            thread.join().expect("reading does not panic")
        });
        let mut current = self.current();
        let status = current
            .as_mut()
            .expect("only this function takes it")
            .wait();
        *current = None;
        Ok(Ended {
            status: status?,
            out: out?,
            err: err?,
        })
    }

    /// Kills the child that runs, if one does, with the processes that it has started, and refuses
    /// to start others.
    pub fn stop(&self) {
        let mut current = self.current();
        self.is_stopped.store(true, Ordering::Relaxed);
        if let Some(child) = current.as_mut() {
            // It has not been waited for, so its number is still its own; and a child that has
            // ended by itself needs no more.
            let _ = machine::kill_group(child.id());
            let _ = child.kill();
        }
    }

    /// Returns whether [`stop`](Self::stop) was called.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    fn current(&self) -> MutexGuard<'_, Option<Child>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(mut pipe: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_and_status_come_back() {
        let children = Children::new();
        let ended = children.run(&mut shell("echo out; echo err >&2; echo >&2; exit 3"));
        let ended = ended.expect("there is a shell");
        assert_eq!(
            (ended.out.as_str(), ended.err.as_str()),
            ("out\n", "err\n\n")
        );
        assert_eq!(ended.status.code(), Some(3));
        assert_eq!(ended.to_string(), "exit status: 3: err");
        let absent = children.run(&mut Command::new("evenkeel-no-such-program"));
        assert_eq!(absent.expect_err("absent").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn stopping_ends_the_child_that_runs_and_its_children_and_refuses_more() {
        let children = Children::new();
        thread::scope(|scope| {
            // The output stays open until the grandchild has ended too.
            let running = scope.spawn(|| children.run(&mut shell("tail -f /dev/null; exit 0")));
            while children.current().is_none() {
                thread::yield_now();
            }
            children.stop();
            let ended = running.join().expect("no panic").expect("it was started");
            assert!(!ended.status.success(), "{}", ended.status);
        });
        let refused = children.run(&mut shell("true")).expect_err("stopped");
        assert_eq!(refused.kind(), io::ErrorKind::Interrupted);
    }
}
