//! Policies × workloads: the ratio, its interval and the verdict in each field.

use base::counted_noun;

use super::{class, ends, mark};
use crate::comparison::{Comparison, VerdictWord};
use crate::html::escape::escape;

/// A ratio so far from 1 has the full colour.
const FULL: f64 = 0.3;

/// One field.
struct Field<'a> {
    ratio: Option<f64>,
    within: Option<&'a [f64]>,
    verdict: Option<VerdictWord>,
    is_baseline: bool,
    /// For whoever points at it.
    said: String,
}

pub(super) fn map(told: &Comparison) -> String {
    let heads: String = told
        .setting
        .workloads
        .iter()
        .map(|name| format!("<th scope=\"col\">{}</th>", escape(name)))
        .collect();
    let all = if told.setting.workloads.len() < 2 { "" } else { "<th scope=\"col\">all</th>" };
    let rows: String = told.setting.policies.iter().map(|policy| row(told, policy)).collect();
    format!(
        "<ul class=\"legend\"><li>✓ better</li><li>✕ worse</li><li>~ inconclusive: these runs do not tell</li></ul>\
         <div class=\"scroll\" tabindex=\"0\"><table class=\"heat\"><thead><tr><th scope=\"col\">Policy</th>{heads}{all}</tr></thead>\
         <tbody>{rows}</tbody></table></div>"
    )
}

fn row(told: &Comparison, policy: &str) -> String {
    let is_baseline = policy == told.setting.baseline;
    let of_workload = |workload: &String| {
        let mut rows = told.summary.iter();
        let row = rows.find(|row| row.policy == policy && row.workload == *workload);
        row.map_or(String::new(), |row| {
            let said = row.mean_s.map_or("no run counts".to_owned(), |mean| {
                format!(
                    "{policy} on {workload}: {} s on average of {}",
                    super::seconds(mean),
                    counted_noun(row.n_runs, "run")
                )
            });
            cell(&Field {
                ratio: row.ratio_to_baseline,
                within: row.ratio_ci95.as_deref(),
                verdict: row.verdict,
                is_baseline,
                said,
            })
        })
    };
    let mut cells: String = told.setting.workloads.iter().map(of_workload).collect();
    if 1 < told.setting.workloads.len() {
        let all = told.policies.iter().find(|row| row.policy == policy);
        cells += &all.map_or(String::new(), |row| {
            cell(&Field {
                ratio: row.ratio_to_baseline,
                within: row.ratio_ci95.as_deref(),
                verdict: row.verdict,
                is_baseline,
                said: format!(
                    "{policy} over all workloads: geometric mean, {}",
                    counted_noun(row.n_seeds, "seed")
                ),
            })
        });
    }
    format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", escape(policy))
}

fn cell(field: &Field<'_>) -> String {
    let said = escape(&field.said);
    if field.is_baseline {
        return format!("<td class=\"base\" title=\"{said}\"><b>1</b><small>baseline</small></td>");
    }
    let Some(ratio) = field.ratio else {
        return format!("<td class=\"none\" title=\"{said}\">–</td>");
    };
    let strength = ((ratio - 1.0).abs() / FULL).min(1.0) * 60.0;
    let side = if ratio < 1.0 { "good" } else { "bad" };
    format!(
        "<td class=\"{}\" style=\"--h:{strength:.0}%;--s:var(--{side})\" title=\"{said}\"><b>{ratio:.3} <i>{}</i></b><small>{}</small></td>",
        class(field.verdict),
        mark(field.verdict),
        ends(field.within, 2).unwrap_or_default()
    )
}
