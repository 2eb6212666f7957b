//! The machines: files that are part of the program.

use topology::Machine;
use topology::file::parse_toml;

/// A file of `workloads/machines` with its name.
macro_rules! shipped {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../workloads/machines/", $name, ".toml")))),+]
    };
}

/// By name: first the papers' machines, then today's.
pub(super) const NAMED: &[(&str, &str)] = shipped![
    "tilepro64",
    "tilepro64-striped",
    "xeon-2x4",
    "xeon-e5-2697-2x14",
    "opteron-2384-4x4",
    "xeon-x5365-4x2",
    "opteron-8356-2x4",
    "xeon-e5520-2x4",
    "xeon-2s-snc4",
    "epyc-9654",
    "ampere-altra",
    "hybrid-desktop",
];

pub(super) fn read(name: &str, text: &str) -> Machine {
    let file = format!("{name}.toml");
    parse_toml(text, &file).unwrap_or_else(|error| panic!("a shipped machine file: {error}"))
}
