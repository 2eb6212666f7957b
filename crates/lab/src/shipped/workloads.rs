//! The papers' workloads.

use std::path::Path;

use program::Workload;

use super::NotShipped;

/// The files of `workloads/papers`, by name.
const NAMED: &[(&str, &str)] = &[];

/// The names of the workloads, in order.
pub fn workloads() -> Vec<String> {
    NAMED.iter().map(|(name, _)| (*name).to_owned()).collect()
}

/// A workload by its name, without profiles: whoever runs it gives its jobs those of the draw that it wants.
///
/// # Errors
/// There is none of that name.
pub fn workload(name: &str) -> Result<Workload, NotShipped> {
    let (name, text) = NAMED
        .iter()
        .find(|(known, _)| *known == name)
        .ok_or_else(|| NotShipped::new("workload", name, workloads()))?;
    let path = format!("{name}.toml");
    let parsed = program::parse_toml(text, Path::new(&path));
    Ok(parsed.unwrap_or_else(|error| panic!("a shipped workload: {error}")))
}
