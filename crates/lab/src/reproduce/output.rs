//! A study as text of eighty columns.

use std::fmt::Write;

use report::study::StudyExperiment;
use report::table::Align::Left;
use report::table::{ReportTable, fold};

use super::{Experiment, Study, StudyRun};

/// Columns of the text.
const WIDTH: usize = 80;
/// Columns of a label such as `source:`.
const INDENT: usize = 11;

/// Returns the names and titles of these experiments.
pub fn list(study: &Study, selected: &[&Experiment]) -> String {
    let mut text = String::new();
    text.push_str(&fold(&format!("{}: {}", study.name(), study.source()), WIDTH, "", 0));
    text.push('\n');
    let mut table = ReportTable::new([("", Left), ("", Left)]).indented(2).with_folded_column();
    selected.iter().for_each(|experiment| table.row([experiment.name(), experiment.title()]));
    text + &table.to_text(WIDTH)
}

/// Returns the whole result as text.
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
    for table in &experiment.tables {
        text.push_str(&format!("\n{}{}", fold(&table.title, WIDTH, "  ", 2), table.to_text(WIDTH)));
    }
    text.push('\n');
    for claim in &experiment.claims {
        wrap(text, "claim:", &claim.claim);
        let verdict = claim.verdict.text().to_uppercase();
        wrap(text, "", &format!("reading {}: {verdict} ({})", claim.reading.name(), claim.result));
    }
    experiment.notes.iter().for_each(|note| wrap(text, "note:", note));
}

/// Appends a label, and a folded text to the right of the label.
fn wrap(text: &mut String, label: &str, words: &str) {
    text.push_str(&fold(words, WIDTH, &format!("{label:INDENT$}"), INDENT));
}
