//! Writes the listing for people.

use std::io::{self, Write};

use super::keys::Patching;
use super::listing::{Features, Listing, Machine, Offer};

/// Writes everything.
///
/// # Errors
///
/// The destination cannot be written to.
pub(crate) fn write(listing: &Listing, mut to: impl Write) -> io::Result<()> {
    features(&listing.features, &mut to)?;
    writeln!(to)?;
    keys(listing, &mut to)?;
    writeln!(to)?;
    machine(&listing.machine, &mut to)?;
    to.flush()
}

fn features(features: &Features, to: &mut impl Write) -> io::Result<()> {
    let kind = if features.can_set {
        "switched with --set"
    } else {
        "constants of this build; the cargo feature `sched-debug` makes them switchable"
    };
    writeln!(to, "scheduler features ({kind})")?;
    let mut rows = vec![["feature", "state", "default", "what it does"].map(str::to_owned)];
    rows.extend(features.list.iter().map(|feature| {
        [
            feature.name,
            on(feature.is_on),
            on(feature.default),
            feature.doc,
        ]
        .map(str::to_owned)
    }));
    lines(&rows, to)
}

fn keys(listing: &Listing, to: &mut impl Write) -> io::Result<()> {
    writeln!(to, "static keys ({})", patching(&listing.patching))?;
    let titles = ["key", "built in", "state", "sites", "patched"];
    let mut rows = vec![titles.map(str::to_owned)];
    let mut words = Vec::new();
    for key in &listing.keys {
        rows.push([
            key.name.to_owned(),
            if key.is_compiled { "yes" } else { "no" }.to_owned(),
            on(key.is_on).to_owned(),
            key.sites.to_string(),
            key.patched_sites.to_string(),
        ]);
        words.push([key.name, key.guards].map(str::to_owned));
        words.push([String::new(), format!("on by: {}", key.turned_on_by)]);
    }
    lines(&rows, to)?;
    writeln!(
        to,
        "\nwhat is done only while a key is on, and who turns it on"
    )?;
    lines(&words, to)
}

fn patching(patching: &Patching) -> String {
    match (&patching.error, patching.patched_sites) {
        (None, sites) => format!("patched in running code, {sites} sites"),
        (Some(error), 0) => format!("not patched: every branch loads a flag; {error}"),
        (Some(error), sites) => format!("{sites} sites patched, not all: {error}"),
    }
}

fn machine(machine: &Machine, to: &mut impl Write) -> io::Result<()> {
    writeln!(to, "what this machine offers")?;
    let row = |what: &str, offer: &Offer| {
        let answer = if offer.is_available { "yes" } else { "no" };
        [what, answer, &offer.status].map(str::to_owned)
    };
    let rows = [
        row("slice extension", &machine.slice_extension),
        row("membarrier", &machine.membarrier),
        row("uclamp", &machine.uclamp),
    ];
    lines(&rows, to)
}

/// Writes rows with columns aligned to the left.
fn lines<const COLUMNS: usize>(rows: &[[String; COLUMNS]], to: &mut impl Write) -> io::Result<()> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row: &[String; COLUMNS]| &row[column]);
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        writeln!(to, "  {}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

fn on(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_patching(patched_sites: usize, error: Option<&str>, expected: &str) {
        let found = Patching {
            patched_sites,
            error: error.map(str::to_owned),
        };
        assert_eq!(patching(&found), expected);
    }

    #[test]
    fn what_could_not_be_patched_says_why() {
        check_patching(12, None, "patched in running code, 12 sites");
        check_patching(
            0,
            Some("refused"),
            "not patched: every branch loads a flag; refused",
        );
        check_patching(3, Some("refused"), "3 sites patched, not all: refused");
    }

    #[test]
    fn columns_are_aligned_and_lines_have_no_blanks_at_their_end() {
        let rows = [["a", "yes", "x"], ["longer", "no", ""]].map(|row| row.map(str::to_owned));
        let mut text = Vec::new();
        lines(&rows, &mut text).expect("a vector takes all");
        assert_eq!(text, b"  a       yes  x\n  longer  no\n");
    }
}
