//! Memory of jobs, computed from samples of their processes.

use std::collections::BTreeMap;

use base::{JobId, TaskId};
use sched::{JobMemory, ProcessMemory};

/// The last sample of every process.
#[derive(Debug, Default)]
pub(crate) struct ProcessMemories(BTreeMap<(JobId, TaskId), ProcessMemory>);

impl ProcessMemories {
    /// Stores samples, removes exited processes, and returns the jobs with changed memory.
    pub fn update(&mut self, samples: &[ProcessMemory], exited: &[TaskId]) -> Vec<JobId> {
        let mut changed: Vec<JobId> = samples.iter().map(|memory| memory.job).collect();
        for memory in samples {
            let key = (memory.job, memory.process);
            match memory.nodes.is_empty() {
                true => self.0.remove(&key),
                false => self.0.insert(key, memory.clone()),
            };
        }
        if !self.0.is_empty() && !exited.is_empty() {
            self.0.retain(|(job, process), _| {
                let has_exited = exited.contains(process);
                if has_exited {
                    changed.push(*job);
                }
                !has_exited
            });
        }
        changed.sort_unstable();
        changed.dedup();
        changed
    }

    pub fn remove_job(&mut self, job: JobId) {
        self.0.retain(|(owner, _), _| *owner != job);
    }

    /// Returns the sum over the processes of a job; `None` if no process has a sample.
    pub fn job_sum(&self, job: JobId) -> Option<JobMemory> {
        let first = TaskId { tid: 0, start_time_ticks: 0 };
        let of_job = self.0.range((job, first)..).take_while(|((owner, _), _)| *owner == job);
        JobMemory::of(of_job.map(|(_, memory)| memory))
    }
}
