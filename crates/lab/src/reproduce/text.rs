//! A study as text, within eighty columns.

use std::fmt::Write;

use super::{Account, Claim, Experiment, Study, Table, Told};

/// Columns of running text.
const WIDTH: usize = 80;
/// Where words after a label begin.
const INDENT: usize = 11;

/// What there is of these experiments.
pub fn list(study: &Study, wanted: &[&Experiment]) -> String {
    let mut text = String::new();
    head(&mut text, study.name, study.source);
    text.push('\n');
    let wide = wanted.iter().map(|one| one.name.len()).max().unwrap_or(0);
    let indent = GAP + wide + GAP;
    for experiment in wanted {
        let mut name = experiment.name;
        for line in folded(experiment.title, WIDTH - indent) {
            let _ = writeln!(text, "  {name:wide$}  {line}");
            name = "";
        }
    }
    text
}

/// The study, over as many lines as it needs.
fn head(text: &mut String, name: &str, source: &str) {
    folded(&format!("{name}: {source}"), WIDTH).iter().for_each(|line| {
        let _ = writeln!(text, "{line}");
    });
}

/// All that was found.
pub fn text(account: &Account) -> String {
    let mut text = String::new();
    head(&mut text, &account.study, &account.source);
    for told in &account.experiments {
        tell(&mut text, told);
    }
    if !account.left_out.is_empty() {
        text.push('\n');
        wrap(&mut text, "stopped:", &format!("not done: {}", account.left_out.join(", ")));
    }
    text
}

fn tell(text: &mut String, told: &Told) {
    let _ = writeln!(text, "\n━━ {} ━━ {}\n", told.name, told.title);
    let labelled = [("source:", &told.says), ("limit:", &told.limit), ("how:", &told.how)];
    labelled.into_iter().for_each(|(label, words)| wrap(text, label, words));
    told.found.tables.iter().for_each(|table| draw(text, table));
    text.push('\n');
    told.found.claims.iter().for_each(|claim| say(text, claim));
    told.found.why.iter().for_each(|why| wrap(text, "note:", why));
}

fn say(text: &mut String, claim: &Claim) {
    wrap(text, "claim:", &claim.claim);
    let verdict = claim.verdict.words().to_uppercase();
    wrap(text, "", &format!("reading {}: {verdict} ({})", claim.reading.word(), claim.found));
}

/// A label, and words beside it over as many lines as they need.
fn wrap(text: &mut String, label: &str, words: &str) {
    let mut label = label;
    for line in folded(words, WIDTH - INDENT) {
        let _ = writeln!(text, "{label:INDENT$}{line}");
        label = "";
    }
}

/// Between two columns, and before the first.
const GAP: usize = 2;

/// The first column to the left, figures to the right. Heads of several words stand over several lines; a
/// table that is too wide all the same goes on below, with its first column again.
fn draw(text: &mut String, table: &Table) {
    let _ = writeln!(text);
    wrap_at(text, GAP, &table.title);
    let widths: Vec<usize> = (0..table.columns.len()).map(|column| width(table, column)).collect();
    let mut rest: Vec<usize> = (1..table.columns.len()).collect();
    let mut is_first = true;
    while is_first || !rest.is_empty() {
        let mut room = WIDTH.saturating_sub(GAP + widths.first().copied().unwrap_or(0));
        let fits = |column: &&usize| {
            let left = room.checked_sub(GAP + widths[**column]);
            room = left.unwrap_or(0);
            left.is_some()
        };
        // One at least, however wide it is.
        let n = rest.iter().take_while(fits).count().clamp(1, rest.len().max(1)).min(rest.len());
        let block: Vec<usize> = std::iter::once(0).chain(rest.drain(..n)).collect();
        if !is_first {
            text.push('\n');
        }
        rows(text, table, &block, &widths);
        is_first = false;
    }
}

/// What a column needs: its widest cell, or the widest word of its head.
fn width(table: &Table, column: usize) -> usize {
    let cells = table.rows.iter().filter_map(|row| row.get(column));
    let words = table.columns[column].head.split(' ');
    cells
        .map(|cell| cell.text.chars().count())
        .chain(words.map(|word| word.chars().count()))
        .max()
        .unwrap_or(0)
}

fn rows(text: &mut String, table: &Table, columns: &[usize], widths: &[usize]) {
    let heads: Vec<Vec<String>> = columns
        .iter()
        .map(|column| folded(&table.columns[*column].head, widths[*column]))
        .collect();
    let high = heads.iter().map(Vec::len).max().unwrap_or(0);
    for line in 0..high {
        // Heads stand on the figures: short ones begin lower.
        let of = |head: &Vec<String>| {
            (line + head.len()).checked_sub(high).map_or(String::new(), |at| head[at].clone())
        };
        let cells: Vec<String> = heads.iter().map(of).collect();
        put(text, &cells, columns, widths);
    }
    for row in &table.rows {
        let cell =
            |column: &usize| row.get(*column).map_or(String::new(), |cell| cell.text.clone());
        let cells: Vec<String> = columns.iter().map(cell).collect();
        put(text, &cells, columns, widths);
    }
}

fn put(text: &mut String, cells: &[String], columns: &[usize], widths: &[usize]) {
    let mut line = String::new();
    for (cell, column) in cells.iter().zip(columns) {
        let wide = widths[*column];
        let _ = match column {
            0 => write!(line, "  {cell:wide$}"),
            _ => write!(line, "  {cell:>wide$}"),
        };
    }
    let _ = writeln!(text, "{}", line.trim_end());
}

/// Words over as many lines as a width needs.
fn folded(words: &str, wide: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in words.split(' ') {
        let line = lines.last_mut().expect("there is always one");
        if !line.is_empty() && wide < line.chars().count() + 1 + word.chars().count() {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

/// Words so far from the edge.
fn wrap_at(text: &mut String, indent: usize, words: &str) {
    for line in folded(words, WIDTH - indent) {
        let _ = writeln!(text, "{:indent$}{line}", "");
    }
}
