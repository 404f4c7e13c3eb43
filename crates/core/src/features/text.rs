//! Features as text.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::twin::{CAN_SET, change};
use super::{FEATURES, Feature};
use crate::error::{Error, Kind};

/// In front of the name of a feature that is off.
const OFF: &str = "NO_";

/// Names that an error lists at most.
const MAX_NEAR: usize = 3;

/// The state of all features as text; see [`state`].
#[derive(Clone, Copy, Debug)]
pub struct State(());

/// Returns the state of all features, in one line: `NAME` if it is on, `NO_NAME` if it is off, with
/// a space between them (kernel: reading `/sys/kernel/debug/sched/features`). [`set`] takes it.
pub fn state() -> State {
    State(())
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, feature) in FEATURES.iter().enumerate() {
            let space = if i == 0 { "" } else { " " };
            let prefix = if feature.is_on() { "" } else { OFF };
            write!(f, "{space}{prefix}{}", feature.name())?;
        }
        Ok(())
    }
}

/// Switches features: `NAME` on, `NO_NAME` off, any number of them with white space in between; the
/// last word about a feature counts (kernel: writing to `/sys/kernel/debug/sched/features`, which
/// takes one).
///
/// # Errors
/// In each case nothing has changed:
/// - [`Error::is_unknown_feature`]: a word names no feature. The error says which word and where,
///   and lists similar names.
/// - [`Error::is_not_compiled`]: this build has constants ([`CAN_SET`](super::CAN_SET) is false),
///   and the text asks for another value than the constant.
/// - [`Error::is_key`]: the system refused to have code changed. What was switched before is
///   switched back; a system that also refuses that, having allowed the way there, leaves it.
pub fn set(text: &str) -> Result<(), Error> {
    let wanted = parse(text)?;
    let mut changes = wanted.iter().filter(|(feature, on)| feature.is_on() != *on);
    if let Some((feature, on)) = changes.next()
        && !CAN_SET
    {
        return Err(Kind::ConstantFeature(feature.name(), !on).into());
    }
    let before: Vec<_> = wanted.iter().map(|(feature, _)| feature.is_on()).collect();
    for (i, &(feature, on)) in wanted.iter().enumerate() {
        if let Err(error) = change(feature, on) {
            for (&(feature, _), &was_on) in wanted[..i].iter().zip(&before).rev() {
                let _ = change(feature, was_on);
            }
            return Err(error);
        }
    }
    Ok(())
}

/// Returns what the text asks for, each feature once.
fn parse(text: &str) -> Result<Vec<(&'static Feature, bool)>, Error> {
    let mut wanted: Vec<(&'static Feature, bool)> = Vec::new();
    for (i, word) in text.split_whitespace().enumerate() {
        let (name, on) = match word.strip_prefix(OFF) {
            Some(name) => (name, false),
            None => (word, true),
        };
        let Some(feature) = FEATURES.iter().find(|feature| feature.name() == name) else {
            return Err(Kind::UnknownFeature {
                word: word.to_string(),
                number: i + 1,
                near: near(name),
            }
            .into());
        };
        match wanted
            .iter_mut()
            .find(|(other, _)| core::ptr::eq(*other, feature))
        {
            Some(earlier) => earlier.1 = on,
            None => wanted.push((feature, on)),
        }
    }
    Ok(wanted)
}

/// Returns the names that `given` may have been meant to be, the most similar first.
fn near(given: &str) -> Vec<&'static str> {
    let upper = given.to_uppercase().replace('-', "_");
    let name = upper.strip_prefix(OFF).unwrap_or(&upper).to_string();
    let allowed = (name.chars().count() / 3).max(2);
    let is_part = |whole: &str| name.len() >= 3 && whole.contains(name.as_str());
    let mut found: Vec<(usize, &'static str)> = FEATURES
        .iter()
        .map(|feature| (edit_distance(&name, feature.name()), feature.name()))
        .filter(|&(distance, whole)| distance <= allowed || is_part(whole))
        .collect();
    found.sort();
    found
        .into_iter()
        .take(MAX_NEAR)
        .map(|(_, name)| name)
        .collect()
}

/// Returns the least number of characters to insert, delete or replace that makes `a` to `b`
/// (Levenshtein), in time |a| × |b|.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    // Row i: the distances of the first i characters of `a` to each beginning of `b`.
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Writes the error about a word that names no feature.
pub(crate) fn write_unknown(
    f: &mut fmt::Formatter<'_>,
    word: &str,
    number: usize,
    near: &[&str],
) -> fmt::Result {
    write!(f, "word {number}, `{word}`, names no scheduler feature; ")?;
    let names: Vec<String> = match near {
        [] => {
            f.write_str("there are ")?;
            FEATURES
                .iter()
                .map(|feature| feature.name().to_string())
                .collect()
        }
        near => {
            f.write_str("similar: ")?;
            near.iter().map(|name| name.to_string()).collect()
        }
    };
    write!(f, "{} (with {OFF} in front: off)", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distances() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("abc", "abc", 0),
            ("abc", "abd", 1),
            ("abc", "ac", 1),
            ("ac", "abc", 1),
            ("kitten", "sitting", 3),
            ("ab", "ba", 2),
        ] {
            assert_eq!(edit_distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn unknown_names_are_refused_with_what_may_have_been_meant() {
        for (text, message) in [
            (
                "NEXT_BUDY",
                "word 1, `NEXT_BUDY`, names no scheduler feature; similar: NEXT_BUDDY (with NO_ ",
            ),
            (
                "NO_PLACE_LAG  no_delay_zero",
                "word 2, `no_delay_zero`, names",
            ),
            ("NO_PLACE_LAG  no_delay_zero", "similar: DELAY_ZERO ("),
            ("PARITY", "similar: RUN_TO_PARITY ("),
            ("run-to-parity", "similar: RUN_TO_PARITY ("),
            (
                "NO_",
                "`NO_`, names no scheduler feature; there are PLACE_LAG, ",
            ),
            ("NO_NO_PLACE_LAG", "similar: PLACE_LAG ("),
            ("XYZZYXYZZY", "there are PLACE_LAG, "),
        ] {
            let before = state().to_string();
            let error = set(text).expect_err(text);
            assert!(error.is_unknown_feature(), "{error}");
            assert!(error.to_string().contains(message), "{error}");
            assert_eq!(state().to_string(), before);
        }
    }

    #[test]
    fn the_last_word_about_a_feature_counts() {
        let text = "NEXT_BUDDY\tNO_PLACE_LAG\n NO_NEXT_BUDDY";
        let wanted = parse(text).expect("all are features");
        let wanted: Vec<_> = wanted
            .iter()
            .map(|(feature, on)| (feature.name(), *on))
            .collect();
        assert_eq!(wanted, [("NEXT_BUDDY", false), ("PLACE_LAG", false)]);
        assert!(parse(" \n").expect("nothing is wrong").is_empty());
    }
}
