//! Numbers beside a constant's name in comments and documents.
//!
//! Where a text says `` `NR_POLLS` (61) ``, `` `NR_POLLS` = 61 ``, `` `NR_POLLS` is 61 `` or
//! `` `NR_POLLS`: 61 `` and the workspace defines exactly one value for that name, the two must
//! agree. With a unit of time the constant's suffix (`_NS`, `_US`, `_USEC`, `_MS`, `_SEC`) or its
//! type `Duration` decides.

use std::collections::HashMap;

use super::{File, Repo, Report};

/// What may stand between a constant's name and its number, shortest last.
const JOINTS: &[&str] = &[
    " (default ",
    " defaults to ",
    " is ",
    " of ",
    " = ",
    " (",
    ": ",
    "=",
];

/// Units of time and their length in nanoseconds.
const UNITS: &[(&str, i128)] = &[
    ("ns", 1),
    ("µs", 1_000),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];

/// Suffixes of constants that hold a time, and their unit in nanoseconds.
const SUFFIXES: &[(&str, i128)] = &[
    ("_NS", 1),
    ("_US", 1_000),
    ("_USEC", 1_000),
    ("_MS", 1_000_000),
    ("_SEC", 1_000_000_000),
];

/// The value of a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Plain(i128),
    /// A `Duration`, in nanoseconds.
    Time(i128),
}

/// Finds numbers that differ from the constant they stand beside.
pub(crate) fn doc_numbers(repo: &Repo, report: &mut Report) {
    let constants = constants(repo);
    for file in repo
        .files()
        .iter()
        .filter(|f| f.path.ends_with(".md") || f.path.ends_with(".rs"))
    {
        for (number, line) in file.lines() {
            for (name, stated, unit) in mentions(prose(file, line)) {
                let Some(&value) = constants.get(name) else {
                    continue;
                };
                if let Some(actual) = contradiction(name, value, stated, unit) {
                    let message = format!("`{name}` is {actual}, not {stated}{unit}");
                    report.add(&file.path, number, message);
                }
            }
        }
    }
}

/// Returns what is prose in the line: all of Markdown, comments in Rust.
fn prose<'a>(file: &File, line: &'a str) -> &'a str {
    if file.path.ends_with(".md") {
        line
    } else {
        line.find("//").map_or("", |at| &line[at..])
    }
}

