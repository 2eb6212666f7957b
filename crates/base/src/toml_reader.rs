//! Reader of TOML files that reports errors with their positions.
//!
//! Every error is one line with the file, the line and the column of the invalid value:
//!
//! ```text
//!   jobs.toml:7:1: unknown key "comand" in a job; did you mean "command"?
//! ```
//!
//! There are two ways to read a document. [`TomlTable`] gives typed access by key, for formats with a check of each
//! value. [`deserialize`] fills a serde type, for formats that also exist as JSON. The caller opens the files.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use toml::de::{DeInteger, DeTable};

pub use toml::Spanned;
pub use toml::de::DeValue as Value;

use crate::suggest::did_you_mean;

/// An error at a position of a file. `F` describes the error itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located<F> {
    /// The file as the user named it.
    pub file: PathBuf,
    /// Line number, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The error.
    pub fault: F,
}

impl<F: fmt::Display> fmt::Display for Located<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The error may contain text of the file.
        let fault = crate::printable(&self.fault.to_string());
        write!(f, "{}:{}:{}: {fault}", self.file.display(), self.line, self.column)
    }
}

impl<F: fmt::Debug + fmt::Display> std::error::Error for Located<F> {}

/// An error that any TOML format can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum TomlFault {
    #[error("invalid TOML: {0}")]
    Syntax(String),
    #[error("unknown key {key:?}{table}; {hint}")]
    UnknownKey { key: String, table: String, hint: String },
    #[error("{key:?} is not allowed in {table}: it belongs to a single job or program")]
    Misplaced { key: String, table: &'static str },
    #[error("{table} has no {key:?}; add {example}")]
    Missing { key: &'static str, table: &'static str, example: &'static str },
    #[error("{key:?} must be {expected}, not {found}")]
    WrongType { key: String, expected: &'static str, found: &'static str },
    #[error("{key:?} is {found}, which is out of range; write {range}")]
    OutOfRange { key: &'static str, found: String, range: &'static str },
    #[error("{key:?} is {found}; this evenkeel reads version {supported}{hint}")]
    Version { key: &'static str, found: String, supported: u32, hint: String },
    #[error("{0}")]
    Other(String),
}

/// The version of a file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TomlVersion {
    /// The key with the version.
    pub key: &'static str,
    /// The only supported version.
    pub supported: u32,
    /// Instruction for converting a file of the previous version.
    pub conversion: Option<&'static str>,
}

/// A text with its file name and the offsets of its lines.
#[derive(Clone, Debug)]
pub struct SourceText<'t> {
    /// The text.
    pub text: &'t str,
    /// The file as the user named it.
    pub file: &'t Path,
    line_starts: Vec<usize>,
}

impl<'t> SourceText<'t> {
    /// Creates a source text. `file` is used only in errors.
    pub fn new(text: &'t str, file: &'t Path) -> Self {
        let after_newline =
            text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1);
        SourceText { text, file, line_starts: std::iter::once(0).chain(after_newline).collect() }
    }

    /// Returns the line of a byte offset, from 1. An offset beyond the end is in the last line.
    pub fn line(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|&start| start <= offset)
    }

    /// Returns the byte offset at which a line (from 1) begins.
    pub fn start_of(&self, line: usize) -> usize {
        self.line_starts.get(line - 1).copied().unwrap_or_default()
    }

    /// Returns an error at a byte offset.
    pub fn error_at<F>(&self, offset: usize, fault: F) -> Located<F> {
        let line = self.line(offset);
        let before = self.text.get(self.line_starts[line - 1]..offset).unwrap_or_default();
        let column = before.chars().count() + 1;
        Located { file: self.file.to_owned(), line, column, fault }
    }

    /// Parses the text and checks its version.
    ///
    /// If the text contains a version, it must be the supported version. The version is checked first, because another
    /// version may have other keys.
    pub fn parse<F: From<TomlFault>>(
        &self,
        version: TomlVersion,
    ) -> Result<Spanned<DeTable<'t>>, Located<F>> {
        let document = DeTable::parse(self.text).map_err(|error| {
            let span = error.span().unwrap_or_default();
            let message = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
            let fault = match self.text.get(span.clone()).filter(|_| message == "duplicate key") {
                Some(key) => defined_twice(key),
                None => TomlFault::Syntax(message),
            };
            self.error_at(span.start, fault.into())
        })?;
        let TomlVersion { key, supported, conversion } = version;
        let is_version = |found: &Value<'_>, number: u32| matches!(found, Value::Integer(text) if text.as_str() == number.to_string());
        match document.get_ref().get(key).filter(|found| !is_version(found.get_ref(), supported)) {
            None => Ok(document),
            Some(other) => {
                let found = describe(other.get_ref());
                let conversion = conversion.filter(|_| is_version(other.get_ref(), supported - 1));
                let hint = conversion.map_or_else(String::new, |text| format!(": {text}"));
                let fault = TomlFault::Version { key, found, supported, hint };
                Err(self.error_at(other.span().start, fault.into()))
            }
        }
    }
}

