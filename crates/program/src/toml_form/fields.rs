//! A TOML table whose values are asked for by key, and every mistake carries its place.
//!
//! The table is walked by hand instead of through derived types, for the sake of the messages: what
//! was expected is said in our words with an example, and a value that parses but makes no sense
//! is reported at its own line and column.

use std::path::PathBuf;

use base::{Bytes, Nanos};
use toml::de::{DeArray, DeTable, DeValue};

use crate::WorkloadError;
use crate::error::{Text, WorkloadFault, nearest};
use crate::time;

/// A table with its place, and what to call it in messages.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    text: &'a Text<'a>,
    table: &'a DeTable<'a>,
    /// Where it begins: a byte offset.
    pub(crate) offset: usize,
    whose: &'static str,
}

/// Reads a value, or says what is wrong with it.
pub(crate) type Reader<T> = fn(&'static str, &DeValue<'_>) -> Result<T, WorkloadFault>;

impl<'a> Fields<'a> {
    /// A table in which only the keys `known` may stand; those of `elsewhere` are no slips, but have
    /// no place here.
    pub(crate) fn new(
        text: &'a Text<'a>,
        table: &'a DeTable<'a>,
        offset: usize,
        whose: &'static str,
        known: &'static [&'static str],
        elsewhere: &[&str],
    ) -> Result<Self, WorkloadError> {
        let mut unknown: Vec<_> =
            table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())).collect();
        unknown.sort_by_key(|key| key.span().start);
        match unknown.first() {
            None => Ok(Fields { text, table, offset, whose }),
            Some(key) => {
                let found = key.get_ref().to_string();
                let fault = match elsewhere.contains(&found.as_str()) {
                    true => WorkloadFault::Misplaced { key: found, whose },
                    false => {
                        let nearest = nearest(&found, known);
                        WorkloadFault::UnknownKey { key: found, whose, nearest, known }
                    }
                };
                Err(text.fault(key.span().start, fault))
            }
        }
    }

    /// The value of a key, if it is there.
    pub(crate) fn get<T>(
        &self,
        key: &'static str,
        read: Reader<T>,
    ) -> Result<Option<T>, WorkloadError> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let fault = |fault| self.text.fault(value.span().start, fault);
        read(key, value.get_ref()).map(Some).map_err(fault)
    }

    /// The value of a key that must be there.
    pub(crate) fn need<T>(
        &self,
        key: &'static str,
        example: &'static str,
        read: Reader<T>,
    ) -> Result<T, WorkloadError> {
        let missing = || self.fault(WorkloadFault::Missing { key, whose: self.whose, example });
        self.get(key, read)?.ok_or_else(missing)
    }

    /// The table under a key, with the keys `known`.
    pub(crate) fn table(
        &self,
        key: &'static str,
        known: &'static [&'static str],
        elsewhere: &[&str],
    ) -> Result<Option<Fields<'a>>, WorkloadError> {
        self.table_of(key, "the defaults", known, elsewhere)
    }

    /// The table under a key, called so in messages, with the keys `known`.
    pub(crate) fn inside(
        &self,
        key: &'static str,
        whose: &'static str,
        known: &'static [&'static str],
    ) -> Result<Option<Fields<'a>>, WorkloadError> {
        self.table_of(key, whose, known, &[])
    }

    fn table_of(
        &self,
        key: &'static str,
        whose: &'static str,
        known: &'static [&'static str],
        elsewhere: &[&str],
    ) -> Result<Option<Fields<'a>>, WorkloadError> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let DeValue::Table(table) = value.get_ref() else {
            return Err(self.fault_at(key, wrong(key, "a table", value.get_ref())));
        };
        Fields::new(self.text, table, value.span().start, whose, known, elsewhere).map(Some)
    }

    /// The tables of a list of tables (`[[key]]`), in the order of the file.
    pub(crate) fn tables(
        &self,
        key: &'static str,
        whose: &'static str,
        known: &'static [&'static str],
    ) -> Result<Vec<Fields<'a>>, WorkloadError> {
        let Some(value) = self.table.get(key) else { return Ok(Vec::new()) };
        let kind = "a list of tables, each begun by [[…]]";
        let DeValue::Array(array) = value.get_ref() else {
            return Err(self.fault_at(key, wrong(key, kind, value.get_ref())));
        };
        let fields = |entry: &'a toml::Spanned<DeValue<'a>>| match entry.get_ref() {
            DeValue::Table(table) => {
                Fields::new(self.text, table, entry.span().start, whose, known, &[])
            }
            other => Err(self.text.fault(entry.span().start, wrong(key, kind, other))),
        };
        array.iter().map(fields).collect()
    }

    /// Whether the key is there.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// A mistake of the whole table.
    pub(crate) fn fault(&self, fault: WorkloadFault) -> WorkloadError {
        self.text.fault(self.offset, fault)
    }

    /// A mistake in the value of a key.
    pub(crate) fn fault_at(&self, key: &str, fault: WorkloadFault) -> WorkloadError {
        self.text.fault(self.offset_of(key), fault)
    }

    /// Where the value of a key begins; without it, where the table does.
    pub(crate) fn offset_of(&self, key: &str) -> usize {
        self.table.get(key).map_or(self.offset, |value| value.span().start)
    }
}

