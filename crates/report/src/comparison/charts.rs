//! The charts of a comparison: heat map, ratios, gain and cost, slowdowns, makespans and controllers.
//!
//! ```text
//!   heat map     policies × workloads      ratios    a panel per policy, a row per workload
//!   gain, cost   a row per policy          runs      a panel per workload, a row per policy, a circle per seed
//!   slowdowns    a row per policy          nodes     a panel per workload, a row per policy, a circle per node
//! ```

use base::counted_noun;

use super::{
    Comparison, ComparisonVerdict, ControllerRow, PolicyRow, RunCompletion, RunRow, SummaryRow,
};
use crate::chart::{Axis, Chart, RowLayout, heat, heat_table, panels};
use crate::format::{self, bytes, fixed, four_digits, signed_percent};
use crate::page::{empty, escape, legend};

/// Returns the sign of a verdict, so that no colour is needed.
pub(super) fn sign(verdict: Option<ComparisonVerdict>) -> &'static str {
    match verdict {
        Some(ComparisonVerdict::Better) => "✓",
        Some(ComparisonVerdict::Worse) => "✕",
        Some(ComparisonVerdict::Inconclusive) => "~",
        None => "",
    }
}

/// Returns the class of a verdict in the styles.
pub(super) fn class(verdict: Option<ComparisonVerdict>) -> &'static str {
    verdict.map_or("none", ComparisonVerdict::name)
}

/// Returns the two ends of a confidence interval as text.
pub(super) fn ends(ci95: Option<&[f64]>, digits: usize) -> Option<String> {
    format::ci(ci95, digits, "–")
}

const WIDE: RowLayout =
    RowLayout { width: 1180.0, left: 190.0, n_letters: 27, top: 26.0, row: 26.0 };
const PANEL: RowLayout =
    RowLayout { width: 560.0, left: 150.0, n_letters: 22, top: 8.0, row: 26.0 };
const RATIOS: RowLayout = RowLayout { row: 22.0, ..PANEL };

/// Draws a horizontal line with end marks.
fn whisker(chart: &mut Chart, axis: &Axis, (low, high): (f64, f64), y: f64) {
    let ends = [low, high].map(|end| axis.coordinate(end));
    chart.line("whisker", (ends[0], y), (ends[1], y));
    ends.into_iter().for_each(|x| chart.line("whisker", (x, y - 4.0), (x, y + 4.0)));
}

fn summary_of<'a>(all: &'a Comparison, policy: &str, workload: &str) -> Option<&'a SummaryRow> {
    all.summary.iter().find(|row| row.policy == policy && row.workload == workload)
}

fn finished(all: &Comparison) -> impl Iterator<Item = &RunRow> {
    all.runs.iter().filter(|run| run.status == RunCompletion::Finished)
}

/// A cell of the heat map; the tooltip has the source of the ratio.
struct HeatCell<'a> {
    ratio: Option<f64>,
    ci95: Option<&'a [f64]>,
    verdict: Option<ComparisonVerdict>,
    tooltip: String,
}

/// Draws the ratio, its confidence interval and the verdict of each policy on each workload.
pub(super) fn heat_map<'a>(all: &'a Comparison) -> String {
    let has_total = 1 < all.setting.workloads.len();
    let total = has_total.then_some("all").into_iter();
    let heads = all.setting.workloads.iter().map(String::as_str).chain(total);
    let row = |policy: &'a String| {
        let total = all.policies.iter().find(|row| has_total && row.policy == *policy);
        let workloads = all
            .setting
            .workloads
            .iter()
            .filter_map(|name| summary_of(all, policy, name).map(HeatCell::of_workload));
        let is_baseline = *policy == all.setting.baseline;
        let cells = workloads.chain(total.map(HeatCell::of_all));
        (policy.as_str(), cells.map(|cell| cell.to_html(is_baseline)).collect())
    };
    let legend = legend(
        ["✓ better", "✕ worse", "~ inconclusive: no significant difference"].map(str::to_owned),
    );
    let heads = std::iter::once("Policy").chain(heads);
    legend + &heat_table("heat", heads, all.setting.policies.iter().map(row))
}

