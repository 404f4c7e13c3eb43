//! Giving way once.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::{context, preempt};

/// Lets the other ready tasks run, then goes on.
///
/// The task goes behind the tasks that are queued on its worker (in a group of fair order: it may
/// be chosen again at once when it is behind its share).
pub async fn yield_now() {
    YieldNow { has_yielded: false }.await;
}

/// Returns whether the task that calls this should make room: it has used up its slice, and another
/// one waits. Never outside of a task, nor at [`Level::Off`](crate::Level::Off).
///
/// It costs a few loads; a computation may ask every microsecond.
#[must_use]
pub fn need_resched() -> bool {
    preempt::is_on() && context::need_resched()
}

/// Yields if [`need_resched`], otherwise goes on at once.
pub async fn yield_if_needed() {
    if need_resched() {
        yield_now().await;
    }
}

struct YieldNow {
    has_yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
