//! Counting instructions and branches with Valgrind's callgrind.

use std::ffi::OsString;
use std::process::Command;

use super::Error;
use super::probe::Probe;
use crate::children::Children;

/// Returns why nothing can be counted; `None` if Valgrind is there.
pub(super) fn missing(children: &Children) -> Option<String> {
    match children.run(Command::new("valgrind").arg("--version")) {
        Ok(ended) if ended.status.success() => None,
        Ok(ended) => Some(format!("valgrind does not work: {ended}")),
        Err(error) => Some(format!("valgrind: {error}")),
    }
}

/// Counts a probe's loop: runs it with a few and with many iterations, and divides the difference,
/// so that start-up and end cancel. Returns instructions and branches of one round. Branches are
/// conditional and indirect ones, taken or not; a patched one is neither: it does not branch.
///
/// # Errors
/// Valgrind or the program in it fails.
pub(super) fn count(
    program: &[OsString],
    probe: &Probe,
    children: &Children,
) -> Result<[f64; 2], Error> {
    const FEW: u64 = 1_000;
    const MANY: u64 = 11_000;
    let run = |iterations| {
        let probe = Probe {
            iterations,
            lead_in: 100,
            ..probe.clone()
        };
        totals(program, &probe, children)
    };
    let (few, many) = (run(FEW)?, run(MANY)?);
    let rounds = (MANY - FEW) as f64;
    Ok([(many[0] - few[0]) / rounds, (many[1] - few[1]) / rounds])
}

/// Returns the instructions and branches of a whole process.
fn totals(program: &[OsString], probe: &Probe, children: &Children) -> Result<[f64; 2], Error> {
    let mut command = Command::new("valgrind");
    command.args([
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        "--branch-sim=yes",
    ]);
    command.args(program).args(probe.arguments());
    let ended = children.run(&mut command);
    let ended = ended.map_err(|error| Error::start("valgrind", error))?;
    if !ended.status.success() {
        return Err(Error::program("valgrind", ended));
    }
    parse(&ended.err).ok_or_else(|| Error::program("valgrind", "it printed no counts"))
}

/// Finds instructions (`Ir`), conditional and indirect branches (`Bc`, `Bi`) in what callgrind
/// prints at its end.
fn parse(text: &str) -> Option<[f64; 2]> {
    let after = |title: &str| {
        let line = text.lines().find_map(|line| line.split_once(title));
        line.map(|(_, rest)| rest.trim_start_matches([' ', ':']).split_whitespace())
    };
    let mut counts = after("Events ")?.zip(after("Collected ")?);
    let mut found = [None; 3];
    for (event, count) in &mut counts {
        if let Some(place) = ["Ir", "Bc", "Bi"].iter().position(|name| *name == event) {
            found[place] = count.parse::<f64>().ok();
        }
    }
    let [instructions, conditional, indirect] = found;
    Some([instructions?, conditional? + indirect?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_by_the_names_of_their_events() {
        let text = "==1== \n==1== Events    : Ir Bc Bcm Bi Bim\n\
                    ==1== Collected : 1000 200 20 30 3\n==1== \n";
        assert_eq!(parse(text), Some([1000.0, 230.0]));
        for text in [
            "",
            "==1== Events    : Ir\n==1== Collected : 5\n",
            "==1== Collected : 5\n",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
