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

mod counters;
mod descriptors;
mod discover;
mod orphans;
mod sampling;
mod unseen_children;

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{CpuId, CpuSet, JobId, Nanos, TaskId};

use crate::affinity::is_same;

pub use counters::{CounterMode, TaskCounters};
pub use descriptors::{DescriptorBudget, DescriptorReservation, KeptFile};
pub use orphans::OrphanOwner;
pub use sampling::{SampleTime, SampledTasks};

/// Processes and threads of all jobs.
#[derive(Debug)]
pub struct TaskReader {
    processes: BTreeMap<(JobId, u32), Process>,
    job_of: BTreeMap<u32, JobId>,
    /// Descriptors that may be kept open between samples.
    pub descriptors: DescriptorBudget,
    /// Whether what a process of a job starts belongs to the job too.
    pub follows_children: bool,
    /// Counters of the threads, and which events they count.
    pub counters: TaskCounters,
    /// When somebody is to be looked at next.
    look_at: Option<Nanos>,
    /// What jobs have in their environment as the name of this run.
    run: String,
    /// Jobs by the name that they have in their environment.
    names: BTreeMap<String, JobId>,
    /// What threads that are gone came to.
    past: BTreeMap<JobId, TaskTotals>,
    /// A look at somebody was refused, so that there may be others of whom nothing is known.
    is_blind: bool,
}

/// A process of a job.
#[derive(Debug)]
pub struct Process {
    /// Start time, in clock ticks since boot.
    pub start_time_ticks: u64,
    /// The process of its job that started it, until what it used is counted among that one's
    /// children.
    parent: Option<u32>,
    /// Threads that have not exited, in the order of their discovery.
    pub threads: Vec<Thread>,
    /// What threads that are gone came to.
    past: TaskTotals,
    unseen: unseen_children::UnseenChildren,
    /// When one of its threads wants to be looked at.
    look_at: Nanos,
    /// `/proc/PID/task`, opened when it first ran: its links tell how many threads there are.
    folder: Option<KeptFile>,
}

/// A thread of a job.
#[derive(Debug)]
pub struct Thread {
    /// Tid and start time.
    pub id: TaskId,
    /// The mask that it is known to have, from us or by birth.
    pub mask: Arc<CpuSet>,
    /// Somebody else set its mask, so it is left alone.
    pub is_foreign: bool,
    /// The kernel did not let us bind it: it is not asked again, except to give it back what it had.
    pub is_refused: bool,
    /// Its mask has been seen to be that one. A newborn may still have one that its job had before.
    pub is_confirmed: bool,
    schedstat: Option<KeptFile>,
    children: Option<KeptFile>,
    stat: Option<KeptFile>,
    figures: Option<crate::procfs::Schedstat>,
    last_cpu: Option<CpuId>,
    /// Its moves between CPUs, and what it had used when they were read.
    migrations: Option<(u64, u64)>,
    n_looks_ran: u32,
    n_looks_quiet: u32,
    looked_at: Option<Nanos>,
    look_at: Nanos,
    /// What the processor and the kernel count of it: most threads sleep, and are passed over sooner
    /// without it among them.
    counters: Option<Box<counters::ThreadCounters>>,
}

/// What the threads of a job came to, as far as they were seen.
///
/// Threads that ended before their job count as they were last seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskTotals {
    /// CPU time, that of unseen children too.
    pub used_ns: u64,
    wait_ns: u64,
    /// CPU time of those whose waiting time is known.
    wait_of_ns: u64,
    n_migrations: u64,
    /// CPU time that they had used when their moves were read.
    moves_of_ns: u64,
}

/// A figure counts for a job if it is known of tasks with nine tenths of the CPU time, or of all but
/// so little of it.
const UNKNOWN_MAX: Nanos = Nanos::from_millis(2);

impl TaskTotals {
    fn add(&mut self, more: TaskTotals) {
        self.used_ns = self.used_ns.saturating_add(more.used_ns);
        self.wait_ns = self.wait_ns.saturating_add(more.wait_ns);
        self.wait_of_ns = self.wait_of_ns.saturating_add(more.wait_of_ns);
        self.n_migrations = self.n_migrations.saturating_add(more.n_migrations);
        self.moves_of_ns = self.moves_of_ns.saturating_add(more.moves_of_ns);
    }

    /// Waiting time, of a job that used so much in all; absent when too much of that was used by
    /// tasks that came and went unseen.
    pub fn wait(&self, used: Nanos) -> Option<Nanos> {
        known(self.wait_ns, self.wait_of_ns, used).map(Nanos)
    }

    /// Moves between CPUs, of a job that used so much in all; absent in the same way.
    pub fn n_migrations(&self, used: Nanos) -> Option<u64> {
        known(self.n_migrations, self.moves_of_ns, used)
    }
}

