//! Repository chores, run as `cargo xtask COMMAND`.
#![forbid(unsafe_code)]

mod kernel_test;
mod off_cost;
mod report;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Repository chores of Evenkeel.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check the house rules that neither rustfmt nor clippy knows.
    ///
    /// Prints one `file:line: message [check]` for each violation. Exit status: 0 when there is
    /// none, 1 when there is at least one, 2 when the files could not be read.
    Tidy {
        /// List the checks and what each demands, and check nothing.
        #[arg(long)]
        list: bool,
    },
    /// Check that standard input is one report of `evenkeel run --json` and nothing else.
    ///
    /// Exit status: 0 when it is, 1 when something is missing or impossible.
    CheckReport,
    /// Run tests and the lock experiment under the Linux kernel with the time-slice extension.
    ///
    /// Builds that kernel where the cache does not have it, which takes ten minutes or more, and
    /// boots it under emulation. Exit status: 0 when everything passed, 1 when something failed, 2
    /// when this machine lacks something that the steps need.
    KernelTest(kernel_test::Options),
    /// Compare the runtime with its optional parts compiled in and off to one without them.
    ///
    /// Counts instructions with callgrind, then times pairs of runs; leave the machine alone
    /// meanwhile. Exit status: 0 when the instructions stay within the limit, 1 when not, 2 when
    /// something could not be built or run.
    OffCost(off_cost::Options),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Tidy { list: true } => {
            print!("{}", tidy::list());
            ExitCode::SUCCESS
        }
        Command::Tidy { list: false } => run_tidy(),
        Command::CheckReport => check_report(),
        Command::KernelTest(options) => kernel_test::run(&options),
        Command::OffCost(options) => off_cost::run(&options),
    }
}

fn run_tidy() -> ExitCode {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let repo = match tidy::Repo::load(&root) {
        Ok(repo) => repo,
        Err(error) => {
            eprintln!("tidy: {error}");
            return ExitCode::from(2);
        }
    };
    let findings = tidy::run(&repo);
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: {} files, no violation", repo.files().len());
        ExitCode::SUCCESS
    } else {
        eprintln!("tidy: {} violations", findings.len());
        ExitCode::FAILURE
    }
}

fn check_report() -> ExitCode {
    let text = match std::io::read_to_string(std::io::stdin()) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("check-report: {error}");
            return ExitCode::from(2);
        }
    };
    let faults = report::faults(&text);
    for fault in &faults {
        eprintln!("check-report: {fault}");
    }
    if faults.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
