//! Affinities of tasks that a policy placed separately from their job.

use std::collections::{BTreeMap, BTreeSet};

use base::{CpuSet, JobId, TaskId};

use crate::derive::Tasks;

#[derive(Debug, Default)]
pub(crate) struct TaskAffinities {
    placed: BTreeMap<TaskId, CpuSet>,
    unmanaged: BTreeSet<TaskId>,
}

impl TaskAffinities {
    pub fn get(&self, task: TaskId) -> Option<&CpuSet> {
        self.placed.get(&task)
    }

    /// Sets the affinity of a task. `None` means that the task was released.
    pub fn set(&mut self, task: TaskId, cpus: Option<CpuSet>) {
        match cpus {
            Some(cpus) => self.placed.insert(task, cpus),
            None => self.placed.remove(&task),
        };
    }

    pub fn is_unmanaged(&self, task: TaskId) -> bool {
        self.unmanaged.contains(&task)
    }

    pub fn set_unmanaged(&mut self, task: TaskId) {
        self.unmanaged.insert(task);
    }

    /// Removes tasks that exited.
    pub fn remove_exited(&mut self, tasks: &Tasks) {
        self.placed.retain(|&task, _| tasks.job_of(task).is_some());
        self.unmanaged.retain(|&task| tasks.job_of(task).is_some());
    }

    /// Removes the affinities of all tasks of a job. Called when the affinity of the job is set.
    pub fn remove_job(&mut self, job: JobId, tasks: &Tasks) {
        self.placed.retain(|&task, _| tasks.job_of(task) != Some(job));
    }
}
