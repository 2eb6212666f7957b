//! What a policy remembers of each task or job, forgotten when it ends.

use std::collections::{BTreeMap, BTreeSet};

use base::{JobId, TaskId};

use crate::Snapshot;

/// Something remembered of each task.
#[derive(Clone, Debug, Default)]
pub struct PerTask<T>(BTreeMap<TaskId, T>);

/// Something remembered of each job.
#[derive(Clone, Debug, Default)]
pub struct PerJob<T>(BTreeMap<JobId, T>);

impl<T: Default> PerTask<T> {
    /// What is remembered; made afresh when nothing is.
    pub fn of(&mut self, task: TaskId) -> &mut T {
        self.0.entry(task).or_default()
    }

    /// What is remembered, if anything.
    pub fn get(&self, task: TaskId) -> Option<&T> {
        self.0.get(&task)
    }

    /// Forgets those that the snapshot no longer has.
    pub fn forget_ended(&mut self, seen: &Snapshot<'_>) {
        let alive: BTreeSet<TaskId> = seen.tasks.iter().map(|t| t.task).collect();
        self.0.retain(|task, _| alive.contains(task));
    }
}

impl<T: Default> PerJob<T> {
    /// What is remembered; made afresh when nothing is.
    pub fn of(&mut self, job: JobId) -> &mut T {
        self.0.entry(job).or_default()
    }

    /// What is remembered, if anything.
    pub fn get(&self, job: JobId) -> Option<&T> {
        self.0.get(&job)
    }

    /// Forgets those that the snapshot no longer has.
    pub fn forget_ended(&mut self, seen: &Snapshot<'_>) {
        self.0.retain(|&job, _| seen.job(job).is_some());
    }
}
