//! What a policy says of loads that nobody knows, in words that are true of programs which run already.
//!
//! A policy tells at its first turn what loads stand on. A run knows its jobs by then; who looks after
//! programs meets them later, so that "no job has a class" would be said of nobody, and what it says of
//! starts is about programs that nobody starts here. So that note is held back. It is owed as soon as
//! programs are looked after and nothing tells what they do to memory for some intervals, and then it
//! says what to do.

use sched::{Cause, Plan, Reason, ReasonCode, SignalTier, Snapshot};

/// A counter tells nothing in the interval in which its task appears, so one is not enough.
const INTERVALS_IN_VAIN: u64 = 3;

/// What is owed.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// It has said that loads stand on nothing.
    is_owed: bool,
    n_in_vain: u64,
}

impl Words {
    /// Passes on what the policy within said.
    pub(super) fn pass_on(&mut self, seen: &Snapshot<'_>, notes: Vec<Reason>, plan: &mut Plan) {
        for note in notes {
            match note.code {
                ReasonCode::LoadsUnknown | ReasonCode::LoadsUnknownLowest => self.is_owed = true,
                _ => plan.note(note),
            }
        }
        if !seen.turn.causes.contains(&Cause::Interval) {
            return;
        }
        let in_vain = seen.loads.tier == SignalTier::None && !seen.jobs.is_empty();
        self.n_in_vain = if in_vain { self.n_in_vain + 1 } else { 0 };
        if self.is_owed && self.n_in_vain == INTERVALS_IN_VAIN {
            self.is_owed = false;
            plan.note(Reason::new(ReasonCode::NothingIsMoved));
        }
    }
}
