//! The flags of `evenkeel bench`.

use std::ops::RangeInclusive;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use evenkeel_bench::latency;
use evenkeel_bench::tick::Place;

use crate::args::EXIT_CODES;

/// The benchmarks.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// What optional parts of the scheduler cost: with their keys off, on, and compiled out
    Tick(TickArgs),
    /// One spin lock among more contenders than CPUs, with and without protected sections
    Lock(LockArgs),
    /// How long a task waits beside others in long polls, at each level of preemption and on Tokio
    Latency(LatencyArgs),
    /// One subject of `tick`, in a process of its own
    #[command(name = PROBE, hide = true)]
    Probe(ProbeArgs),
}

/// The command that runs one subject of `tick`.
pub(crate) const PROBE: &str = "internal-probe";

/// Flags that every benchmark has.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Rounds: each subject runs once in each, in an order that rotates; with fewer than 6 no
    /// difference is called significant [default: 10; tick: 30]
    #[arg(long, value_name = "N", value_parser = runs)]
    pub(crate) runs: Option<usize>,

    /// Print one JSON object instead of the tables, and nothing else on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Rounds by default.
pub(crate) const RUNS: usize = 10;

/// The flags of `evenkeel bench tick`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct TickArgs {
    /// Flags that every benchmark has.
    #[command(flatten)]
    pub(crate) common: Common,

    /// Only this loop; may be given more than once [default: all]
    #[arg(long, value_name = "PLACE", value_parser = Place::parse)]
    pub(crate) place: Vec<Place>,

    /// Only this key; may be given more than once [default: all; `evenkeel features` lists them]
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Vec<String>,

    /// Rounds of the loop in each run
    #[arg(long, value_name = "N", value_parser = iterations)]
    pub(crate) iterations: Option<u64>,

    /// Do not count instructions and branches with callgrind
    #[arg(long)]
    pub(crate) no_counts: bool,

    /// Build nothing: use this program, and leave out what needs another build
    #[arg(long)]
    pub(crate) no_builds: bool,
}

/// The arguments of the command that runs one subject.
#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    /// As the benchmark writes them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<String>,
}

/// The flags of `evenkeel bench lock`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct LockArgs {
    /// Flags that every benchmark has.
    #[command(flatten)]
    pub(crate) common: Common,

    /// Contenders for the lock [default: the number of CPUs, and one]
    #[arg(long, value_name = "N", value_parser = contenders)]
    pub(crate) threads: Option<usize>,

    /// How long a contender works while it holds the lock, in µs
    #[arg(long, value_name = "US", default_value = "20", value_parser = section)]
    pub(crate) section: Duration,

    /// How long one run of one subject lasts, in s
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    pub(crate) seconds: Duration,

    /// Only these contenders; may be given more than once [default: all]
    #[arg(long, value_name = "KIND")]
    pub(crate) mode: Vec<LockMode>,
}

/// What contends for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LockMode {
    /// OS threads, without and with the kernel's slice extension
    Threads,
    /// Tasks of a runtime that parks polls which go on too long, without and with sections
    Tasks,
}

/// The flags of `evenkeel bench latency`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct LatencyArgs {
    /// Flags that every benchmark has.
    #[command(flatten)]
    pub(crate) common: Common,

    /// Tasks that compute
    #[arg(long, value_name = "N", default_value = "4", value_parser = hogs)]
    pub(crate) hogs: usize,

    /// How long they do before they yield, in µs
    #[arg(long = "poll", value_name = "US", default_value = "5000", value_parser = poll)]
    pub(crate) poll: Duration,

    /// How long one run of one subject lasts, in s
    #[arg(long, value_name = "S", default_value = "1", value_parser = round_seconds)]
    pub(crate) seconds: Duration,

    /// Only this subject; may be given more than once [default: all]
    #[arg(long, value_name = "NAME", value_parser = latency_subject)]
    pub(crate) only: Vec<&'static str>,

    /// Instead: how 4 tasks in polls of 200 ms and 4 of 0.3 ms share the CPUs at the level park
    #[arg(long, conflicts_with_all = ["runs", "hogs", "poll", "only"])]
    pub(crate) shares: bool,
}

/// A value that is not allowed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FlagError {
    /// Not an integer in its range.
    #[error("allowed: an integer from {} to {}", .0.start(), .0.end())]
    Integer(RangeInclusive<u64>),
    /// Not a number in its range.
    #[error("allowed: a number from {} to {}", .0.start(), .0.end())]
    Number(RangeInclusive<f64>),
    /// Not one of these names.
    #[error("allowed: {}", .0.join(", "))]
    Name(Vec<&'static str>),
}

fn integer(text: &str, allowed: RangeInclusive<u64>) -> Result<u64, FlagError> {
    let number = text.parse().ok().filter(|number| allowed.contains(number));
    number.ok_or(FlagError::Integer(allowed))
}

fn number(text: &str, allowed: RangeInclusive<f64>) -> Result<f64, FlagError> {
    let number = text.parse().ok().filter(|number| allowed.contains(number));
    number.ok_or(FlagError::Number(allowed))
}

/// Reads an integer that fits into a `usize`, since `allowed` does.
fn count(text: &str, allowed: RangeInclusive<u64>) -> Result<usize, FlagError> {
    let number = integer(text, allowed.clone())?;
    usize::try_from(number).map_err(|_| FlagError::Integer(allowed))
}

fn runs(text: &str) -> Result<usize, FlagError> {
    count(text, 1..=10_000)
}

fn iterations(text: &str) -> Result<u64, FlagError> {
    integer(text, 1..=1_000_000_000)
}

fn contenders(text: &str) -> Result<usize, FlagError> {
    count(text, 2..=1_024)
}

fn section(text: &str) -> Result<Duration, FlagError> {
    Ok(Duration::from_secs_f64(number(text, 0.0..=1e6)? / 1e6))
}

fn seconds(text: &str) -> Result<Duration, FlagError> {
    Ok(Duration::from_secs_f64(number(text, 0.001..=3_600.0)?))
}

fn hogs(text: &str) -> Result<usize, FlagError> {
    count(text, 1..=10_000)
}

fn poll(text: &str) -> Result<Duration, FlagError> {
    Ok(Duration::from_secs_f64(number(text, 20.0..=6e7)? / 1e6))
}

fn round_seconds(text: &str) -> Result<Duration, FlagError> {
    Ok(Duration::from_secs_f64(number(text, 0.02..=60.0)?))
}

/// Returns the name as the experiment has it.
fn latency_subject(text: &str) -> Result<&'static str, FlagError> {
    let names = latency::Subject::ALL.map(latency::Subject::name);
    let found = names.into_iter().find(|name| *name == text);
    found.ok_or_else(|| FlagError::Name(names.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_their_range_are_refused_with_it() {
        let message = |result: Result<usize, FlagError>| result.expect_err("wrong").to_string();
        for text in ["0", "-1", "10001", "1.5", "", "x"] {
            assert_eq!(message(runs(text)), "allowed: an integer from 1 to 10000");
        }
        assert_eq!(runs("30").expect("allowed"), 30);
        let error = section("1000001").expect_err("too long");
        assert_eq!(error.to_string(), "allowed: a number from 0 to 1000000");
        for text in ["NaN", "inf", "-0.1", "20us"] {
            assert!(section(text).is_err(), "{text}");
        }
        assert_eq!(
            section("2.5").expect("allowed"),
            Duration::from_nanos(2_500)
        );
        assert_eq!(seconds("0.5").expect("allowed"), Duration::from_millis(500));
        assert!(seconds("0").is_err() && contenders("1").is_err());
    }
}
