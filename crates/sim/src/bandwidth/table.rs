//! Many tasks on many CPUs in one capped group.

use std::time::Duration;

use evenkeel_core::{Bandwidth, Class, GroupParams};

use super::book::Book;
use super::machine::{Machine, Model};

const MS: u64 = 1_000_000;

/// Tasks per CPU.
const TASKS: usize = 8;

/// What [`large`] measured.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// CPUs of the machine.
    pub cpus: usize,
    /// Used of the quota, in percent.
    pub used_percent: f64,
    /// Most that an idle CPU held of the group's runtime, in ns.
    pub stranded_ns: u64,
    /// Calls of the refill per period.
    pub refills: f64,
    /// Switches per period.
    pub switches: f64,
}

/// Runs 8 tasks per CPU with polls of 50 to 150 µs in one group that may use 3.7 CPUs, for
/// `seconds` of virtual time after a warm-up of 1 s.
///
/// # Errors
/// A broken promise, in words.
pub fn large(cpus: usize, seconds: u64) -> Result<Row, String> {
    let mut machine = Machine::new(cpus, 1);
    machine.create_group(1, 0, GroupParams::default());
    let limit = Bandwidth::new(Duration::from_millis(370), Duration::from_millis(100));
    machine.set_bandwidth(1, limit.map_err(|error| error.to_string())?);
    for task in 0..TASKS * cpus {
        let run_ns = 50_000 + (task as u64 * 7_919) % 100_000;
        machine.spawn(
            1,
            Model {
                run_ns,
                sleep_ns: 0,
                is_preemptible: false,
                class: Class::Fair,
            },
        );
    }
    machine.run(1_000 * MS)?;
    machine.check()?;
    if let Some(book) = &mut machine.groups[1].book {
        book.restart();
    }
    machine.stranded_ns = 0;
    let (refills, switches) = (machine.refills, machine.switches);
    machine.run((1 + seconds) * 1_000 * MS)?;
    machine.check()?;
    let (used, _) = machine.groups[1].book.as_ref().map_or((0, 0), Book::count);
    let periods = (10 * seconds) as f64;
    let row = Row {
        cpus,
        used_percent: 100.0 * used as f64 / (periods * 370.0 * MS as f64),
        stranded_ns: machine.stranded_ns,
        refills: (machine.refills - refills) as f64 / periods,
        switches: (machine.switches - switches) as f64 / periods,
    };
    machine.set_bandwidth(1, Bandwidth::UNLIMITED);
    Ok(row)
}
