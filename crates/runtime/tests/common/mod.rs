//! What several integration tests need.

#![allow(dead_code, reason = "each test program uses a part of this")]

use std::sync::Once;

use evenkeel::{Builder, Io, Runtime};

/// Builds a runtime in each mode that changes how tasks are queued or woken: plain queues, groups
/// in use, I/O on a thread of its own.
pub(crate) fn runtimes(workers: usize) -> impl Iterator<Item = Runtime> {
    let build = move |io| {
        Builder::new()
            .worker_threads(workers)
            .io(io)
            .build()
            .unwrap()
    };
    let grouped = build(Io::Shared);
    grouped.handle().root().child("other").build().unwrap();
    [build(Io::Shared), grouped, build(Io::Dedicated)].into_iter()
}

/// A value whose destructor panics, except while a panic unwinds already.
pub(crate) struct PanicOnDrop;

impl Drop for PanicOnDrop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("dropped");
        }
    }
}

/// Keeps panics that tests cause on purpose out of the output: those whose message is one of these,
/// or no text.
pub(crate) fn quiet_panics() {
    const EXPECTED: [&str; 4] = ["dropped", "bad waker", "outer", "boom"];
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| match info.payload_as_str() {
            None => {}
            Some(message) if EXPECTED.contains(&message) => {}
            Some(_) => default(info),
        }));
    });
}

/// Random numbers that a seed decides (SplitMix64).
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Draws a number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}
