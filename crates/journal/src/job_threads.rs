//! The threads of jobs, each with a value. A thread belongs to one job at a time.
//!
//! ```text
//!   job 0  ├ 1001  value        add(job 1, 1002)        job 0  └ 1001  value
//!          └ 1002  value      ───────────────────►      job 1  └ 1002  default value
//! ```

use std::collections::BTreeMap;

use base::{JobId, TaskId};

/// The threads of jobs that have not exited.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobThreads<T> {
    job_of: BTreeMap<TaskId, JobId>,
    values: BTreeMap<(JobId, TaskId), T>,
}

const FIRST: TaskId = TaskId { tid: 0, start_time_ticks: 0 };
const LAST: TaskId = TaskId { tid: u32::MAX, start_time_ticks: u64::MAX };

impl<T: Default> JobThreads<T> {
    /// Adds a thread with the default value, unless it is a thread of the job already. Returns the job that it left, if
    /// it was a thread of another job.
    pub fn add(&mut self, job: JobId, task: TaskId) -> Option<JobId> {
        if self.job_of(task) == Some(job) {
            return None;
        }
        let left = self.remove(task);
        self.job_of.insert(task, job);
        self.values.insert((job, task), T::default());
        left
    }

    /// Removes a thread. Returns its job.
    pub fn remove(&mut self, task: TaskId) -> Option<JobId> {
        let job = self.job_of.remove(&task)?;
        self.values.remove(&(job, task));
        Some(job)
    }

    /// Removes all threads of a job.
    pub fn remove_job(&mut self, job: JobId) {
        let threads: Vec<TaskId> = self.of_job(job).map(|(task, _)| task).collect();
        for task in threads {
            self.remove(task);
        }
    }

    /// Returns the job of a thread.
    pub fn job_of(&self, task: TaskId) -> Option<JobId> {
        self.job_of.get(&task).copied()
    }

    /// Returns the value of a thread of a job.
    pub fn get(&self, job: JobId, task: TaskId) -> Option<&T> {
        self.values.get(&(job, task))
    }

    /// Returns the value of a thread.
    pub fn get_mut(&mut self, task: TaskId) -> Option<&mut T> {
        self.values.get_mut(&(self.job_of(task)?, task))
    }

    /// Returns the threads of a job with their values.
    pub fn of_job(&self, job: JobId) -> impl Iterator<Item = (TaskId, &T)> + Clone {
        self.values.range((job, FIRST)..=(job, LAST)).map(|((_, task), value)| (*task, value))
    }

    /// Returns the values of the threads of a job.
    pub fn values_mut(&mut self, job: JobId) -> impl Iterator<Item = &mut T> {
        self.values.range_mut((job, FIRST)..=(job, LAST)).map(|(_, value)| value)
    }

    /// Returns all threads with their values.
    pub fn iter(&self) -> impl Iterator<Item = (TaskId, &T)> {
        self.values.iter().map(|((_, task), value)| (*task, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(tid: u32) -> TaskId {
        TaskId { tid, start_time_ticks: 1 }
    }

    #[test]
    fn a_thread_that_changes_its_job_leaves_its_value_and_its_former_job() {
        let mut threads = JobThreads::<u32>::default();
        for tid in [1, 2] {
            assert_eq!(threads.add(JobId(0), task(tid)), None);
            *threads.get_mut(task(tid)).expect("it was added") = tid;
        }
        assert_eq!(threads.add(JobId(0), task(1)), None, "a thread of the job");
        assert_eq!(threads.add(JobId(1), task(2)), Some(JobId(0)));
        assert_eq!(threads.of_job(JobId(0)).collect::<Vec<_>>(), [(task(1), &1)]);
        assert_eq!(threads.of_job(JobId(1)).collect::<Vec<_>>(), [(task(2), &0)]);
        assert_eq!(threads.get(JobId(0), task(2)), None);
        threads.remove_job(JobId(0));
        assert_eq!([1, 2].map(|tid| threads.job_of(task(tid))), [None, Some(JobId(1))]);
        assert_eq!(threads.remove(task(2)), Some(JobId(1)));
        assert_eq!(threads, JobThreads::default());
    }
}
