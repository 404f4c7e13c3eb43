//! The runtime's lock-free protocols, compiled against loom.
//!
//! The modules are those of the runtime, by path; only `sync`, the module with the primitives,
//! differs. The tests explore every interleaving, and every outcome that the memory orderings
//! allow, of a few threads.

#![forbid(unsafe_code)]
#![allow(dead_code, reason = "each model uses a part of its module")]

mod sync;

#[path = "../../crates/runtime/src/bell.rs"]
mod bell;
#[path = "../../crates/runtime/src/preempt/gate.rs"]
mod gate;
#[path = "../../crates/runtime/src/idle.rs"]
mod idle;
#[path = "../../crates/runtime/src/preempt/order.rs"]
mod order;
#[path = "../../crates/runtime/src/preempt/request.rs"]
mod request;
#[path = "../../crates/runtime/src/worker/slot.rs"]
mod slot;
#[path = "../../crates/runtime/src/preempt/spares.rs"]
mod spares;

#[cfg(test)]
mod preempt_tests;
#[cfg(test)]
mod tests;
