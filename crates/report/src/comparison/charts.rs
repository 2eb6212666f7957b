//! The charts of a comparison: ratios, heat map, gain and cost, slowdowns, makespans and controllers.
//!
//! ```text
//!   ratios       a panel per policy, a row per workload
//!   heat map     policies × workloads
//!   gain, cost   a panel per value, a row per policy
//!   slowdowns    a panel per value, a row per policy, a box plot in each
//!   runs         a panel per workload, a row per policy, a circle per seed
//!   nodes        a panel per workload, a row per policy, a circle per node
//! ```

use super::ratio::{BASELINE, Ratio};
use super::{Comparison, ControllerRow, PolicyRow, RunCompletion, RunRow, SummaryRow};
use crate::chart::{Axis, ChartRow, Marks, RowChart, Shape, heat, heat_table, panels};
use crate::format::{self, ABSENT, bytes, fixed, four_digits, signed_percent};
use crate::page::{escape, legend};

/// Middle of a row.
const MIDDLE: f64 = 0.5;

/// Draws a horizontal line with end marks.
fn whisker(marks: &mut Marks, axis: &Axis, ends: [f64; 2]) {
    let [low, high] = ends.map(|end| axis.share(end));
    marks.line("whisker", (low, MIDDLE), (high, MIDDLE));
    [low, high].into_iter().for_each(|x| marks.line("whisker", (x, 0.35), (x, 0.65)));
}

fn summary_of<'a>(all: &'a Comparison, policy: &str, workload: &str) -> Option<&'a SummaryRow> {
    all.summary.iter().find(|row| row.column == policy && row.workload == workload)
}

fn finished(all: &Comparison) -> impl Iterator<Item = &RunRow> {
    all.runs.iter().filter(|run| run.status == RunCompletion::Finished)
}

impl Ratio<'_> {
    /// Returns the ratio, its sign and its interval.
    fn to_html(&self) -> String {
        let (text, interval) = (self.text(), self.interval("–").unwrap_or_default());
        let text = if text == ABSENT { "–".to_owned() } else { escape(&text) };
        format!("<b>{text} <i>{}</i></b><small>{interval}</small>", self.sign())
    }

    /// Returns a cell of the heat map. Only a significant ratio has a colour.
    fn to_cell(&self) -> String {
        /// Distance of a ratio from 1 that has the full colour.
        const FULL: f64 = 0.3;
        let (source, class) = (escape(&self.source), self.class());
        if self.verdict_word() == BASELINE {
            return format!(
                "<td class=\"base\" title=\"{source}\"><b>{}</b><small>{BASELINE}</small></td>",
                escape(&self.text())
            );
        }
        let style = match self.ratio {
            Some(ratio) if self.is_significant() => {
                format!(" style=\"{}\"", heat((ratio - 1.0).abs() / FULL, ratio < 1.0))
            }
            _ => String::new(),
        };
        format!("<td class=\"{class}\"{style} title=\"{source}\">{}</td>", self.to_html())
    }

    fn marks(&self, axis: &Axis, shape: Shape) -> Marks {
        let mut marks = Marks::default();
        if let Some([low, high]) = self.ci95 {
            whisker(&mut marks, axis, [*low, *high]);
        }
        if let Some(ratio) = self.ratio {
            let class = if self.is_significant() { "full" } else { "open" };
            marks.mark(class, shape, (axis.share(ratio), MIDDLE), &self.source);
        }
        marks
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        self.ci95.unwrap_or_default().iter().copied().chain(self.ratio)
    }
}

/// Draws the ratio, its confidence interval and the verdict of each policy on each workload.
pub(super) fn heat_map(all: &Comparison) -> String {
    let setting = &all.setting;
    let has_total = 1 < setting.workloads.len();
    let heads = setting
        .workloads
        .iter()
        .map(|name| setting.caption(name))
        .chain(has_total.then_some("all"));
    let row = |policy: &'_ String| -> String {
        let workloads = setting.workloads.iter();
        let workloads = workloads.filter_map(|name| summary_of(all, policy, name));
        let total = all.policies.iter().find(|row| has_total && row.column == *policy);
        let ratios =
            workloads.map(|row| Ratio::of_workload(all, row)).chain(total.map(Ratio::of_all));
        ratios.map(|ratio| ratio.to_cell()).collect()
    };
    let equal = setting.equal_within().map(|within| format!("= equal {within}"));
    let others = ["✓ better", "✕ worse", "~ inconclusive: no significant difference"];
    let legend = legend(others.map(str::to_owned).into_iter().chain(equal));
    let heads = std::iter::once(setting.compared.head()).chain(heads);
    let rows = setting.columns.iter().map(|policy| (policy.as_str(), row(policy)));
    legend + &heat_table("heat", "Verdicts", heads, rows)
}

