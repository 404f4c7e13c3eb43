//! Writes a report as JSON: one object, nothing else.

use std::io::{self, Write};

use super::Report;

/// Writes the report as one JSON object and a line break.
///
/// # Errors
///
/// The destination cannot be written to.
pub(crate) fn write_json(report: &Report, mut to: impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut to, report)?;
    writeln!(to)?;
    to.flush()
}
