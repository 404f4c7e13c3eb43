//! A sequence lock over words: one writer, any number of readers, neither ever waits.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Number of times a reader tries before it gives up. A writer is inside for some ten stores, so
/// only a writer that lost its OS thread there makes a reader fail.
const TRIES: usize = 64;

/// `N` words that are read and written together.
///
/// Protocol (Boehm, "Can seqlocks get along with programming language memory models?", 2012):
/// the writer makes `seq` odd, a Release fence keeps the word stores behind it, and the final
/// Release store of `seq` keeps them before it. A reader's first Acquire load pairs with that final
/// store; its Acquire fence pairs with the writer's fence: who read a word of a newer version
/// also sees the newer `seq`, and retries.
///
/// The owner sees to it that there is one writer at a time (it holds `&mut` of the only structure
/// that writes).
#[derive(Debug)]
pub(crate) struct SeqCell<const N: usize> {
    seq: AtomicU32,
    words: [AtomicU64; N],
}

impl<const N: usize> SeqCell<N> {
    pub(crate) fn new(words: [u64; N]) -> Self {
        SeqCell {
            seq: AtomicU32::new(0),
            words: words.map(AtomicU64::new),
        }
    }

    /// Writes all words.
    #[inline]
    pub(crate) fn write(&self, words: [u64; N]) {
        let seq = self.seq.load(Ordering::Relaxed);
        self.seq.store(seq.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        for (cell, word) in self.words.iter().zip(words) {
            cell.store(word, Ordering::Relaxed);
        }
        self.seq.store(seq.wrapping_add(2), Ordering::Release);
    }

    /// Reads all words, or `None` if a writer was in between every time.
    #[inline]
    pub(crate) fn read(&self) -> Option<[u64; N]> {
        for _ in 0..TRIES {
            let before = self.seq.load(Ordering::Acquire);
            if before & 1 == 1 {
                core::hint::spin_loop();
                continue;
            }
            let words = core::array::from_fn(|i| self.words[i].load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            if self.seq.load(Ordering::Relaxed) == before {
                return Some(words);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_reader_never_sees_a_mixture() {
        let cell = SeqCell::new([0, 0, 0]);
        thread::scope(|scope| {
            scope.spawn(|| (1..20_000u64).for_each(|i| cell.write([i, 2 * i, 3 * i])));
            for _ in 0..20_000 {
                if let Some([a, b, c]) = cell.read() {
                    assert_eq!((2 * a, 3 * a), (b, c));
                }
            }
        });
        assert_eq!(cell.read(), Some([19_999, 39_998, 59_997]));
    }
}
