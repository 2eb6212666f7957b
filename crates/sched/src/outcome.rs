//! What became of an action.

use base::{Bytes, CpuSet, NodeId};
use program::MemoryPolicy;

use crate::{Action, Ask, Target};

/// What a host did, or did not do, about one action or one due job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whom it was about.
    pub target: Target,
    /// What was to be done.
    pub deed: Deed,
    /// How it went.
    pub result: Result,
}

/// What was to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// A due job was started. Every due job has one such outcome.
    Start,
    /// It was bound to these CPUs.
    Place(CpuSet),
    /// Its memory policy was set before it began.
    MemoryPolicy(MemoryPolicy),
    /// It got back what it had.
    Release,
    /// A move of its pages was begun.
    MovePages {
        /// From where; `None`: from everywhere else.
        from: Option<NodeId>,
        /// Where to.
        to: NodeId,
        /// At most this much.
        limit: Bytes,
    },
}

impl Deed {
    /// The action that asks for it; `None` for a start, which no policy asks for.
    pub fn action(&self) -> Option<Action> {
        Some(match self {
            Deed::Start => return None,
            Deed::Place(cpus) => Action::Place(cpus.clone()),
            Deed::MemoryPolicy(policy) => Action::MemoryPolicy(policy.clone()),
            Deed::Release => Action::Release,
            Deed::MovePages { from, to, limit } => {
                Action::MovePages { from: *from, to: *to, limit: *limit }
            }
        })
    }
}

impl From<&Action> for Deed {
    /// What an action does.
    fn from(action: &Action) -> Self {
        match action {
            Action::Place(cpus) => Deed::Place(cpus.clone()),
            Action::MemoryPolicy(policy) => Deed::MemoryPolicy(policy.clone()),
            Action::Release => Deed::Release,
            Action::MovePages { from, to, limit } => {
                Deed::MovePages { from: *from, to: *to, limit: *limit }
            }
        }
    }
}

/// How it went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Result {
    /// As wished.
    Done {
        /// How many tasks it concerned. For a start, the process number.
        n: u32,
    },
    /// It goes on beside the loop, and a later sample tells how it ended
    /// ([`crate::Sample::moved`]).
    Begun,
    /// Not.
    Refused {
        /// What sort of refusal.
        why: Why,
        /// In words, with what the kernel said.
        detail: String,
    },
}

/// A wish that the guard did not let through.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The wish.
    pub ask: Ask,
    /// What sort of refusal.
    pub why: Why,
    /// In words.
    pub detail: String,
}

/// What sort of refusal, by the guard or by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The target ended between sample and action: an everyday outcome.
    Ended,
    /// The kernel does not permit it.
    NotPermitted,
    /// None of the CPUs may be used (offline, or outside the cpuset).
    CpusUnusable,
    /// None of the nodes may be used.
    NodesUnusable,
    /// The CPUs or nodes lie outside what the job may use.
    OutsideJob,
    /// The target is not ours to place.
    HandsOff,
    /// Another wish of the same turn already concerned the target.
    Twice,
    /// It is that way already.
    Already,
    /// It can only be done before the job starts.
    TooLate,
    /// The program could not be started.
    CannotStart,
    /// The undo record could not be written, so nothing was changed.
    NoUndo,
    /// There is too little free memory on the target for what is to be moved.
    TargetFull,
    /// As much as may be moved in this time was moved already, or is on its way.
    OverBudget,
    /// It was moved to and fro as often as may be.
    Bouncing,
    /// A move of its pages is under way.
    Busy,
    /// This kernel or this machine cannot do it.
    CannotDo,
    /// Nobody told us to act: what would have been done is only said.
    OnlyWatching,
}

impl Why {
    /// All.
    pub const ALL: &[Why] = &[
        Why::Ended,
        Why::NotPermitted,
        Why::CpusUnusable,
        Why::NodesUnusable,
        Why::OutsideJob,
        Why::HandsOff,
        Why::Twice,
        Why::Already,
        Why::TooLate,
        Why::CannotStart,
        Why::NoUndo,
        Why::Bouncing,
        Why::Busy,
        Why::CannotDo,
        Why::OnlyWatching,
        Why::OverBudget,
        Why::TargetFull,
    ];

    /// The name in journals.
    pub fn name(self) -> &'static str {
        match self {
            Why::Ended => "ended",
            Why::NotPermitted => "not-permitted",
            Why::CpusUnusable => "cpus-unusable",
            Why::NodesUnusable => "nodes-unusable",
            Why::OutsideJob => "outside-job",
            Why::HandsOff => "hands-off",
            Why::Twice => "twice",
            Why::Already => "already",
            Why::TooLate => "too-late",
            Why::CannotStart => "cannot-start",
            Why::NoUndo => "no-undo",
            Why::TargetFull => "target-full",
            Why::OverBudget => "over-budget",
            Why::Bouncing => "bouncing",
            Why::Busy => "busy",
            Why::CannotDo => "cannot-do",
            Why::OnlyWatching => "only-watching",
        }
    }
}
