//! The lock experiment on OS threads, without and with the kernel's time-slice extension.
//!
//! A small program for places where the program `evenkeel` does not fit; `--help` lists the flags.
//! Prints a table, and with `--json` one more line with the same as JSON. Exit status: 0 when it
//! ran, 2 when a flag was not understood or the experiment could not be run.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use evenkeel_bench::lock::{Config, Subject, Threads, compare};

const HELP: &str = "\
Usage: lock [FLAGS]

  --contenders N   threads that share the lock [default: the number of CPUs, and one]
  --seconds S      length of one round [default: 5]
  --section-us US  work inside the lock [default: 20]
  --outside-us US  work outside the lock [default: 0]
  --rounds N       rounds without and with the extension, by turns [default: 1]
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
            eprintln!("lock: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let (config, json) = parse(arguments)?;
    let without = Threads::without_extension();
    let with = Threads::with_extension();
    let mut subjects: Vec<&dyn Subject> = vec![&without];
    match &with {
        Ok(with) => subjects.push(with),
        Err(error) => println!("{error}\n"),
    }
    let comparison = compare(&config, &subjects)?;
    print!("{}", comparison.table());
    if json {
        println!("{}", comparison.to_json());
    }
    Ok(())
}

fn parse(arguments: &[String]) -> Result<(Config, bool), Box<dyn std::error::Error>> {
    let mut config = Config::new();
    let mut json = false;
    let mut arguments = arguments.iter();
    while let Some(flag) = arguments.next() {
        if flag == "--json" {
            json = true;
            continue;
        }
        let value = arguments.next().ok_or(format!("{flag} has no value"))?;
        let number: u64 = value.parse().map_err(|e| format!("{flag} {value}: {e}"))?;
        config = match flag.as_str() {
            "--contenders" => config.with_contenders(usize::try_from(number)?),
            "--seconds" => config.with_duration(Duration::from_secs(number)),
            "--section-us" => config.with_section(Duration::from_micros(number)),
            "--outside-us" => config.with_outside(Duration::from_micros(number)),
            "--rounds" => config.with_rounds(usize::try_from(number)?),
            _ => return Err(format!("unknown flag {flag}; --help lists them").into()),
        };
    }
    Ok((config, json))
}
