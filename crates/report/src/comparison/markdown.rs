//! The summary of a comparison as a Markdown table, for issues and pull requests.

use super::ratio::Ratio;
use super::{Comparison, SummaryRow};
use crate::format::{ABSENT, ci, fixed, n_decimals, or_absent};

impl Comparison {
    /// Returns one table with a row per policy (or command) and workload.
    pub fn to_markdown(&self) -> String {
        let noun = self.setting.compared.noun();
        let heads = [
            noun, "workload", "runs", "mean s", "95 % CI", "min s", "max s", "ratio", "95 % CI",
            "verdict",
        ];
        let rule = ["---", "---"].into_iter().chain(["--:"; 7]).chain(["---"]);
        let rows = self.summary.iter().map(|row| self.markdown_cells(row));
        let mut text = line(heads.map(str::to_owned)) + &line(rule.map(str::to_owned));
        text.extend(rows.map(line));
        text
    }

    fn markdown_cells(&self, row: &SummaryRow) -> [String; 10] {
        let digits = row.mean_s.map_or(0, n_decimals);
        let seconds = |value: Option<f64>| or_absent(value, |value| fixed(value, digits));
        let interval = ci(row.ci95_s.as_deref(), digits, "–");
        let ratio = Ratio::of_workload(self, row);
        [
            row.column.clone(),
            row.workload.clone(),
            row.n_runs.to_string(),
            row.mean_text(digits),
            interval.unwrap_or_else(|| ABSENT.to_owned()),
            seconds(row.min_s),
            seconds(row.max_s),
            ratio.text(),
            ratio.interval_cell("–"),
            ratio.verdict_word().to_owned(),
        ]
    }
}

fn line(cells: impl IntoIterator<Item = String>) -> String {
    let cells: Vec<String> = cells.into_iter().map(|cell| escaped(&cell)).collect();
    format!("| {} |\n", cells.join(" | "))
}

/// Escapes the characters that end a cell, start a tag or control the terminal.
fn escaped(text: &str) -> String {
    let text = base::printable(text).replace('\\', "\\\\").replace('|', "\\|");
    text.replace('<', "&lt;").replace('`', "\\`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_cannot_end_its_cell_or_add_a_row() {
        let line = line(["a | b\nc".to_owned(), "<img src=x>".to_owned()]);
        assert_eq!(line.matches('\n').count(), 1);
        assert!(line.starts_with("| a \\| b") && line.contains("&lt;img"), "{line}");
    }
}
