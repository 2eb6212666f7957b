//! Numbers of a watch for its last line.

use std::io;

use base::{Nanos, counted_noun};
use engine::TurnRecord;
use sched::{Action, JobEvent, OutcomeResult, RejectCause};

/// Counts processes and placements. A sink of the engine.
#[derive(Debug, Default)]
pub(super) struct WatchTotals {
    n_processes: u64,
    n_placements: u64,
    n_rejections: u64,
    /// Placements of a watch without `--act`.
    n_reported: u64,
}

impl WatchTotals {
    /// Returns the last line of the watch after this time. `act`: requests were carried out; `is_restored`: no setting
    /// remains changed.
    pub(super) fn line(&self, after: Nanos, act: bool, is_restored: bool) -> String {
        let processes = counted_noun(self.n_processes, "process");
        if !act {
            let reported = counted_noun(self.n_reported, "placement");
            return format!(
                "the watch ended after {after}: {processes} observed, {reported} reported, nothing changed; --act \
                 performs placements"
            );
        }
        let placements = counted_noun(self.n_placements, "placement");
        let restored = if is_restored { "; all changes are undone" } else { "" };
        format!(
            "the watch ended after {after}: {processes} managed, {placements}, {} rejected{restored}",
            self.n_rejections
        )
    }
}

impl engine::Sink for WatchTotals {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        let is_attached = |event: &&JobEvent| matches!(event, JobEvent::Attached(_));
        self.n_processes += record.sample.jobs.iter().filter(is_attached).count() as u64;
        for outcome in record.outcomes {
            let Some(Action::Place(_)) = outcome.action else { continue };
            match outcome.result {
                OutcomeResult::Rejected { cause: RejectCause::DryRun, .. } => self.n_reported += 1,
                OutcomeResult::Rejected { .. } => self.n_rejections += 1,
                OutcomeResult::Done { .. } | OutcomeResult::InProgress => self.n_placements += 1,
            }
        }
        Ok(())
    }
}