impl<'a> HeatCell<'a> {
    fn of_workload(row: &'a SummaryRow) -> Self {
        let SummaryRow { policy, workload, .. } = row;
        let tooltip = row.mean_s.map_or("no finished run".to_owned(), |mean| {
            let (mean, runs) = (four_digits(mean), counted_noun(row.n_runs, "run"));
            format!("{policy} on {workload}: mean {mean} s of {runs}")
        });
        let ci95 = row.ratio_ci95.as_deref();
        HeatCell { ratio: row.ratio_to_baseline, ci95, verdict: row.verdict, tooltip }
    }

    fn of_all(row: &'a PolicyRow) -> Self {
        let seeds = counted_noun(row.n_seeds, "seed");
        let tooltip = format!("{} over all workloads: geometric mean, {seeds}", row.policy);
        let ci95 = row.ratio_ci95.as_deref();
        HeatCell { ratio: row.ratio_to_baseline, ci95, verdict: row.verdict, tooltip }
    }

    fn to_html(&self, is_baseline: bool) -> String {
        /// Distance of a ratio from 1 that has the full colour.
        const FULL: f64 = 0.3;
        let tooltip = escape(&self.tooltip);
        if is_baseline {
            return format!(
                "<td class=\"base\" title=\"{tooltip}\"><b>1</b><small>baseline</small></td>"
            );
        }
        let Some(ratio) = self.ratio else {
            return format!("<td class=\"none\" title=\"{tooltip}\">–</td>");
        };
        format!(
            "<td class=\"{}\" style=\"{}\" title=\"{tooltip}\"><b>{} <i>{}</i></b><small>{}</small></td>",
            class(self.verdict),
            heat((ratio - 1.0).abs() / FULL, ratio < 1.0),
            format::ratio(ratio),
            sign(self.verdict),
            ends(self.ci95, 2).unwrap_or_default()
        )
    }
}

struct RatioRow<'a> {
    name: &'a str,
    ratio: f64,
    ci95: Option<&'a [f64]>,
    verdict: Option<ComparisonVerdict>,
    is_total: bool,
}

/// Draws the ratios with their confidence intervals: a panel per policy with a row per workload. With one workload a
/// single panel has a row per policy.
pub(super) fn ratios(all: &Comparison) -> String {
    let setting = &all.setting;
    let others = || setting.policies.iter().filter(|policy| **policy != setting.baseline);
    let charts: Vec<(&str, Vec<RatioRow<'_>>)> = match setting.workloads.as_slice() {
        [only] => {
            vec![(only, others().flat_map(|policy| ratio_rows(all, policy, false)).collect())]
        }
        _ => others().map(|policy| (policy.as_str(), ratio_rows(all, policy, true))).collect(),
    };
    let rows = charts.iter().flat_map(|(_, rows)| rows);
    let values =
        rows.flat_map(|row| row.ci95.unwrap_or_default().iter().copied().chain([row.ratio]));
    let axis = Axis::covering(values, Some(1.0), (RATIOS.left, RATIOS.width - RATIO_TEXT));
    panels(charts.iter().map(|(name, rows)| ((*name).to_owned(), ratio_panel(name, rows, axis))))
}

/// Width of the values next to the ratios, in pixels.
const RATIO_TEXT: f64 = 170.0;

/// Returns the rows of a policy. With one workload the only row has the name of the policy.
fn ratio_rows<'a>(all: &'a Comparison, policy: &'a str, by_workload: bool) -> Vec<RatioRow<'a>> {
    let of_workload = all.summary.iter().filter(|row| row.policy == policy).filter_map(|row| {
        Some(RatioRow {
            name: if by_workload { &row.workload } else { policy },
            ratio: row.ratio_to_baseline?,
            ci95: row.ratio_ci95.as_deref(),
            verdict: row.verdict,
            is_total: false,
        })
    });
    let total = all.policies.iter().filter(|row| by_workload && row.policy == policy);
    let total = total.filter_map(|row| {
        Some(RatioRow {
            name: "all workloads",
            ratio: row.ratio_to_baseline?,
            ci95: row.ratio_ci95.as_deref(),
            verdict: row.verdict,
            is_total: true,
        })
    });
    of_workload.chain(total).collect()
}

