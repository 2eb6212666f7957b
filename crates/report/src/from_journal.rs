//! The report of a journal: the same as the run itself made.

use journal::{JournalError, Recording};

use crate::{Report, ReportBuilder};

/// Reads a journal to its end.
///
/// # Errors
/// A line of it cannot be read or understood.
pub fn from_journal(mut recording: Recording) -> Result<Report, JournalError> {
    let mut builder = ReportBuilder::new(recording.header());
    if let Some(so_far) = recording.so_far() {
        builder.resume(so_far, recording.n_parts_missing());
    }
    for turn in &mut recording {
        builder.observe(&turn?.record());
    }
    if let Some(place) = recording.torn() {
        builder.remark(format!("the last line of the journal is torn and was left out: {place}"));
    }
    Ok(builder.finish(recording.end()))
}
