//! Readers of single TOML values in workloads, program lists and profiles.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

use base::toml_reader::{Value, decimal, wrong_type};
use base::{Bytes, Nanos};

use crate::error::WorkloadFault;
use crate::time;

type Result<T> = std::result::Result<T, WorkloadFault>;

/// Reads a string without NUL.
pub(crate) fn string(key: &'static str, value: &Value<'_>) -> Result<String> {
    match value {
        Value::String(text) => without_nul(key, text),
        other => Err(wrong_type(key, "a string in quotation marks", other)),
    }
}

/// Rejects text with NUL, which cannot be passed to the kernel.
pub(crate) fn without_nul(key: &str, text: &str) -> Result<String> {
    match text.contains('\0') {
        true => Err(WorkloadFault::Nul(key.to_owned())),
        false => Ok(text.to_owned()),
    }
}

/// Reads a path that is not empty.
pub(crate) fn path(key: &'static str, value: &Value<'_>) -> Result<PathBuf> {
    match string(key, value)? {
        text if text.is_empty() => Err(WorkloadFault::EmptyPath(key)),
        text => Ok(text.into()),
    }
}

/// Reads an array of strings without NUL.
pub(crate) fn strings(key: &'static str, value: &Value<'_>) -> Result<Vec<String>> {
    const EXPECTED: &str = "an array of strings such as [\"sort\", \"-n\"]";
    let Value::Array(array) = value else { return Err(wrong_type(key, EXPECTED, value)) };
    let text = |entry: &Value<'_>| match entry {
        Value::String(text) => without_nul(key, text),
        other => Err(wrong_type(key, "an array of strings only", other)),
    };
    array.iter().map(|entry| text(entry.get_ref())).collect()
}

/// Reads a table of environment variables.
pub(crate) fn variables(key: &'static str, value: &Value<'_>) -> Result<BTreeMap<String, String>> {
    const EXPECTED: &str = "a table of strings such as { LANG = \"C\" }";
    let Value::Table(table) = value else { return Err(wrong_type(key, EXPECTED, value)) };
    let variable = |name: &Cow<'_, str>, value: &Value<'_>| {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(WorkloadFault::VariableName(name.to_string()));
        }
        match value {
            Value::String(text) => Ok((name.to_string(), without_nul(key, text)?)),
            other => {
                let key = format!("{key}.{}", name.escape_debug());
                Err(wrong_type(&key, "a string in quotation marks", other))
            }
        }
    };
    table.iter().map(|(name, value)| variable(name.get_ref(), value.get_ref())).collect()
}

/// Reads a time: a number of seconds, or a string with a unit.
pub(crate) fn time(key: &'static str, value: &Value<'_>) -> Result<Nanos> {
    match value {
        Value::String(text) => time::read(key, text),
        Value::Float(number) => time::read(key, number.as_str()),
        Value::Integer(number) => time::read(key, &decimal(number)),
        other => Err(wrong_type(key, "a time: seconds, or a string such as \"250ms\"", other)),
    }
}

/// Reads a time above zero.
pub(crate) fn positive_time(key: &'static str, value: &Value<'_>) -> Result<Nanos> {
    match time(key, value)? {
        Nanos::ZERO => Err(WorkloadFault::ZeroTime(key)),
        time => Ok(time),
    }
}

/// Reads a size: a number of bytes, or a string with a unit.
pub(crate) fn size(key: &'static str, value: &Value<'_>) -> Result<Bytes> {
    let text = match value {
        Value::String(text) => text.to_string(),
        Value::Integer(number) => decimal(number),
        other => {
            return Err(wrong_type(key, "a size: bytes, or a string such as \"64M\"", other));
        }
    };
    text.parse().map_err(|_| WorkloadFault::Size { key, found: text })
}

/// Reads `true` or `false`.
pub(crate) fn boolean(key: &'static str, value: &Value<'_>) -> Result<bool> {
    value.as_bool().ok_or_else(|| wrong_type(key, "true or false", value))
}

/// Reads a name that can be part of a file name and of a table.
pub(crate) fn name(key: &'static str, value: &Value<'_>) -> Result<String> {
    let name = string(key, value)?;
    let is_valid = (1..=NAME_BYTES_MAX).contains(&name.len())
        && !name.starts_with('.')
        && !name.contains(|c: char| c == '/' || !base::is_printable(c));
    if is_valid { Ok(name) } else { Err(WorkloadFault::Name(name)) }
}

/// Maximum length of a job name: with `.100000` and `.stdout` appended, it fits into the 255 bytes of a file name.
pub(crate) const NAME_BYTES_MAX: usize = 100;

/// Returns a TOML string on one line.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if !base::is_printable(c) => quoted.push_str(&format!("\\U{:08X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
