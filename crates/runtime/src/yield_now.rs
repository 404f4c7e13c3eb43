//! Giving way once.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Lets the other ready tasks run, then goes on.
///
/// The task goes behind the tasks that are queued on its worker (in a group of fair order: it may
/// be chosen again at once when it is behind its share).
pub async fn yield_now() {
    YieldNow { has_yielded: false }.await;
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