fn known(value: u64, of_ns: u64, used: Nanos) -> Option<u64> {
    let unknown = used.0.saturating_sub(of_ns);
    (unknown <= UNKNOWN_MAX.0.max(used.0 / 10)).then_some(value)
}

impl TaskReader {
    /// An empty table. `run` is the value of the environment variable that marks jobs of this run.
    pub fn new(descriptors: DescriptorBudget, counting: TaskCounters, run: String) -> Self {
        TaskReader {
            processes: BTreeMap::new(),
            job_of: BTreeMap::new(),
            descriptors,
            follows_children: true,
            counters: counting,
            look_at: None,
            run,
            names: BTreeMap::new(),
            past: BTreeMap::new(),
            is_blind: false,
        }
    }

    /// Whether a look at somebody was refused since this was last asked.
    pub fn take_unreadable(&mut self) -> bool {
        std::mem::take(&mut self.is_blind)
    }

    /// Makes a job known by name, for orphans that only have their environment left.
    pub fn register_job_name(&mut self, name: &str, job: JobId) {
        self.names.insert(name.to_owned(), job);
    }

    /// The job that a process belongs to.
    pub fn job_of(&self, pid: u32) -> Option<JobId> {
        self.job_of.get(&pid).copied()
    }

    /// The processes of a job, by number.
    pub fn processes_of(&self, job: JobId) -> impl Iterator<Item = (u32, &Process)> {
        self.processes.range((job, 0)..=(job, u32::MAX)).map(|(&(_, pid), process)| (pid, process))
    }

    /// The threads of a job, by process.
    pub fn threads_of(&mut self, job: JobId) -> impl Iterator<Item = (u32, &mut Thread)> {
        let processes = self.processes.range_mut((job, 0)..=(job, u32::MAX));
        processes.flat_map(|(&(_, pid), process)| process.threads.iter_mut().map(move |t| (pid, t)))
    }

    /// All threads of all jobs.
    pub fn thread_ids(&self) -> impl Iterator<Item = TaskId> {
        self.processes.values().flat_map(|process| process.threads.iter().map(|thread| thread.id))
    }

    /// One thread and its process.
    pub fn thread(&mut self, job: JobId, id: TaskId) -> Option<(u32, &mut Thread)> {
        self.threads_of(job).find(|(_, thread)| thread.id == id)
    }

    /// The job that a thread belongs to.
    pub fn job_of_task(&self, id: TaskId) -> Option<JobId> {
        let of_process = |(&(job, _), process): (&(JobId, u32), &Process)| {
            process.threads.iter().any(|thread| thread.id == id).then_some(job)
        };
        // The first thread of a process has its number, which is the usual case.
        let direct = self.job_of(id.tid);
        direct.or_else(|| self.processes.iter().find_map(of_process))
    }

    /// Forgets a process; tells the threads that it had.
    pub fn forget(&mut self, pid: u32) -> Vec<TaskId> {
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
            is_refused: false,
            is_confirmed: false,
            schedstat: None,
            children: None,
            stat: None,
            figures: None,
            last_cpu: None,
            migrations: None,
            n_looks_ran: 0,
            n_looks_quiet: 0,
            looked_at: None,
            look_at: Nanos::ZERO,
            counters: None,
        }
    }

    /// Records the affinity mask of the thread, as set or read by this process.
    pub fn has(&mut self, mask: &Arc<CpuSet>) {
        self.mask = Arc::clone(mask);
        self.is_confirmed = true;
    }

    /// Whether this process may have set `mask`: it is the recorded mask or, before the first
    /// confirmation, any mask that the job has had. A new thread inherits the mask of its parent,
    /// which may not have been bound to the current mask yet.
    pub fn may_have(&self, mask: &CpuSet, of_job: &[Arc<CpuSet>], usable: &CpuSet) -> bool {
        let older = of_job.iter().filter(|_| !self.is_confirmed);
        std::iter::once(&self.mask).chain(older).any(|ours| is_same(ours, mask, usable))
    }

    /// Whether this is still the thread that it was, and not another with its number. A kept
    /// descriptor stays with its thread; without one the time of birth tells.
    pub fn is_alive(&self) -> bool {
        let mut buffer = [0; 8];
        let is_read = self.schedstat.as_ref().is_some_and(|file| file.read(&mut buffer).is_ok());
        is_read
            || match crate::procfs::stat(std::path::Path::new("/"), self.id.tid) {
                Ok(stat) => stat.born_ticks == self.id.start_time_ticks,
                // Who cannot be looked at is not gone.
                Err(error) => error.kind() != std::io::ErrorKind::NotFound,
            }
    }
}