/// The parsed document, or where it is broken. Another version may have other keys, so its `version` is looked at
/// before them.
pub(crate) fn document<'t>(text: &Text<'t>) -> Result<toml::Spanned<DeTable<'t>>, WorkloadError> {
    let document = parsed(text)?;
    let version = document.get_ref().get("version").filter(|found| !is_known(found.get_ref()));
    match version {
        None => Ok(document),
        Some(other) => {
            let fault = WorkloadFault::Version { found: shown(other.get_ref()) };
            Err(text.fault(other.span().start, fault))
        }
    }
}

fn is_known(version: &DeValue<'_>) -> bool {
    matches!(version, DeValue::Integer(number) if number.as_str() == "1")
}

fn parsed<'t>(text: &Text<'t>) -> Result<toml::Spanned<DeTable<'t>>, WorkloadError> {
    DeTable::parse(text.text).map_err(|error| {
        let mut message = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
        let span = error.span().unwrap_or_default();
        if let Some(key) = text.text.get(span.clone()).filter(|_| message == "duplicate key") {
            message = format!("{key} stands twice");
        }
        text.fault(span.start, WorkloadFault::BrokenToml(message))
    })
}

pub(crate) fn wrong(key: &str, expected: &'static str, found: &DeValue<'_>) -> WorkloadFault {
    WorkloadFault::WrongKind { key: key.to_owned(), expected, found: kind(found) }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a decimal number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// A value as it stands in the file, for messages.
pub(crate) fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(yes) => yes.to_string(),
        other => kind(other).to_owned(),
    }
}

/// A text without NUL.
pub(crate) fn string(key: &'static str, value: &DeValue<'_>) -> Result<String, WorkloadFault> {
    match value {
        DeValue::String(text) => no_nul(key, text),
        other => Err(wrong(key, "a text in quotation marks", other)),
    }
}

/// A text without NUL, for a value that the kernel takes as a C string.
pub(crate) fn no_nul(key: &str, text: &str) -> Result<String, WorkloadFault> {
    match text.contains('\0') {
        true => Err(WorkloadFault::Nul { key: key.to_owned() }),
        false => Ok(text.to_owned()),
    }
}

/// A path: a text that is not empty.
pub(crate) fn path(key: &'static str, value: &DeValue<'_>) -> Result<PathBuf, WorkloadFault> {
    match string(key, value)? {
        text if text.is_empty() => Err(WorkloadFault::EmptyPath { key }),
        text => Ok(text.into()),
    }
}

