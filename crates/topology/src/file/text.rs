//! The machine file as text: TOML, one line per node, cache, core and CPU.
//!
//! A machine of 256 CPUs is then a file of some 500 lines in which a person finds things, instead of
//! some thousands. Errors name file, line and field, because a person wrote the file.

use std::fmt::Write as _;

use serde::Serialize;

use super::place::{line, place};
use super::words::in_words;
use super::{FileError, MachineFile, Version};
use crate::Machine;

/// Why a text is no machine: where, what, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseFileError {
    /// The text is not TOML, or has a key or a value that does not belong there.
    #[error("{path}:{line}: {field}{problem}")]
    Text {
        /// The file, as the caller named it.
        path: String,
        /// Counted from 1.
        line: usize,
        /// The key at fault with a colon, or nothing where none can be named.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The text is fine; what it says is not.
    #[error("{place}")]
    Meaning {
        /// The file, as the caller named it, with the line and the field where they are known.
        place: String,
        /// The contradiction.
        source: FileError,
    },
}

/// Reads a machine from TOML text; `path` is only what errors call it.
pub fn parse_toml(text: &str, path: &str) -> Result<Machine, ParseFileError> {
    Machine::try_from(read_toml(text, path)?).map_err(|source| meaning(text, path, source))
}

/// Reads the file's own type and does not yet ask whether it is a machine.
pub fn read_toml(text: &str, path: &str) -> Result<MachineFile, ParseFileError> {
    // What is no version is told below, with its place.
    if let Ok(version) = toml::from_str::<Version>(text) {
        version.check().map_err(|source| meaning(text, path, source))?;
    }
    toml::from_str(text).map_err(|error| describe(text, path, &error))
}

fn meaning(text: &str, path: &str, source: FileError) -> ParseFileError {
    ParseFileError::Meaning { place: place(text, path, &source), source }
}

/// Writes a machine; [`parse_toml`] reads the same machine from it.
pub fn to_toml(machine: &Machine) -> String {
    let file = MachineFile::from(machine);
    let mut text = String::from("# A machine for evenkeel. Sets of CPUs are Linux list text.\n");
    let mut line = |key: &str, value: String| {
        let _ = writeln!(text, "{key} = {value}");
    };
    line("format_version", file.format_version.to_string());
    line("name", inline(&file.name));
    if let Some(allowed) = &file.nodes_allowed {
        line("nodes_allowed", inline(allowed));
    }
    line("warnings", rows(&file.warnings));
    line("nodes", rows(&file.nodes));
    line("llcs", rows(&file.llcs));
    line("cores", rows(&file.cores));
    line("cpus", rows(&file.cpus));
    line("accesses", rows(&file.accesses));
    text
}

fn rows<T: Serialize>(entries: &[T]) -> String {
    let lines: String = entries.iter().map(|entry| format!("  {},\n", inline(entry))).collect();
    if lines.is_empty() { "[]".to_owned() } else { format!("[\n{lines}]") }
}

fn inline<T: Serialize>(value: &T) -> String {
    let mut text = String::new();
    let written = value.serialize(toml::ser::ValueSerializer::new(&mut text));
    written.expect(
        "entries hold text, flags, text keys and numbers that Machine::new keeps below 2^60",
    );
    text
}

fn describe(text: &str, path: &str, error: &toml::de::Error) -> ParseFileError {
    let at = error.span().map_or(0, |span| span.start).min(text.len());
    let before = &text.as_bytes()[..at];
    let line = line(text, at);
    let span = error.span().unwrap_or_default();
    let message = in_words(&error.message().trim().replace('\n', ", "));
    let (field, problem) = match unknown_key(&message) {
        _ if message == "duplicate key" => {
            (String::new(), format!("{} stands twice", text.get(span).unwrap_or("a key")))
        }
        Some((key, known)) => (String::new(), suggestion(key, &known)),
        None => (field_before(before), message),
    };
    ParseFileError::Text { path: path.to_owned(), line, field, problem }
}

/// The key whose value starts here, from the text before the value.
fn field_before(before: &[u8]) -> String {
    let text = String::from_utf8_lossy(before);
    let Some(left) = text.trim_end().strip_suffix('=') else { return String::new() };
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let key = left.trim_end().rsplit(|c| !is_bare(c)).next().unwrap_or_default();
    if key.is_empty() { String::new() } else { format!("{key}: ") }
}

/// The unknown key and the known ones, out of serde's sentence about it.
fn unknown_key(message: &str) -> Option<(&str, Vec<&str>)> {
    let mut quoted = message.strip_prefix("unknown field ")?.split('`').skip(1).step_by(2);
    let key = quoted.next()?;
    Some((key, quoted.collect()))
}

/// The key that was meant: at most a third of its letters differ.
fn suggestion(key: &str, known: &[&str]) -> String {
    let slips = |name: &&&str| strsim::damerau_levenshtein(key, name);
    match known.iter().min_by_key(slips) {
        Some(nearest) if slips(&nearest) * 3 <= nearest.len().max(3) => {
            format!("unknown key {key:?}; did you mean {nearest:?}?")
        }
        _ => format!("unknown key {key:?}; known are {}", known.join(", ")),
    }
}
