//! The summary of a comparison as a Markdown table, for issues and pull requests.

use super::{Comparison, SummaryRow};
use crate::format::{self, ABSENT, ci, fixed, n_decimals, or_absent};

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
        let interval = |ends: Option<&[f64]>, digits| {
            ci(ends, digits, "–").unwrap_or_else(|| ABSENT.to_owned())
        };
        let is_baseline = row.policy == self.setting.baseline;
        let absent = if row.is_identical { "identical runs" } else { ABSENT };
        let verdict = row.verdict.map_or(absent, |verdict| verdict.name());
        let no_ratio = row.ratio_absent_because.as_deref().unwrap_or(ABSENT);
        [
            row.policy.clone(),
            row.workload.clone(),
            row.n_runs.to_string(),
            seconds(row.mean_s),
            interval(row.ci95_s.as_deref(), digits),
            seconds(row.min_s),
            seconds(row.max_s),
            row.ratio_to_baseline.map_or(no_ratio.to_owned(), format::ratio),
            if is_baseline { String::new() } else { interval(row.ratio_ci95.as_deref(), 3) },
            if is_baseline { "baseline" } else { verdict }.to_owned(),
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