/// A panel of ratios: its caption, and the name, the ratio and the shape of each row.
type RatioPanel<'a> = (&'a str, Vec<(&'a str, Ratio<'a>, Shape)>);

/// Draws the ratios with their confidence intervals: a panel per policy with a row per workload. With one workload a
/// single panel has a row per policy. Empty without a ratio.
pub(super) fn ratios(all: &Comparison) -> String {
    let setting = &all.setting;
    let others = || setting.columns.iter().filter(|policy| **policy != setting.baseline);
    let charts: Vec<RatioPanel<'_>> = match setting.workloads.as_slice() {
        [only] => {
            vec![(
                setting.caption(only),
                others().flat_map(|policy| ratio_rows(all, policy, false)).collect(),
            )]
        }
        _ => others().map(|policy| (policy.as_str(), ratio_rows(all, policy, true))).collect(),
    };
    let values = charts.iter().flat_map(|(_, rows)| rows).flat_map(|(_, ratio, _)| ratio.values());
    let values: Vec<f64> = values.collect();
    if values.is_empty() {
        return String::new();
    }
    let title = format!("ratio to {} (below 1: less time)", setting.baseline);
    let axis = Axis::covering(title, values.into_iter(), Some(1.0));
    let name = if setting.workloads.len() == 1 { setting.compared.head() } else { "Workload" };
    panels(charts.into_iter().map(|(caption, rows)| {
        let chart = RowChart {
            label: &format!("Ratios of {caption} with 95 % confidence intervals"),
            heads: (name, "Ratio, 95 % interval"),
            axis: &axis,
            reference: Some(1.0),
            n_lines: 1,
        };
        let row = |(name, ratio, shape): (&str, Ratio<'_>, Shape)| ChartRow {
            name: name.to_owned(),
            marks: ratio.marks(&axis, shape),
            value: ratio.to_html(),
        };
        (caption.to_owned(), chart.to_html(rows.into_iter().map(row)))
    }))
}

/// Returns the rows of a policy. With one workload the only row has the name of the policy.
fn ratio_rows<'a>(
    all: &'a Comparison,
    policy: &'a str,
    by_workload: bool,
) -> Vec<(&'a str, Ratio<'a>, Shape)> {
    let of_workload = all.summary.iter().filter(|row| row.column == policy).map(|row| {
        let name = if by_workload { &row.workload } else { policy };
        (name, Ratio::of_workload(all, row), Shape::Circle)
    });
    let total = all.policies.iter().filter(|row| by_workload && row.column == policy);
    let total = total.map(|row| ("all workloads", Ratio::of_all(row), Shape::Diamond));
    of_workload.chain(total).collect()
}

/// Draws a panel with a row per policy.
fn policy_panel<'a>(
    caption: &str,
    axis: &Axis,
    reference: Option<f64>,
    heads: (&str, &str),
    rows: impl Iterator<Item = (&'a str, Marks, String)>,
) -> (String, String) {
    let label = format!("{caption}: {}", axis.title);
    let chart = RowChart { label: &label, heads, axis, reference, n_lines: 1 };
    let row = |(name, marks, value): (&str, Marks, String)| ChartRow {
        name: name.to_owned(),
        marks,
        value: if value == ABSENT { "–".to_owned() } else { escape(&value) },
    };
    (caption.to_owned(), chart.to_html(rows.map(row)))
}

/// A value of each policy that is drawn as a bar.
struct BarColumn {
    caption: &'static str,
    title: &'static str,
    value: fn(&PolicyRow) -> Option<f64>,
    format: fn(f64) -> String,
    /// Whether the colour depends on the verdict.
    is_verdict: bool,
}

const BARS: [BarColumn; 4] = [
    BarColumn {
        caption: "Makespan relative to the baseline",
        title: "difference (%)",
        value: |row| row.ratio_to_baseline.map(|ratio| 100.0 * (ratio - 1.0)),
        format: |percent| signed_percent(percent / 100.0),
        is_verdict: true,
    },
    BarColumn {
        caption: "Migrations",
        title: "CPU migrations of tasks (median per run)",
        value: |row| row.n_migrations_median,
        format: |n| fixed(n, 1),
        is_verdict: false,
    },
    BarColumn {
        caption: "Moves by the policy",
        title: "moves of running jobs (median per run)",
        value: |row| row.n_moves_median,
        format: |n| fixed(n, 1),
        is_verdict: false,
    },
    BarColumn {
        caption: "Memory migrated",
        title: "memory (MiB, median per run)",
        value: |row| row.pages_moved_median_bytes.map(|bytes| bytes / f64::from(1 << 20)),
        format: |mib| bytes((mib * f64::from(1 << 20)) as u64),
        is_verdict: false,
    },
];

