//! Where jobs were seen that are bound to several CPUs or to none.
//!
//! Samples tell only what changed, and so does this: a turn in which no task was seen elsewhere than
//! before costs nothing, however many jobs there are.

use std::collections::{BTreeMap, BTreeSet};

use base::{CpuId, CpuSet, JobId, TaskId};

/// The tasks of such jobs, and where each ran last.
#[derive(Debug, Default)]
pub(crate) struct Unbound {
    job_of: BTreeMap<TaskId, JobId>,
    tasks_of: BTreeMap<JobId, BTreeMap<TaskId, Option<CpuId>>>,
    changed: BTreeSet<JobId>,
}

impl Unbound {
    pub fn see(&mut self, job: JobId, task: TaskId, on: Option<CpuId>) {
        self.job_of.insert(task, job);
        let before = self.tasks_of.entry(job).or_default().insert(task, on);
        if before != Some(on) {
            self.changed.insert(job);
        }
    }

    pub fn gone(&mut self, task: TaskId) {
        let Some(job) = self.job_of.remove(&task) else { return };
        if let Some(tasks) = self.tasks_of.get_mut(&job) {
            tasks.remove(&task);
            self.changed.insert(job);
        }
    }

    /// The job ended, or is bound to one CPU.
    pub fn forget(&mut self, job: JobId) {
        for task in self.tasks_of.remove(&job).unwrap_or_default().into_keys() {
            self.job_of.remove(&task);
        }
        self.changed.remove(&job);
    }

    /// Something else was told of where the job is: what was seen of it is news again.
    pub fn look_again(&mut self, job: JobId) {
        if self.tasks_of.contains_key(&job) {
            self.changed.insert(job);
        }
    }

    /// The jobs that were seen elsewhere than before, and where; nothing of those of which that is
    /// not known.
    pub fn news(&mut self) -> impl Iterator<Item = (JobId, CpuSet)> {
        let cpus = |job: &JobId| -> CpuSet {
            self.tasks_of
                .get(job)
                .into_iter()
                .flat_map(BTreeMap::values)
                .copied()
                .flatten()
                .collect()
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

    fn news(unbound: &mut Unbound) -> String {
        let told = unbound.news().map(|(job, cpus)| format!("{}:{cpus}", job.0));
        told.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn only_what_was_seen_elsewhere_is_news() {
        let mut unbound = Unbound::default();
        unbound.see(JobId(0), task(10), Some(CpuId(0)));
        unbound.see(JobId(0), task(11), Some(CpuId(3)));
        unbound.see(JobId(1), task(20), None);
        assert_eq!(news(&mut unbound), "0:0,3", "of the other it is not known");
        unbound.see(JobId(0), task(11), Some(CpuId(3)));
        assert_eq!(news(&mut unbound), "", "it is where it was");
        unbound.gone(task(10));
        assert_eq!(news(&mut unbound), "0:3");
        unbound.look_again(JobId(0));
        assert_eq!(news(&mut unbound), "0:3");
        unbound.forget(JobId(0));
        unbound.gone(task(11));
        unbound.look_again(JobId(0));
        assert_eq!(news(&mut unbound), "");
    }
}
