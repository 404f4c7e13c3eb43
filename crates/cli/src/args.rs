//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory as _, Parser, Subcommand};

use crate::bench::args::Bench;
use crate::workload::{MOST_THREADS, units};

/// The exit codes, shown by `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
    0  it went to its end
    1  it failed: a task or a benchmark ended with an error or a panic, the runtime could not
       start, or the results could not be written
    2  the command line or the workload file is wrong, a file that it names cannot be read,
       or this build cannot do what was asked for
  130  ended by Ctrl-C (SIGINT), after printing the results so far
  143  ended by SIGTERM, after printing the results so far";

/// Runs workloads and benchmarks under the Evenkeel scheduler.
#[derive(Debug, Parser)]
#[command(name = "evenkeel", version, about, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a workload file on the real runtime and prints a table, a line for each group
    Run(RunArgs),
    /// Prints scheduler features, static keys, and what the machine offers
    Features(FeaturesArgs),
    /// Runs an experiment: subjects by turns, compared with honest statistics
    #[command(subcommand, after_help = EXIT_CODES)]
    Bench(Bench),
}

/// The arguments of `evenkeel run`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct RunArgs {
    /// The workload: a TOML file (see examples/tenants.toml)
    pub(crate) file: PathBuf,

    /// Print one JSON object instead of the table, and nothing else on standard output
    #[arg(long)]
    pub(crate) json: bool,

    /// Also write the JSON object to this file; it is replaced as a whole or not at all
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// How long to measure, such as 5s; overrides the file
    #[arg(long, value_name = "TIME", value_parser = measured)]
    pub(crate) duration: Option<Duration>,

    /// How long to run before measuring, such as 500ms; overrides the file
    #[arg(long, value_name = "TIME", value_parser = warm_up)]
    pub(crate) warm_up: Option<Duration>,

    /// Worker threads; overrides the file
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<usize>,

    /// What every random draw of the workload starts from; overrides the file
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Show no progress bar, also on a terminal
    #[arg(long)]
    pub(crate) no_progress: bool,

    /// Only check the workload file and the files that it names; run nothing
    #[arg(long)]
    pub(crate) check: bool,
}

/// The arguments of `evenkeel features`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct FeaturesArgs {
    /// Switch scheduler features of this process before printing: NAME on, NO_NAME off, several
    /// with blanks between them; needs a build with the cargo feature sched-debug
    #[arg(long, value_name = "TEXT")]
    pub(crate) set: Vec<String>,

    /// Print only the kernel's form, one line of NAME and NO_NAME, as --set takes it
    #[arg(long, conflicts_with = "json")]
    pub(crate) text: bool,

    /// Print one JSON object instead of the tables, and nothing else on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Lists the commands that there are: those below the command that was `given` first, or else those
/// of the program.
pub(crate) fn commands(given: Option<OsString>) -> String {
    let program = Cli::command();
    let given = given.and_then(|name| name.into_string().ok());
    let parent = given.and_then(|name| program.find_subcommand(name));
    let names: Vec<&str> = parent
        .unwrap_or(&program)
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .map(clap::Command::get_name)
        .collect();
    format!("allowed: {}", names.join(", "))
}

/// A value of the command line that is not allowed.
#[derive(Debug, thiserror::Error)]
enum ArgError {
    /// Not a duration.
    #[error("not a duration; allowed: a number and a unit, such as 5s (units: {0})")]
    Duration(String),
    /// Too short to measure anything.
    #[error("too short; allowed: at least {0}")]
    Short(String),
    /// Too long.
    #[error("too long; allowed: at most {0}")]
    Long(String),
    /// Not a number of threads.
    #[error("allowed: an integer from 1 to {0}")]
    Threads(i64),
}

/// Reads `--duration`.
fn measured(text: &str) -> Result<Duration, ArgError> {
    let duration = warm_up(text)?;
    let shortest = crate::workload::SHORTEST_RUN;
    if duration < shortest {
        return Err(ArgError::Short(units::show_duration(shortest)));
    }
    Ok(duration)
}

/// Reads `--warm-up`.
fn warm_up(text: &str) -> Result<Duration, ArgError> {
    let duration =
        units::duration(text).ok_or_else(|| ArgError::Duration(units::duration_units()))?;
    let longest = crate::workload::LONGEST_RUN;
    if duration > longest {
        return Err(ArgError::Long(units::show_duration(longest)));
    }
    Ok(duration)
}

/// Reads `--threads`.
fn threads(text: &str) -> Result<usize, ArgError> {
    let number = text
        .parse::<i64>()
        .ok()
        .filter(|n| (1..=MOST_THREADS).contains(n));
    number
        .and_then(|n| usize::try_from(n).ok())
        .ok_or(ArgError::Threads(MOST_THREADS))
}
