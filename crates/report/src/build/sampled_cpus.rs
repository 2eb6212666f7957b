//! Sampled CPUs of running jobs.
//!
//! Only changed CPUs are stored, as in samples. A turn in which no task changed its CPU costs nothing, for any number
//! of jobs.

use std::collections::BTreeSet;

use base::{CpuId, CpuSet, JobId, TaskId};
use journal::JobThreads;

/// The tasks of running jobs, each with its last CPU.
#[derive(Debug, Default)]
pub(crate) struct SampledCpus {
    last_cpus: JobThreads<Option<CpuId>>,
    changed: BTreeSet<JobId>,
}

impl SampledCpus {
    pub fn observe(&mut self, job: JobId, task: TaskId, last_cpu: Option<CpuId>) {
        self.changed.extend(self.last_cpus.add(job, task));
        let known = self.last_cpus.get_mut(task);
        if known.is_some_and(|known| std::mem::replace(known, last_cpu) != last_cpu) {
            self.changed.insert(job);
        }
    }

    pub fn exited(&mut self, task: TaskId) {
        self.changed.extend(self.last_cpus.remove(task));
    }

    /// Removes a job that ended.
    pub fn remove(&mut self, job: JobId) {
        self.last_cpus.remove_job(job);
        self.changed.remove(&job);
    }

    /// Marks a job whose affinity changed, so that its sampled CPUs are returned again.
    pub fn mark_changed(&mut self, job: JobId) {
        self.changed.insert(job);
    }

    /// Returns the CPUs of each changed job. Jobs without known CPUs are omitted. `bound` returns the CPUs to which a
    /// task is bound: the last CPU of a task that sleeps since before its binding may be another one.
    pub fn take_changes<'a>(
        &mut self,
        bound: impl Fn(JobId, TaskId) -> Option<&'a CpuSet>,
    ) -> impl Iterator<Item = (JobId, CpuSet)> {
        let (last_cpus, changed) = (&self.last_cpus, std::mem::take(&mut self.changed));
        let cpus = move |job: JobId| -> CpuSet {
            let possible = |(task, cpu): (TaskId, &Option<CpuId>)| {
                cpu.filter(|cpu| bound(job, task).is_none_or(|cpus| cpus.contains(*cpu)))
            };
            last_cpus.of_job(job).filter_map(possible).collect()
        };
        changed.into_iter().map(move |job| (job, cpus(job))).filter(|(_, cpus)| !cpus.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(tid: u32) -> TaskId {
        TaskId { tid, start_time_ticks: 1 }
    }

    fn changes(sampled: &mut SampledCpus) -> String {
        let changes =
            sampled.take_changes(|_, _| None).map(|(job, cpus)| format!("{}:{cpus}", job.0));
        changes.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn only_jobs_sampled_on_other_cpus_are_changes() {
        let mut sampled = SampledCpus::default();
        sampled.observe(JobId(0), task(10), Some(CpuId(0)));
        sampled.observe(JobId(0), task(11), Some(CpuId(3)));
        sampled.observe(JobId(1), task(20), None);
        assert_eq!(changes(&mut sampled), "0:0,3", "the CPUs of job 1 are not known");
        sampled.observe(JobId(0), task(11), Some(CpuId(3)));
        assert_eq!(changes(&mut sampled), "", "the same CPU");
        sampled.exited(task(10));
        assert_eq!(changes(&mut sampled), "0:3");
        sampled.mark_changed(JobId(0));
        assert_eq!(changes(&mut sampled), "0:3");
        sampled.mark_changed(JobId(0));
        let bound = "1-2".parse().expect("a list");
        let n_changes = sampled.take_changes(|_, _| Some(&bound)).count();
        assert_eq!(n_changes, 0, "the task has not run since it was bound to other CPUs");
        sampled.remove(JobId(0));
        sampled.exited(task(11));
        sampled.mark_changed(JobId(0));
        assert_eq!(changes(&mut sampled), "");
    }

    #[test]
    fn a_task_that_changes_its_job_leaves_the_cpus_of_its_former_job() {
        let mut sampled = SampledCpus::default();
        sampled.observe(JobId(0), task(10), Some(CpuId(0)));
        sampled.observe(JobId(0), task(11), Some(CpuId(3)));
        assert_eq!(changes(&mut sampled), "0:0,3");
        sampled.observe(JobId(1), task(11), Some(CpuId(3)));
        assert_eq!(changes(&mut sampled), "0:0 1:3");
    }
}
