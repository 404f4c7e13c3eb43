//! Queueing while no group is in use: a FIFO queue with stealing, and the slot for the task woken
//! last.

use std::sync::atomic::Ordering;

use crossbeam_deque::Steal;

use super::Worker;
use crate::task::Runnable;

impl Worker {
    /// Queues a task woken by this thread: into the slot, whose former task moves to the queue.
    #[inline]
    pub(super) fn wake_plain(&self, runnable: Runnable) {
        if let Some(displaced) = self.remote().slot.put(runnable) {
            self.deque.push(displaced);
            self.shared.notify_one();
        }
    }

    /// Takes the next task: yielded ones go behind those already queued; the queue that all share
    /// is tried every second time.
    #[inline]
    pub(super) fn next_plain(&self) -> Option<Runnable> {
        if let Some(yielded) = self.yielded.take() {
            if self.deque.is_empty()
                && self.remote().slot.is_empty()
                && self.shared.injector.is_empty()
            {
                return Some(yielded);
            }
            self.deque.push(yielded);
            if self.shared.idle.has_parked() {
                self.shared.notify_one();
            }
        }
        if self.is_shared_turn()
            && !self.shared.injector.is_empty()
            && let Some(runnable) = self.take_injected()
        {
            return Some(runnable);
        }
        self.next_local().or_else(|| self.next_remote())
    }

    /// The slot holds the newest of this worker's tasks, so it comes last.
    #[inline]
    fn next_local(&self) -> Option<Runnable> {
        self.deque.pop().or_else(|| self.remote().slot.take())
    }

    /// Alternates from poll to poll.
    #[inline]
    fn is_shared_turn(&self) -> bool {
        self.remote().polls.load(Ordering::Relaxed) & 1 == 1
    }

    fn take_injected(&self) -> Option<Runnable> {
        loop {
            match self.shared.injector.steal() {
                Steal::Success(runnable) => return Some(runnable),
                Steal::Empty => return None,
                Steal::Retry => std::hint::spin_loop(),
            }
        }
    }

    /// Looks for work in the shared queue, then with the other workers.
    #[cold]
    fn next_remote(&self) -> Option<Runnable> {
        if let Some(runnable) = self.take_batch() {
            return Some(runnable);
        }
        if !self.start_search() {
            return None;
        }
        self.steal().or_else(|| self.take_batch())
    }

    fn take_batch(&self) -> Option<Runnable> {
        loop {
            match self.shared.injector.steal_batch_and_pop(&self.deque) {
                Steal::Success(runnable) => return Some(runnable),
                Steal::Empty => return None,
                Steal::Retry => std::hint::spin_loop(),
            }
        }
    }

    /// Takes about half of another worker's queue; starts with the neighbour, so that thieves
    /// spread.
    pub(super) fn steal(&self) -> Option<Runnable> {
        let n = self.shared.remotes.len();
        for step in 1..n {
            let victim = &self.shared.remotes[(self.index + step) % n];
            loop {
                match victim.stealer.steal_batch_and_pop(&self.deque) {
                    Steal::Success(runnable) => return Some(runnable),
                    Steal::Empty => break,
                    Steal::Retry => std::hint::spin_loop(),
                }
            }
        }
        None
    }
}
