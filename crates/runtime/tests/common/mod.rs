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