fn ratio_panel(name: &str, rows: &[RatioRow<'_>], axis: Axis) -> String {
    let label = format!("ratios of {name} with confidence intervals");
    let mut chart = RATIOS.chart(&label, rows.iter().map(|row| row.name));
    let bottom = RATIOS.bottom(rows.len());
    chart.grid(&axis, (RATIOS.top, bottom), 5, "");
    chart.line("one", (axis.coordinate(1.0), RATIOS.top), (axis.coordinate(1.0), bottom));
    for (idx, row) in rows.iter().enumerate() {
        let y = RATIOS.y(idx);
        if let Some([low, high]) = row.ci95 {
            whisker(&mut chart, &axis, (*low, *high), y);
        }
        let is_significant =
            row.verdict.is_some_and(|word| word != ComparisonVerdict::Inconclusive);
        let (class, at) =
            (if is_significant { "full" } else { "open" }, (axis.coordinate(row.ratio), y));
        match row.is_total {
            true => chart.diamond(class, at, 6.5),
            false => chart.dot(class, at, 4.5, ""),
        }
        let ci95 = ends(row.ci95, 3).map_or(String::new(), |ends| format!("({ends})"));
        let text = format!("{} {ci95} {}", format::ratio(row.ratio), sign(row.verdict));
        chart.label("value", "start", (RATIOS.width - RATIO_TEXT + 12.0, y + 4.0), &text);
    }
    chart.end()
}

struct BarColumn {
    head: &'static str,
    value: fn(&PolicyRow) -> Option<f64>,
    format: fn(f64) -> String,
    /// Whether values have a sign. Zero is then in the middle.
    is_signed: bool,
}

const BARS: [BarColumn; 4] = [
    BarColumn {
        head: "makespan relative to the baseline",
        value: |row| row.ratio_to_baseline.map(|ratio| ratio - 1.0),
        format: signed_percent,
        is_signed: true,
    },
    BarColumn {
        head: "migrations",
        value: |row| row.n_migrations,
        format: |n| fixed(n, 1),
        is_signed: false,
    },
    BarColumn {
        head: "moves by the policy",
        value: |row| row.n_moves,
        format: |n| fixed(n, 1),
        is_signed: false,
    },
    BarColumn {
        head: "memory migrated",
        value: |row| row.pages_moved_bytes,
        format: |n| bytes(n as u64),
        is_signed: false,
    },
];

/// Draws gain and cost of each policy: a column of bars for each value.
pub(super) fn gain_and_cost(all: &Comparison) -> String {
    /// Width of a value next to its bar, and of the gap before the next column.
    const VALUE: f64 = 114.0;
    let names = all.policies.iter().map(|row| row.policy.as_str());
    let mut chart = WIDE.chart("gain and cost of each policy", names);
    let width = (WIDE.width - WIDE.left) / BARS.len() as f64;
    for (idx, column) in BARS.iter().enumerate() {
        let left = WIDE.left + width * idx as f64;
        chart.label("head", "start", (left, 15.0), column.head);
        bars(&mut chart, &all.policies, column, (left, left + width - VALUE));
    }
    chart.end_wide()
}

fn bars(chart: &mut Chart, rows: &[PolicyRow], column: &BarColumn, (left, right): (f64, f64)) {
    let highest = rows.iter().filter_map(column.value).map(f64::abs).fold(0.0, f64::max);
    let scale = if highest == 0.0 { 0.0 } else { (right - left) / highest };
    let (zero, scale) =
        if column.is_signed { ((left + right) / 2.0, scale / 2.0) } else { (left, scale) };
    chart.line("one", (zero, WIDE.top), (zero, WIDE.bottom(rows.len())));
    for (idx, row) in rows.iter().enumerate() {
        let Some(value) = (column.value)(row) else { continue };
        let (y, length) = (WIDE.y(idx), scale * value.abs());
        let from = if value < 0.0 { zero - length } else { zero };
        let class = match (column.is_signed, value < 0.0) {
            (false, _) => "bar plain",
            (true, true) => "bar better",
            (true, false) => "bar worse",
        };
        chart.rect(class, (from, y - 7.0), (length, 14.0));
        let text = match row.is_baseline && column.is_signed {
            true => "baseline".to_owned(),
            false => (column.format)(value),
        };
        chart.label("value", "start", (right + 8.0, y + 4.0), &text);
    }
}

/// Draws slowdowns of jobs and unfairness of runs: two box plots per policy.
pub(super) fn slowdowns(all: &Comparison) -> String {
    const MIDDLE: f64 = 700.0;
    const GAP: f64 = 36.0;
    let policies = &all.setting.policies;
    let of_policy = |policy: &String| -> [Vec<f64>; 2] {
        let runs = || finished(all).filter(|run| run.policy == *policy);
        let slowdowns = runs().flat_map(|run| &run.jobs).filter_map(|job| job.slowdown);
        [slowdowns.collect(), runs().filter_map(|run| run.unfairness).collect()]
    };
    let values: Vec<[Vec<f64>; 2]> = policies.iter().map(of_policy).collect();
    if values.iter().all(|[slowdowns, _]| slowdowns.is_empty()) {
        return empty("No job was measured alone, so slowdowns are unknown.");
    }
    let names = policies.iter().map(String::as_str);
    let mut chart = WIDE.chart("slowdowns and unfairness of each policy", names);
    let columns = [
        ("slowdown of jobs", (WIDE.left, MIDDLE), 6),
        ("unfairness of runs", (MIDDLE + GAP, WIDE.width - 10.0), 5),
    ];
    for (column, (head, pixels, n_ticks)) in columns.into_iter().enumerate() {
        let all = values.iter().flat_map(|values| values[column].iter().copied());
        let axis = Axis::covering(all, Some(1.0), pixels);
        chart.label("head", "start", (pixels.0, 15.0), head);
        chart.grid(&axis, (WIDE.top, WIDE.bottom(policies.len())), n_ticks, "");
        for (idx, values) in values.iter().enumerate() {
            box_plot(&mut chart, &values[column], &axis, WIDE.y(idx));
        }
    }
    chart.end_wide()
}

/// Returns the minimum, the first quartile, the median, the third quartile and the maximum.
fn quartiles(values: &[f64]) -> Option<[f64; 5]> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some([0.0, 0.25, 0.5, 0.75, 1.0].map(|share| {
        let at = share * last as f64;
        let below = at.floor() as usize;
        sorted[below] + (at - below as f64) * (sorted[(below + 1).min(last)] - sorted[below])
    }))
}

