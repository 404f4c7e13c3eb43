//! Queueing while no group is in use: a FIFO queue with stealing, and the slot for the task woken
//! last.

use std::sync::atomic::Ordering;

use crossbeam_deque::Steal;

use super::Worker;
use crate::keys;
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
    #[inline(always)]
    pub(super) fn next_plain<const WATCHED: bool>(&self) -> Option<Runnable> {
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
            && let Some(taken) = self.take_shared::<WATCHED>()
        {
            return taken;
        }
        self.next_local().or_else(|| self.next_remote::<WATCHED>())
    }

    /// Looks at the keys before a task is run that comes from another thread: whoever made it ready
    /// may have turned one on before. If so, it is left for the watched loop.
    fn admit<const WATCHED: bool>(&self, runnable: Runnable) -> Option<Runnable> {
        if !WATCHED && keys::any_on() {
            self.deque.push(runnable);
            return None;
        }
        Some(runnable)
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

    /// Takes a task from the shared queue; `Some(None)` when one is there and was not admitted.
    #[cold]
    #[inline(never)]
    fn take_shared<const WATCHED: bool>(&self) -> Option<Option<Runnable>> {
        loop {
            match self.shared.injector.steal() {
                Steal::Success(runnable) => return Some(self.admit::<WATCHED>(runnable)),
                Steal::Empty => return None,
                Steal::Retry => std::hint::spin_loop(),
            }
        }
    }

    /// Looks for work in the shared queue, then with the other workers.
    #[cold]
    #[inline(never)]
    fn next_remote<const WATCHED: bool>(&self) -> Option<Runnable> {
        if let Some(runnable) = self.take_batch() {
            return self.admit::<WATCHED>(runnable);
        }
        if !self.start_search() {
            return None;
        }
        let runnable = self.steal().or_else(|| self.take_batch())?;
        self.admit::<WATCHED>(runnable)
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