/// Returns the constants whose value is a plain expression and the same wherever it is defined.
fn constants(repo: &Repo) -> HashMap<&str, Value> {
    let mut found: HashMap<&str, Option<Value>> = HashMap::new();
    for (name, expr) in repo
        .files()
        .iter()
        .filter_map(File::facts)
        .flat_map(|f| &f.constants)
    {
        let value = evaluate(expr);
        let entry = found.entry(name).or_insert(value);
        if *entry != value {
            *entry = None;
        }
    }
    found
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

fn evaluate(expr: &syn::Expr) -> Option<Value> {
    match expr {
        syn::Expr::Call(call) => duration(call),
        _ => integer(expr).map(Value::Plain),
    }
}

/// Evaluates `Duration::from_millis(5)` and the like.
fn duration(call: &syn::ExprCall) -> Option<Value> {
    let syn::Expr::Path(path) = &*call.func else {
        return None;
    };
    let unit = match path.path.segments.last()?.ident.to_string().as_str() {
        "from_secs" => 1_000_000_000,
        "from_millis" => 1_000_000,
        "from_micros" => 1_000,
        "from_nanos" => 1,
        _ => return None,
    };
    Some(Value::Time(integer(call.args.first()?)? * unit))
}

/// Evaluates literals and their sums, products, shifts and negations.
fn integer(expr: &syn::Expr) -> Option<i128> {
    match expr {
        syn::Expr::Lit(lit) => match &lit.lit {
            syn::Lit::Int(int) => int.base10_parse().ok(),
            _ => None,
        },
        syn::Expr::Paren(inner) => integer(&inner.expr),
        syn::Expr::Cast(cast) => integer(&cast.expr),
        syn::Expr::Unary(syn::ExprUnary {
            op: syn::UnOp::Neg(_),
            expr,
            ..
        }) => integer(expr).map(|value| -value),
        syn::Expr::Binary(binary) => {
            let (left, right) = (integer(&binary.left)?, integer(&binary.right)?);
            match binary.op {
                syn::BinOp::Add(_) => left.checked_add(right),
                syn::BinOp::Sub(_) => left.checked_sub(right),
                syn::BinOp::Mul(_) => left.checked_mul(right),
                syn::BinOp::Div(_) => left.checked_div(right),
                syn::BinOp::Shl(_) => left.checked_shl(right.try_into().ok()?),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Returns each constant's name in backquotes that is followed by a number, with the unit's text.
fn mentions(line: &str) -> Vec<(&str, i128, &str)> {
    let mut found = Vec::new();
    let parts: Vec<&str> = line.split('`').collect();
    for pair in parts.windows(2).skip(1).step_by(2) {
        let name = pair[0].rsplit("::").next().unwrap_or(pair[0]);
        let is_constant = !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        let after = JOINTS.iter().find_map(|joint| pair[1].strip_prefix(joint));
        if let Some((number, unit)) = after.filter(|_| is_constant).and_then(leading_number) {
            found.push((name, number, unit));
        }
    }
    found
}

/// Splits `1,000 µs …` into 1000 and `µs`. A decimal fraction, a range, a power or a percentage is
/// no integer: `None`.
fn leading_number(text: &str) -> Option<(i128, &str)> {
    let is_digit = |c: char| c.is_ascii_digit() || c == '_' || c == ',';
    let end = text.find(|c| !is_digit(c)).unwrap_or(text.len());
    let digits = text[..end].trim_end_matches(',');
    let rest = &text[digits.len()..];
    let is_longer = rest
        .strip_prefix('.')
        .is_some_and(|r| r.starts_with(|c: char| c.is_ascii_digit()));
    if is_longer || rest.starts_with(['–', '-', '^', '×', '*', '%', '/']) {
        return None;
    }
    let number = digits.replace(['_', ','], "").parse().ok()?;
    let word = rest.trim_start_matches([' ', '\u{a0}']);
    let end = word
        .find(|c: char| !c.is_alphanumeric())
        .unwrap_or(word.len());
    let unit = &word[..end];
    Some((
        number,
        if UNITS.iter().any(|(name, _)| *name == unit) {
            unit
        } else {
            ""
        },
    ))
}

/// Returns the constant's real value when the text contradicts it.
fn contradiction(name: &str, value: Value, stated: i128, unit: &str) -> Option<String> {
    let scale = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, scale)| *scale);
    let suffix = SUFFIXES
        .iter()
        .find(|(suffix, _)| name.ends_with(suffix))
        .map(|(_, s)| *s);
    let agrees = match (value, scale, suffix) {
        (Value::Plain(value), None, _) => value == stated,
        (Value::Plain(value), Some(scale), Some(suffix)) => value * suffix == stated * scale,
        (Value::Time(value), Some(scale), _) => value == stated * scale,
        // A time without a unit, or a unit on a constant that does not say its own.
        _ => true,
    };
    let actual = match value {
        Value::Plain(value) => value.to_string(),
        Value::Time(value) => format!("{value} ns"),
    };
    (!agrees).then_some(actual)
}

#[cfg(test)]
mod tests {
    //! Texts that agree with the constants, and texts that do not.
    use crate::tidy::testing::found;

    const CODE: &str = "//! Code.\n\
        /// `POLLS` (61) polls.\n\
        const POLLS: u32 = 61;\n\
        const TICK_US: u64 = 200;\n\
        const SIZE: usize = 1 << 10;\n\
        const GRACE: Duration = Duration::from_millis(1_000);\n";

    fn check(text: &str, is_wrong: bool) {
        let found = found("doc-number", &[("a.rs", CODE), ("a.md", text)]);
        let expected: &[&str] = if is_wrong { &["a.md:1"] } else { &[] };
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn right_numbers_pass() {
        for text in [
            "every `POLLS` (61) polls",
            "`POLLS` = 61",
            "`a::POLLS` is 61.",
            "`SIZE`: 1,024",
        ] {
            check(text, false);
        }
        for text in [
            "`TICK_US` (200 µs)",
            "`TICK_US` of 200_000 ns",
            "`GRACE` is 1 s",
            "`TICK_US`=200",
        ] {
            check(text, false);
        }
    }

    #[test]
    fn wrong_numbers_are_found() {
        for text in [
            "every `POLLS` (64) polls",
            "`POLLS` = 6",
            "`a::POLLS` is 62.",
            "`SIZE`: 1,023",
        ] {
            check(text, true);
        }
        for text in [
            "`TICK_US` (200 ns)",
            "`GRACE` (default 2 s)",
            "`TICK_US` defaults to 100 µs",
        ] {
            check(text, true);
        }
    }

    #[test]
    fn what_is_no_statement_of_the_value_passes() {
        for text in [
            "`OTHER` (7)",
            "`POLLS` 62",
            "`POLLS` (1.5)",
            "`POLLS` = 6–7",
            "`GRACE` (7)",
        ] {
            check(text, false);
        }
    }

    #[test]
    fn comments_in_code_are_read_and_code_is_not() {
        let text = "//! Other.\n/// `POLLS` (60).\nconst X: &str = \"`POLLS` (60)\";\n";
        assert_eq!(
            found("doc-number", &[("a.rs", CODE), ("b.rs", text)]),
            ["b.rs:2"]
        );
    }

    #[test]
    fn a_name_with_two_values_is_not_judged() {
        let other = "//! Other.\nconst POLLS: u32 = 62;\n";
        let files = [("a.rs", CODE), ("b.rs", other), ("a.md", "`POLLS` (7)")];
        assert_eq!(found("doc-number", &files), [""; 0]);
    }
}
