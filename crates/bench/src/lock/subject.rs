//! What takes part in the experiment.

use std::sync::Arc;

use super::{Contest, Error, Lock, Tally};

/// A kind of contender: what it is, and how it asks to keep its CPU.
///
/// OS threads are one ([`Threads`](super::Threads)). A runtime's tasks are another (`Tasks`, with
/// the cargo feature `runtime`): each is one poll that calls [`Contest::contend`].
pub trait Subject {
    /// Returns what the subject is called in tables.
    fn name(&self) -> &str;

    /// Returns which lock the contenders share: plain, or one whose holder is in a section.
    fn lock(&self) -> Lock;

    /// Returns how the subject notices that a contender loses its CPU while it holds the lock.
    fn probe(&self) -> &'static str;

    /// Returns whether the subject can tell that time was given and was over before the section
    /// ended. The kernel does not tell threads.
    fn sees_expiry(&self) -> bool {
        false
    }

    /// Runs [`Contest::contenders`] contenders, each of which calls [`Contest::contend`] once,
    /// waits for all, and returns their tallies.
    ///
    /// # Errors
    ///
    /// A contender could not be started, or panicked; none is running any more.
    fn run(&self, contest: &Arc<Contest>) -> Result<Vec<Tally>, Error>;
}
