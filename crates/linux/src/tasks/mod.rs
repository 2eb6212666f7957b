//! Processes and threads of jobs: discovery, identification and sampling.
//!
//! A job consists of its main process and all descendants. Children are read from `/proc/PID/task/TID/children`, only
//! for threads that have run since the last read, because other threads cannot have started a process. The kernel
//! reparents orphans to evenkeel, their nearest subreaper. The process group or the environment of an orphan identifies
//! its job.
//!
//! Sampling must be cheap: files stay open while descriptors are available, only threads that have run are read in
//! detail, and sleeping threads are sampled at increasing intervals, at most two seconds in a run and ten seconds
//! in a watch.
//!
//! One reader serves live runs, `evenkeel record` and `evenkeel replay`: files and counters come from a [`Source`]. A
//! recording contains every thread in every turn ([`TaskReader::sample_all`]). No file stays open, because the
//! recording identifies each read by its path.

mod counters;
mod descriptors;
mod discover;
mod groups;
mod sampling;
mod unseen_children;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{CpuId, CpuSet, JobId, Nanos, TaskId};
use sched::TaskSample;

use crate::affinity::is_same;
use crate::proc_stat::{ProcStat, parse_stat};
use crate::procfs::{malformed, not_found_if_exited};
use crate::source::{Live, Source};

pub use counters::{CounterMode, TaskCounters};
pub use descriptors::{DescriptorBudget, DescriptorReservation, KeptFile};
pub use discover::OrphanOwner;
pub use groups::TaskGroups;
pub use sampling::SampleTime;

/// Processes and threads of all jobs.
#[derive(Debug)]
pub struct TaskReader<S = Live> {
    processes: BTreeMap<(JobId, u32), TrackedProcess>,
    job_of: BTreeMap<u32, JobId>,
    /// Access to the files of tasks.
    pub files: TaskFiles<S>,
    /// Whether children of a process of a job belong to the job.
    pub follows_children: bool,
    /// Counters of the threads, and the selected events.
    pub counters: TaskCounters,
    /// Time at which the next process is due.
    next_sample: Option<Nanos>,
    /// Value of the environment variable that identifies jobs of this run.
    run: String,
    /// Jobs by their name in the environment.
    names: BTreeMap<String, JobId>,
    /// Totals of processes that exited.
    past: BTreeMap<JobId, TaskTotals>,
    /// Whether a read failed, so that processes or threads may be unknown.
    has_unreadable: bool,
}

/// Files and counters of tasks.
#[derive(Debug)]
pub struct TaskFiles<S> {
    /// The kernel or a recording.
    pub source: S,
    /// Descriptors that may stay open between samples.
    pub descriptors: DescriptorBudget,
}

impl<S: Source> TaskFiles<S> {
    /// Reads a file of a thread. The error has the kind `NotFound` if the thread has exited.
    fn read(&mut self, pid: u32, tid: u32, file: &str) -> std::io::Result<Vec<u8>> {
        self.source.file(&format!("proc/{pid}/task/{tid}/{file}")).map_err(not_found_if_exited)
    }

    fn stat(&mut self, pid: u32, tid: u32) -> std::io::Result<ProcStat> {
        parse_stat(&self.read(pid, tid, "stat")?).ok_or_else(malformed)
    }

    /// Lists the TIDs of a process, ascending. The main thread is first, because its descendants inherit its counters.
    fn threads(&mut self, pid: u32) -> std::io::Result<Vec<u32>> {
        let names = self.source.list(&format!("proc/{pid}/task")).map_err(not_found_if_exited)?;
        let mut tids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        tids.sort_unstable_by_key(|&tid| (tid != pid, tid));
        Ok(tids)
    }

    fn children(&mut self, pid: u32, tid: u32) -> std::io::Result<Vec<u32>> {
        Ok(crate::procfs::parse_children(&self.read(pid, tid, "children")?).collect())
    }
}

/// Result of a sample.
#[derive(Debug, Default)]
pub struct SampledTasks {
    /// Threads that are new or have run.
    pub tasks: Vec<TaskSample>,
    /// Threads that exited.
    pub exited: Vec<TaskId>,
    /// Jobs that may have new threads or processes.
    pub changed_jobs: BTreeSet<JobId>,
    /// Threads whose affinity has to be compared with the expected mask.
    pub masks_to_verify: Vec<(JobId, TaskId)>,
    /// Counters of threads that exited.
    retired: Vec<(JobId, TaskId, Box<counters::ThreadCounters>)>,
    /// Whether a group was enabled and never ran.
    is_occupied: bool,
    /// Processes that have run or lost a thread.
    active: Vec<(JobId, u32)>,
}

