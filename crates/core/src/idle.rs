//! The idle class: one FIFO list, served when nothing else is runnable.

use crate::fifo::FifoList;

/// Run queue of the idle class. Its tasks take turns by the base slice, without regard to group
/// weights: there is no share to divide in time that nobody else wants. (The kernel's
/// `SCHED_IDLE` is a weight of 3 in the fair class instead, which takes time from others.)
pub(crate) type IdleQueue<K> = FifoList<K>;
