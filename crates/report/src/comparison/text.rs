//! The text report of a comparison: one table per workload, one table over all workloads, and one table of costs.
//!
//! The text fits eighty columns and needs no colour.

use super::ratio::Ratio;
use super::{Compared, Comparison};
use crate::format::{
    self, ABSENT, bytes, ci, counted, fixed, n_decimals, or_absent, signed_percent,
};
use crate::table::{Align, ReportTable, fold, fold_command};

/// Number of workloads with a table of their own. The page and the JSON have all workloads.
const N_WORKLOADS_SHOWN: usize = 20;

impl Comparison {
    /// Returns the report as tables of at most `width` columns, for example 80.
    pub fn to_text(&self, width: usize) -> String {
        let width = width.clamp(40, 200);
        let mut parts = vec![fold(&self.answer(), width, "", 0), head(self, width)];
        let workloads = &self.setting.workloads;
        let shown = workloads.iter().take(N_WORKLOADS_SHOWN);
        parts.extend(shown.map(|name| makespans(self, name, width)));
        if N_WORKLOADS_SHOWN < workloads.len() {
            let n_more = workloads.len() - N_WORKLOADS_SHOWN;
            parts.push(format!("… and {} more\n", base::counted_noun(n_more, "workload")));
        }
        if 1 < workloads.len() {
            parts.push(overall(self, width));
        }
        parts.push(costs(self, width));
        parts.push(self.notes.iter().map(|note| fold(note, width, "note: ", 6)).collect());
        parts.retain(|part| !part.is_empty());
        parts.join("\n")
    }
}

fn head(comparison: &Comparison, width: usize) -> String {
    let setting = &comparison.setting;
    let text = format!(
        "{}, {} on {} ({}, {}): {} of {} done",
        counted(setting.columns.len(), setting.compared.noun()),
        setting.repetitions(),
        if setting.machine.is_empty() { "a machine without name" } else { &setting.machine },
        if setting.host == "sim" { "simulated" } else { "live" },
        base::counted_noun(setting.n_cpus, "CPU"),
        setting.n_runs_done,
        base::counted_noun(setting.n_runs, "run"),
    );
    let repeat = setting.command.as_ref();
    let repeat = repeat.map(|command| fold_command(command, width, "repeat:   "));
    fold(&text, width, "compared: ", 10)
        + &fold(&setting.baseline, width, "baseline: ", 10)
        + &repeat.unwrap_or_default()
}

fn interval(ends: Option<&[f64]>, digits: usize) -> String {
    ci(ends, digits, "-").unwrap_or_else(|| ABSENT.to_owned())
}

fn ratio_cells(ratio: &Ratio<'_>) -> [String; 3] {
    [ratio.text(), ratio.interval_cell("-"), ratio.verdict_word().to_owned()]
}

fn makespans(comparison: &Comparison, workload: &str, width: usize) -> String {
    let rows = || comparison.summary.iter().filter(|row| row.workload == workload);
    let has_gaps = rows().any(|row| row.oracle_gap.is_some());
    let n_runs_max = rows().map(|row| row.n_runs).max();
    // After an interruption the means may include different numbers of runs.
    let has_other_n = rows().any(|row| Some(row.n_runs) != n_runs_max);
    let mut heads = vec![(comparison.setting.compared.noun(), Align::Left)];
    heads.extend(has_other_n.then_some(("runs", Align::Right)));
    heads.extend([
        ("mean s", Align::Right),
        ("95 % CI", Align::Left),
        ("ratio", Align::Right),
        ("95 % CI", Align::Left),
        ("verdict", Align::Left),
    ]);
    let has_model = rows().any(|row| row.model_gap.is_some());
    heads.extend(has_gaps.then_some(("above oracle", Align::Right)));
    heads.extend(has_model.then_some(("below model", Align::Right)));
    let mut table = ReportTable::new(heads);
    for row in rows() {
        let digits = row.mean_s.map_or(0, n_decimals);
        let mut cells = vec![row.column.clone()];
        cells.extend(has_other_n.then(|| row.n_runs.to_string()));
        cells.extend([row.mean_text(digits), interval(row.ci95_s.as_deref(), digits)]);
        cells.extend(ratio_cells(&Ratio::of_workload(comparison, row)));
        cells.extend(has_gaps.then(|| or_absent(row.oracle_gap, signed_percent)));
        cells.extend(has_model.then(|| or_absent(row.model_gap, format::percent)));
        table.row(cells);
    }
    let head = match comparison.setting.compared {
        Compared::Policies => fold(workload, width, "workload: ", 10),
        Compared::Commands => String::new(),
    };
    head + &table.with_folded_names().to_text(width)
}

/// Returns the table over all workloads.
fn overall(comparison: &Comparison, width: usize) -> String {
    // Most comparisons have no equal policy, and the table should fit 80 columns.
    let has_equal = comparison.policies.iter().any(|row| row.n_equal != 0);
    let mut head = vec![
        (comparison.setting.compared.noun(), Align::Left),
        ("ratio", Align::Right),
        ("95 % CI", Align::Left),
        ("verdict", Align::Left),
        ("better", Align::Right),
        ("worse", Align::Right),
    ];
    head.extend(has_equal.then_some(("equal", Align::Right)));
    head.push(("inconclusive", Align::Right));
    let mut table = ReportTable::new(head);
    for row in &comparison.policies {
        let count = |n: u64| if row.is_baseline { String::new() } else { n.to_string() };
        let mut cells = vec![row.column.clone()];
        cells.extend(ratio_cells(&Ratio::of_all(row)));
        cells.extend([row.n_better, row.n_worse].map(count));
        cells.extend(has_equal.then(|| count(row.n_equal)));
        cells.push(count(row.n_inconclusive));
        table.row(cells);
    }
    "all workloads; number of workloads with each verdict\n".to_owned()
        + &table.with_folded_names().to_text(width)
}

/// Returns the table of slowdown, unfairness, migrations and moves.
fn costs(comparison: &Comparison, width: usize) -> String {
    let mut table = ReportTable::new([
        (comparison.setting.compared.noun(), Align::Left),
        ("slowdown", Align::Right),
        ("unfairness", Align::Right),
        ("migrations", Align::Right),
        ("moves", Align::Right),
        ("memory migrated", Align::Right),
    ]);
    for row in &comparison.policies {
        table.row([
            row.column.clone(),
            or_absent(row.slowdown, format::ratio),
            or_absent(row.unfairness, format::ratio),
            or_absent(row.n_migrations_median, |n| fixed(n, 1)),
            or_absent(row.n_moves_median, |n| fixed(n, 1)),
            or_absent(row.pages_moved_median_bytes, |n| bytes(n as u64)),
        ]);
    }
    let table = table.without_absent_columns().with_folded_names();
    if table.n_columns() < 2 {
        return String::new();
    }
    let has_slowdowns = comparison.policies.iter().any(|row| row.slowdown.is_some());
    let means = if has_slowdowns { "; slowdown and unfairness: mean" } else { "" };
    let over = if 1 < comparison.setting.workloads.len() { ", mean of the workloads" } else { "" };
    format!("median per run{over}{means}\n") + &table.to_text(width)
}
