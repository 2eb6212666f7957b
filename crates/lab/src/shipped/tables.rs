//! The data of the shipped profiles: published counter values, ranges of the other values, and traced runs.
//!
//! | file | contents |
//! |---|---|
//! | `benchmarks.csv` | published counter values of SPEC CPU2006 programs alone, a row for each program and input |
//! | `profiles.csv` | a range with its reason for each value that was not measured |
//! | `traced/*.profile.toml` | profiles of traced programs |
//!
//! The values of a program are the mean over its inputs. An empty cell of `benchmarks.csv` is a value without a
//! reliable source.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use host_sim::csv_table::{CsvRow, CsvTable};
use program::Profile;

/// Sources of the values of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProfileSet {
    /// Counter tables, traces, and ranges with a reason.
    #[default]
    Table,
    /// As `Table`, with the values that the paper on divided scheduling prints of a program alone on `xeon-2x4`. The set is
    /// valid on this machine only.
    Printed,
}

impl ProfileSet {
    /// Returns the name of the set.
    pub fn name(self) -> &'static str {
        match self {
            ProfileSet::Table => "table",
            ProfileSet::Printed => "printed",
        }
    }
}

/// Message of `expect` for shipped tables. Tests read every table, so that no shipped table is invalid.
const VALID: &str = "a shipped table is valid";

/// Published values of a program alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PublishedProgram {
    /// Instructions per cycle.
    pub ipc: Option<f64>,
    /// Misses of a last-level cache of 20 MiB per 1000 instructions.
    pub mpki: Option<f64>,
    /// Accesses to that cache per 1000 instructions.
    pub apki: Option<f64>,
    /// Bytes per second between cache and memory.
    pub bandwidth: Option<f64>,
    /// Share of cycles that are stalled on a miss of the second-level cache.
    pub stall_share: Option<f64>,
    /// Run time in seconds.
    pub runtime_s: Option<f64>,
    /// 20 MiB divided by the decay length s of the miss-ratio curve, which contains exp(-c/s) for a cache of size c.
    pub c_over_s: Option<f64>,
}

/// The range of a value of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    /// Name of the program.
    pub program: String,
    /// Name of the value; `docs/simulator-data.md` lists all values.
    pub quantity: String,
    /// Smallest value.
    pub low: f64,
    /// Largest value.
    pub high: f64,
    /// `table`: from a description in `benchmarks.csv`; `reasoned`: from the algorithm and its published sizes; `printed`:
    /// what the paper on divided scheduling prints of the program alone on its machine.
    pub origin: String,
    /// Reason for the limits of the range.
    pub reason: String,
}

/// Returns the published values by program name, without the directory of the suite (`network/dijkstra`).
pub(super) fn measured() -> &'static BTreeMap<String, PublishedProgram> {
    static TABLE: LazyLock<BTreeMap<String, PublishedProgram>> =
        LazyLock::new(|| read_measured(include_str!("../../../../workloads/data/benchmarks.csv")));
    &TABLE
}

/// Returns all ranges, in the order of the file.
pub fn ranges() -> &'static [Range] {
    static RANGES: LazyLock<Vec<Range>> =
        LazyLock::new(|| read_ranges(include_str!("../../../../workloads/data/profiles.csv")));
    &RANGES
}

impl Range {
    fn is_printed(&self) -> bool {
        self.origin == "printed"
    }
}

/// Returns the range of a value in a set.
pub(super) fn range(program: &str, quantity: &str, set: ProfileSet) -> Option<&'static Range> {
    let from_table = || {
        let mut own = ranges().iter().filter(|range| !range.is_printed());
        own.find(|range| range.program == program && range.quantity == quantity)
    };
    match set {
        ProfileSet::Table => from_table(),
        ProfileSet::Printed => printed(program, quantity).or_else(from_table),
    }
}

