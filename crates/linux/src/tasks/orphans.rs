//! Whose an orphan is that came to us.

use std::path::Path;

use crate::environ::environ;
use crate::procfs::Stat;
use crate::undo::{JOB_VARIABLE, RUN_VARIABLE};
use base::JobId;

use super::Family;

/// Whose an orphan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// A job's.
    Job(JobId),
    /// It is becoming another program just now, and cannot be asked.
    InExec,
    /// Nothing of it says whose.
    Unknown,
}

impl Family {
    /// All processes that are known, by number and birth.
    pub fn all_processes(&self) -> impl Iterator<Item = (u32, u64)> {
        self.processes.iter().map(|(&(_, pid), process)| (pid, process.born_ticks))
    }

    /// By what we have seen of it, its process group (that of a job's first process), or its
    /// environment.
    pub fn claim(&self, pid: u32, stat: &Stat, is_first: impl Fn(JobId, u32) -> bool) -> Claim {
        let by_group = || self.job_of(stat.group).filter(|&job| is_first(job, stat.group));
        if let Some(job) = self.job_of(pid).or_else(by_group) {
            return Claim::Job(job);
        }
        if stat.state == 'Z' {
            return Claim::Unknown; // What has ended has no environment any more.
        }
        match environ(Path::new("/"), pid) {
            Ok(crate::environ::Environ::InExec) => Claim::InExec,
            Ok(environ) if environ.variable(RUN_VARIABLE) == Some(&self.run) => {
                let job = environ.variable(JOB_VARIABLE).and_then(|name| self.names.get(name));
                job.map_or(Claim::Unknown, |&job| Claim::Job(job))
            }
            _ => Claim::Unknown,
        }
    }
}
