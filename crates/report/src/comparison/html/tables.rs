//! The tables of the page.

use super::{class, ends, mark, seconds};
use crate::comparison::{Comparison, ControllerRow, SummaryRow};
use crate::describe::Field;
use crate::format::bytes;
use crate::html::escape::escape;

/// What stands in a cell, and what it is sorted by.
struct Cell {
    key: String,
    html: String,
}

impl Cell {
    fn number(value: Option<f64>, show: impl Fn(f64) -> String) -> Self {
        Cell {
            key: value.map_or(String::new(), |value| value.to_string()),
            html: value.map_or("–".to_owned(), |value| escape(&show(value))),
        }
    }

    fn text(text: &str) -> Self {
        Cell { key: text.to_owned(), html: escape(text) }
    }

    /// Two ends, sorted by the lower one.
    fn ends(found: Option<&[f64]>, digits: usize) -> Self {
        let low = found.and_then(|found| found.first().copied());
        let shown = ends(found, digits).unwrap_or("–".to_owned());
        Cell { html: shown, ..Cell::number(low, |_| String::new()) }
    }
}

type Column = (&'static str, &'static str, fn(&SummaryRow) -> Cell);

const COLUMNS: [Column; 17] = [
    ("workload", "", |row| Cell::text(&row.workload)),
    ("n_runs", "num", |row| Cell::number(Some(row.n_runs as f64), |n| format!("{n:.0}"))),
    ("mean_s", "num", |row| Cell::number(row.mean_s, seconds)),
    ("median_s", "num", |row| Cell::number(row.median_s, seconds)),
    ("ci95_s", "num", |row| Cell::ends(row.ci95_s.as_deref(), 3)),
    ("spread", "num", |row| Cell::number(row.spread, crate::format::percent)),
    ("ratio_to_baseline", "num", |row| {
        Cell::number(row.ratio_to_baseline, |it| format!("{it:.3}"))
    }),
    ("ratio_ci95", "num", |row| Cell::ends(row.ratio_ci95.as_deref(), 3)),
    ("p_holm", "num", |row| Cell::number(row.p_holm, |p| format!("{p:.4}"))),
    ("verdict", "", verdict),
    ("oracle_gap", "num", |row| {
        Cell::number(row.oracle_gap, |gap| format!("{:+.1} %", 100.0 * gap))
    }),
    ("slowdown", "num", |row| Cell::number(row.slowdown, |it| format!("{it:.3}"))),
    ("unfairness", "num", |row| Cell::number(row.unfairness, |it| format!("{it:.3}"))),
    ("n_migrations", "num", |row| Cell::number(row.n_migrations, |n| format!("{n:.1}"))),
    ("n_moves", "num", |row| Cell::number(row.n_moves, |n| format!("{n:.1}"))),
    ("pages_moved_bytes", "num", |row| Cell::number(row.pages_moved_bytes, |n| bytes(n as u64))),
    ("controllers", "num", controllers),
];

fn verdict(row: &SummaryRow) -> Cell {
    let word = row.verdict.map_or("baseline", crate::comparison::VerdictWord::word);
    let html = format!(
        "<span class=\"verdict {}\">{} {word}</span>",
        class(row.verdict),
        mark(row.verdict)
    );
    Cell { key: word.to_owned(), html }
}

/// The load of each node, sorted by the largest.
fn controllers(row: &SummaryRow) -> Cell {
    let most = row.controllers.iter().map(|it| it.bytes_per_s).max_by(f64::total_cmp);
    let shown = |it: &ControllerRow| format!("{:.1}", it.bytes_per_s / 1e9);
    let all: Vec<String> = row.controllers.iter().map(shown).collect();
    Cell::number(most, |_| format!("{} GB/s", all.join(" · ")))
}

fn head(fields: &[Field], name: &str, class: &str) -> String {
    let field = fields.iter().find(|field| field.name == name);
    let field = field.expect("every column is named after a field of the record");
    let unit = field.unit.words();
    let unit = if unit.is_empty() { String::new() } else { format!(" Unit: {unit}.") };
    format!(
        "<th scope=\"col\" class=\"{class}\" title=\"{}{unit}\"><button>{}</button></th>",
        escape(field.meaning),
        escape(field.label)
    )
}

/// Each policy on each workload.
pub(super) fn summary(told: &Comparison) -> String {
    let heads: String =
        COLUMNS.iter().map(|(name, class, _)| head(SummaryRow::FIELDS, name, class)).collect();
    let row = |row: &SummaryRow| {
        let cells = COLUMNS.iter().map(|(_, class, of)| {
            let cell = of(row);
            format!("<td class=\"{class}\" data-v=\"{}\">{}</td>", escape(&cell.key), cell.html)
        });
        let policy = escape(&row.policy);
        let linked = match (&row.timeline, row.median_seed) {
            (Some(path), Some(seed)) => {
                format!(
                    "<a href=\"{}\" title=\"the run with the median seed, {seed}\">{policy}</a>",
                    escape(path)
                )
            }
            _ => policy.clone(),
        };
        format!(
            "<tr><th scope=\"row\" data-v=\"{policy}\">{linked}</th>{}</tr>\n",
            cells.collect::<String>()
        )
    };
    let rows: String = told.summary.iter().map(row).collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"data sortable\"><thead><tr>{}{heads}</tr></thead><tbody>\n{rows}</tbody></table></div>",
        head(SummaryRow::FIELDS, "policy", "")
    )
}

/// The jobs of each workload, folded up.
pub(super) fn jobs(told: &Comparison) -> String {
    let heads: String = told
        .setting
        .policies
        .iter()
        .map(|name| format!("<th class=\"num\" scope=\"col\">{}</th>", escape(name)))
        .collect();
    let of_workload = |workload: &String| {
        let rows: Vec<&SummaryRow> =
            told.summary.iter().filter(|row| row.workload == *workload).collect();
        let n_jobs = rows.first().map_or(0, |row| row.jobs.len());
        let lines: String = (0..n_jobs).map(|idx| job(&rows, idx)).collect();
        format!(
            "<details><summary>{} <span class=\"muted\">{}</span></summary><div class=\"scroll\" tabindex=\"0\">\
             <table class=\"data\"><thead><tr><th scope=\"col\">Job</th><th class=\"num\" scope=\"col\">Alone</th>{heads}</tr></thead><tbody>{lines}</tbody></table></div></details>\n",
            escape(workload),
            base::counted_noun(n_jobs, "job")
        )
    };
    told.setting.workloads.iter().map(of_workload).collect()
}

fn job(rows: &[&SummaryRow], idx: usize) -> String {
    let Some(first) = rows.first().map(|row| &row.jobs[idx]) else { return String::new() };
    let figure = |value: Option<f64>| value.map_or("–".to_owned(), seconds);
    let cell = |row: &&SummaryRow| {
        let job = &row.jobs[idx];
        let slow = job.slowdown.map_or(String::new(), |it| format!(" <small>× {it:.2}</small>"));
        format!("<td class=\"num\">{}{slow}</td>", figure(job.mean_s))
    };
    format!(
        "<tr><th scope=\"row\">{}</th><td class=\"num\">{}</td>{}</tr>",
        escape(&first.name),
        figure(first.alone_s),
        rows.iter().map(cell).collect::<String>()
    )
}
