//! `benchmarks.csv`: what others counted of SPEC CPU2006 programs that ran alone.
//!
//! A row for each program and input; a program's figures are the mean over its inputs, its run time the
//! one that the table gives it. An empty cell is a figure that nobody could defend.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::sheet;

const TEXT: &str = include_str!("../../../../workloads/data/benchmarks.csv");

/// The clock that run times, bandwidths and cycles of the table go together with (spec 8.1): cycles in a
/// second.
pub(super) const CLOCK: f64 = 2.4e9;

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
    let mut inputs: BTreeMap<String, Vec<sheet::Line<'_>>> = BTreeMap::new();
    for line in sheet::lines(text) {
        let path = line.text("benchmark");
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        inputs.entry(name).or_default().push(line);
    }
    inputs.into_iter().map(|(name, lines)| (name, program(&lines))).collect()
}

fn program(lines: &[sheet::Line<'_>]) -> Counted {
    let mean = |column: &str| {
        let told: Vec<f64> = lines.iter().filter_map(|line| line.number(column)).collect();
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
