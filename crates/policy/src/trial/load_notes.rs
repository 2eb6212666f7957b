//! The note about unknown loads, adapted to attached processes.
//!
//! A policy adds this note in the first interval with a running job. After `watch` attaches a process, its counters have
//! no value yet, and the note would describe starts, which do not occur. The note is therefore delayed until the loads
//! of attached processes were unknown for some intervals. The delayed note includes the remedy.

use sched::{Cause, Plan, Reason, SignalTier, Snapshot};

use super::NOTHING_IS_MOVED;
use crate::notes::{LOADS_UNKNOWN, LOADS_UNKNOWN_LOWEST};

/// A counter has no value in the interval in which its task is attached, so one interval is not enough.
const UNKNOWN_INTERVALS: u64 = 3;

/// State of the delayed note.
#[derive(Debug, Default)]
pub(super) struct LoadNotes {
    is_pending: bool,
    n_unknown: u64,
}

impl LoadNotes {
    /// Passes the notes of the wrapped policy.
    pub(super) fn pass(&mut self, snapshot: &Snapshot<'_>, notes: Vec<Reason>, plan: &mut Plan) {
        for note in notes {
            match note.code == LOADS_UNKNOWN || note.code == LOADS_UNKNOWN_LOWEST {
                true => self.is_pending = true,
                false => plan.note(note),
            }
        }
        if !snapshot.turn.causes.contains(&Cause::Interval) {
            return;
        }
        let is_unknown = snapshot.loads.tier == SignalTier::None && !snapshot.jobs.is_empty();
        self.n_unknown = if is_unknown { self.n_unknown + 1 } else { 0 };
        if self.is_pending && UNKNOWN_INTERVALS <= self.n_unknown {
            self.is_pending = false;
            plan.note(Reason::new(NOTHING_IS_MOVED));
        }
    }
}
