//! Whose an orphan is that came to us.

use std::path::Path;

use crate::environ::environ;
use crate::procfs::Stat;
use crate::undo::{JOB_VARIABLE, RUN_VARIABLE};
use base::JobId;

use super::TaskReader;

/// Whose an orphan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrphanOwner {
    /// A job's.
    Job(JobId),
    /// It is becoming another program just now, and cannot be asked.
    InExec,
    /// Nothing of it says whose.
    Unknown,
}

impl TaskReader {
    /// All processes that are known, by number and birth.
    pub fn all_processes(&self) -> impl Iterator<Item = (u32, u64)> {
        self.processes.iter().map(|(&(_, pid), process)| (pid, process.start_time_ticks))
    }

    /// By what we have seen of it, its process group (that of a job's first process), or its
    /// environment.
    pub fn orphan_owner(
        &self,
        pid: u32,
        stat: &Stat,
        is_first: impl Fn(JobId, u32) -> bool,
    ) -> OrphanOwner {
        let by_group = || self.job_of(stat.group).filter(|&job| is_first(job, stat.group));
        if let Some(job) = self.job_of(pid).or_else(by_group) {
            return OrphanOwner::Job(job);
        }
        if stat.state == 'Z' {
            return OrphanOwner::Unknown; // What has ended has no environment any more.
        }
        match environ(Path::new("/"), pid) {
            Ok(crate::environ::Environ::InExec) => OrphanOwner::InExec,
            Ok(environ) if environ.variable(RUN_VARIABLE) == Some(&self.run) => {
                let job = environ.variable(JOB_VARIABLE).and_then(|name| self.names.get(name));
                job.map_or(OrphanOwner::Unknown, |&job| OrphanOwner::Job(job))
            }
            _ => OrphanOwner::Unknown,
        }
    }
}
