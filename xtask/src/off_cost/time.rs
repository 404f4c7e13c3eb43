//! Times pairs of runs.

use std::path::Path;
use std::process::Command;

use super::build::Programs;
use super::{Failure, Workload};

/// The times of two runs that followed each other, in ns for one operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) with_ns: f64,
    pub(crate) without_ns: f64,
}

impl Pair {
    /// Returns the time with the parts over that without them.
    pub(crate) fn ratio(&self) -> f64 {
        self.with_ns / self.without_ns
    }
}

/// Which program of a pair runs first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    /// The one with the parts.
    pub(crate) is_first: bool,
}

/// Times one pair.
pub(crate) fn pair(
    programs: &Programs,
    workload: &Workload,
    order: Order,
    has_default_level: bool,
) -> Result<Pair, Failure> {
    let time = |program: &Path| time(program, workload, has_default_level);
    if order.is_first {
        let with_ns = time(&programs.with)?;
        let without_ns = time(&programs.without)?;
        return Ok(Pair {
            with_ns,
            without_ns,
        });
    }
    let without_ns = time(&programs.without)?;
    let with_ns = time(&programs.with)?;
    Ok(Pair {
        with_ns,
        without_ns,
    })
}

fn time(program: &Path, workload: &Workload, has_default_level: bool) -> Result<f64, Failure> {
    let mut command = Command::new(program);
    command.args([workload.name, &workload.timed.to_string()]);
    if has_default_level {
        command.arg("--default-level");
    }
    let output = command.output().map_err(Failure::new)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let ns: f64 = text.trim().parse().map_err(|_| {
        let errors = String::from_utf8_lossy(&output.stderr);
        Failure::new(format!("{}: {errors}", program.display()))
    })?;
    Ok(ns / workload.timed as f64)
}