/// A process of a job.
#[derive(Debug)]
pub struct TrackedProcess {
    /// Start time, in clock ticks since boot.
    pub start_time_ticks: u64,
    /// The parent in the same job; `None` after the CPU time of this process is included in the reaped children of the
    /// parent.
    parent: Option<u32>,
    /// Threads that have not exited, in the order of their discovery.
    pub threads: Vec<Thread>,
    /// Totals of threads that exited.
    past: TaskTotals,
    unseen: unseen_children::UnseenChildren,
    /// Time at which the first of the threads is due.
    sample_at: Nanos,
    /// `/proc/PID/task`, opened at the first run of the process. The link count gives the number of threads.
    dir: Option<KeptFile>,
}

/// A thread of a job.
#[derive(Debug)]
pub struct Thread {
    /// TID and start time.
    pub id: TaskId,
    /// The expected affinity mask: set or read by evenkeel, or inherited at the start of the thread.
    pub mask: Arc<CpuSet>,
    /// Whether another program set the mask; the thread is then unmanaged.
    pub is_foreign: bool,
    /// Whether the kernel rejected a new mask. In this case only the original mask is set again.
    pub is_rejected: bool,
    /// Whether `mask` has been confirmed. A new thread may still have an earlier mask of its job.
    pub is_confirmed: bool,
    schedstat: Option<KeptFile>,
    children: Option<KeptFile>,
    stat: Option<KeptFile>,
    times: Option<crate::procfs::Schedstat>,
    last_cpu: Option<CpuId>,
    /// Number of migrations between CPUs, and CPU time of the thread when the number was read.
    migrations: Option<(u64, u64)>,
    /// Number of samples in which the thread had run.
    n_samples_ran: u32,
    /// Number of samples since the thread last ran.
    n_samples_idle: u32,
    sampled_at: Option<Nanos>,
    /// Time of the last sample before the thread began to wait, while it waits.
    waiting_since: Option<Nanos>,
    /// The largest reported wait time, in nanoseconds since the start of the thread.
    waited_ns: u64,
    sample_at: Nanos,
    /// The value is boxed, because most threads sleep and iterating over small entries is faster.
    counters: Option<Box<counters::ThreadCounters>>,
}

/// Totals of the threads of a job. The last sample of a thread that exited before its job is included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskTotals {
    /// CPU time, including children that were never sampled.
    pub used_ns: u64,
    wait_ns: u64,
    /// CPU time of the threads whose wait time is known.
    wait_of_ns: u64,
    n_migrations: u64,
    /// CPU time of the threads when their migrations were read.
    migrations_of_ns: u64,
}

/// A total is reported if it covers 90 % of the CPU time of a job, or all CPU time except this amount.
const UNKNOWN_MAX: Nanos = Nanos::from_millis(2);

impl TaskTotals {
    fn add(&mut self, more: TaskTotals) {
        self.used_ns = self.used_ns.saturating_add(more.used_ns);
        self.wait_ns = self.wait_ns.saturating_add(more.wait_ns);
        self.wait_of_ns = self.wait_of_ns.saturating_add(more.wait_of_ns);
        self.n_migrations = self.n_migrations.saturating_add(more.n_migrations);
        self.migrations_of_ns = self.migrations_of_ns.saturating_add(more.migrations_of_ns);
    }

    /// Returns the wait time of a job with the CPU time `used`; `None` if too much of this CPU time was used by tasks
    /// that were never sampled.
    pub fn wait(&self, used: Nanos) -> Option<Nanos> {
        known(self.wait_ns, self.wait_of_ns, used).map(Nanos)
    }

    /// Returns the number of migrations between CPUs; `None` as in [`TaskTotals::wait`].
    pub fn n_migrations(&self, used: Nanos) -> Option<u64> {
        known(self.n_migrations, self.migrations_of_ns, used)
    }
}

fn known(value: u64, of_ns: u64, used: Nanos) -> Option<u64> {
    let unknown = used.0.saturating_sub(of_ns);
    (unknown <= UNKNOWN_MAX.0.max(used.0 / 10)).then_some(value)
}

