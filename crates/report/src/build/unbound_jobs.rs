//! Sampled CPUs of jobs that are bound to several CPUs or to none.
//!
//! Only changed CPUs are stored, as in samples. A turn in which no task changed its CPU costs nothing, for any number
//! of jobs.

use std::collections::{BTreeMap, BTreeSet};

use base::{CpuId, CpuSet, JobId, TaskId};

/// The tasks of unbound jobs, each with its last CPU.
#[derive(Debug, Default)]
pub(crate) struct UnboundJobs {
    job_of: BTreeMap<TaskId, JobId>,
    tasks_of: BTreeMap<JobId, BTreeMap<TaskId, Option<CpuId>>>,
    changed: BTreeSet<JobId>,
}

impl UnboundJobs {
    pub fn observe(&mut self, job: JobId, task: TaskId, last_cpu: Option<CpuId>) {
        self.job_of.insert(task, job);
        let before = self.tasks_of.entry(job).or_default().insert(task, last_cpu);
        if before != Some(last_cpu) {
            self.changed.insert(job);
        }
    }

    pub fn exited(&mut self, task: TaskId) {
        let Some(job) = self.job_of.remove(&task) else { return };
        if let Some(tasks) = self.tasks_of.get_mut(&job) {
            tasks.remove(&task);
            self.changed.insert(job);
        }
    }

    /// Removes a job that ended or is bound to one CPU.
    pub fn remove(&mut self, job: JobId) {
        for task in self.tasks_of.remove(&job).unwrap_or_default().into_keys() {
            self.job_of.remove(&task);
        }
        self.changed.remove(&job);
    }

    /// Marks a job whose affinity changed, so that its sampled CPUs are returned again.
    pub fn mark_changed(&mut self, job: JobId) {
        if self.tasks_of.contains_key(&job) {
            self.changed.insert(job);
        }
    }

    /// Returns the CPUs of each changed job. Jobs without known CPUs are omitted.
    pub fn take_changes(&mut self) -> impl Iterator<Item = (JobId, CpuSet)> {
        let cpus = |job: &JobId| -> CpuSet {
            let tasks = self.tasks_of.get(job).into_iter().flat_map(BTreeMap::values);
            tasks.copied().flatten().collect()
        };
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(move |job| (job, cpus(&job))).filter(|(_, cpus)| !cpus.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(tid: u32) -> TaskId {
        TaskId { tid, start_time_ticks: 1 }
    }

    fn changes(unbound: &mut UnboundJobs) -> String {
        let changes = unbound.take_changes().map(|(job, cpus)| format!("{}:{cpus}", job.0));
        changes.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn only_jobs_sampled_on_other_cpus_are_changes() {
        let mut unbound = UnboundJobs::default();
        unbound.observe(JobId(0), task(10), Some(CpuId(0)));
        unbound.observe(JobId(0), task(11), Some(CpuId(3)));
        unbound.observe(JobId(1), task(20), None);
        assert_eq!(changes(&mut unbound), "0:0,3", "the CPUs of job 1 are not known");
        unbound.observe(JobId(0), task(11), Some(CpuId(3)));
        assert_eq!(changes(&mut unbound), "", "the same CPU");
        unbound.exited(task(10));
        assert_eq!(changes(&mut unbound), "0:3");
        unbound.mark_changed(JobId(0));
        assert_eq!(changes(&mut unbound), "0:3");
        unbound.remove(JobId(0));
        unbound.exited(task(11));
        unbound.mark_changed(JobId(0));
        assert_eq!(changes(&mut unbound), "");
    }
}
