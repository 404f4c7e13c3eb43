//! Enters and leaves sections a number of times, for counting instructions: `count FORM CALLS`.
//! `tests/valgrind.rs` runs it.
#![forbid(unsafe_code)]

use std::hint::black_box;

use evenkeel_slice::{enter, enter_lock};

#[inline(never)]
fn none(value: u64) -> u64 {
    black_box(value)
}

#[inline(never)]
fn section(value: u64) -> u64 {
    let _section = enter();
    black_box(value)
}

#[inline(never)]
fn nested(value: u64) -> u64 {
    let _outer = enter_lock();
    let _inner = enter();
    black_box(value)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let form = arguments.next().unwrap_or_default();
    let calls: u64 = arguments
        .next()
        .and_then(|calls| calls.parse().ok())
        .unwrap_or(1);
    let function = match form.as_str() {
        "none" => none,
        "section" => section,
        "nested" => nested,
        other => panic!("no form {other:?}: none, section, nested"),
    };
    let sum = (0..calls).fold(0_u64, |sum, number| sum.wrapping_add(function(number)));
    println!("sum: {sum}");
}
