//! What a policy asks for.

use std::sync::Arc;

use base::{Bytes, CpuSet, JobId, NodeId, TaskId};
use program::MemoryPolicy;

use crate::Reason;

/// What a policy wants done in one turn, in the order of asking.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The wishes.
    pub requests: Vec<Request>,
    /// What it wants people to know. The engine passes on each sentence once a run.
    pub notes: Vec<Reason>,
    /// Nothing will be asked for until something changes: a job runs, starts or ends, or other CPUs
    /// may be used. A host may leave out turns until then.
    pub quiescent: bool,
    /// It cannot go on: the run ends with this error, and everything is put back.
    pub abort: Option<Reason>,
}

/// One wish with its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Whom it is about.
    pub target: Target,
    /// What.
    pub action: Action,
    /// Why. Shared, since a wish that comes through stands in the plan and in what is approved.
    pub reason: Arc<Reason>,
}

/// Whom an action is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// All tasks of a job, those born later too.
    Job(JobId),
    /// One thread.
    Task(TaskId),
}

/// What can be done to a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It runs on these CPUs and no others.
    Place(CpuSet),
    /// Its memory comes from there. Only for a job that is due: later, its pages lie where they lie.
    MemoryPolicy(MemoryPolicy),
    /// It gets back what it had before we placed it.
    Release,
    /// Its own memory (not what it shares, nor pages of files) goes to another node: that of all
    /// processes of a job, or of a task's process. A move is begun and not waited for, and it cannot
    /// be taken back. Unlike a placement it does not hold for processes born later.
    MovePages {
        /// Only what lies there; `None`: what lies anywhere else than on the target.
        from: Option<NodeId>,
        /// Where to.
        to: NodeId,
        /// At most this much; [`Action::NO_LIMIT`] for all of it.
        limit: Bytes,
    },
}

/// What an action changes. A plan has at most one request of each kind for a target.
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
    /// What it changes.
    pub fn kind(&self) -> ActionKind {
        match self {
            Action::Place(_) | Action::Release => ActionKind::Cpus,
            Action::MemoryPolicy(_) => ActionKind::Memory,
            Action::MovePages { .. } => ActionKind::Pages,
        }
    }

    /// Moves all that there is to be moved.
    pub const NO_LIMIT: Bytes = Bytes(u64::MAX);
}

impl Plan {
    /// Adds a wish.
    pub fn request(&mut self, target: impl Into<Target>, action: Action, reason: Reason) {
        self.requests.push(Request { target: target.into(), action, reason: Arc::new(reason) });
    }

    /// Adds something that people should know.
    pub fn note(&mut self, note: Reason) {
        self.notes.push(note);
    }

    /// Whether nothing is wanted: the commonest good plan.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.notes.is_empty() && self.abort.is_none()
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