/// Draws gain and cost of each policy: a panel of bars for each value that any policy has. Empty without such a value.
pub(super) fn gain_and_cost(all: &Comparison) -> String {
    let has_values = |column: &&BarColumn| {
        all.policies.iter().filter_map(column.value).any(|value| value != 0.0)
    };
    let columns: Vec<&BarColumn> = BARS.iter().filter(has_values).collect();
    if columns.is_empty() {
        return String::new();
    }
    panels(columns.into_iter().map(|column| {
        let values = all.policies.iter().filter_map(column.value);
        let axis = Axis::covering(column.title, values, Some(0.0));
        let rows = all.policies.iter().map(|row| bar_row(column, row, &axis));
        policy_panel(column.caption, &axis, Some(0.0), (all.setting.compared.head(), "Value"), rows)
    }))
}

fn bar_row<'a>(column: &BarColumn, row: &'a PolicyRow, axis: &Axis) -> (&'a str, Marks, String) {
    let mut marks = Marks::default();
    let Some(value) = (column.value)(row) else { return (&row.column, marks, "–".to_owned()) };
    let class = match row.verdict {
        Some(verdict) if column.is_verdict => verdict.name(),
        _ => "plain",
    };
    marks.bar(&format!("bar {class}"), (axis.share(0.0), axis.share(value)), MIDDLE, "");
    let text = match row.is_baseline && column.is_verdict {
        true => "baseline".to_owned(),
        false => (column.format)(value),
    };
    (&row.column, marks, text)
}

/// Draws slowdowns of jobs and unfairness of runs: two panels of box plots. Empty if no job was measured alone.
pub(super) fn slowdowns(all: &Comparison) -> String {
    let policies = &all.setting.columns;
    let runs = |policy: &'_ str| -> Vec<&RunRow> {
        finished(all).filter(|run| run.column == *policy).collect()
    };
    let slowdowns = |policy: &String| -> Vec<f64> {
        let jobs = runs(policy).into_iter().flat_map(|run| &run.jobs);
        jobs.filter_map(|job| job.slowdown).collect()
    };
    let unfairness = |policy: &String| -> Vec<f64> {
        runs(policy).into_iter().filter_map(|run| run.unfairness).collect()
    };
    let columns = [
        ("Slowdown of jobs", "slowdown", policies.iter().map(slowdowns).collect::<Vec<_>>()),
        ("Unfairness of runs", "unfairness", policies.iter().map(unfairness).collect()),
    ];
    if columns[0].2.iter().all(Vec::is_empty) {
        return String::new();
    }
    panels(columns.into_iter().map(|(caption, title, values)| {
        let axis = Axis::covering(title, values.iter().flatten().copied(), Some(1.0));
        let rows = policies.iter().zip(&values).map(|(policy, values)| {
            let (marks, median) = box_plot(values, &axis);
            (policy.as_str(), marks, median)
        });
        policy_panel(caption, &axis, Some(1.0), (all.setting.compared.head(), "Median"), rows)
    }))
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

/// Draws a box plot, and returns it with the median as text.
fn box_plot(values: &[f64], axis: &Axis) -> (Marks, String) {
    let mut marks = Marks::default();
    let Some([min, lower, median, upper, max]) = quartiles(values) else {
        return (marks, "–".to_owned());
    };
    whisker(&mut marks, axis, [min, max]);
    let [low, middle, high] = [min, median, max].map(format::ratio);
    let tooltip = format!("median {middle}, from {low} to {high}");
    marks.bar("box", (axis.share(lower), axis.share(upper)), MIDDLE, &tooltip);
    let x = axis.share(median);
    marks.line("middle", (x, 0.25), (x, 0.75));
    (marks, middle)
}

/// Draws every finished run as a circle: a panel per workload with a row per policy.
pub(super) fn makespans(all: &Comparison) -> String {
    panels(all.setting.workloads.iter().map(|workload| makespan_panel(all, workload)))
}

fn makespan_panel(all: &Comparison, workload: &str) -> (String, String) {
    let runs: Vec<&RunRow> = finished(all).filter(|run| run.workload == workload).collect();
    let axis = Axis::covering("makespan (s)", runs.iter().filter_map(|run| run.makespan_s), None);
    let rows = all.setting.columns.iter().map(|policy| {
        let of_policy: Vec<&RunRow> =
            runs.iter().copied().filter(|run| run.column == *policy).collect();
        let (marks, mean) = makespan_row(&of_policy, &axis);
        let absent =
            || summary_of(all, policy, workload).map_or(String::new(), SummaryRow::absent_mean);
        (policy.as_str(), marks, mean.unwrap_or_else(absent))
    });
    let caption = all.setting.caption(workload);
    policy_panel(caption, &axis, None, (all.setting.compared.head(), "Mean"), rows)
}

