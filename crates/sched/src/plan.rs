//! What a policy asks for.

use std::sync::Arc;

use base::{Bytes, CpuSet, JobId, NodeId, TaskId};
use program::MemoryPolicy;

use crate::Reason;

/// What a policy wants done in one turn, in the order of asking.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The wishes.
    pub asks: Vec<Ask>,
    /// What it wants people to know. The engine passes on each sentence once a run.
    pub notes: Vec<Reason>,
    /// Nothing will be asked for until something changes: a job runs, starts or ends, or other CPUs
    /// may be used. A host may leave out turns until then.
    pub rests: bool,
    /// It cannot go on: the run ends with this error, and everything is put back.
    pub give_up: Option<Reason>,
}

/// One wish with its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
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

impl Action {
    /// Moves all that there is to be moved.
    pub const NO_LIMIT: Bytes = Bytes(u64::MAX);
}

impl Plan {
    /// Adds a wish.
    pub fn ask(&mut self, target: impl Into<Target>, action: Action, reason: Reason) {
        self.asks.push(Ask { target: target.into(), action, reason: Arc::new(reason) });
    }

    /// Adds something that people should know.
    pub fn say(&mut self, note: Reason) {
        self.notes.push(note);
    }

    /// Whether nothing is wanted: the commonest good plan.
    pub fn is_empty(&self) -> bool {
        self.asks.is_empty() && self.notes.is_empty() && self.give_up.is_none()
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
