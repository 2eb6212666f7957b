//! Ratios with their intervals: a panel for each policy, a row for each workload. With one workload a
//! single panel with a row for each policy.

use super::plot::{Axis, Plot};
use super::{ends, mark};
use crate::comparison::{Comparison, VerdictWord};

const WIDTH: f64 = 560.0;
const ROW: f64 = 22.0;
const TOP: f64 = 8.0;
/// Room for names, and for figures.
const LEFT: f64 = 150.0;
const RIGHT: f64 = 170.0;
const N_LETTERS: usize = 22;

/// A row of a panel.
struct Row<'a> {
    name: &'a str,
    ratio: f64,
    within: Option<&'a [f64]>,
    verdict: Option<VerdictWord>,
    is_sum: bool,
}

pub(super) fn panels(told: &Comparison) -> String {
    let others = || told.setting.policies.iter().filter(|policy| **policy != told.setting.baseline);
    let panels: Vec<(&str, Vec<Row<'_>>)> = match told.setting.workloads.as_slice() {
        [only] => vec![(only, others().flat_map(|policy| rows(told, policy, false)).collect())],
        _ => others().map(|policy| (policy.as_str(), rows(told, policy, true))).collect(),
    };
    let all = panels.iter().flat_map(|(_, rows)| rows);
    let values =
        all.flat_map(|row| row.within.unwrap_or_default().iter().copied().chain([row.ratio]));
    let axis = Axis::over(values, Some(1.0), (LEFT, WIDTH - RIGHT));
    let drawn: String = panels
        .iter()
        .map(|(name, rows)| {
            format!(
                "<figure><figcaption>{}</figcaption>{}</figure>",
                crate::html::escape::escape(name),
                panel(name, rows, axis)
            )
        })
        .collect();
    format!("<div class=\"panels\">{drawn}</div>")
}

/// The rows of a policy; with one workload its only row is named after the policy.
fn rows<'a>(told: &'a Comparison, policy: &'a str, by_workload: bool) -> Vec<Row<'a>> {
    let of_workload = told.summary.iter().filter(|row| row.policy == policy).filter_map(|row| {
        Some(Row {
            name: if by_workload { &row.workload } else { policy },
            ratio: row.ratio_to_baseline?,
            within: row.ratio_ci95.as_deref(),
            verdict: row.verdict,
            is_sum: false,
        })
    });
    let over_all = told.policies.iter().filter(|row| by_workload && row.policy == policy);
    let over_all = over_all.filter_map(|row| {
        Some(Row {
            name: "all workloads",
            ratio: row.ratio_to_baseline?,
            within: row.ratio_ci95.as_deref(),
            verdict: row.verdict,
            is_sum: true,
        })
    });
    of_workload.chain(over_all).collect()
}

fn panel(name: &str, rows: &[Row<'_>], axis: Axis) -> String {
    let bottom = TOP + ROW * rows.len() as f64;
    let mut plot =
        Plot::new(&format!("ratios of {name} with their intervals"), WIDTH, bottom + 24.0);
    plot.grid(&axis, (TOP, bottom), 5, "");
    plot.line("one", (axis.x(1.0), TOP), (axis.x(1.0), bottom));
    for (nr, row) in rows.iter().enumerate() {
        let y = TOP + ROW * (nr as f64 + 0.5);
        plot.name((LEFT - 10.0, y + 4.0), row.name, N_LETTERS);
        if let Some([low, high]) = row.within {
            plot.line("whisker", (axis.x(*low), y), (axis.x(*high), y));
            for end in [low, high] {
                plot.line("whisker", (axis.x(*end), y - 4.0), (axis.x(*end), y + 4.0));
            }
        }
        let is_claimed = row.verdict.is_some_and(|word| word != VerdictWord::Inconclusive);
        let class = if is_claimed { "full" } else { "open" };
        let at = (axis.x(row.ratio), y);
        if row.is_sum {
            plot.diamond(class, at, 6.5);
        } else {
            plot.dot(class, at, 4.5, "");
        }
        let figures = format!(
            "{:.3} {} {}",
            row.ratio,
            ends(row.within, 3).map_or(String::new(), |ends| format!("({ends})")),
            mark(row.verdict)
        );
        plot.label("figure", "start", (WIDTH - RIGHT + 12.0, y + 4.0), &figures);
    }
    plot.end()
}
