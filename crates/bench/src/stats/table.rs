//! Text tables.

use std::fmt;

/// Rows of text; the first column is aligned to the left, and those whose cells are words, the
/// others to the right.
#[derive(Clone, Debug, Default)]
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

    /// Returns whether there is nothing but the titles.
    pub fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    /// Whether no cell of the column begins like a number or is a dash.
    fn is_words(&self, column: usize) -> bool {
        let mut cells = self.rows.iter().skip(1).filter_map(|row| row.get(column));
        cells.all(|cell| !cell.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c)))
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
        let words: Vec<bool> = (0..columns).map(|c| c == 0 || self.is_words(c)).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let gap = if column == 0 { "" } else { "  " };
                line += &if words[column] {
                    format!("{gap}{cell:<width$}")
                } else {
                    format!("{gap}{cell:>width$}")
                };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Writes a number with four digits or more, as many as it has before its point.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_what_they_hold() {
        let mut table = Table::new(["name", "time", "what"]);
        table.row(["a", "1 µs", "x"]);
        table.row(["longer", "100 µs", "long"]);
        let text = "name      time  what\na         1 µs  x\nlonger  100 µs  long\n";
        assert_eq!(table.to_string(), text);
    }

    #[test]
    fn numbers_have_four_digits() {
        let cases = [
            (0.0, "0.000"),
            (1.23456, "1.235"),
            (12.3456, "12.35"),
            (-123.456, "-123.5"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        assert_eq!(number(1_234_567.8), "1234568");
    }
}