/// Function that reads one value or returns its error. The key is used only in errors.
pub type Read<T, F> = fn(&'static str, &Value<'_>) -> Result<T, F>;

/// A TOML table with its position and a name for errors (`a job`, `the workload`).
#[derive(Clone, Copy, Debug)]
pub struct TomlTable<'a> {
    text: &'a SourceText<'a>,
    table: &'a DeTable<'a>,
    /// The byte offset at which the table begins.
    pub offset: usize,
    name: &'static str,
}

impl<'a> TomlTable<'a> {
    /// Creates a table. All keys must be in `known`. Keys in `elsewhere` are valid in other tables of the format and
    /// cause a separate error.
    pub fn new<F: From<TomlFault>>(
        text: &'a SourceText<'a>,
        table: &'a DeTable<'a>,
        offset: usize,
        name: &'static str,
        known: &[&str],
        elsewhere: &[&str],
    ) -> Result<Self, Located<F>> {
        let is_known = |key: &&Spanned<Cow<'_, str>>| known.contains(&key.get_ref().as_ref());
        let unknown = table.keys().filter(|key| !is_known(key)).min_by_key(|key| key.span().start);
        let Some(unknown) = unknown else { return Ok(TomlTable { text, table, offset, name }) };
        let key = unknown.get_ref().to_string();
        let fault = match elsewhere.contains(&key.as_str()) {
            true => TomlFault::Misplaced { key, table: name },
            false => {
                let hint = did_you_mean(&key, known.iter().copied());
                TomlFault::UnknownKey { key, table: format!(" in {name}"), hint }
            }
        };
        Err(text.error_at(unknown.span().start, fault.into()))
    }

    /// Returns the value of an optional key.
    pub fn get<T, F>(&self, key: &'static str, read: Read<T, F>) -> Result<Option<T>, Located<F>> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let at = |fault| self.text.error_at(value.span().start, fault);
        read(key, value.get_ref()).map(Some).map_err(at)
    }

    /// Returns the value of a required key.
    pub fn require<T, F: From<TomlFault>>(
        &self,
        key: &'static str,
        example: &'static str,
        read: Read<T, F>,
    ) -> Result<T, Located<F>> {
        let missing = || TomlFault::Missing { key, table: self.name, example };
        self.get(key, read)?.ok_or_else(|| self.error(missing().into()))
    }

