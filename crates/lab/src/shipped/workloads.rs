//! The papers' workloads.
//!
//! ```text
//!   dfs/wl1 … wl10          drawn by `evenkeel generate` from dfs/programs.toml, seeds 101 to 110
//!   divided/basic01 … 14, extended1 … 4        the mixes
//!   divided/basic01-x3, -x4, -x4p4 …           every mix of six programs three or four times; x4p4 has four
//!                                              programs more
//! ```

use std::path::Path;

use program::Workload;

use super::NotShipped;

/// A file of `workloads/papers` with its name.
macro_rules! shipped {
    ($($folder:literal: $($name:literal),+);+ $(;)?) => {
        &[$($((
            $name,
            include_str!(concat!("../../../../workloads/papers/", $folder, "/", $name, ".toml")),
        )),+),+]
    };
}

/// The files, by name.
const NAMED: &[(&str, &str)] = shipped![
    "dfs": "wl1", "wl2", "wl3", "wl4", "wl5", "wl6", "wl7", "wl8", "wl9", "wl10";
    "divided": "basic01", "basic02", "basic03", "basic04", "basic05", "basic06", "basic07", "basic08",
    "basic09", "basic10", "basic11", "basic12", "basic13", "basic14", "extended1", "extended2", "extended3",
    "extended4",
    "basic01-x3", "basic01-x4", "basic01-x4p4", "basic02-x3", "basic02-x4", "basic02-x4p4",
    "basic03-x3", "basic03-x4", "basic03-x4p4", "basic04-x3", "basic04-x4", "basic04-x4p4",
    "basic05-x3", "basic05-x4", "basic05-x4p4", "basic06-x3", "basic06-x4", "basic06-x4p4",
    "basic07-x3", "basic07-x4", "basic07-x4p4", "basic08-x3", "basic08-x4", "basic08-x4p4",
    "basic09-x3", "basic09-x4", "basic09-x4p4", "extended1-x3", "extended1-x4", "extended1-x4p4",
    "extended2-x3", "extended2-x4", "extended2-x4p4", "extended3-x3", "extended3-x4",
    "extended3-x4p4";
];

/// The names of the workloads.
pub fn workloads() -> Vec<String> {
    NAMED.iter().map(|(name, _)| (*name).to_owned()).collect()
}

/// A workload by its name, its jobs without profiles: whoever runs it gives them those of the draw that it
/// wants, by [`program::Job::profile`].
///
/// # Errors
/// There is none of that name.
pub fn workload(name: &str) -> Result<Workload, NotShipped> {
    let found = NAMED.iter().find(|(known, _)| *known == name);
    let (name, text) = found.ok_or_else(|| NotShipped::new("workload", name, workloads()))?;
    Ok(read(name, text))
}

fn read(name: &str, text: &str) -> Workload {
    let path = format!("{name}.toml");
    let parsed = program::parse_toml(text, Path::new(&path));
    parsed.unwrap_or_else(|error| panic!("a shipped workload: {error}"))
}
