//! Plans: the output of a policy.

use std::sync::Arc;

use base::{Bytes, CpuSet, JobId, NodeId, TaskId};
use program::MemoryPolicy;

use crate::Reason;

/// The requests and notes of a policy in one turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Requests. The guard checks them and the host applies them in this order.
    pub requests: Vec<Request>,
    /// Messages for the user. The engine forwards each message once per run.
    pub notes: Vec<Reason>,
    /// Facts about jobs and tasks that the policy derived from samples, without an action. `evenkeel explain` prints
    /// them.
    pub observations: Vec<Observation>,
    /// The policy makes no request until a job starts or ends, a task runs, or the usable CPUs change. A
    /// host may skip interval turns until then.
    pub quiescent: bool,
    /// The policy cannot continue. The run ends with this error and all affinities are restored.
    pub abort: Option<Reason>,
}

/// One requested action with its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The job or task that the action applies to.
    pub target: Target,
    /// The requested action.
    pub action: Action,
    /// Reason of the policy. Shared, because the plan and the approved plan both contain the request.
    pub reason: Arc<Reason>,
}

/// A fact about a job or task that a policy derived from samples, such as the start of a phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// The job or task.
    pub target: Target,
    /// The fact: a declared reason of the policy.
    pub reason: Reason,
}

/// The job or task that an action applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// All tasks of a job, including tasks that start later.
    Job(JobId),
    /// One thread.
    Task(TaskId),
}

/// An action that a policy can request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sets the CPU affinity.
    Place(CpuSet),
    /// Sets the memory policy. Only for a due job: pages that are allocated already do not move.
    MemoryPolicy(MemoryPolicy),
    /// Restores the affinity that the target had before its first placement.
    Release,
    /// Migrates private memory (not shared memory, not file pages) of all processes of a job, or of the process of a
    /// task, to another node. The migration runs outside the loop of turns and cannot be undone. Processes that start
    /// later are not included.
    MovePages {
        /// The source node; `None`: all nodes except `to`.
        from: Option<NodeId>,
        /// The target node.
        to: NodeId,
        /// Maximum number of bytes; [`Action::NO_LIMIT`] for all.
        limit: Bytes,
    },
}

/// The setting that an action changes. The guard rejects the second request of a kind for the same
/// target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ActionKind {
    /// CPU affinity.
    Cpus,
    /// Memory policy.
    Memory,
    /// Pages that are allocated already.
    Pages,
}

impl ActionKind {
    /// Number of kinds.
    pub const N: usize = 3;
}

impl Action {
    /// Returns the kind of the action.
    pub fn kind(&self) -> ActionKind {
        match self {
            Action::Place(_) | Action::Release => ActionKind::Cpus,
            Action::MemoryPolicy(_) => ActionKind::Memory,
            Action::MovePages { .. } => ActionKind::Pages,
        }
    }

    /// The value of `limit` that means "no limit".
    pub const NO_LIMIT: Bytes = Bytes(u64::MAX);
}

impl Plan {
    /// Adds a request.
    pub fn request(&mut self, target: impl Into<Target>, action: Action, reason: Reason) {
        self.requests.push(Request { target: target.into(), action, reason: Arc::new(reason) });
    }

    /// Adds a message for the user.
    pub fn note(&mut self, note: Reason) {
        self.notes.push(note);
    }

    /// Adds an observation about a job or task.
    pub fn observe(&mut self, target: impl Into<Target>, reason: Reason) {
        self.observations.push(Observation { target: target.into(), reason });
    }

    /// Returns whether the plan has no request, no note, no observation and no error.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
            && self.notes.is_empty()
            && self.observations.is_empty()
            && self.abort.is_none()
    }
}

impl Target {
    /// Returns the thread; `None`: the target is a job.
    pub fn task(self) -> Option<TaskId> {
        match self {
            Target::Job(_) => None,
            Target::Task(task) => Some(task),
        }
    }
}

impl From<JobId> for Target {
    fn from(job: JobId) -> Self {
        Target::Job(job)
    }
}

impl From<TaskId> for Target {
    fn from(task: TaskId) -> Self {
        Target::Task(task)
    }
}