fn box_plot(chart: &mut Chart, values: &[f64], axis: &Axis, y: f64) {
    let Some([min, lower, median, upper, max]) = quartiles(values) else { return };
    whisker(chart, axis, (min, max), y);
    let (left, right) = (axis.coordinate(lower), axis.coordinate(upper));
    chart.rect("box", (left, y - 7.0), ((right - left).max(1.0), 14.0));
    let middle = axis.coordinate(median);
    chart.line("middle", (middle, y - 7.0), (middle, y + 7.0));
    let [low, middle_text, high] = [min, median, max].map(format::ratio);
    let tooltip = format!("median {middle_text}, from {low} to {high}");
    chart.dot("hit", (middle, y), 9.0, &tooltip);
}

/// Draws every finished run as a circle: a panel per workload with a row per policy.
pub(super) fn makespans(all: &Comparison) -> String {
    let panel = |workload: &String| (workload.clone(), makespan_panel(all, workload));
    panels(all.setting.workloads.iter().map(panel))
}

fn makespan_panel(all: &Comparison, workload: &str) -> String {
    /// Vertical offsets of circles of adjacent seeds, so that they do not hide each other.
    const OFFSETS: [f64; 5] = [0.0, -5.0, 4.0, -2.5, 6.0];
    let policies = &all.setting.policies;
    let runs: Vec<&RunRow> = finished(all).filter(|run| run.workload == workload).collect();
    let pixels = (PANEL.left, PANEL.width - 14.0);
    let axis = Axis::covering(runs.iter().map(|run| run.makespan_s), None, pixels);
    let names = policies.iter().map(String::as_str);
    let mut chart = PANEL.chart(&format!("makespans on {workload}"), names);
    chart.grid(&axis, (PANEL.top, PANEL.bottom(policies.len())), 5, " s");
    for (idx, policy) in policies.iter().enumerate() {
        let y = PANEL.y(idx);
        let of_policy: Vec<&&RunRow> = runs.iter().filter(|run| run.policy == *policy).collect();
        for (run, offset) in of_policy.iter().zip(OFFSETS.iter().cycle()) {
            let tooltip = format!("seed {}: {} s", run.seed, four_digits(run.makespan_s));
            chart.dot("run", (axis.coordinate(run.makespan_s), y + offset), 3.2, &tooltip);
        }
        if !of_policy.is_empty() {
            let sum: f64 = of_policy.iter().map(|run| run.makespan_s).sum();
            let mean = axis.coordinate(sum / of_policy.len() as f64);
            chart.line("mean", (mean, y - 9.0), (mean, y + 9.0));
        }
    }
    chart.end()
}

