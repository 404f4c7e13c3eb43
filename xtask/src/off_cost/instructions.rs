//! Counts instructions with callgrind.

use std::path::Path;
use std::process::Command;

use super::{Failure, Workload};

/// Repetitions in the shorter and the longer run, whose difference is what counts.
const OPERATIONS: [u64; 2] = [20_000, 60_000];
/// The program repeats a tenth of them before, to warm up.
const WARM_UP: f64 = 1.1;
/// What a busy worker does by the clock and not by the operation: it is left out, since under
/// callgrind it is done more often, and never equally often.
const BY_THE_CLOCK: &str = "::maintain";

/// Returns the instructions that one operation takes.
pub(crate) fn per_operation(program: &Path, workload: &Workload) -> Result<f64, Failure> {
    let [shorter, longer] = OPERATIONS;
    let few = count(program, workload, shorter)?;
    let many = count(program, workload, longer)?;
    Ok(many.saturating_sub(few) as f64 / ((longer - shorter) as f64 * WARM_UP))
}

fn count(program: &Path, workload: &Workload, operations: u64) -> Result<u64, Failure> {
    let profile = program.with_extension("callgrind");
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--compress-strings=no",
            "--compress-pos=no",
        ])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(program)
        .args([workload.name, &operations.to_string()])
        .output()
        .map_err(|error| Failure::new(format!("valgrind: {error}")))?;
    if !output.status.success() {
        return Err(Failure::new(String::from_utf8_lossy(&output.stderr)));
    }
    let text = std::fs::read_to_string(&profile).map_err(Failure::new)?;
    instructions(&text).ok_or_else(|| Failure::new("callgrind wrote no counts"))
}

/// Returns the total of a profile, without [`BY_THE_CLOCK`].
fn instructions(profile: &str) -> Option<u64> {
    let total = profile.lines().find_map(|line| {
        let count = line
            .strip_prefix("summary: ")
            .or(line.strip_prefix("totals: "));
        count?.trim().parse::<u64>().ok()
    })?;
    let mut by_the_clock = 0;
    let mut is_called = false;
    let mut lines = profile.lines();
    while let Some(line) = lines.next() {
        if let Some(function) = line.strip_prefix("cfn=") {
            is_called = function.contains(BY_THE_CLOCK);
        } else if line.starts_with("calls=") {
            // The line after it has the position of the call, and what it cost in all.
            let cost = lines.next()?.split(' ').next_back()?.parse::<u64>().ok()?;
            if is_called {
                by_the_clock += cost;
            }
        }
    }
    Some(total - by_the_clock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_by_the_clock_is_left_out() {
        let profile = "events: Ir\nsummary: 1000\n\nfn=run\n10 5\ncfn=Worker::maintain\n\
                       calls=3 20\n11 70\ncfn=poll\ncalls=9 30\n12 800\n\nfn=other\n\
                       cfn=Worker::maintain\ncalls=1 20\n40 30\n";
        assert_eq!(instructions(profile), Some(900));
        assert_eq!(instructions("fn=run\n10 5\n"), None);
    }
}
