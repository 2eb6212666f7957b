//! Changes of jobs in one turn, each with the request that caused it.

use std::collections::BTreeMap;

use base::CpuSet;
use program::{Job, MemoryPolicy};
use sched::{
    Action, ActionKind, CompletedPageMigration, Counters, DetachCause, JobExit, Plan, RejectCause,
    Rejection, Request, Target, UnmanagedCause,
};

/// One change of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRecord<'a> {
    /// A job. In [`JobChange::Moved`], [`JobChange::Unchanged`], [`JobChange::Released`], [`JobChange::Rejected`] and
    /// [`JobChange::NotCarriedOut`] it can also be a thread.
    pub target: Target,
    /// The change.
    pub change: JobChange<'a>,
    /// The request of the same turn, target and kind that the guard approved. In a replay the request was not carried
    /// out.
    pub request: Option<&'a Request>,
}

/// A change of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum JobChange<'a> {
    /// The program ended.
    Ended(&'a JobExit),
    /// evenkeel no longer places the job.
    Unmanaged(&'a UnmanagedCause),
    /// The program was running already and is managed from now on.
    Attached(&'a Job),
    /// The program is no longer managed.
    Detached {
        /// Cause.
        cause: DetachCause,
        /// Whether evenkeel had bound the program, so that its affinity was restored if it is running.
        was_placed: bool,
        /// Counters of the time in which the program was managed.
        counters: &'a Counters,
    },
    /// The program was started and bound to these CPUs, if any.
    Started(Option<&'a CpuSet>),
    /// The program could not be started.
    StartFailed(RejectCause, &'a str),
    /// The running job or thread was bound to other CPUs.
    Moved {
        /// CPUs before the move, if it was bound.
        from: Option<CpuSet>,
        /// CPUs after the move.
        to: &'a CpuSet,
        /// Number of tasks whose affinity was set.
        n_tasks: u32,
    },
    /// The thread, or all tasks of the job, were bound to these CPUs already.
    Unchanged(&'a CpuSet),
    /// The memory policy was set.
    MemoryPolicySet(&'a MemoryPolicy),
    /// The affinity was restored to its value before the placement.
    Released {
        /// CPUs to which the job or thread was bound.
        from: Option<CpuSet>,
        /// Number of tasks whose affinity was restored.
        n_tasks: u32,
    },
    /// A page migration was started.
    PageMigrationStarted(&'a Action),
    /// A page migration ended.
    PageMigrationEnded(&'a CompletedPageMigration),
    /// The host rejected the action.
    Rejected(&'a Action, RejectCause, &'a str),
    /// The recorded run of a replay contains no outcome for the request. The value is the CPUs to which the job or
    /// thread was bound.
    NotCarriedOut(Option<CpuSet>),
}

/// The approved requests of a turn by target and kind. The flag of a request is set if an outcome matched the request.
pub(crate) struct ApprovedRequests<'a>(BTreeMap<(Target, ActionKind), (&'a Request, bool)>);

impl<'a> ApprovedRequests<'a> {
    /// Selects the approved requests of a plan. `rejected` must be in the order of the requests, as the guard returns
    /// it.
    pub fn new(plan: &'a Plan, rejected: &[Rejection]) -> Self {
        let mut rejected = rejected.iter().map(|rejection| &rejection.request).peekable();
        let mut approved = BTreeMap::new();
        for request in &plan.requests {
            if rejected.next_if(|other| is_same(other, request)).is_none() {
                approved.entry((request.target, request.action.kind())).or_insert((request, false));
            }
        }
        ApprovedRequests(approved)
    }

    /// Returns the request for a target and kind, and marks the request as matched.
    pub fn matching(&mut self, target: Target, kind: ActionKind) -> Option<&'a Request> {
        let (request, is_matched) = self.0.get_mut(&(target, kind))?;
        *is_matched = true;
        Some(request)
    }

    pub fn unmatched(self) -> impl Iterator<Item = &'a Request> {
        self.0.into_values().filter(|(_, is_matched)| !is_matched).map(|(request, _)| request)
    }
}

/// Returns whether two requests are equal. Only the codes of the reasons are compared: a value may be NaN, which is not
/// equal to itself.
fn is_same(one: &Request, other: &Request) -> bool {
    (one.target, &one.action, &one.reason.code) == (other.target, &other.action, &other.reason.code)
}
