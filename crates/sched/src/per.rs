//! What a policy remembers of each task or job, forgotten when it ends.

use std::collections::{BTreeMap, BTreeSet};

use base::{JobId, TaskId};

use crate::Snapshot;

/// Something remembered of each task.
#[derive(Clone, Debug, Default)]
pub struct PerTask<T>(BTreeMap<TaskId, T>);

/// Something remembered of each job, by its number: jobs are numbered from 0 on in the order of their starts.
#[derive(Clone, Debug, Default)]
pub struct PerJob<T>(Vec<Option<T>>);

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
        if self.0.len() <= job.index() {
            self.0.resize_with(job.index() + 1, || None);
        }
        self.0[job.index()].get_or_insert_default()
    }

    /// What is remembered, if anything.
    pub fn get(&self, job: JobId) -> Option<&T> {
        self.0.get(job.index())?.as_ref()
    }

    /// Forgets those that the snapshot no longer has.
    pub fn forget_ended(&mut self, seen: &Snapshot<'_>) {
        let mut alive = seen.jobs.iter().map(|job| job.job.id.index()).peekable();
        for (idx, one) in self.0.iter_mut().enumerate() {
            while alive.next_if(|job| *job < idx).is_some() {}
            if alive.peek() != Some(&idx) {
                *one = None;
            }
        }
    }
}
