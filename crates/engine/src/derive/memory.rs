//! From the memory of processes to that of jobs.

use std::collections::BTreeMap;

use base::{JobId, TaskId};
use sched::{JobMemory, ProcessMemory};

/// What was last seen of every process.
#[derive(Debug, Default)]
pub(crate) struct ProcessMemories(BTreeMap<(JobId, TaskId), ProcessMemory>);

impl ProcessMemories {
    /// Takes in what was looked at; the jobs whose memory is new.
    pub fn take(&mut self, seen: &[ProcessMemory], gone: &[TaskId]) -> Vec<JobId> {
        let mut changed: Vec<JobId> = seen.iter().map(|memory| memory.job).collect();
        for memory in seen {
            let key = (memory.job, memory.process);
            match memory.nodes.is_empty() {
                true => self.0.remove(&key),
                false => self.0.insert(key, memory.clone()),
            };
        }
        if !self.0.is_empty() && !gone.is_empty() {
            self.0.retain(|(job, process), _| {
                let stays = !gone.contains(process);
                if !stays {
                    changed.push(*job);
                }
                stays
            });
        }
        changed.sort_unstable();
        changed.dedup();
        changed
    }

    /// Its job ended.
    pub fn remove_job(&mut self, job: JobId) {
        self.0.retain(|(of, _), _| *of != job);
    }

    /// The sum over the processes of a job; `None` where none was looked at.
    pub fn of(&self, job: JobId) -> Option<JobMemory> {
        let first = TaskId { tid: 0, start_time_ticks: 0 };
        let of_job = self.0.range((job, first)..).take_while(|((of, _), _)| *of == job);
        JobMemory::of(of_job.map(|(_, memory)| memory))
    }
}
