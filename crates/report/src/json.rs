//! `report.json`.

use crate::Report;

impl Report {
    /// One object, documented in `docs/report-fields.md` and `docs/report.schema.json`.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.expect("numbers, texts and lists always have a JSON form") + "\n"
    }
}
