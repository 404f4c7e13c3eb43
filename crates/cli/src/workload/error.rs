//! What is wrong with a workload file, and how it is shown.
//!
//! A [`Diagnostic`] carries a byte range of the file; rendering adds the file name, the line and
//! column (both counted from 1, the column in characters) and the text of that line.

use std::fmt::{self, Display, Write as _};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// One thing that is wrong at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Diagnostic {
    /// The bytes of the file that are wrong.
    pub(crate) span: Range<usize>,
    /// What is wrong, in one line.
    pub(crate) message: String,
    /// What is allowed, or what to do; empty when the message says it all.
    pub(crate) help: String,
}

/// A workload file that cannot be run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkloadError {
    /// The file itself cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file does not describe a workload.
    #[error("{rendered}")]
    Invalid {
        /// All diagnostics in the order of the file, and a last line that counts them.
        rendered: String,
    },
}

/// Collects diagnostics while a file is read.
#[derive(Debug, Default)]
pub(crate) struct Diagnostics {
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Adds a diagnostic.
    pub(crate) fn push(&mut self, span: Range<usize>, message: String, help: String) {
        self.list.push(Diagnostic {
            span,
            message,
            help,
        });
    }

    /// Whether nothing is wrong so far.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Makes the error out of what was collected, in the order of the file.
    pub(crate) fn into_error(mut self, path: &Path, text: &str) -> WorkloadError {
        self.list
            .sort_by_key(|diagnostic| (diagnostic.span.start, diagnostic.span.end));
        let mut rendered = String::new();
        for diagnostic in &self.list {
            let shown = Rendered {
                path,
                text,
                diagnostic,
            };
            write!(rendered, "{shown}\n\n").expect("writing to a string does not fail");
        }
        let count = match self.list.len() {
            1 => "1 error".to_owned(),
            n => format!("{n} errors"),
        };
        write!(rendered, "{count} in {}", path.display()).expect("as above");
        WorkloadError::Invalid { rendered }
    }
}

/// Shows a diagnostic with its place in the source.
struct Rendered<'a> {
    path: &'a Path,
    text: &'a str,
    diagnostic: &'a Diagnostic,
}

impl Display for Rendered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnostic {
            span,
            message,
            help,
        } = self.diagnostic;
        let place = Place::of(self.text, span);
        let margin = place.line.to_string().len();
        writeln!(f, "error: {message}")?;
        writeln!(
            f,
            "{:margin$}--> {}:{}:{}",
            "",
            self.path.display(),
            place.line,
            place.column
        )?;
        writeln!(f, "{:margin$} |", "")?;
        writeln!(f, "{} | {}", place.line, place.source)?;
        let indent = place.column - 1;
        write!(
            f,
            "{:margin$} | {:indent$}{}",
            "",
            "",
            "^".repeat(place.width)
        )?;
        if !help.is_empty() {
            write!(f, "\n{:margin$} = {help}", "")?;
        }
        Ok(())
    }
}

/// Where a byte range lies.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    /// The number of the line, from 1.
    line: usize,
    /// The first character's number in its line, from 1.
    column: usize,
    /// How many characters of that line are meant, at least 1.
    width: usize,
    /// The line, with every tab shown as one space so that the marks stand below their text.
    source: String,
}

impl Place {
    fn of(text: &str, span: &Range<usize>) -> Self {
        let start = floor_char_boundary(text, span.start);
        let end = floor_char_boundary(text, span.end).max(start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let source = text[line_start..line_end].trim_end().replace('\t', " ");
        Self {
            line: text[..line_start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            width: text[start..end.min(line_end)]
                .trim_end()
                .chars()
                .count()
                .max(1),
            source,
        }
    }
}

/// The last character boundary at or before a byte index.
fn floor_char_boundary(text: &str, index: usize) -> usize {
    let mut index = index.min(text.len());
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}

/// The candidates that differ from a misspelt word by little, the nearest first.
///
/// A candidate is near when the Damerau–Levenshtein distance is at most a third of the longer
/// word, but at least 1 is always allowed.
pub(crate) fn near_matches<'a>(word: &str, candidates: &[&'a str]) -> Vec<&'a str> {
    let mut near: Vec<(usize, &str)> = candidates
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), *candidate))
        .filter(|(distance, candidate)| {
            let longer = word.chars().count().max(candidate.chars().count());
            *distance <= (longer / 3).max(1)
        })
        .collect();
    near.sort();
    near.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Writes words as a list for a message: `` `a`, `b` or `c` ``.
pub(crate) fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        None => "nothing".to_owned(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_place(text: &str, span: Range<usize>, line: usize, column: usize, width: usize) {
        let place = Place::of(text, &span);
        assert_eq!(
            (place.line, place.column, place.width),
            (line, column, width),
            "{span:?}"
        );
    }

    #[test]
    fn places() {
        let text = "a = 1\nwide = \"µs\"\r\n\nlast";
        check_place(text, 0..1, 1, 1, 1);
        check_place(text, 13..17, 2, 8, 3);
        check_place(text, 13..19, 2, 8, 4);
        check_place(text, 6..25, 2, 1, 11);
        check_place(text, 20..20, 3, 1, 1);
        check_place(text, 21..25, 4, 1, 4);
        check_place(text, 400..500, 4, 5, 1);
        check_place("", 0..0, 1, 1, 1);
    }

    #[test]
    fn misspelt_words_find_their_neighbours() {
        let words = ["weight", "order", "class", "nice", "slice"];
        assert_eq!(near_matches("wieght", &words), ["weight"]);
        assert_eq!(near_matches("oder", &words), ["order"]);
        assert_eq!(near_matches("slice_", &words), ["slice"]);
        assert_eq!(near_matches("elephant", &words), [""; 0]);
    }

    #[test]
    fn lists_of_words() {
        assert_eq!(one_of(&["a"]), "`a`");
        assert_eq!(one_of(&["a", "b", "c"]), "`a`, `b` or `c`");
    }

    #[test]
    fn errors_are_counted_and_sorted() {
        let mut diagnostics = Diagnostics::default();
        diagnostics.push(6..7, "second".to_owned(), "allowed: x".to_owned());
        diagnostics.push(0..1, "first".to_owned(), String::new());
        let error = diagnostics.into_error(Path::new("w.toml"), "a = 1\nb = 2\n");
        let expected = "error: first\n --> w.toml:1:1\n  |\n1 | a = 1\n  | ^\n\n\
                        error: second\n --> w.toml:2:1\n  |\n2 | b = 2\n  | ^\n  = allowed: x\n\n\
                        2 errors in w.toml";
        assert_eq!(error.to_string(), expected);
    }
}
