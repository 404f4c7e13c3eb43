//! What workers do for groups with quotas: looking whether throttled tasks may go on, and waking up
//! for that.

use std::time::Duration;

use super::Worker;
use super::park::Bed;
use crate::clock;

impl Worker {
    /// Refills if that is due, whatever the key says. For busy workers, now and then: without it a
    /// task that was throttled while the key was on would wait until some worker sleeps.
    pub(super) fn look_at_refill(&self, now_ns: u64) {
        let next_ns = self.shared.groups.next_refill();
        if next_ns.is_some_and(|at| at <= now_ns) {
            self.shared.try_refill(now_ns, None);
        }
    }

    /// Refills if that is due. For a worker that sleeps.
    pub(super) fn refill_if_due(&self) {
        let Some(at_ns) = self.shared.groups.next_refill() else {
            return;
        };
        let now_ns = clock::now_ns();
        if at_ns <= now_ns {
            self.shared.refill(now_ns);
        }
    }

    /// Returns `limit`, or the time until the next refill if that comes earlier.
    pub(super) fn until_refill(&self, limit: Duration) -> Duration {
        match self.shared.groups.next_refill() {
            None => limit,
            Some(at_ns) => limit.min(Duration::from_nanos(at_ns.saturating_sub(clock::now_ns()))),
        }
    }

    /// Sleeps once, until a refill is due if nobody else wakes up for it, and refills then.
    ///
    /// The worker in the I/O driver always does: what it waits for has a grain of a millisecond, so
    /// that somebody on a parker is earlier, where there is one.
    pub(super) fn doze_until_refill(&self, bed: &Bed<'_>) {
        let groups = &self.shared.groups;
        let Some(at_ns) = groups.next_refill() else {
            return self.doze(bed, None);
        };
        let left_ns = at_ns.saturating_sub(clock::now_ns());
        let left = Duration::from_nanos(left_ns);
        match bed {
            _ if left_ns == 0 => {}
            Bed::Driver(_) => self.doze(bed, Some(left)),
            Bed::Parker if groups.keep_time(at_ns) => {
                self.doze(bed, Some(left));
                groups.leave_time();
            }
            Bed::Parker => self.doze(bed, None),
        }
        self.refill_if_due();
    }
}
