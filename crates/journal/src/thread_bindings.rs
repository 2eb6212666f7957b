//! The observed threads of jobs, and the CPUs of threads that a policy bound one by one.
//!
//! ```text
//!   job      bound to 0-3       the CPUs of its threads without own CPUs
//!   ├ 1001   bound to 0-1       own CPUs
//!   └ 1002   -
//! ```
//!
//! A binding or a release of the job applies to all its threads, so it removes their own CPUs.

use base::{CpuSet, JobId, TaskId};
use sched::Sample;

use crate::JobThreads;

/// The threads that were sampled and have not exited, each with its own CPUs; `None`: those of its job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ThreadBindings(JobThreads<Option<CpuSet>>);

impl ThreadBindings {
    /// Adds the threads of a sample, then removes its exited threads.
    pub fn observe(&mut self, sample: &Sample) {
        for task in &sample.tasks {
            self.0.add(task.job, task.task);
        }
        for &task in &sample.exited {
            self.0.remove(task);
        }
    }

    pub fn remove_job(&mut self, job: JobId) {
        self.0.remove_job(job);
    }

    pub fn job_of(&self, task: TaskId) -> Option<JobId> {
        self.0.job_of(task)
    }

    /// Sets the own CPUs of a thread, and returns the previous ones. A thread that was never sampled has none.
    pub fn bind(&mut self, task: TaskId, cpus: Option<CpuSet>) -> Option<CpuSet> {
        std::mem::replace(self.0.get_mut(task)?, cpus)
    }

    /// Removes the own CPUs of all threads of a job.
    pub fn unbind_all(&mut self, job: JobId) {
        self.0.values_mut(job).for_each(|own| *own = None);
    }

    /// Returns the threads of a job with their own CPUs.
    pub fn threads(&self, job: JobId) -> impl Iterator<Item = (TaskId, Option<&CpuSet>)> + Clone {
        self.0.of_job(job).map(|(task, own)| (task, own.as_ref()))
    }

    /// Returns the own CPUs of a thread.
    pub fn own(&self, job: JobId, task: TaskId) -> Option<&CpuSet> {
        self.0.get(job, task)?.as_ref()
    }

    /// Returns all threads with own CPUs.
    pub fn all_bound(&self) -> Vec<(TaskId, CpuSet)> {
        self.0.iter().filter_map(|(task, own)| Some((task, own.clone()?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use sched::TaskSample;

    use super::*;

    fn task(tid: u32) -> TaskId {
        TaskId { tid, start_time_ticks: 1 }
    }

    fn sample(tasks: &[(u32, u32)], exited: &[u32]) -> Sample {
        let sampled = |&(tid, job): &(u32, u32)| TaskSample::new(task(tid), JobId(job));
        Sample {
            tasks: tasks.iter().map(sampled).collect(),
            exited: exited.iter().copied().map(task).collect(),
            ..Sample::default()
        }
    }

    fn cpus(text: &str) -> Option<CpuSet> {
        Some(text.parse().expect("a list"))
    }

    fn bound(threads: &ThreadBindings) -> String {
        let all = threads.all_bound();
        let text = all.iter().map(|(task, cpus)| format!("{}:{cpus}", task.tid));
        text.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_thread_keeps_its_cpus_until_it_exits_or_its_job_is_bound_or_ends() {
        let mut threads = ThreadBindings::default();
        threads.observe(&sample(&[(1, 0), (2, 0), (3, 1), (4, 2)], &[]));
        for tid in 1..=5 {
            threads.bind(task(tid), cpus("0-1"));
        }
        assert_eq!(bound(&threads), "1:0-1 2:0-1 3:0-1 4:0-1", "thread 5 was never sampled");
        assert_eq!(threads.bind(task(2), cpus("2")), cpus("0-1"));
        threads.observe(&sample(&[(2, 0), (3, 1)], &[1]));
        assert_eq!(bound(&threads), "2:2 3:0-1 4:0-1");
        threads.unbind_all(JobId(1));
        threads.remove_job(JobId(2));
        assert_eq!(bound(&threads), "2:2");
        assert_eq!(
            [2, 3, 4].map(|tid| threads.job_of(task(tid))),
            [Some(JobId(0)), Some(JobId(1)), None]
        );
    }
}
