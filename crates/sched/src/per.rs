//! State that a policy keeps per task or per job, removed when the task or job ends.

use std::collections::{BTreeMap, BTreeSet};

use base::{JobId, TaskId};

use crate::Snapshot;

/// State per task.
#[derive(Clone, Debug, Default)]
pub struct PerTask<T>(BTreeMap<TaskId, T>);

/// State per job. Job ids are consecutive from 0, so that the id is the index.
#[derive(Clone, Debug, Default)]
pub struct PerJob<T>(Vec<Option<T>>);

impl<T: Default> PerTask<T> {
    /// The state; the default if there is none yet.
    pub fn of(&mut self, task: TaskId) -> &mut T {
        self.0.entry(task).or_default()
    }

    /// The state, if there is one.
    pub fn get(&self, task: TaskId) -> Option<&T> {
        self.0.get(&task)
    }

    /// Removes the state of tasks or jobs that are not in the snapshot.
    pub fn forget_ended(&mut self, snapshot: &Snapshot<'_>) {
        let alive: BTreeSet<TaskId> = snapshot.tasks.iter().map(|t| t.task).collect();
        self.0.retain(|task, _| alive.contains(task));
    }
}

impl<T: Default> PerJob<T> {
    /// The state; the default if there is none yet.
    pub fn of(&mut self, job: JobId) -> &mut T {
        if self.0.len() <= job.index() {
            self.0.resize_with(job.index() + 1, || None);
        }
        self.0[job.index()].get_or_insert_default()
    }

    /// The state, if there is one.
    pub fn get(&self, job: JobId) -> Option<&T> {
        self.0.get(job.index())?.as_ref()
    }

    /// Removes the state of tasks or jobs that are not in the snapshot.
    pub fn forget_ended(&mut self, snapshot: &Snapshot<'_>) {
        let mut alive = snapshot.jobs.iter().map(|job| job.job.id.index()).peekable();
        for (idx, one) in self.0.iter_mut().enumerate() {
            while alive.next_if(|job| *job < idx).is_some() {}
            if alive.peek() != Some(&idx) {
                *one = None;
            }
        }
    }
}
