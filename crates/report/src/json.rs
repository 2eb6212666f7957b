//! `report.json`, and whether all is well.

use crate::{Report, Totals};

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

    /// Whether it is known what any job used: the kernel tells it of those that we started and that ended.
    pub(crate) fn is_use_known(&self) -> bool {
        self.jobs.is_empty() || self.jobs.iter().any(|job| job.user_ns.is_some())
    }
}

impl Totals {
    /// Jobs that somebody else had started, and that were watched until they were let go.
    pub(crate) fn n_watched(&self) -> u64 {
        let others = [self.n_done, self.n_failed, self.n_stopped, self.n_unfinished];
        self.n_jobs.saturating_sub(others.into_iter().fold(0, u64::saturating_add))
    }
}
