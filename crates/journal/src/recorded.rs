//! One turn out of a journal, as the sinks of a run saw it.

use engine::{LoadBasis, LoadSample, TurnRecord};
use sched::{Outcome, Plan, Rejection, Sample, Tiers, Turn};

/// Everything that was seen, wanted, refused and done in one turn, read back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedTurn {
    /// When and why.
    pub turn: Turn,
    /// What changed.
    pub sample: Sample,
    /// The load of each domain, in turns where an interval went by.
    pub loads: Option<LoadSample>,
    /// What loads will stand on, where that is new in a turn without any.
    pub footing: Option<LoadBasis>,
    /// What figures stand on, where that is new.
    pub signals: Option<Tiers>,
    /// What the policy wanted.
    pub plan: Plan,
    /// What the guard did not let through.
    pub refused: Vec<Rejection>,
    /// What became of the rest, and of the jobs that were due.
    pub outcomes: Vec<Outcome>,
}

impl RecordedTurn {
    /// The same as a sink is told it.
    pub fn record(&self) -> TurnRecord<'_> {
        TurnRecord {
            turn: &self.turn,
            sample: &self.sample,
            loads: self.loads.as_ref(),
            load_basis: self.footing,
            signals: self.signals,
            plan: &self.plan,
            rejected: &self.refused,
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
            footing: record.load_basis,
            signals: record.signals,
            plan: record.plan.clone(),
            refused: record.rejected.to_vec(),
            outcomes: record.outcomes.to_vec(),
        }
    }
}
