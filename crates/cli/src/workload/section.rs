//! Reads the keys of one TOML table.
//!
//! A [`Section`] remembers which keys were asked for; [`Section::finish`] reports all others. So
//! the code that reads a key is also the only list of the keys that are allowed. A bad value is
//! reported and read as `None`, and reading goes on: one run reports everything that is wrong.

use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{Diagnostics, near_matches, one_of};
use super::model::Entry;
use super::units;

/// A TOML table being read.
pub(super) struct Section<'a> {
    /// What the table describes, as messages call it: ``a `tick` task``.
    subject: String,
    table: &'a DeTable<'a>,
    span: Range<usize>,
    asked: Vec<&'static str>,
    diagnostics: &'a RefCell<Diagnostics>,
}

impl<'a> Section<'a> {
    /// Begins to read a table; `span` is where messages about missing keys point.
    pub(super) fn new(
        subject: impl Into<String>,
        table: &'a DeTable<'a>,
        span: Range<usize>,
        diagnostics: &'a RefCell<Diagnostics>,
    ) -> Self {
        Self {
            subject: subject.into(),
            table,
            span,
            asked: Vec::new(),
            diagnostics,
        }
    }

    /// Says more precisely what the table describes, once that is known.
    pub(super) fn rename(&mut self, subject: impl Into<String>) {
        self.subject = subject.into();
    }

    /// Where the table stands.
    pub(super) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Adds a diagnostic at a place of the file.
    pub(super) fn report(&self, span: Range<usize>, message: String, help: String) {
        self.diagnostics.borrow_mut().push(span, message, help);
    }

    /// Whether nothing is wrong with the file so far.
    pub(super) fn is_clean(&self) -> bool {
        self.diagnostics.borrow().is_empty()
    }

    /// The value of a key, whatever its type, if the key is there.
    pub(super) fn value(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        if !self.asked.contains(&key) {
            self.asked.push(key);
        }
        self.table.get(key)
    }

    /// Reports a key that must be there and is not.
    pub(super) fn require(&self, key: &'static str, allowed: &str) {
        if !self.table.contains_key(key) {
            let message = format!("`{key}` is missing from {}", self.subject);
            self.report(self.span(), message, format!("allowed: {allowed}"));
        }
    }

    /// Where a key stands, if it is there.
    pub(super) fn key_span(&self, key: &str) -> Option<Range<usize>> {
        self.table.get_key_value(key).map(|(key, _)| key.span())
    }

    /// An integer within a range.
    pub(super) fn integer(&mut self, key: &'static str, range: RangeInclusive<i64>) -> Option<i64> {
        let value = self.value(key)?;
        let allowed = format!("an integer from {} to {}", range.start(), range.end());
        let DeValue::Integer(integer) = value.get_ref() else {
            self.wrong_type(key, value, &allowed);
            return None;
        };
        let read = i64::from_str_radix(integer.as_str(), integer.radix()).ok();
        let read = read.filter(|n| range.contains(n));
        if read.is_none() {
            self.out_of_range(key, &integer.to_string(), value, &allowed);
        }
        read
    }

    /// A duration within a range.
    pub(super) fn duration(
        &mut self,
        key: &'static str,
        range: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let value = self.value(key)?;
        let (low, high) = (
            units::show_duration(*range.start()),
            units::show_duration(*range.end()),
        );
        let units = units::duration_units();
        let allowed = format!("a string such as \"10ms\", from {low} to {high} (units: {units})");
        let Some(text) = value.get_ref().as_str() else {
            self.wrong_type(key, value, &allowed);
            return None;
        };
        match units::duration(text) {
            None => {
                self.bad(key, text, value, "is not a duration", &allowed);
                None
            }
            Some(read) if !range.contains(&read) => {
                self.out_of_range(key, &format!("{text:?}"), value, &allowed);
                None
            }
            read => read,
        }
    }

    /// A size in bytes within a range.
    pub(super) fn size(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<usize> {
        let value = self.value(key)?;
        let (low, high, units) = (range.start(), range.end(), units::size_units());
        let allowed =
            format!("a string such as \"64KiB\", from {low} to {high} bytes (units: {units})");
        let Some(text) = value.get_ref().as_str() else {
            self.wrong_type(key, value, &allowed);
            return None;
        };
        match units::size(text) {
            None => {
                self.bad(key, text, value, "is not a size", &allowed);
                None
            }
            Some(read) if !range.contains(&read) => {
                self.out_of_range(key, &format!("{text:?}"), value, &allowed);
                None
            }
            read => read.and_then(|read| usize::try_from(read).ok()),
        }
    }

    /// One of several words, with what it stands for.
    pub(super) fn word<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        let value = self.value(key)?;
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        let allowed = one_of(&names);
        let Some(text) = value.get_ref().as_str() else {
            self.wrong_type(key, value, &allowed);
            return None;
        };
        let found = words.iter().find(|(name, _)| *name == text);
        if found.is_none() {
            let help = match near_matches(text, &names).first() {
                Some(near) => format!("did you mean `{near}`? allowed: {allowed}"),
                None => format!("allowed: {allowed}"),
            };
            self.report(
                value.span(),
                format!("`{key} = \"{text}\"` is not known"),
                help,
            );
        }
        found.map(|(_, meaning)| *meaning)
    }

