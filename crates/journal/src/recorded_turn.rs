//! One turn of a journal, as the reader returns it.

use engine::{LoadBasis, LoadSample, TurnRecord};
use sched::{Outcome, Plan, Rejection, Sample, Tiers, Turn};

/// One turn of a journal, with its own copy of the values that a [`TurnRecord`] borrows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedTurn {
    /// Number, time and causes.
    pub turn: Turn,
    /// The raw sample, which contains only changes.
    pub sample: Sample,
    /// Load of each domain, in turns that end an interval.
    pub loads: Option<LoadSample>,
    /// Level and signal tier of the loads, if they changed in a turn without loads.
    pub load_basis: Option<LoadBasis>,
    /// Signal tier of each value, if a tier changed.
    pub signals: Option<Tiers>,
    /// The plan of the policy.
    pub plan: Plan,
    /// Requests that the guard rejected.
    pub rejected: Vec<Rejection>,
    /// Outcomes of the approved requests and of the starts of due jobs.
    pub outcomes: Vec<Outcome>,
}

impl RecordedTurn {
    /// Returns the turn in the form that sinks receive.
    pub fn record(&self) -> TurnRecord<'_> {
        TurnRecord {
            turn: &self.turn,
            sample: &self.sample,
            tasks: &[],
            loads: self.loads.as_ref(),
            load_basis: self.load_basis,
            signals: self.signals,
            plan: &self.plan,
            rejected: &self.rejected,
            outcomes: &self.outcomes,
        }
    }
}

impl From<&TurnRecord<'_>> for RecordedTurn {
    fn from(record: &TurnRecord<'_>) -> Self {
        RecordedTurn {
            turn: record.turn.clone(),
            sample: record.sample.clone(),
            loads: record.loads.cloned(),
            load_basis: record.load_basis,
            signals: record.signals,
            plan: record.plan.clone(),
            rejected: record.rejected.to_vec(),
            outcomes: record.outcomes.to_vec(),
        }
    }
}
