//! Results of actions, and causes of rejections.

use crate::{Action, Request, Target};

/// Result of an action, or of the start of a due job. Written by the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The job or task that the action applies to.
    pub target: Target,
    /// The action. `None` for the start of a due job: the host reports an outcome for each start, and policies do not
    /// request starts.
    pub action: Option<Action>,
    /// Result of the action.
    pub result: OutcomeResult,
}

/// Result of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutcomeResult {
    /// The action has been carried out.
    Done {
        /// Number of tasks that the action was applied to. For a start: the PID.
        n: u32,
    },
    /// The action continues outside the loop of turns. A later sample reports its end
    /// ([`crate::Sample::page_migrations_completed`]).
    InProgress,
    /// The action has not been carried out.
    Rejected {
        /// Cause of the rejection.
        cause: RejectCause,
        /// Message with the kernel's error, if there was one.
        detail: String,
    },
}

/// Cause of a rejection and the message for the user, one line.
pub type CauseAndDetail = (RejectCause, String);

/// A request that the guard rejected.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejection {
    /// The request of the policy.
    pub request: Request,
    /// Cause of the rejection.
    pub cause: RejectCause,
    /// Message for the user, one line.
    pub detail: String,
}

named_enum! {
    /// Cause for which the guard rejects a request or the host rejects an action.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    RejectCause {
        /// The target exited between sample and action. This is an ordinary outcome, not an error.
        Exited "exited",
        /// The kernel does not permit the action (EPERM).
        NotPermitted "not-permitted",
        /// None of the CPUs is usable: all are offline or outside the cpuset.
        CpusUnusable "cpus-unusable",
        /// None of the nodes has memory that the cpuset allows.
        NodesUnusable "nodes-unusable",
        /// The workload does not allow the CPUs or nodes for the job.
        OutsideAllowed "outside-allowed",
        /// evenkeel does not manage the target: another program set its affinity, or the workload sets it.
        Unmanaged "unmanaged",
        /// An earlier request of the same turn has the same target and kind.
        Duplicate "duplicate",
        /// The target is in the requested state already.
        Unchanged "unchanged",
        /// The action is possible only before the job starts.
        AlreadyStarted "already-started",
        /// The program could not be started.
        StartFailed "start-failed",
        /// The undo record could not be written, so nothing was changed.
        UndoRecordFailed "undo-record-failed",
        /// Memory of the job returned to a previous node, or an incomplete migration was repeated,
        /// more often than permitted.
        PingPong "ping-pong",
        /// A page migration of the same job is active.
        MigrationInProgress "migration-in-progress",
        /// The kernel or the machine does not support the action.
        Unsupported "unsupported",
        /// Dry run: the action is reported, but not carried out.
        DryRun "dry-run",
        /// The budget for page migrations is exhausted.
        OverBudget "over-budget",
        /// The target node has too little free memory.
        TargetFull "target-full",
    }
}
