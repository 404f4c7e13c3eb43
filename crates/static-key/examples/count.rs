//! Counts the instructions that a branch adds. Run under Valgrind's callgrind, which counts:
//!
//! ```text
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/count none 1000
//! ```
//!
//! The forms are `none`, `site`, `flag` and `unarmed`. The difference between runs with two numbers
//! of calls, divided by the difference of the numbers, is the cost of a call; the difference of
//! that between two forms is the cost of the branch. `tests/valgrind.rs` does all this.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_static_key::{StaticKey, static_branch_unlikely};

static ARMED: StaticKey = StaticKey::new_false("armed");
static UNARMED: StaticKey = StaticKey::new_false("unarmed");
static FLAG: AtomicBool = AtomicBool::new(false);

#[cold]
#[inline(never)]
fn cold(x: u64) -> u64 {
    black_box(x) * 3
}

#[inline(never)]
fn none(x: u64) -> u64 {
    x.rotate_left(7) ^ 0x55
}

#[inline(never)]
fn site(x: u64) -> u64 {
    if static_branch_unlikely!(ARMED) {
        return cold(x);
    }
    x.rotate_left(7) ^ 0x55
}

#[inline(never)]
fn flag(x: u64) -> u64 {
    if FLAG.load(Ordering::Relaxed) {
        return cold(x);
    }
    x.rotate_left(7) ^ 0x55
}

#[inline(never)]
fn unarmed(x: u64) -> u64 {
    if static_branch_unlikely!(UNARMED) {
        return cold(x);
    }
    x.rotate_left(7) ^ 0x55
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let calls = arguments.get(2).and_then(|calls| calls.parse::<u64>().ok());
    let form: Option<fn(u64) -> u64> = match arguments.get(1).map(String::as_str) {
        Some("none") => Some(none),
        Some("site") => Some(site),
        Some("flag") => Some(flag),
        Some("unarmed") => Some(unarmed),
        _ => None,
    };
    let (Some(form), Some(calls)) = (form, calls) else {
        eprintln!("usage: count none|site|flag|unarmed CALLS");
        std::process::exit(2);
    };
    // Something that the optimiser cannot rule out writes the flag.
    FLAG.store(calls == u64::MAX, Ordering::Relaxed);
    match ARMED.arm() {
        Ok(sites) => println!("armed: {sites}"),
        Err(error) => println!("armed: 0 ({error})"),
    }
    // The optimiser must not know which function this is.
    let form = black_box(form);
    let sum = (0..calls).fold(0_u64, |sum, x| sum.wrapping_add(form(x)));
    println!("sum: {sum}");
}
