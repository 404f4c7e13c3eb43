//! The orders that a waiting thread gets.

use super::gate::CarrierId;
use crate::sync::{AtomicU64, Bed, Ordering};

/// What a thread that waits is told to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Carry a CPU, after settling what became of the poll that ran on it.
    Carry { cpu: u16, before: Before },
    /// Go on with the poll in which it was parked, on a CPU.
    Resume { cpu: u16 },
    /// Go on with the poll in which it was parked, without a CPU.
    Release,
    /// End.
    Exit,
}

/// What became of the poll that ran on a CPU when it changed hands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Before {
    /// There was none.
    Nothing,
    /// It is parked on this thread, and its task is to be queued.
    Parked(CarrierId),
    /// It goes on beside the CPU.
    Free(CarrierId),
}

impl Order {
    /// Packs an order into a word that is not 0.
    fn pack(self) -> u64 {
        let parts =
            |kind: u64, cpu: u16, other: u16| kind | u64::from(cpu) << 16 | u64::from(other) << 32;
        match self {
            Self::Carry { cpu, before } => match before {
                Before::Nothing => parts(1, cpu, 0),
                Before::Parked(other) => parts(2, cpu, other),
                Before::Free(other) => parts(3, cpu, other),
            },
            Self::Resume { cpu } => parts(4, cpu, 0),
            Self::Release => parts(5, 0, 0),
            Self::Exit => parts(6, 0, 0),
        }
    }

    fn unpack(word: u64) -> Option<Self> {
        let (cpu, other) = ((word >> 16) as u16, (word >> 32) as u16);
        let carry = |before| Self::Carry { cpu, before };
        Some(match word & 0xffff {
            0 => return None,
            1 => carry(Before::Nothing),
            2 => carry(Before::Parked(other)),
            3 => carry(Before::Free(other)),
            4 => Self::Resume { cpu },
            5 => Self::Release,
            _ => Self::Exit,
        })
    }
}

/// Where one thread waits for an order.
///
/// Giving an order and waiting for one may happen in a signal handler.
pub(crate) struct Mailbox {
    /// The order; 0 while there is none.
    order: AtomicU64,
    bed: Bed,
}

impl Mailbox {
    pub(crate) fn new() -> Self {
        Self {
            order: AtomicU64::new(0),
            bed: Bed::new(),
        }
    }

    /// Gives an order to the thread, which waits for one or soon will. One at a time.
    pub(crate) fn command(&self, order: Order) {
        let old = self.order.swap(order.pack(), Ordering::AcqRel);
        debug_assert_eq!(old, 0, "an order was given over another one");
        self.bed.wake();
    }

    /// Waits for an order. For the thread itself.
    pub(crate) fn wait(&self) -> Order {
        loop {
            if let Some(order) = Order::unpack(self.order.swap(0, Ordering::AcqRel)) {
                return order;
            }
            self.bed.sleep();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_loses_nothing() {
        let befores = [
            Before::Nothing,
            Before::Parked(0),
            Before::Parked(u16::MAX),
            Before::Free(7),
        ];
        let carry = befores.map(|before| Order::Carry { cpu: 4095, before });
        let others = [Order::Resume { cpu: 3 }, Order::Release, Order::Exit];
        for order in carry.into_iter().chain(others) {
            assert_eq!(Order::unpack(order.pack()), Some(order));
        }
        assert_eq!(Order::unpack(0), None);
    }
}
