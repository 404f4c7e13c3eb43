//! Text tables with aligned columns.

use std::fmt;

/// Rows of text; the first column is aligned to the left, the others to the right.
#[derive(Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Makes a table with the given column titles.
    pub fn new<T: Into<String>>(titles: impl IntoIterator<Item = T>) -> Table {
        let mut table = Table::default();
        table.row(titles);
        table
    }

    /// Adds a row.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                match column {
                    0 => line += &format!("{cell:<width$}"),
                    _ => line += &format!("  {cell:>width$}"),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Writes a time in nanoseconds with a fitting unit and about three digits.
pub fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e4 => format!("{:.2} µs", ns / 1e3),
        ns if ns < 1e6 => format!("{:.0} µs", ns / 1e3),
        ns if ns < 1e9 => format!("{:.1} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    //! Known answers.
    use super::*;

    #[test]
    fn columns_are_aligned_by_characters() {
        let mut table = Table::new(["name", "time"]);
        table.row(["a", "1 µs"]);
        table.row(["longer", "100 µs"]);
        assert_eq!(
            table.to_string(),
            "name      time\na         1 µs\nlonger  100 µs\n"
        );
    }

    #[test]
    fn times_have_fitting_units() {
        let cases = [
            (412.4, "412 ns"),
            (1234.0, "1.23 µs"),
            (56_789.0, "57 µs"),
            (2e6, "2.0 ms"),
        ];
        for (ns, text) in cases {
            assert_eq!(time(ns), text);
        }
        assert_eq!(time(1.5e9), "1.50 s");
    }
}