impl<S: Source> TaskReader<S> {
    /// Creates an empty table. `run` is the value of the environment variable that identifies jobs of this run.
    pub fn new(
        source: S,
        descriptors: DescriptorBudget,
        counters: TaskCounters,
        run: String,
    ) -> Self {
        TaskReader {
            processes: BTreeMap::new(),
            job_of: BTreeMap::new(),
            files: TaskFiles { source, descriptors },
            follows_children: true,
            counters,
            next_sample: None,
            run,
            names: BTreeMap::new(),
            past: BTreeMap::new(),
            has_unreadable: false,
        }
    }

    /// Returns whether a read failed since the last call.
    pub fn take_unreadable(&mut self) -> bool {
        std::mem::take(&mut self.has_unreadable)
    }

    /// Registers the name of a job. In the environment of an orphan this name identifies the job.
    pub fn register_job_name(&mut self, name: &str, job: JobId) {
        self.names.insert(name.to_owned(), job);
    }

    /// Returns the job of a process.
    pub fn job_of(&self, pid: u32) -> Option<JobId> {
        self.job_of.get(&pid).copied()
    }

    /// Returns the processes of a job, by PID.
    pub fn processes_of(&self, job: JobId) -> impl Iterator<Item = (u32, &TrackedProcess)> {
        self.processes.range((job, 0)..=(job, u32::MAX)).map(|(&(_, pid), process)| (pid, process))
    }

    /// Returns the threads of a job with the PIDs of their processes.
    pub fn threads_of(&mut self, job: JobId) -> impl Iterator<Item = (u32, &mut Thread)> {
        let processes = self.processes.range_mut((job, 0)..=(job, u32::MAX));
        processes.flat_map(|(&(_, pid), process)| process.threads.iter_mut().map(move |t| (pid, t)))
    }

    /// Returns all threads of all jobs.
    pub fn thread_ids(&self) -> impl Iterator<Item = TaskId> {
        self.processes.values().flat_map(|process| process.threads.iter().map(|thread| thread.id))
    }

    /// Returns a thread with the PID of its process.
    pub fn thread(&mut self, job: JobId, id: TaskId) -> Option<(u32, &mut Thread)> {
        self.threads_of(job).find(|(_, thread)| thread.id == id)
    }

    /// Returns the job of a thread.
    pub fn job_of_task(&self, id: TaskId) -> Option<JobId> {
        let of_process = |(&(job, _), process): (&(JobId, u32), &TrackedProcess)| {
            process.threads.iter().any(|thread| thread.id == id).then_some(job)
        };
        // The TID of a main thread, which is the most frequent argument, is the PID of its process.
        let direct = self.job_of(id.tid);
        direct.or_else(|| self.processes.iter().find_map(of_process))
    }

    /// Removes a process. Returns its threads.
    pub fn remove_process(&mut self, pid: u32) -> Vec<TaskId> {
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
            is_rejected: false,
            is_confirmed: false,
            schedstat: None,
            children: None,
            stat: None,
            times: None,
            last_cpu: None,
            migrations: None,
            n_samples_ran: 0,
            n_samples_idle: 0,
            sampled_at: None,
            waiting_since: None,
            waited_ns: 0,
            sample_at: Nanos::ZERO,
            counters: None,
        }
    }

    /// Records the affinity mask of the thread, as set or read by this process.
    pub fn record_mask(&mut self, mask: &Arc<CpuSet>) {
        self.mask = Arc::clone(mask);
        self.is_confirmed = true;
    }

    /// Returns whether evenkeel may have set `mask`. True for the recorded mask and, before the first confirmation, for
    /// any earlier mask of the job: a new thread inherits the mask of its parent, which may not have the current mask
    /// yet.
    pub fn may_have(&self, mask: &CpuSet, of_job: &[Arc<CpuSet>], usable: &CpuSet) -> bool {
        let older = of_job.iter().filter(|_| !self.is_confirmed);
        std::iter::once(&self.mask).chain(older).any(|known| is_same(known, mask, usable))
    }

    /// Returns whether the thread is running. An open descriptor refers to one thread; without a descriptor the start
    /// time identifies the thread. An unreadable thread counts as running.
    fn is_running(&self, pid: u32, files: &mut TaskFiles<impl Source>) -> bool {
        let mut buffer = [0; 8];
        let is_read = self.schedstat.as_ref().is_some_and(|file| file.read(&mut buffer).is_ok());
        is_read
            || match files.stat(pid, self.id.tid) {
                Ok(stat) => stat.start_time_ticks == self.id.start_time_ticks,
                Err(error) => error.kind() != std::io::ErrorKind::NotFound,
            }
    }
}
