//! A study as text of eighty columns.

use std::fmt::Write;

use report::study::{StudyExperiment, StudyTable};
use report::table::fold;

use super::{Experiment, Study, StudyRun};

/// Columns of the text.
const WIDTH: usize = 80;
/// Columns of a label such as `source:`.
const INDENT: usize = 11;
/// Columns between two columns of a table, and before the first.
const GAP: usize = 2;

/// The names and titles of these experiments.
pub fn list(study: &Study, selected: &[&Experiment]) -> String {
    let mut text = String::new();
    text.push_str(&fold(&format!("{}: {}", study.name(), study.source()), WIDTH, "", 0));
    text.push('\n');
    let width = selected.iter().map(|one| one.name().len()).max().unwrap_or(0);
    for experiment in selected {
        let head = format!("  {:width$}  ", experiment.name());
        text.push_str(&fold(experiment.title(), WIDTH, &head, GAP + width + GAP));
    }
    text
}

/// The whole result.
pub fn text(run: &StudyRun) -> String {
    let mut text = String::new();
    let result = &run.result;
    text.push_str(&fold(&format!("{}: {}", result.study, result.source), WIDTH, "", 0));
    result.experiments.iter().for_each(|experiment| write_experiment(&mut text, experiment));
    if !result.not_run.is_empty() {
        text.push('\n');
        wrap(&mut text, "stopped:", &format!("not run: {}", result.not_run.join(", ")));
    }
    text
}

fn write_experiment(text: &mut String, experiment: &StudyExperiment) {
    let _ = writeln!(text, "\n━━ {} ━━ {}\n", experiment.name, experiment.title);
    wrap(text, "source:", &experiment.source);
    wrap(text, "limit:", &experiment.limit);
    wrap(text, "method:", &experiment.method);
    experiment.tables.iter().for_each(|table| write_table(text, table));
    text.push('\n');
    for claim in &experiment.claims {
        wrap(text, "claim:", &claim.claim);
        let verdict = claim.verdict.text().to_uppercase();
        wrap(text, "", &format!("reading {}: {verdict} ({})", claim.reading.name(), claim.result));
    }
    experiment.notes.iter().for_each(|note| wrap(text, "note:", note));
}

/// A label, and a text in the column right of it.
fn wrap(text: &mut String, label: &str, words: &str) {
    text.push_str(&fold(words, WIDTH, &format!("{label:INDENT$}"), INDENT));
}

/// First column left-aligned, others right-aligned. Heads of several words use several lines. A table that is too
/// wide continues below, with its first column repeated.
fn write_table(text: &mut String, table: &StudyTable) {
    text.push('\n');
    text.push_str(&fold(&table.title, WIDTH, "  ", GAP));
    let widths: Vec<usize> = (0..table.columns.len()).map(|column| width(table, column)).collect();
    let mut rest: Vec<usize> = (1..table.columns.len()).collect();
    let mut is_first = true;
    while is_first || !rest.is_empty() {
        let mut left = WIDTH.saturating_sub(GAP + widths.first().copied().unwrap_or(0));
        let fits = |column: &&usize| {
            let after = left.checked_sub(GAP + widths[**column]);
            left = after.unwrap_or(0);
            after.is_some()
        };
        // At least one column, however wide it is.
        let n = rest.iter().take_while(fits).count().clamp(1, rest.len().max(1)).min(rest.len());
        let block: Vec<usize> = std::iter::once(0).chain(rest.drain(..n)).collect();
        if !is_first {
            text.push('\n');
        }
        write_columns(text, table, &block, &widths);
        is_first = false;
    }
}

/// The widest cell of a column, or the widest word of its head.
fn width(table: &StudyTable, column: usize) -> usize {
    let cells = table.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.text.as_str());
    let texts = cells.chain(table.columns[column].head.split(' '));
    texts.map(|text| text.chars().count()).max().unwrap_or(0)
}

fn write_columns(text: &mut String, table: &StudyTable, columns: &[usize], widths: &[usize]) {
    let lines_of = |idx: &usize| -> Vec<String> {
        let head = fold(&table.columns[*idx].head, widths[*idx], "", 0);
        head.lines().map(str::to_owned).collect()
    };
    let heads: Vec<Vec<String>> = columns.iter().map(lines_of).collect();
    let n_lines = heads.iter().map(Vec::len).max().unwrap_or(0);
    let mut lines: Vec<Vec<&str>> = Vec::new();
    for line in 0..n_lines {
        // Heads are bottom-aligned.
        let line_of = |head: &'_ Vec<String>| (line + head.len()).checked_sub(n_lines);
        lines.push(
            heads.iter().map(|head| line_of(head).map_or("", |idx| head[idx].as_str())).collect(),
        );
    }
    for row in &table.rows {
        lines.push(
            columns.iter().map(|idx| row.get(*idx).map_or("", |cell| cell.text.as_str())).collect(),
        );
    }
    for cells in lines {
        let mut line = String::new();
        for (cell, column) in cells.iter().zip(columns) {
            let width = widths[*column];
            let _ = match column {
                0 => write!(line, "  {cell:width$}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}
