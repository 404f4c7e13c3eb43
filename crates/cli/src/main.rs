//! The `evenkeel` program: runs real multi-tenant workloads under the Evenkeel scheduler.
//!
//! | module | what it does |
//! |---|---|
//! | `args` | the command line |
//! | `run` | `evenkeel run`, from the file to the results |
//! | `workload` | reads and checks workload files |
//! | `kinds` | what the tasks of a workload do |
//! | `jobs` | starts the tasks of a workload |
//! | `engine` | the only module that knows the runtime |
//! | `expected` | what share each group should have got |
//! | `report` | tables and JSON |
//! | `output`, `progress` | the output file, the progress bar |
//! | `process` | the CPU time of this process, as the operating system counts it |

#![forbid(unsafe_code)]

mod args;
mod engine;
mod expected;
mod jobs;
mod kinds;
mod output;
mod process;
mod progress;
mod report;
mod run;
mod workload;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

use args::{Cli, Command};
use run::{End, RunError, Signalled};

/// Exit codes; `--help` lists them (a test compares).
mod exit {
    pub(super) const FAILED: u8 = 1;
    pub(super) const USAGE: u8 = 2;
    pub(super) const INTERRUPTED: u8 = 130;
    pub(super) const TERMINATED: u8 = 143;
}

fn main() -> ExitCode {
    let Command::Run(args) = Cli::parse().command;
    match run::run(&args) {
        Ok(End::Completed) => ExitCode::SUCCESS,
        Ok(End::Signal(Signalled::Interrupt)) => ExitCode::from(exit::INTERRUPTED),
        Ok(End::Signal(Signalled::Terminate)) => ExitCode::from(exit::TERMINATED),
        Ok(End::Failed(ended)) => {
            complain(&format!("error: {ended}"));
            ExitCode::from(exit::FAILED)
        }
        Err(error) => {
            complain(&error.to_string());
            let code = match error {
                RunError::Workload(_) => exit::USAGE,
                RunError::Output { .. }
                | RunError::Engine(_)
                | RunError::Port(_)
                | RunError::Wait(_)
                | RunError::Print(_) => exit::FAILED,
            };
            ExitCode::from(code)
        }
    }
}

/// Writes to standard error. If that cannot be written to, the exit code still tells.
fn complain(message: &str) {
    let _ = writeln!(std::io::stderr(), "{message}");
}
