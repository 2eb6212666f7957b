//! Where in a text something stands that contradicts something else.
//!
//! What is wrong with a machine is found in its values, which know nothing of lines. They know the
//! part at fault by its name (`node1`) and the field in it; here that is looked up in the text.

use toml::de::{DeTable, DeValue};

use super::FileError;
use crate::MachineError;

impl FileError {
    /// The name of the part at fault, and the field in it.
    fn culprit(&self) -> (String, &'static str) {
        match self {
            FileError::Version(_) => (String::new(), "format_version"),
            FileError::List { whose, field, .. } => (whose.clone(), field),
            FileError::Number { what, id } => (format!("{what}{id}"), "id"),
            FileError::Distance { whose, .. } => (whose.to_string(), "distances"),
            FileError::Contradiction(error) => culprit(error),
        }
    }
}

fn culprit(error: &MachineError) -> (String, &'static str) {
    match error {
        MachineError::Twice(whose) => (whose.clone(), "id"),
        MachineError::NoSuchCpu { whose, .. } => (whose.clone(), "cpus"),
        MachineError::Shared { second, .. } => (second.clone(), "cpus"),
        MachineError::NotListed { cpu, said } => {
            let field = ["node", "llc", "core"].into_iter().find(|field| said.starts_with(field));
            (cpu.to_string(), field.unwrap_or("id"))
        }
        MachineError::DistanceToNowhere { node, .. } => (node.to_string(), "distances"),
        MachineError::Absurd { whose, field, .. } => (whose.clone(), field),
        MachineError::NoCpu => (String::new(), "cpus"),
    }
}

/// `PATH:LINE: FIELD` of what is wrong, as far as it can be told; the field only where the error itself
/// does not name it.
pub(super) fn place(text: &str, path: &str, error: &FileError) -> String {
    let (whose, field) = error.culprit();
    let Some(offset) = offset(text, &whose, field) else { return path.to_owned() };
    let line = line(text, offset);
    match error.to_string().contains(field) {
        true => format!("{path}:{line}"),
        false => format!("{path}:{line}: {field}"),
    }
}

/// The line of an offset, from 1.
pub(super) fn line(text: &str, offset: usize) -> usize {
    let before = &text.as_bytes()[..offset.min(text.len())];
    1 + before.iter().filter(|&&byte| byte == b'\n').count()
}

/// Where the field of a part begins, or the part; of two parts of one name the second.
fn offset(text: &str, whose: &str, field: &str) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let table = document.get_ref();
    let Some((list, keys)) = list_and_keys(whose) else {
        return table.get(field).map(|value| value.span().start);
    };
    let DeValue::Array(entries) = table.get(list)?.get_ref() else { return None };
    let entry = entries.iter().rfind(|entry| {
        let DeValue::Table(entry) = entry.get_ref() else { return false };
        keys.iter().all(|(key, told)| {
            let number = entry.get(*key).and_then(|number| number.get_ref().as_integer());
            number.is_some_and(|number| {
                u32::from_str_radix(number.as_str(), number.radix()) == Ok(*told)
            })
        })
    })?;
    let DeValue::Table(fields) = entry.get_ref() else { return None };
    Some(fields.get(field).map_or(entry.span().start, |value| value.span().start))
}

/// `node1` as the list `nodes` and the id 1, `the access from node0 to node1` as its two nodes.
fn list_and_keys(whose: &str) -> Option<(&'static str, Vec<(&'static str, u32)>)> {
    let number = |part: &str, name: &str| name.strip_prefix(part)?.parse().ok();
    if let Some((from, to)) =
        whose.strip_prefix("the access from ").and_then(|rest| rest.split_once(" to "))
    {
        let keys = vec![("from_node", number("node", from)?), ("to_node", number("node", to)?)];
        return Some(("accesses", keys));
    }
    let lists = [("node", "nodes"), ("llc", "llcs"), ("core", "cores"), ("cpu", "cpus")];
    lists.into_iter().find_map(|(part, list)| Some((list, vec![("id", number(part, whose)?)])))
}
