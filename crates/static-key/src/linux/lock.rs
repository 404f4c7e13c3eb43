//! The crate's one lock. It names its holder's process, so a child forked while another thread of
//! the parent was flipping is not stuck for ever: it takes the lock over.
//!
//! Taking over is right because what the lock guards is consistent after every single store (see
//! `state.rs` and `mod.rs`), and because the child has no other threads.

use core::sync::atomic::{AtomicU32, Ordering};

use super::sys;

/// Somebody may be sleeping on the word. Process ids stay below 2^22.
const CONTENDED: u32 = 1 << 31;

/// Zero, or the process id of the holder with [`CONTENDED`] possibly set.
static WORD: AtomicU32 = AtomicU32::new(0);

/// Evidence that the lock is held. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct Held(());

/// Waits for the lock and takes it.
pub(crate) fn acquire() -> Held {
    let own = std::process::id();
    let mut mine = own;
    loop {
        let now = WORD.load(Ordering::Relaxed);
        if now & !CONTENDED != own {
            // Free, or held in the process that this one was forked from.
            let taken = WORD.compare_exchange(now, mine, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                return Held(());
            }
            continue;
        }
        let asleep = now | CONTENDED;
        let marked = WORD.compare_exchange(now, asleep, Ordering::Relaxed, Ordering::Relaxed);
        if marked.is_ok() {
            sys::futex_wait(&WORD, asleep);
            // Others may be asleep too: whoever has slept releases as if they were.
            mine = own | CONTENDED;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if WORD.swap(0, Ordering::Release) & CONTENDED != 0 {
            sys::futex_wake_one(&WORD);
        }
    }
}
