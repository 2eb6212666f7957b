//! Machine files as TOML, with one line per node, cache, core and CPU.
//!
//! A machine with 256 CPUs is a file of about 500 lines. Errors contain the line and the column of the invalid value
//! and the name of its field.

use std::fmt::Write as _;
use std::path::Path;

use base::toml_reader::{Located, SourceText, Spanned, TomlFault, TomlVersion, Value, deserialize};
use serde::Serialize;

use super::{FORMAT_VERSION, FileError, MachineFile};
use crate::machine::check::KIND;
use crate::{Machine, MachineError};

/// Error in the text of a machine file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum ParseFileError {
    #[error("{0}")]
    Toml(Located<TomlFault>),
    /// The values of the file are inconsistent. `position` contains the line, column and, if the message has none, the
    /// field.
    #[error("{}", position_text(.position, .source))]
    Invalid {
        position: Located<&'static str>,
        /// The error, boxed to keep `Result`s small.
        source: Box<FileError>,
    },
}

fn position_text(position: &Located<&str>, error: &FileError) -> String {
    match error.to_string().contains(position.fault) {
        true => format!("{}:{}:{}", position.file.display(), position.line, position.column),
        false => position.to_string(),
    }
}

/// Parses a machine from TOML. `path` is used only in errors.
pub fn parse_toml(text: &str, path: &str) -> Result<Machine, ParseFileError> {
    let text = SourceText::new(text, Path::new(path));
    Machine::try_from(read(&text)?).map_err(|error| {
        let (part, field) = part_and_field(&error);
        let offset = offset(&text, &part, field).unwrap_or_default();
        ParseFileError::Invalid { position: text.error_at(offset, field), source: Box::new(error) }
    })
}

/// Version of the format.
const VERSION: TomlVersion =
    TomlVersion { key: "format_version", supported: FORMAT_VERSION, conversion: None };

/// Parses a machine file without checking that its values are valid.
pub fn read_toml(text: &str, path: &str) -> Result<MachineFile, ParseFileError> {
    read(&SourceText::new(text, Path::new(path)))
}

fn read(text: &SourceText<'_>) -> Result<MachineFile, ParseFileError> {
    text.parse(VERSION).map_err(ParseFileError::Toml)?;
    deserialize(text).map_err(ParseFileError::Toml)
}

/// Returns the name of the invalid part (`node1`; empty for the machine) and the name of the invalid field.
fn part_and_field(error: &FileError) -> (String, &'static str) {
    match error {
        FileError::Version(_) => (String::new(), "format_version"),
        FileError::List { part, field, .. } => (part.clone(), field),
        FileError::Id { kind, id } => (format!("{kind}{id}"), "id"),
        FileError::DistanceKey { node, .. } => (node.to_string(), "distances"),
        FileError::Machine(error) => match error {
            MachineError::DuplicateId(part) if part.starts_with(KIND) => (part.clone(), "kind"),
            MachineError::DuplicateId(part) => (part.clone(), "id"),
            MachineError::UnknownCpu { part, .. } => (part.clone(), "cpus"),
            MachineError::SharedCpu { second, .. } => (second.clone(), "cpus"),
            MachineError::NotListed { cpu, part } => {
                let fields = ["node", "llc", "core"];
                let field = fields.into_iter().find(|field| part.starts_with(field));
                (cpu.to_string(), field.unwrap_or("id"))
            }
            MachineError::UnknownDistance { node, .. } => (node.to_string(), "distances"),
            MachineError::Invalid { part, field, .. } => (part.clone(), field),
            MachineError::NoCpu => (String::new(), "cpus"),
            MachineError::TooManyKinds => (String::new(), "cores"),
        },
    }
}

