//! The latency experiment: a task that is woken 1,000 times a second beside tasks that compute in
//! long polls, and with `--shares` how tasks of long and of short polls share the CPUs.
//!
//! A small program for places where the program `evenkeel` does not fit; `--help` lists the flags.
//! Prints a table, and with `--json` one more line with the same as JSON. Exit status: 0 when it
//! ran, 2 when a flag was not understood or the experiment could not be run.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use evenkeel_bench::latency::{Config, SharesConfig, Subject, compare, shares};

const HELP: &str = "\
Usage: latency [FLAGS]

  --hogs N         tasks that compute [default: 4]
  --poll-us US     how long they do before they yield [default: 5000]
  --seconds S      length of one round [default: 5]
  --rounds N       rounds of each subject, by turns [default: 1]
  --only NAME      one subject instead of all: off, lazy, handoff, park, tokio
  --shares         4 tasks in polls of 200 ms beside 4 of 0.3 ms at the level park instead;
                   of the flags above only --seconds counts
  --json           print one more line, with everything as JSON
  --help           print this
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("latency: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let flags = parse(arguments)?;
    let (table, json) = if flags.is_shares {
        let config = SharesConfig {
            duration: flags.config.duration(),
            ..SharesConfig::new()
        };
        let shares = shares(&config)?;
        (shares.table(), shares.to_json())
    } else {
        let comparison = compare(&flags.config, &flags.subjects)?;
        (comparison.table(), comparison.to_json())
    };
    print!("{table}");
    if flags.is_json {
        println!("{json}");
    }
    Ok(())
}

/// What was asked for.
struct Flags {
    config: Config,
    subjects: Vec<Subject>,
    is_shares: bool,
    is_json: bool,
}

fn parse(arguments: &[String]) -> Result<Flags, Box<dyn std::error::Error>> {
    let mut flags = Flags {
        config: Config::new(),
        subjects: Subject::ALL.to_vec(),
        is_shares: false,
        is_json: false,
    };
    let mut arguments = arguments.iter();
    while let Some(flag) = arguments.next() {
        match flag.as_str() {
            "--json" => flags.is_json = true,
            "--shares" => flags.is_shares = true,
            _ => {
                let value = arguments.next().ok_or(format!("{flag} has no value"))?;
                set(&mut flags, flag, value)?;
            }
        }
    }
    Ok(flags)
}

fn set(flags: &mut Flags, flag: &str, value: &str) -> Result<(), Box<dyn std::error::Error>> {
    if flag == "--only" {
        let subject = Subject::ALL.into_iter().find(|one| one.name() == value);
        let subject = subject.ok_or(format!("--only {value}: --help lists what there is"))?;
        flags.subjects = vec![subject];
        return Ok(());
    }
    let number: u64 = value.parse().map_err(|e| format!("{flag} {value}: {e}"))?;
    let config = flags.config;
    flags.config = match flag {
        "--hogs" => config.with_hogs(usize::try_from(number)?),
        "--poll-us" => config.with_poll(Duration::from_micros(number)),
        "--seconds" => config.with_duration(Duration::from_secs(number)),
        "--rounds" => config.with_rounds(usize::try_from(number)?),
        _ => return Err(format!("unknown flag {flag}; --help lists them").into()),
    };
    Ok(())
}
