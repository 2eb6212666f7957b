//! What a policy says of loads that nobody knows, in words that are true of watching.
//!
//! A policy tells at its first turn what loads stand on. A run knows its jobs by then; who watches meets
//! them later, so that "no job has a class" would be said of nobody, and what it says of starts is about
//! programs that nobody starts here. So that note is held back. It is owed as soon as programs are looked
//! after and nothing tells what they do to memory for some intervals, and then it says what to do.

use base::Nanos;
use sched::{Cause, Code, LoadSource, Plan, Policy, Reason, SignalTier, Snapshot, Wake};
use topology::DomainChoice;

/// A counter tells nothing in the interval in which its task appears, so one is not enough.
const INTERVALS_IN_VAIN: u64 = 3;

/// A policy, and what it says in other words.
pub(super) struct InWords {
    within: Box<dyn Policy>,
    /// It has said that loads stand on nothing.
    is_owed: bool,
    n_in_vain: u64,
}

impl InWords {
    pub(super) fn new(within: Box<dyn Policy>) -> Self {
        InWords { within, is_owed: false, n_in_vain: 0 }
    }

    fn hold_back(&mut self, plan: &mut Plan) {
        let n_before = plan.notes.len();
        let is_other =
            |note: &Reason| !matches!(note.code, Code::LoadsUnknown | Code::LoadsUnknownLowest);
        plan.notes.retain(is_other);
        self.is_owed |= plan.notes.len() != n_before;
    }

    fn pay(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        if !seen.turn.causes.contains(&Cause::Interval) {
            return;
        }
        let in_vain = seen.loads.tier == SignalTier::None && !seen.jobs.is_empty();
        self.n_in_vain = if in_vain { self.n_in_vain + 1 } else { 0 };
        if self.is_owed && self.n_in_vain == INTERVALS_IN_VAIN {
            self.is_owed = false;
            plan.say(Reason::new(Code::NothingIsMoved));
        }
    }
}

impl Policy for InWords {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        self.within.decide(seen, plan);
        self.hold_back(plan);
        self.pay(seen, plan);
    }

    fn name(&self) -> &str {
        self.within.name()
    }

    fn interval(&self) -> Option<Nanos> {
        self.within.interval()
    }

    fn wake(&self) -> Wake {
        self.within.wake()
    }

    fn domains(&self) -> DomainChoice {
        self.within.domains()
    }

    fn load_source(&self) -> LoadSource {
        self.within.load_source()
    }
}