/// Draws the runs of a row, and returns them with their mean; `None` without a finished run.
fn makespan_row(runs: &[&RunRow], axis: &Axis) -> (Marks, Option<String>) {
    /// Vertical positions of circles of adjacent seeds, so that they do not hide each other.
    const LEVELS: [f64; 5] = [0.5, 0.3, 0.66, 0.4, 0.74];
    let mut marks = Marks::default();
    if runs.is_empty() {
        return (marks, None);
    }
    let makespans: Vec<f64> = runs.iter().filter_map(|run| run.makespan_s).collect();
    for ((run, makespan), y) in runs.iter().zip(&makespans).zip(LEVELS.iter().cycle()) {
        let tooltip = format!("seed {}: {} s", run.seed, four_digits(*makespan));
        marks.mark("run", Shape::Circle, (axis.share(*makespan), *y), &tooltip);
    }
    let mean = makespans.iter().sum::<f64>() / runs.len() as f64;
    marks.line("mean", (axis.share(mean), 0.1), (axis.share(mean), 0.9));
    (marks, Some(format!("{} s", four_digits(mean))))
}

/// Draws loads of the memory controllers: a panel per workload with a row per policy and a circle per node. `None`: no
/// controller is counted.
pub(super) fn controllers(all: &Comparison) -> Option<String> {
    let is_counted = |workload: &&String| {
        all.summary.iter().any(|row| row.workload == **workload && !row.controllers.is_empty())
    };
    let counted: Vec<&String> = all.setting.workloads.iter().filter(is_counted).collect();
    let panel = |workload: &&String| controller_panel(all, workload);
    (!counted.is_empty()).then(|| panels(counted.iter().map(panel)))
}

fn controller_panel(all: &Comparison, workload: &str) -> (String, String) {
    let rows_of = |policy: &str| -> &[ControllerRow] {
        summary_of(all, policy, workload).map_or(&[], |row| &row.controllers)
    };
    let policies = &all.setting.columns;
    let loads = policies.iter().flat_map(|policy| rows_of(policy)).map(gb_per_s);
    let axis = Axis::covering("traffic of a node (GB/s)", loads, Some(0.0));
    let rows = policies.iter().map(|policy| {
        let (marks, highest) = controller_row(rows_of(policy), &axis);
        (policy.as_str(), marks, highest)
    });
    let caption = all.setting.caption(workload);
    policy_panel(caption, &axis, None, (all.setting.compared.head(), "Highest"), rows)
}

fn gb_per_s(row: &ControllerRow) -> f64 {
    row.bytes_per_s / 1e9
}

fn controller_row(rows: &[ControllerRow], axis: &Axis) -> (Marks, String) {
    let mut marks = Marks::default();
    let loads = || rows.iter().map(gb_per_s);
    let (Some(low), Some(high)) = (loads().min_by(f64::total_cmp), loads().max_by(f64::total_cmp))
    else {
        return (marks, "–".to_owned());
    };
    marks.line("whisker", (axis.share(low), MIDDLE), (axis.share(high), MIDDLE));
    for row in rows {
        let node = row.node.map_or("all memory".to_owned(), |node| format!("node {node}"));
        let tooltip = format!("{node}: {}", format::bandwidth(row.bytes_per_s));
        marks.mark("run", Shape::Circle, (axis.share(gb_per_s(row)), MIDDLE), &tooltip);
    }
    (marks, format::bandwidth(high * 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::ComparisonVerdict;

    #[test]
    fn a_box_plot_has_the_quartiles() {
        assert_eq!(quartiles(&[5.0, 1.0, 2.0, 3.0, 4.0]), Some([1.0, 2.0, 3.0, 4.0, 5.0]));
        assert_eq!(quartiles(&[2.0]), Some([2.0; 5]));
        assert_eq!(quartiles(&[]), None);
    }

    #[test]
    fn only_a_significant_ratio_has_a_colour() {
        let cell = |verdict| {
            let mut ratio = crate::comparison::ratio::tests::ratio(0.8, &[0.7, 0.9]);
            ratio.verdict = verdict;
            ratio.to_cell()
        };
        assert!(cell(Some(ComparisonVerdict::Better)).contains("var(--good)"));
        assert!(!cell(Some(ComparisonVerdict::Inconclusive)).contains("style"));
        assert!(!cell(Some(ComparisonVerdict::Equal)).contains("style"));
    }
}