    /// Returns the table under an optional key; see [`TomlTable::new`].
    pub fn table<F: From<TomlFault>>(
        &self,
        key: &'static str,
        name: &'static str,
        known: &[&str],
        elsewhere: &[&str],
    ) -> Result<Option<TomlTable<'a>>, Located<F>> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        self.subtable(key, "a table", value, name, known, elsewhere).map(Some)
    }

    /// Returns the tables of an array of tables (`[[key]]`), in the order of the file.
    pub fn tables<F: From<TomlFault>>(
        &self,
        key: &'static str,
        name: &'static str,
        known: &[&str],
    ) -> Result<Vec<TomlTable<'a>>, Located<F>> {
        const EXPECTED: &str = "an array of tables, each with the header [[…]]";
        let Some(value) = self.table.get(key) else { return Ok(Vec::new()) };
        let Value::Array(array) = value.get_ref() else {
            return Err(self.error_in(key, wrong_type(key, EXPECTED, value.get_ref())));
        };
        array.iter().map(|entry| self.subtable(key, EXPECTED, entry, name, known, &[])).collect()
    }

    fn subtable<F: From<TomlFault>>(
        &self,
        key: &'static str,
        expected: &'static str,
        value: &'a Spanned<Value<'a>>,
        name: &'static str,
        known: &[&str],
        elsewhere: &[&str],
    ) -> Result<TomlTable<'a>, Located<F>> {
        let offset = value.span().start;
        match value.get_ref() {
            Value::Table(table) => TomlTable::new(self.text, table, offset, name, known, elsewhere),
            other => Err(self.text.error_at(offset, wrong_type(key, expected, other))),
        }
    }

    /// Returns whether the key is present.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Returns an error of the whole table.
    pub fn error<F>(&self, fault: F) -> Located<F> {
        self.text.error_at(self.offset, fault)
    }

    /// Returns an error in the value of a key.
    pub fn error_in<F>(&self, key: &str, fault: F) -> Located<F> {
        self.text.error_at(self.offset_of(key), fault)
    }

    /// Returns the byte offset of the value of a key, or of the table if the key is absent.
    pub fn offset_of(&self, key: &str) -> usize {
        self.table.get(key).map_or(self.offset, |value| value.span().start)
    }
}

/// Returns the error for a value of another type than `expected`.
pub fn wrong_type<F: From<TomlFault>>(key: &str, expected: &'static str, found: &Value<'_>) -> F {
    TomlFault::WrongType { key: key.to_owned(), expected, found: type_name(found) }.into()
}

/// Returns the type of a value, with its article.
pub fn type_name(value: &Value<'_>) -> &'static str {
    match value {
        Value::String(_) => "a string",
        Value::Integer(_) => "an integer",
        Value::Float(_) => "a decimal number",
        Value::Boolean(_) => "a boolean",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "an array",
        Value::Table(_) => "a table",
    }
}

/// Returns a scalar value as written in the file, or the type of any other value.
pub fn describe(value: &Value<'_>) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(flag) => flag.to_string(),
        other => type_name(other).to_owned(),
    }
}

/// Returns an integer in base 10. The file may use another base.
pub fn decimal(number: &DeInteger<'_>) -> String {
    let value = i128::from_str_radix(number.as_str(), number.radix());
    value.map_or_else(|_| number.as_str().to_owned(), |value| value.to_string())
}

/// Reads an integer from `low` to `high`. `range` describes the range in errors.
pub fn integer(
    key: &'static str,
    value: &Value<'_>,
    (low, high): (u64, u64),
    range: &'static str,
) -> Result<u64, TomlFault> {
    let Value::Integer(number) = value else { return Err(wrong_type(key, "an integer", value)) };
    let fits = u64::from_str_radix(number.as_str(), number.radix()).ok();
    let reject = || TomlFault::OutOfRange { key, found: number.to_string(), range };
    fits.filter(|number| (low..=high).contains(number)).ok_or_else(reject)
}

/// Returns the error of a duplicate key. `key` may contain quotation marks.
fn defined_twice(key: &str) -> TomlFault {
    TomlFault::Syntax(format!("key {:?} is defined twice", key.trim_matches(['"', '\''])))
}

/// Reads a whole document into a serde type.
pub fn deserialize<T: DeserializeOwned>(text: &SourceText<'_>) -> Result<T, Located<TomlFault>> {
    toml::from_str(text.text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        let start = span.start.min(text.text.len());
        let fault = match serde_fault(&error.message().trim().replace('\n', ", ")) {
            TomlFault::Other(message) if message == "duplicate key" => {
                defined_twice(text.text.get(span).unwrap_or_default())
            }
            TomlFault::Other(mut message) => {
                // An unquoted date is a map for serde.
                if text.text[start..].starts_with(|first: char| first.is_ascii_digit()) {
                    message = message.replace(", not a table", ", not a date");
                }
                TomlFault::Other(key_before(&text.text[..start]) + &message)
            }
            fault => fault,
        };
        text.error_at(start, fault)
    })
}

