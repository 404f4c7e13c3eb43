//! The lock experiment on OS threads, without and with the kernel's time-slice extension; with the
//! feature `runtime` and `--tasks LEVEL` on tasks, without and with sections.
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
  --tasks LEVEL    tasks of the runtime instead of threads, preempted at off, handoff or park;
                   only in a build with the cargo features runtime, preempt and groups
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
    let Flags {
        config,
        tasks,
        json,
    } = parse(arguments)?;
    let subjects = match tasks {
        Some(level) => of_tasks(&level)?,
        None => of_threads(),
    };
    let subjects: Vec<&dyn Subject> = subjects.iter().map(AsRef::as_ref).collect();
    let comparison = compare(&config, &subjects)?;
    print!("{}", comparison.table());
    if json {
        println!("{}", comparison.to_json());
    }
    Ok(())
}

fn of_threads() -> Vec<Box<dyn Subject>> {
    let mut subjects: Vec<Box<dyn Subject>> = vec![Box::new(Threads::without_extension())];
    match Threads::with_extension() {
        Ok(with) => subjects.push(Box::new(with)),
        Err(error) => println!("{error}\n"),
    }
    subjects
}

#[cfg(feature = "runtime")]
fn of_tasks(level: &str) -> Result<Vec<Box<dyn Subject>>, Box<dyn std::error::Error>> {
    use evenkeel_bench::lock::{Level, Tasks};

    let level = match level {
        "off" => Level::Off,
        "handoff" => Level::Handoff,
        "park" => Level::Park,
        _ => return Err(format!("--tasks {level}: allowed: off, handoff, park").into()),
    };
    Ok(vec![
        Box::new(Tasks::plain(level)),
        Box::new(Tasks::sectioned(level)),
    ])
}

#[cfg(not(feature = "runtime"))]
fn of_tasks(_level: &str) -> Result<Vec<Box<dyn Subject>>, Box<dyn std::error::Error>> {
    Err("--tasks: this program was built without the feature runtime".into())
}

/// What was asked for.
struct Flags {
    config: Config,
    tasks: Option<String>,
    json: bool,
}

fn parse(arguments: &[String]) -> Result<Flags, Box<dyn std::error::Error>> {
    let mut flags = Flags {
        config: Config::new(),
        tasks: None,
        json: false,
    };
    let mut arguments = arguments.iter();
    while let Some(flag) = arguments.next() {
        if flag == "--json" {
            flags.json = true;
            continue;
        }
        let value = arguments.next().ok_or(format!("{flag} has no value"))?;
        if flag == "--tasks" {
            flags.tasks = Some(value.clone());
            continue;
        }
        let number: u64 = value.parse().map_err(|e| format!("{flag} {value}: {e}"))?;
        let config = flags.config;
        flags.config = match flag.as_str() {
            "--contenders" => config.with_contenders(usize::try_from(number)?),
            "--seconds" => config.with_duration(Duration::from_secs(number)),
            "--section-us" => config.with_section(Duration::from_micros(number)),
            "--outside-us" => config.with_outside(Duration::from_micros(number)),
            "--rounds" => config.with_rounds(usize::try_from(number)?),
            _ => return Err(format!("unknown flag {flag}; --help lists them").into()),
        };
    }
    Ok(flags)
}
