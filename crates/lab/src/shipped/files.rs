//! Files of `workloads/` that are part of the program: machines, workloads, and a table of programs. Commands use them by
//! their names, so that the examples of the help texts need no file.
//!
//! ```text
//!   synthetic, numa-demo    built-in programs, for live runs without further files
//!   server                  programs with much memory traffic, for a simulated server
//!   dfs/wl1 … wl10          drawn by `evenkeel generate` from dfs/programs.toml, seeds 101 to 110
//!   dfs/wl1-long …          the same programs with longer runs, all at the same time: dfs/programs-long.toml, seeds 201 to 210
//!   divided/basic01 … 14, extended1 … 4        the mixes
//!   divided/basic01-x3, -x4, -x4p4 …           every mix of six programs three or four times; x4p4 has four
//!                                              more programs
//!   divided/alone           each program alone, for `evenkeel calibrate`
//!   ib/hd1 … 3, ld1 … 3, nd the sets of eight tasks for asymmetric cores
//! ```

use std::path::Path;

use program::Workload;
use topology::Machine;

use super::NotShipped;

/// Files of a directory of `workloads/` with their names.
macro_rules! files {
    ($($dir:literal: $($name:literal),+ $(,)?);+ $(;)?) => {
        &[$($((
            $name,
            include_str!(concat!("../../../../workloads/", $dir, "/", $name, ".toml")),
        )),+),+]
    };
}

/// The machines of the papers, then current machines.
const MACHINES: &[(&str, &str)] = files![
    "machines": "tilepro64", "tilepro64-interleaved", "xeon-2x4", "xeon-e5-2697-2x14", "opteron-2384-4x4",
    "opteron-2384-uma", "opteron-2384-numa1", "opteron-2384-numa2", "xeon-x5365-4x2", "opteron-8356-2x4",
    "xeon-e5520-2x4", "xeon-2s", "xeon-2s-snc4", "epyc-9654", "ampere-altra", "hybrid-desktop", "cix-p1",
    "xeon-6230n-2x20", "corun-pair", "corun-quad";
];

/// Programs with their speeds alone, for predictions.
const SOLO_TABLES: &[(&str, &str)] =
    &[("corun", include_str!("../../../../workloads/data/corun/solo.csv"))];

const WORKLOADS: &[(&str, &str)] = files![
    ".": "synthetic", "numa-demo", "server", "parallel", "core-kinds";
    "papers/dfs": "wl1", "wl2", "wl3", "wl4", "wl5", "wl6", "wl7", "wl8", "wl9", "wl10", "wl1-long", "wl2-long",
    "wl3-long", "wl4-long", "wl5-long", "wl6-long", "wl7-long", "wl8-long", "wl9-long", "wl10-long";
    "papers/divided": "alone", "basic01", "basic02", "basic03", "basic04", "basic05", "basic06", "basic07", "basic08",
    "basic09", "basic10", "basic11", "basic12", "basic13", "basic14", "extended1", "extended2", "extended3",
    "extended4",
    "basic01-x3", "basic01-x4", "basic01-x4p4", "basic02-x3", "basic02-x4", "basic02-x4p4",
    "basic03-x3", "basic03-x4", "basic03-x4p4", "basic04-x3", "basic04-x4", "basic04-x4p4",
    "basic05-x3", "basic05-x4", "basic05-x4p4", "basic06-x3", "basic06-x4", "basic06-x4p4",
    "basic07-x3", "basic07-x4", "basic07-x4p4", "basic08-x3", "basic08-x4", "basic08-x4p4",
    "basic09-x3", "basic09-x4", "basic09-x4p4", "extended1-x3", "extended1-x4", "extended1-x4p4",
    "extended2-x3", "extended2-x4", "extended2-x4p4", "extended3-x3", "extended3-x4",
    "extended3-x4p4";
    "papers/ib": "hd1", "hd2", "hd3", "ld1", "ld2", "ld3", "nd";
];

/// Returns the names of the shipped machines.
pub fn machines() -> impl Iterator<Item = &'static str> {
    MACHINES.iter().map(|(name, _)| *name)
}

/// Kinds of shipped text files that commands read by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShippedKind {
    /// Machines.
    Machine,
    /// Workloads.
    Workload,
    /// Tables of programs alone.
    SoloTable,
}

impl ShippedKind {
    fn files(self) -> (&'static str, &'static [(&'static str, &'static str)]) {
        match self {
            ShippedKind::Machine => ("machine", MACHINES),
            ShippedKind::Workload => ("workload", WORKLOADS),
            ShippedKind::SoloTable => ("table of programs", SOLO_TABLES),
        }
    }
}

/// Returns the text of a shipped file.
///
/// # Errors
/// There is no file of this kind and name.
pub fn text(kind: ShippedKind, name: &str) -> Result<&'static str, NotShipped> {
    let (noun, files) = kind.files();
    // The mixes with several copies of a workload are not listed.
    let known = || files.iter().map(|(known, _)| *known).filter(|known| !known.contains("-x"));
    let file = files.iter().find(|(known, _)| *known == name);
    let unknown = || NotShipped::new(noun, name, known().map(str::to_owned));
    file.map(|(_, text)| *text).ok_or_else(unknown)
}

/// Returns a shipped machine, such as `tilepro64`.
///
/// # Errors
/// There is no machine of this name.
pub fn machine(name: &str) -> Result<Machine, NotShipped> {
    let text = text(ShippedKind::Machine, name)?;
    let machine = topology::file::parse_toml(text, &format!("{name}.toml"));
    Ok(machine.unwrap_or_else(|error| panic!("a shipped machine file: {error}")))
}

/// Returns the names of the shipped workloads.
pub fn workloads() -> Vec<String> {
    WORKLOADS.iter().map(|(name, _)| (*name).to_owned()).collect()
}

/// Returns a shipped workload. Its jobs have no profiles yet: the caller attaches the profiles of a draw by their names
/// in [`program::Job::profile`].
///
/// # Errors
/// There is no workload of this name.
pub fn workload(name: &str) -> Result<Workload, NotShipped> {
    let text = text(ShippedKind::Workload, name)?;
    let workload = program::parse_toml(text, Path::new(&format!("{name}.toml")));
    Ok(workload.unwrap_or_else(|error| panic!("a shipped workload: {error}")))
}