/// Converts a serde message into an error without a position. The error of an unknown key contains the nearest known
/// key, or all known keys if no key is similar.
pub fn serde_fault(message: &str) -> TomlFault {
    let Some((key, known)) = unknown_field(message) else {
        return TomlFault::Other(plain_message(message));
    };
    let hint = did_you_mean(key, known);
    TomlFault::UnknownKey { key: key.to_owned(), table: String::new(), hint }
}

/// Returns `KEY: ` if the text ends with `KEY =`, otherwise an empty text.
fn key_before(text: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let before_equals = text.trim_end().strip_suffix('=').unwrap_or_default();
    match before_equals.trim_end().rsplit(|c| !is_bare(c)).next() {
        None | Some("") => String::new(),
        Some(key) => format!("{key}: "),
    }
}

/// Returns the unknown key and the known keys in a serde message.
fn unknown_field(message: &str) -> Option<(&str, Vec<&str>)> {
    let mut quoted = message.strip_prefix("unknown field ")?.split('`').skip(1).step_by(2);
    Some((quoted.next()?, quoted.collect()))
}

/// Removes the names of Rust types from a serde message: `invalid type: integer `0`, expected a string` becomes `must
/// be a string, not an integer`.
fn plain_message(message: &str) -> String {
    if message.starts_with("integer number overflowed") {
        return "the integer is out of range; write a smaller one".to_owned();
    }
    let plain = type_or_value(message).or_else(|| variant(message)).or_else(|| missing(message));
    plain.unwrap_or_else(|| message.to_owned())
}

/// Removes the names of Rust types from a serde message about JSON: `invalid type: integer `0`, expected struct Line`
/// becomes `invalid type: integer `0`, expected an object`.
pub fn plain_json_message(message: &str) -> String {
    if message.contains("untagged enum") {
        return "the value has an unknown format".to_owned();
    }
    if message.starts_with("no variant of enum ") {
        let place = message.find(" at line ").unwrap_or(message.len());
        return format!("a required field is missing{}", &message[place..]);
    }
    let Some((found, expected)) = message.split_once(", expected ") else {
        return message.to_owned();
    };
    let has_type = |kind: &&(&str, &str)| expected.starts_with(kind.0);
    const KINDS: [(&str, &str); 10] = [
        ("struct ", "an object"),
        ("internally tagged enum ", "an object"),
        ("adjacently tagged enum ", "an object"),
        ("tuple ", "an array"),
        ("enum ", "a known name"),
        ("u8", "an integer from 0 to 255"),
        ("u16", "an integer from 0 to 65535"),
        ("u32", "an integer from 0 to 4294967295"),
        ("u64", "an integer from 0 to 18446744073709551615"),
        ("usize", "an integer from 0"),
    ];
    // The column follows the type.
    let place =
        expected.find(" (").or_else(|| expected.find(" at line ")).unwrap_or(expected.len());
    match KINDS.iter().find(has_type) {
        Some((_, plain)) => format!("{found}, expected {plain}{}", &expected[place..]),
        None => message.to_owned(),
    }
}

/// Converts `invalid type: FOUND, expected KIND` and `invalid value: FOUND, expected KIND`.
fn type_or_value(message: &str) -> Option<String> {
    let (problem, text) = message.strip_prefix("invalid ")?.split_once(": ")?;
    let (found, expected) = text.rsplit_once(", expected ")?;
    let value = found.split('`').nth(1).or_else(|| found.split('"').nth(1));
    let is_large_integer =
        found.starts_with("integer ") && plain_type(expected).starts_with("an integer from");
    match problem {
        "type" if is_large_integer => {
            Some(format!("{} is out of range; write {}", value?, plain_type(expected)))
        }
        "type" => Some(format!("must be {}, not {}", plain_type(expected), plain_type(found))),
        "value" => Some(format!("{} is out of range; write {}", value?, plain_type(expected))),
        _ => None,
    }
}

