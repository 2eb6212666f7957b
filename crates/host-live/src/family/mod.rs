//! The processes and threads of each job: found, kept apart, and read.
//!
//! A job is its first process and all that come from it. Who comes from whom is asked of the kernel
//! (`/proc/TID/children`), and only of threads that ran since they were last asked: a thread that did
//! not run cannot have started anything. Orphans come to us, because we are their nearest subreaper;
//! their process group or their environment tells whose they are.
//!
//! Reading is made cheap, since it goes on all the time: files stay open as long as there are
//! descriptors, only what ran is looked at closely, and a thread that sleeps is looked at ever more
//! seldom, though at least every two seconds.

mod descriptors;
mod find;
mod orphans;
mod read;

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{CpuId, CpuSet, JobId, TaskId};

pub(crate) use descriptors::{Descriptors, Kept};
pub(crate) use read::Look;

/// Processes and threads of all jobs.
#[derive(Debug)]
pub(crate) struct Family {
    processes: BTreeMap<(JobId, u32), Process>,
    job_of: BTreeMap<u32, JobId>,
    pub descriptors: Descriptors,
    /// What jobs have in their environment as the name of this run.
    run: String,
    /// Jobs by the name that they have in their environment.
    names: BTreeMap<String, JobId>,
    /// What threads that are gone came to.
    past: BTreeMap<JobId, Totals>,
}

/// A process of a job.
#[derive(Debug)]
pub(crate) struct Process {
    pub born_ticks: u64,
    pub threads: Vec<Thread>,
    /// `/proc/PID/task`, opened when it first ran: its links tell how many threads there are.
    folder: Option<Kept>,
}

/// A thread of a job.
#[derive(Debug)]
pub(crate) struct Thread {
    pub id: TaskId,
    /// The mask that it is known to have, from us or by birth.
    pub mask: Arc<CpuSet>,
    /// Somebody else set its mask, so it is left alone.
    pub is_foreign: bool,
    schedstat: Option<Kept>,
    children: Option<Kept>,
    stat: Option<Kept>,
    figures: Option<linux::procfs::Schedstat>,
    /// Read once more at the end.
    last: Option<linux::procfs::Schedstat>,
    last_cpu: Option<CpuId>,
    n_migrations: Option<u64>,
    n_looks_ran: u32,
    n_looks_quiet: u32,
    look_at_turn: u64,
}

/// What the threads of a job came to, as far as they were seen.
///
/// A figure that could not be read of anybody is absent. Threads that ended before their job count as
/// they were last seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub wait_ns: Option<u64>,
    pub n_migrations: Option<u64>,
}

impl Totals {
    fn add(&mut self, more: Totals) {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a + b),
            (only, None) | (None, only) => only,
        };
        self.wait_ns = sum(self.wait_ns, more.wait_ns);
        self.n_migrations = sum(self.n_migrations, more.n_migrations);
    }
}

impl Family {
    pub(crate) fn new(descriptors: Descriptors, run: String) -> Self {
        Family {
            processes: BTreeMap::new(),
            job_of: BTreeMap::new(),
            descriptors,
            run,
            names: BTreeMap::new(),
            past: BTreeMap::new(),
        }
    }

    /// Makes a job known by name, for orphans that only have their environment left.
    pub(crate) fn know(&mut self, name: &str, job: JobId) {
        self.names.insert(name.to_owned(), job);
    }

    /// The job that a process belongs to.
    pub(crate) fn job_of(&self, pid: u32) -> Option<JobId> {
        self.job_of.get(&pid).copied()
    }

    /// The processes of a job, by number.
    pub(crate) fn processes_of(&self, job: JobId) -> impl Iterator<Item = (u32, &Process)> {
        self.processes.range((job, 0)..=(job, u32::MAX)).map(|(&(_, pid), process)| (pid, process))
    }

    /// The threads of a job, by process.
    pub(crate) fn threads_of(&mut self, job: JobId) -> impl Iterator<Item = (u32, &mut Thread)> {
        let processes = self.processes.range_mut((job, 0)..=(job, u32::MAX));
        processes.flat_map(|(&(_, pid), process)| process.threads.iter_mut().map(move |t| (pid, t)))
    }

    /// One thread and its process.
    pub(crate) fn thread(&mut self, job: JobId, id: TaskId) -> Option<(u32, &mut Thread)> {
        self.threads_of(job).find(|(_, thread)| thread.id == id)
    }

    /// The job that a thread belongs to.
    pub(crate) fn job_of_task(&self, id: TaskId) -> Option<JobId> {
        let of_process = |(&(job, _), process): (&(JobId, u32), &Process)| {
            process.threads.iter().any(|thread| thread.id == id).then_some(job)
        };
        // The first thread of a process has its number, which is the usual case.
        let direct = self.job_of(id.tid);
        direct.or_else(|| self.processes.iter().find_map(of_process))
    }

    /// Forgets a process; tells the threads that it had.
    pub(crate) fn forget(&mut self, pid: u32) -> Vec<TaskId> {
        let Some(job) = self.job_of.remove(&pid) else { return Vec::new() };
        let process = self.processes.remove(&(job, pid));
        process.into_iter().flat_map(|process| process.threads).map(|thread| thread.id).collect()
    }
}

impl Thread {
    fn new(id: TaskId, mask: Arc<CpuSet>) -> Self {
        Thread {
            id,
            mask,
            is_foreign: false,
            schedstat: None,
            children: None,
            stat: None,
            figures: None,
            last: None,
            last_cpu: None,
            n_migrations: None,
            n_looks_ran: 0,
            n_looks_quiet: 0,
            look_at_turn: 0,
        }
    }

    /// Whether this is still the thread that it was, and not another with its number. A kept
    /// descriptor stays with its thread; without one the time of birth tells.
    pub(crate) fn is_alive(&self) -> bool {
        let mut buffer = [0; 8];
        match &self.schedstat {
            Some(file) => file.read(&mut buffer).is_ok(),
            None => linux::procfs::stat(std::path::Path::new("/"), self.id.tid)
                .is_ok_and(|stat| stat.born_ticks == self.id.born_ticks),
        }
    }
}
