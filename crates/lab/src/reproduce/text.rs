//! A study as text, within eighty columns where its tables allow it.

use std::fmt::Write;

use super::{Account, Claim, Study, Table, Told};

/// Columns of running text.
const WIDTH: usize = 80;
/// Where words after a label begin.
const INDENT: usize = 11;

/// What there is.
pub fn list(study: &Study) -> String {
    let mut text = format!("{}: {}\n\n", study.name, study.source);
    let wide = study.experiments.iter().map(|one| one.name.len()).max().unwrap_or(0);
    for experiment in study.experiments {
        let _ = writeln!(text, "  {:wide$}  {}", experiment.name, experiment.title);
    }
    text
}

/// All that was found.
pub fn text(account: &Account) -> String {
    let mut text = format!("{}: {}\n", account.study, account.source);
    for told in &account.experiments {
        tell(&mut text, told);
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
    let mut line = format!("{label:INDENT$}");
    let mut is_fresh = true;
    for word in words.split(' ') {
        if !is_fresh && WIDTH < line.chars().count() + 1 + word.chars().count() {
            let _ = writeln!(text, "{line}");
            line = " ".repeat(INDENT);
            is_fresh = true;
        }
        if !is_fresh {
            line.push(' ');
        }
        line.push_str(word);
        is_fresh = false;
    }
    let _ = writeln!(text, "{line}");
}

/// The first column to the left, figures to the right.
fn draw(text: &mut String, table: &Table) {
    let rows = || std::iter::once(&table.heads).chain(&table.rows);
    let wide = |column: usize| {
        rows().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..table.heads.len()).map(wide).collect();
    let _ = writeln!(text, "\n  {}", table.title);
    for row in rows() {
        let mut line = String::from("  ");
        for (column, (cell, wide)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 => write!(line, "{cell:wide$}"),
                _ => write!(line, "  {cell:>wide$}"),
            };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}
