//! The `evenkeel` program: runs real multi-tenant workloads under the Evenkeel scheduler, and
//! experiments on it.
//!
//! | module | what it does |
//! |---|---|
//! | `args` | the command line |
//! | `run` | `evenkeel run`, from the file to the results |
//! | `features` | `evenkeel features` |
//! | `bench` | `evenkeel bench` |
//! | `workload` | reads and checks workload files |
//! | `kinds` | what the tasks of a workload do |
//! | `jobs` | starts the tasks of a workload |
//! | `engine` | the only module that knows the runtime |
//! | `expected` | what share each group should have got |
//! | `report` | tables and JSON |
//! | `output`, `progress` | the output file, the progress bar |
//! | `signals` | what ends a run or a benchmark early |
//! | `process` | the CPU time of this process, as the operating system counts it |

#![forbid(unsafe_code)]

mod args;
mod bench;
mod engine;
mod expected;
mod features;
mod jobs;
mod kinds;
mod output;
mod process;
mod progress;
mod report;
mod run;
mod signals;
mod workload;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;

use args::{Cli, Command, RunArgs};
use bench::BenchError;
use run::{End, RunError};

/// Exit codes; `--help` lists them (a test compares).
mod exit {
    use crate::signals::Signalled;

    pub(super) const FAILED: u8 = 1;
    pub(super) const USAGE: u8 = 2;
    pub(super) const INTERRUPTED: u8 = 130;
    pub(super) const TERMINATED: u8 = 143;

    /// The code after a signal.
    pub(crate) fn code(signal: Signalled) -> u8 {
        match signal {
            Signalled::Interrupt => INTERRUPTED,
            Signalled::Terminate => TERMINATED,
        }
    }
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => refuse(&error),
    };
    match cli.command {
        Command::Run(args) => run(&args),
        Command::Features(args) => match features::run(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error, error.is_usage()),
        },
        Command::Bench(bench) => match bench::run(&bench) {
            Ok(None) => ExitCode::SUCCESS,
            Ok(Some(signal)) => ExitCode::from(exit::code(signal)),
            Err(error) => match error {
                BenchError::Nothing(signal) => {
                    complain(&error.to_string());
                    ExitCode::from(exit::code(signal))
                }
                BenchError::Usage(_) => failed(&error, true),
                _ => failed(&error, false),
            },
        },
    }
}

/// Says what is wrong with the command line, or prints the help or the version that it asks for.
fn refuse(error: &clap::Error) -> ! {
    if error.kind() == ErrorKind::InvalidSubcommand {
        complain(error.to_string().trim_end());
        complain(&format!("\n{}", args::commands(std::env::args_os().nth(1))));
        std::process::exit(i32::from(exit::USAGE));
    }
    error.exit()
}

/// Runs `evenkeel run`.
fn run(args: &RunArgs) -> ExitCode {
    match run::run(args) {
        Ok(End::Completed) => ExitCode::SUCCESS,
        Ok(End::Signal(signal)) => ExitCode::from(exit::code(signal)),
        Ok(End::Failed(ended)) => {
            complain(&format!("error: {ended}"));
            ExitCode::from(exit::FAILED)
        }
        Err(error) => failed(&error, matches!(error, RunError::Workload(_))),
    }
}

/// Says why there are no results. `is_usage`: what was asked for is wrong.
fn failed(error: &dyn std::error::Error, is_usage: bool) -> ExitCode {
    complain(&error.to_string());
    ExitCode::from(if is_usage { exit::USAGE } else { exit::FAILED })
}

/// Writes to standard error. If that cannot be written to, the exit code still tells.
fn complain(message: &str) {
    let _ = writeln!(std::io::stderr(), "{message}");
}
