//! One subject of the tick experiment, in a process of its own.
//!
//! `evenkeel bench tick` builds this with parts of the scheduler compiled in and out, and runs it;
//! see the module `tick` of this crate for the arguments.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match evenkeel_bench::tick::probe(&arguments) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("tick: {error}");
            ExitCode::from(if error.is_usage() { 2 } else { 1 })
        }
    }
}