/// Returns the printed range of a value.
pub(super) fn printed(program: &str, quantity: &str) -> Option<&'static Range> {
    let mut printed = ranges().iter().filter(|range| range.is_printed());
    printed.find(|range| range.program == program && range.quantity == quantity)
}

/// Returns whether a value of a program is printed.
pub(super) fn has_print(program: &str) -> bool {
    ranges().iter().any(|range| range.is_printed() && range.program == program)
}

/// Returns the names of the values of a program that have a range in a set, each once.
pub(super) fn quantities(program: &str, set: ProfileSet) -> impl Iterator<Item = &'static str> {
    let is_in = move |range: &&Range| set == ProfileSet::Printed || !range.is_printed();
    let own = ranges().iter().filter(move |range| range.program == program).filter(is_in);
    let names: std::collections::BTreeSet<&str> = own.map(|range| &*range.quantity).collect();
    names.into_iter()
}

/// The shipped traces, by program.
macro_rules! traces {
    ($($name:literal),+) => {
        &[$((
            $name,
            include_str!(concat!("../../../../workloads/data/traced/", $name, ".profile.toml")),
        )),+]
    };
}
const TRACES: &[(&str, &str)] =
    traces!["bitcount", "dijkstra", "jpeg_c", "patricia", "tiff2bw", "tiff2rgba"];

/// Returns the profile of a traced program.
pub(super) fn traced(program: &str) -> Option<Profile> {
    let (name, text) = TRACES.iter().find(|(name, _)| *name == program)?;
    let profile =
        program::profile::parse_profile(text, &Path::new("workloads/data/traced").join(name));
    Some(profile.unwrap_or_else(|error| panic!("a shipped trace: {error}")))
}

fn read_measured(text: &str) -> BTreeMap<String, PublishedProgram> {
    let table = CsvTable::read(text, "benchmarks.csv").expect(VALID);
    let mut inputs: BTreeMap<&str, Vec<CsvRow<'_>>> = BTreeMap::new();
    for row in table.rows() {
        let path = row.text("benchmark").expect(VALID);
        inputs.entry(path.rsplit('/').next().unwrap_or(path)).or_default().push(row);
    }
    inputs.into_iter().map(|(name, rows)| (name.to_owned(), mean_of_inputs(&rows))).collect()
}

fn mean_of_inputs(rows: &[CsvRow<'_>]) -> PublishedProgram {
    let mean = |column: &str| {
        let values = rows.iter().filter_map(|row| row.number(column).expect(VALID));
        let values: Vec<f64> = values.collect();
        (!values.is_empty()).then(|| crate::stats::mean(&values))
    };
    PublishedProgram {
        ipc: mean("ipc_alone"),
        mpki: mean("llc_mpki"),
        apki: mean("llc_apki"),
        bandwidth: mean("mem_bw_mb_s").map(|mb| mb * 1e6),
        stall_share: mean("l2_stall_frac"),
        runtime_s: mean("runtime_1_s"),
        c_over_s: mean("fit_c_over_s"),
    }
}

fn read_ranges(text: &str) -> Vec<Range> {
    let table = CsvTable::read(text, "profiles.csv").expect(VALID);
    let range = |row: CsvRow<'_>| {
        let text = |column| row.text(column).expect(VALID).to_owned();
        let number = |column| row.require_number(column).expect(VALID);
        Range {
            program: text("program"),
            quantity: text("quantity"),
            low: number("low"),
            high: number("high"),
            origin: text("origin"),
            reason: text("reason"),
        }
    };
    table.rows().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_several_inputs_are_averaged_and_unknown_values_are_absent() {
        let soplex = measured()["450.soplex"];
        assert_eq!(soplex.mpki.map(|mpki| format!("{mpki:.3}")).as_deref(), Some("12.498"));
        assert_eq!((soplex.runtime_s, soplex.c_over_s), (Some(133.0), Some(1.0)));
        assert_eq!(measured()["lu.B"], PublishedProgram::default());
        assert!(measured().contains_key("dijkstra"), "without the directory of its suite");
    }
}