/// Converts `unknown variant `x`, expected one of `a`, `b``.
fn variant(message: &str) -> Option<String> {
    let mut quoted = message.strip_prefix("unknown variant ")?.split('`').skip(1).step_by(2);
    let found = quoted.next()?;
    let known: Vec<&str> = quoted.collect();
    Some(format!("{found:?} is not a known value; write one of {}", known.join(", ")))
}

/// Converts `missing field `x``.
fn missing(message: &str) -> Option<String> {
    let field = message.strip_prefix("missing field ")?.split('`').nth(1)?;
    Some(format!("{field} is missing; add it"))
}

/// Returns a plain name for the Rust type with which a text of serde begins.
fn plain_type(message: &str) -> &str {
    const TYPES: [(&str, &str); 16] = [
        ("integer", "an integer"),
        ("u8", "an integer from 0 to 255"),
        ("u32", "an integer from 0 to 4294967295"),
        ("u64", "an integer from 0"),
        ("i64", "an integer from 0"),
        ("floating point", "a decimal number"),
        ("string", "a string"),
        ("a string", "a string"),
        ("boolean", "a boolean"),
        ("a boolean", "a boolean"),
        ("sequence", "an array"),
        ("a sequence", "an array"),
        ("null", "null"),
        ("datetime", "a date"),
        ("map", "a table"),
        ("a map", "a table"),
    ];
    let known = TYPES.iter().find(|(start, _)| message.starts_with(start));
    let is_table = message.starts_with("struct").then_some("a table");
    known.map(|(_, name)| *name).or(is_table).unwrap_or(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_about_json_have_no_rust_types() {
        for (message, expected) in [
            (
                "invalid type: integer `0`, expected struct TaskLine at line 1 column 9",
                "invalid type: integer `0`, expected an object at line 1 column 9",
            ),
            (
                "data did not match any variant of untagged enum JobEventLine",
                "the value has an unknown format",
            ),
            ("invalid type: null, expected a string", "invalid type: null, expected a string"),
            ("missing field `turn`", "missing field `turn`"),
            (
                "no variant of enum CommandField found in flattened data at line 1 column 9",
                "a required field is missing at line 1 column 9",
            ),
            (
                "invalid type: string \"x\", expected u64 at line 1 column 9",
                "invalid type: string \"x\", expected an integer from 0 to 18446744073709551615 at line 1 column 9",
            ),
        ] {
            assert_eq!(plain_json_message(message), expected);
        }
    }

    #[test]
    fn a_position_counts_lines_and_characters_from_1() {
        let text = SourceText::new("a\nüb\n", Path::new("w"));
        let position = |offset| {
            let error = text.error_at(offset, ());
            (error.line, error.column)
        };
        assert_eq!(
            [position(0), position(2), position(4), position(6)],
            [(1, 1), (2, 1), (2, 2), (3, 1)]
        );
        assert_eq!(position(99).0, 3, "an offset beyond the end is in the last line");
    }

    #[test]
    fn messages_of_serde_are_printed_without_names_of_rust_types() {
        for (message, plain) in [
            ("invalid type: integer `0`, expected a string", "must be a string, not an integer"),
            ("invalid type: map, expected a sequence", "must be an array, not a table"),
            (
                "invalid type: string \"a, expected b\", expected u32",
                "must be an integer from 0 to 4294967295, not a string",
            ),
            (
                "invalid value: integer `-2`, expected u32",
                "-2 is out of range; write an integer from 0 to 4294967295",
            ),
            (
                "unknown variant `hearsay`, expected one of `measured`, `firmware`",
                "\"hearsay\" is not a known value; write one of measured, firmware",
            ),
            (
                "invalid type: integer `18446744073709551616` as u128, expected u32",
                "18446744073709551616 is out of range; write an integer from 0 to 4294967295",
            ),
            ("integer number overflowed", "the integer is out of range; write a smaller one"),
            ("missing field `cpus`", "cpus is missing; add it"),
            ("something new", "something new"),
        ] {
            assert_eq!(plain_message(message), plain);
        }
    }
}
