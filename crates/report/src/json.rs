//! `report.json`, and whether all is well.

use crate::Report;

impl Report {
    /// One object, documented in `docs/report-fields.md` and `docs/report.schema.json`; no line end
    /// after it.
    ///
    /// # Errors
    /// None that we know of: numbers, texts and lists always have a JSON form.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    /// Whether no job failed, and the run was neither stopped nor broke off.
    pub fn all_well(&self) -> bool {
        let ended = matches!(self.run.end, None | Some(crate::EndWord::Finished));
        self.totals.n_failed == 0 && ended
    }
}
