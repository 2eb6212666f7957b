//! `benchmarks.csv`: what others counted of SPEC CPU2006 programs that ran alone.
//!
//! A row for each program and input; a program's figures are the mean over its inputs, its run time the
//! one that the table gives it. An empty cell is a figure that nobody could defend.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use host_sim::csv_table::{CsvRow, CsvTable};

use super::OURS;

const TEXT: &str = include_str!("../../../../workloads/data/benchmarks.csv");

/// What is known of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counted {
    /// Instructions in a cycle.
    pub ipc: Option<f64>,
    /// Misses of a last-level cache of 20 MiB per 1000 instructions.
    pub mpki: Option<f64>,
    /// Accesses to that cache per 1000 instructions.
    pub apki: Option<f64>,
    /// Bytes in a second between cache and memory.
    pub bandwidth: Option<f64>,
    /// The part of its cycles that it stalls with a miss of the second-level cache under way.
    pub stall_share: Option<f64>,
    /// Seconds that it runs.
    pub runtime_s: Option<f64>,
    /// Cache size of the curve's length, as the table was fitted (spec 8.3): 20 MiB ÷ s.
    pub c_over_s: Option<f64>,
}

/// The programs of the table by their names: that of the suite's folder is left out (`network/dijkstra`).
pub(super) fn counted() -> &'static BTreeMap<String, Counted> {
    static TABLE: LazyLock<BTreeMap<String, Counted>> = LazyLock::new(|| read(TEXT));
    &TABLE
}

fn read(text: &str) -> BTreeMap<String, Counted> {
    let sheet = CsvTable::read(text, "benchmarks.csv").expect(OURS);
    let name_at = sheet.column("benchmark").expect(OURS);
    let mut inputs: BTreeMap<&str, Vec<&CsvRow>> = BTreeMap::new();
    for line in sheet.rows() {
        let path = sheet.text(line, name_at);
        inputs.entry(path.rsplit('/').next().unwrap_or(path)).or_default().push(line);
    }
    let of = |(name, lines): (&str, Vec<&CsvRow>)| (name.to_owned(), program(&sheet, &lines));
    inputs.into_iter().map(of).collect()
}

fn program(sheet: &CsvTable<'_>, lines: &[&CsvRow]) -> Counted {
    let mean = |column: &str| {
        let at = sheet.column(column).expect(OURS);
        let told = lines.iter().filter_map(|line| sheet.number(line, at).expect(OURS));
        let told: Vec<f64> = told.collect();
        (!told.is_empty()).then(|| told.iter().sum::<f64>() / told.len() as f64)
    };
    Counted {
        ipc: mean("ipc_alone"),
        mpki: mean("llc_mpki"),
        apki: mean("llc_apki"),
        bandwidth: mean("mem_bw_mb_s").map(|mb| mb * 1e6),
        stall_share: mean("l2_stall_frac"),
        runtime_s: mean("runtime_1_s"),
        c_over_s: mean("fit_c_over_s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_several_inputs_are_their_mean_and_what_nobody_knows_is_absent() {
        let soplex = counted()["450.soplex"];
        assert_eq!(soplex.mpki.map(|mpki| format!("{mpki:.3}")).as_deref(), Some("12.498"));
        assert_eq!((soplex.runtime_s, soplex.c_over_s), (Some(133.0), Some(1.0)));
        assert_eq!(counted()["lu.B"], Counted::default());
        assert!(counted().contains_key("dijkstra"), "without its suite's folder");
    }
}