/// Draws loads of the memory controllers: a panel per workload with a row per policy and a circle per node. `None`: no
/// controller is counted.
pub(super) fn controllers(all: &Comparison) -> Option<String> {
    let is_counted = |workload: &&String| {
        all.summary.iter().any(|row| row.workload == **workload && !row.controllers.is_empty())
    };
    let counted: Vec<&String> = all.setting.workloads.iter().filter(is_counted).collect();
    let panel = |workload: &&String| ((*workload).clone(), controller_panel(all, workload));
    (!counted.is_empty()).then(|| panels(counted.iter().map(panel)))
}

fn controller_panel(all: &Comparison, workload: &str) -> String {
    let rows = |policy: &str| -> &[ControllerRow] {
        summary_of(all, policy, workload).map_or(&[], |row| &row.controllers)
    };
    let load = |row: &ControllerRow| row.bytes_per_s / 1e9;
    let policies = &all.setting.policies;
    let loads = policies.iter().flat_map(|policy| rows(policy)).map(load);
    let axis = Axis::covering(loads, Some(0.0), (PANEL.left, PANEL.width - 14.0));
    let names = policies.iter().map(String::as_str);
    let mut chart = PANEL.chart(&format!("controller loads on {workload}"), names);
    chart.grid(&axis, (PANEL.top, PANEL.bottom(policies.len())), 5, "");
    for (idx, policy) in policies.iter().enumerate() {
        let y = PANEL.y(idx);
        let loads = || rows(policy).iter().map(load);
        if let (Some(low), Some(high)) =
            (loads().min_by(f64::total_cmp), loads().max_by(f64::total_cmp))
        {
            chart.line("whisker", (axis.coordinate(low), y), (axis.coordinate(high), y));
        }
        for row in rows(policy) {
            let node = row.node.map_or("all memory".to_owned(), |node| format!("node {node}"));
            let tooltip = format!("{node}: {}", format::bandwidth(row.bytes_per_s));
            chart.dot("run", (axis.coordinate(load(row)), y), 4.0, &tooltip);
        }
    }
    chart.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_plot_has_the_quartiles() {
        assert_eq!(quartiles(&[5.0, 1.0, 2.0, 3.0, 4.0]), Some([1.0, 2.0, 3.0, 4.0, 5.0]));
        assert_eq!(quartiles(&[2.0]), Some([2.0; 5]));
        assert_eq!(quartiles(&[]), None);
    }
}