/// Returns the offset of a field of a part, or of the part if it does not have the field. If two parts have the same
/// id, the offset is in the second part.
fn offset(text: &SourceText<'_>, part: &str, field: &str) -> Option<usize> {
    let document = text.parse::<TomlFault>(VERSION).ok()?;
    let table = document.get_ref();
    let Some((list, keys)) = list_and_keys(part) else {
        return table.get(field).map(|value| value.span().start);
    };
    let has_id = |entry: &Value<'_>, key: &(&str, String)| {
        let value = entry.get(key.0).map(|value| value.get_ref());
        let number = value.and_then(|value| value.as_integer());
        let number =
            number.and_then(|number| u32::from_str_radix(number.as_str(), number.radix()).ok());
        let text = value.and_then(|value| value.as_str()).map(|text| format!("{text:?}"));
        number.map(|number| number.to_string()).or(text).as_ref() == Some(&key.1)
    };
    let list = table.get(list)?;
    let has_keys =
        |entry: &&Spanned<Value<'_>>| keys.iter().all(|key| has_id(entry.get_ref(), key));
    // An entry without its key has the default: the error is in the list.
    let Some(entry) = list.get_ref().as_array()?.iter().rfind(has_keys) else {
        return Some(list.span().start);
    };
    let fields = entry.get_ref().as_table()?;
    Some(fields.get(field).map_or(entry.span().start, |value| value.span().start))
}

/// Returns the array that contains a part, and the values that select the part: `node1` is the entry of `nodes` with
/// `id` 1. The values of text are quoted.
fn list_and_keys(part: &str) -> Option<(&'static str, Vec<(&'static str, String)>)> {
    let number = |kind: &str, name: &str| {
        name.strip_prefix(kind)?.parse().ok().map(|id: u32| id.to_string())
    };
    if let Some(kind) = part.strip_prefix(KIND) {
        return Some(("core_kinds", vec![("kind", kind.to_owned())]));
    }
    let access = part.strip_prefix("the access from ");
    if let Some((from, to)) = access.and_then(|nodes| nodes.split_once(" to ")) {
        let keys = vec![("from_node", number("node", from)?), ("to_node", number("node", to)?)];
        return Some(("accesses", keys));
    }
    let lists = [
        ("node", "nodes"),
        ("llc", "llcs"),
        ("core", "cores"),
        ("cpu", "cpus"),
        ("link", "links"),
        ("cluster", "clusters"),
    ];
    lists.into_iter().find_map(|(kind, list)| Some((list, vec![("id", number(kind, part)?)])))
}

/// Writes a machine. [`parse_toml`] reads an equal machine from the text.
pub fn to_toml(machine: &Machine) -> String {
    let file = MachineFile::from(machine);
    let mut text =
        String::from("# A machine for evenkeel. CPU sets are in the list format of Linux.\n");
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
    if !file.core_kinds.is_empty() {
        line("core_kinds", rows(&file.core_kinds));
    }
    if let Some(source) = &file.core_kinds_source {
        line("core_kinds_source", inline(source));
    }
    if !file.links.is_empty() {
        line("links", rows(&file.links));
    }
    if !file.clusters.is_empty() {
        line("clusters", rows(&file.clusters));
    }
    if !file.physics.is_default() {
        line("physics", inline(&file.physics));
    }
    if let Some(kernel) = &file.kernel {
        line("kernel", inline(kernel));
    }
    if let Some(numa_balancing) = file.numa_balancing {
        line("numa_balancing", numa_balancing.to_string());
    }
    if let Some(grain) = &file.grain {
        line("grain", inline(grain));
    }
    if let Some(quantum) = &file.quantum {
        line("quantum", inline(quantum));
    }
    text
}

fn rows<T: Serialize>(entries: &[T]) -> String {
    let lines: String = entries.iter().map(|entry| format!("  {},\n", inline(entry))).collect();
    if lines.is_empty() { "[]".to_owned() } else { format!("[\n{lines}]") }
}

fn inline<T: Serialize>(value: &T) -> String {
    let mut text = String::new();
    let written = value.serialize(toml::ser::ValueSerializer::new(&mut text));
    written.expect("entries hold strings, flags, and integers that Machine::new keeps below 2^60");
    text
}