/// A list of texts without NUL.
pub(crate) fn strings(
    key: &'static str,
    value: &DeValue<'_>,
) -> Result<Vec<String>, WorkloadFault> {
    const EXPECTED: &str = "a list of texts such as [\"sort\", \"-n\"]";
    let DeValue::Array(array) = value else { return Err(wrong(key, EXPECTED, value)) };
    texts(key, array)
}

fn texts(key: &'static str, array: &DeArray<'_>) -> Result<Vec<String>, WorkloadFault> {
    let text = |entry: &toml::Spanned<DeValue<'_>>| match entry.get_ref() {
        DeValue::String(text) => no_nul(key, text),
        other => Err(wrong(key, "a list of texts in quotation marks only", other)),
    };
    array.iter().map(text).collect()
}

/// A table of texts.
pub(crate) fn variables(
    key: &'static str,
    value: &DeValue<'_>,
) -> Result<std::collections::BTreeMap<String, String>, WorkloadFault> {
    const EXPECTED: &str = "a table of texts such as { LANG = \"C\" }";
    let DeValue::Table(table) = value else { return Err(wrong(key, EXPECTED, value)) };
    let variable = |(name, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
        let name: &std::borrow::Cow<'_, str> = name.get_ref();
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(WorkloadFault::VariableName { found: name.to_string() });
        }
        match value.get_ref() {
            DeValue::String(text) => Ok((name.to_string(), no_nul(key, text)?)),
            other => Err(WorkloadFault::WrongKind {
                key: format!("{key}.{}", name.escape_debug()),
                expected: "a text in quotation marks",
                found: kind(other),
            }),
        }
    };
    table.iter().map(variable).collect()
}

/// A time: a number of seconds, or a text with a unit.
pub(crate) fn time(key: &'static str, value: &DeValue<'_>) -> Result<Nanos, WorkloadFault> {
    match value {
        DeValue::String(text) => time::read(key, text),
        DeValue::Float(number) => time::read(key, number.as_str()),
        DeValue::Integer(number) => time::read(key, &decimal(number)),
        other => Err(wrong(key, "a time: seconds, or a text such as \"250ms\"", other)),
    }
}

/// A time that is not nothing.
pub(crate) fn length(key: &'static str, value: &DeValue<'_>) -> Result<Nanos, WorkloadFault> {
    match time(key, value)? {
        Nanos::ZERO => Err(WorkloadFault::NoLength { key }),
        length => Ok(length),
    }
}

/// A whole number as decimal text, whatever base it was written in.
pub(crate) fn decimal(number: &toml::de::DeInteger<'_>) -> String {
    let value = i128::from_str_radix(number.as_str(), number.radix());
    value.map_or_else(|_| number.as_str().to_owned(), |value| value.to_string())
}

/// A whole number from `low` to `high`.
pub(crate) fn whole(
    key: &'static str,
    value: &DeValue<'_>,
    (low, high): (u64, u64),
    range: &'static str,
) -> Result<u64, WorkloadFault> {
    let DeValue::Integer(number) = value else {
        return Err(wrong(key, "a whole number", value));
    };
    let fits = u64::from_str_radix(number.as_str(), number.radix()).ok();
    let refuse = || WorkloadFault::OutOfRange { key, found: number.to_string(), range };
    fits.filter(|number| (low..=high).contains(number)).ok_or_else(refuse)
}

/// A size: a number of bytes, or a text with a unit.
pub(crate) fn size(key: &'static str, value: &DeValue<'_>) -> Result<Bytes, WorkloadFault> {
    let text = match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => decimal(number),
        other => return Err(wrong(key, "a size: bytes, or a text such as \"64M\"", other)),
    };
    text.parse().map_err(|_| WorkloadFault::NoSize { key, found: text })
}

/// `true` or `false`.
pub(crate) fn yes(key: &'static str, value: &DeValue<'_>) -> Result<bool, WorkloadFault> {
    value.as_bool().ok_or_else(|| wrong(key, "true or false", value))
}
