//! What became of an action.

use crate::{Action, Request, Target};

/// What a host did, or did not do, about one action or one due job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whom it was about.
    pub target: Target,
    /// The action carried out. `None`: the start of a due job, which the host reports for each due
    /// job and no policy requests.
    pub action: Option<Action>,
    /// How it went.
    pub result: OutcomeResult,
}

/// How it went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutcomeResult {
    /// As wished.
    Done {
        /// How many tasks it concerned. For a start, the process number.
        n: u32,
    },
    /// It goes on beside the loop, and a later sample tells how it ended
    /// ([`crate::Sample::moved`]).
    InProgress,
    /// Not.
    Rejected {
        /// What sort of refusal.
        cause: RejectCause,
        /// In words, with what the kernel said.
        detail: String,
    },
}

/// A wish that the guard did not let through.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejection {
    /// The wish.
    pub request: Request,
    /// What sort of refusal.
    pub cause: RejectCause,
    /// In words.
    pub detail: String,
}

/// What sort of refusal, by the guard or by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RejectCause {
    /// The target ended between sample and action: an everyday outcome.
    Exited,
    /// The kernel does not permit it.
    NotPermitted,
    /// None of the CPUs may be used (offline, or outside the cpuset).
    CpusUnusable,
    /// None of the nodes may be used.
    NodesUnusable,
    /// The CPUs or nodes lie outside what the job may use.
    OutsideAllowed,
    /// The target is not ours to place.
    Unmanaged,
    /// Another wish of the same turn already concerned the target.
    Duplicate,
    /// It is that way already.
    Unchanged,
    /// It can only be done before the job starts.
    AlreadyStarted,
    /// The program could not be started.
    StartFailed,
    /// The undo record could not be written, so nothing was changed.
    UndoRecordFailed,
    /// There is too little free memory on the target for what is to be moved.
    TargetFull,
    /// As much as may be moved in this time was moved already, or is on its way.
    OverBudget,
    /// It was moved to and fro as often as may be.
    PingPong,
    /// A move of its pages is under way.
    MoveInProgress,
    /// This kernel or this machine cannot do it.
    Unsupported,
    /// Nobody told us to act: what would have been done is only said.
    DryRun,
}

impl RejectCause {
    /// All.
    pub const ALL: &[RejectCause] = &[
        RejectCause::Exited,
        RejectCause::NotPermitted,
        RejectCause::CpusUnusable,
        RejectCause::NodesUnusable,
        RejectCause::OutsideAllowed,
        RejectCause::Unmanaged,
        RejectCause::Duplicate,
        RejectCause::Unchanged,
        RejectCause::AlreadyStarted,
        RejectCause::StartFailed,
        RejectCause::UndoRecordFailed,
        RejectCause::PingPong,
        RejectCause::MoveInProgress,
        RejectCause::Unsupported,
        RejectCause::DryRun,
        RejectCause::OverBudget,
        RejectCause::TargetFull,
    ];

    /// The name in journals.
    pub fn name(self) -> &'static str {
        match self {
            RejectCause::Exited => "ended",
            RejectCause::NotPermitted => "not-permitted",
            RejectCause::CpusUnusable => "cpus-unusable",
            RejectCause::NodesUnusable => "nodes-unusable",
            RejectCause::OutsideAllowed => "outside-job",
            RejectCause::Unmanaged => "hands-off",
            RejectCause::Duplicate => "twice",
            RejectCause::Unchanged => "already",
            RejectCause::AlreadyStarted => "too-late",
            RejectCause::StartFailed => "cannot-start",
            RejectCause::UndoRecordFailed => "no-undo",
            RejectCause::TargetFull => "target-full",
            RejectCause::OverBudget => "over-budget",
            RejectCause::PingPong => "bouncing",
            RejectCause::MoveInProgress => "busy",
            RejectCause::Unsupported => "cannot-do",
            RejectCause::DryRun => "only-watching",
        }
    }
}