    /// A string, with its place.
    pub(super) fn string(&mut self, key: &'static str) -> Option<(&'a str, Range<usize>)> {
        let value = self.value(key)?;
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.wrong_type(key, value, "a string");
        }
        text.map(|text| (text, value.span()))
    }

    /// A table of tables: its entries in the order of the file.
    pub(super) fn tables(&mut self, key: &'static str) -> Vec<NamedTable<'a>> {
        let Some(value) = self.value(key) else {
            return Vec::new();
        };
        let Some(table) = value.get_ref().as_table() else {
            self.wrong_type(key, value, &format!("a table, such as `[{key}.NAME]`"));
            return Vec::new();
        };
        let mut entries = Vec::new();
        for (name, value) in table {
            match value.get_ref().as_table() {
                Some(table) => {
                    entries.push(NamedTable {
                        name: name.get_ref(),
                        span: name.span(),
                        table,
                    });
                }
                None => {
                    let message = format!("`{}` in `{key}` is not a table", name.get_ref());
                    let help = format!("allowed: tables, such as `[{key}.{}]`", name.get_ref());
                    self.report(name.span(), message, help);
                }
            }
        }
        entries.sort_by_key(|entry| entry.span.start);
        entries
    }

    /// An array of tables: its entries in the order of the file, each with its place.
    pub(super) fn array(&mut self, key: &'static str) -> Vec<(&'a DeTable<'a>, Range<usize>)> {
        let Some(value) = self.value(key) else {
            return Vec::new();
        };
        let allowed = format!("an array of tables, such as `[[…{key}]]` or `[{{ … }}]`");
        let Some(array) = value.get_ref().as_array() else {
            self.wrong_type(key, value, &allowed);
            return Vec::new();
        };
        let mut entries = Vec::new();
        for entry in array {
            match entry.get_ref().as_table() {
                Some(table) => entries.push((table, entry.span())),
                None => self.wrong_type(key, entry, &allowed),
            }
        }
        entries
    }

    /// An array of strings, each with its place, and the place of the array.
    pub(super) fn strings(&mut self, key: &'static str) -> Option<(Vec<Entry>, Range<usize>)> {
        let value = self.value(key)?;
        let allowed = "an array of strings, not empty";
        let array = value
            .get_ref()
            .as_array()
            .filter(|array| array.iter().next().is_some());
        let Some(array) = array else {
            self.wrong_type(key, value, allowed);
            return None;
        };
        let mut strings = Vec::new();
        for entry in array {
            match entry.get_ref().as_str() {
                Some(text) => strings.push((text.to_owned(), entry.span())),
                None => self.wrong_type(key, entry, allowed),
            }
        }
        Some((strings, value.span()))
    }

    /// Reports every key that nobody asked for. Keys of `later` are ones that exist in the design
    /// and are not supported yet.
    pub(super) fn finish(self, later: &[&str]) {
        for key in self.table.keys() {
            let name: &str = key.get_ref();
            if self.asked.contains(&name) {
                continue;
            }
            if later.contains(&name) {
                let message = format!("`{name}` is not supported yet");
                self.report(key.span(), message, "remove it from the file".to_owned());
                continue;
            }
            let message = format!("unknown key `{name}` in {}", self.subject);
            let allowed = one_of(&self.asked).replace(" or ", ", ");
            let help = match near_matches(name, &self.asked).first() {
                Some(near) => format!("did you mean `{near}`? allowed: {allowed}"),
                None => format!("allowed: {allowed}"),
            };
            self.report(key.span(), message, help);
        }
    }

    /// Reports a value of the wrong TOML type.
    fn wrong_type(&self, key: &str, value: &Spanned<DeValue<'_>>, allowed: &str) {
        let given = value.get_ref().type_str();
        let message = format!("`{key}` has the wrong type: {given}");
        self.report(value.span(), message, format!("allowed: {allowed}"));
    }

    /// Reports a value of the right type that is out of range.
    fn out_of_range(&self, key: &str, given: &str, value: &Spanned<DeValue<'_>>, allowed: &str) {
        let message = format!("`{key} = {given}` is out of range");
        self.report(value.span(), message, format!("allowed: {allowed}"));
    }

    /// Reports a string that cannot be read as what it should be.
    fn bad(
        &self,
        key: &str,
        text: &str,
        value: &Spanned<DeValue<'_>>,
        problem: &str,
        allowed: &str,
    ) {
        let message = format!("`{key} = {text:?}` {problem}");
        self.report(value.span(), message, format!("allowed: {allowed}"));
    }
}

/// An entry of a table of tables.
pub(super) struct NamedTable<'a> {
    /// The key.
    pub(super) name: &'a str,
    /// The place of the key.
    pub(super) span: Range<usize>,
    /// The value.
    pub(super) table: &'a DeTable<'a>,
}
