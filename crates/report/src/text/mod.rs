//! The report in a terminal.

use crate::Report;

impl Report {
    /// Tables of at most so many columns.
    pub fn to_text(&self, _width: usize) -> String {
        let mut text = String::new();
        for job in &self.jobs {
            text.push_str(&format!("{:<20} {}\n", job.name, job.state.word()));
        }
        text
    }

    /// `report.json`: one object, see `docs/report-fields.md`.
    ///
    /// # Errors
    /// None in practice: everything in it has a JSON form.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
}
