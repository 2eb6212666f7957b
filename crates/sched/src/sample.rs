//! What a host saw, raw and dated: enough to derive everything later, live and in replay alike.
//!
//! Times are since the start of the run. A sample holds what changed; what it does not name is as
//! it was.

use base::{Bytes, CpuId, CpuSet, JobId, Nanos, NodeId, TaskId};
use program::Job;

use crate::{
    CompletedPageMove, Counters, CpuTimes, LlcSample, Measured, MonGroupSample, Pressure,
    ProcessMemory,
};

/// One instant at which something is decided, with all of its causes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Its number, from 0.
    pub number: u64,
    /// When.
    pub at: Nanos,
    /// Why; never empty.
    pub causes: Vec<Cause>,
}

/// Why there is a turn.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The policy's interval went by: every task is sampled and rates are new.
    Interval,
    /// Jobs are to start.
    JobsDue,
    /// Jobs, or processes of theirs, ended.
    Ended,
    /// CPUs went offline, came online, or the cpuset changed.
    CpusChanged,
    /// The run is being stopped (by a signal, a failed job or its time limit).
    Stopping,
    /// Moves of memory ended.
    MemoryMoved,
    /// A counter overflowed since the last interval turn, which is why there is this one: always
    /// beside [`Cause::Interval`], and only where a policy waits for that ([`crate::Wake`]).
    Overflow,
}

/// What changed since the last sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// What became of jobs, in the order in which it happened.
    pub jobs: Vec<JobEvent>,
    /// Tasks that are new or whose figures changed.
    pub tasks: Vec<TaskSample>,
    /// Tasks that ended.
    pub exited: Vec<TaskId>,
    /// Nodes whose figures changed.
    pub nodes: Vec<NodeSample>,
    /// LLC domains whose traffic was read.
    pub llcs: Vec<LlcSample>,
    /// Jobs whose traffic was read, in each LLC domain.
    pub mon_groups: Vec<MonGroupSample>,
    /// CPUs whose times were read.
    pub cpus: Vec<CpuTimes>,
    /// Pressure on the system, where the kernel tells it.
    pub pressure: Option<Pressure>,
    /// The CPUs that may be used, when they changed. Always there in the first sample.
    pub usable_cpus: Option<CpuSet>,
    /// How the system places memory by itself. Always there in the first sample, never later.
    pub numa_settings: Option<NumaSettings>,
    /// What the host can no longer do, in words, said once each (no descriptors left, say).
    pub degraded: Vec<String>,
    /// Where the memory of processes lies that were looked at since. They are looked at every few
    /// seconds, in turn, and on machines with one node not at all unless asked for.
    pub memory: Vec<ProcessMemory>,
    /// Moves of memory that ended since, in the order in which they did.
    pub page_moves_completed: Vec<CompletedPageMove>,
}

impl Sample {
    /// Adds what was said while figures were taken: events of jobs, ends of tasks and of moves of memory,
    /// and what can no longer be done.
    pub fn merge_events(&mut self, said: Sample) {
        self.jobs.extend(said.jobs);
        self.exited.extend(said.exited);
        self.degraded.extend(said.degraded);
        self.memory.extend(said.memory);
        self.page_moves_completed.extend(said.page_moves_completed);
    }
}

/// How the system places memory without us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumaSettings {
    /// The kernel moves pages and tasks by itself (`kernel.numa_balancing`).
    pub numa_balancing: bool,
    /// Our jobs would inherit a policy that interleaves over nodes.
    pub interleaves: bool,
}

/// What became of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEvent {
    /// Its time has come; the host starts it with this turn's plan.
    Due(JobId),
    /// Its program ended.
    Ended(JobId, Box<JobExit>),
    /// It is no longer ours to place.
    Unmanaged(JobId, UnmanagedCause),
    /// Somebody else started it, and it is watched from now on: it runs already, on the CPUs that it
    /// had. Its tasks stand in the same sample; what they did before does not count. Its number is the next one, or that of a job that left before this sample.
    Attached(Box<Job>),
    /// It appeared before, and is watched no longer; with what was counted of it meanwhile.
    Detached(JobId, DetachCause, Box<Counters>),
}

/// Why a job that appeared is watched no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DetachCause {
    /// It ended. How, only its parent is told.
    Ended,
    /// It has slept for so long that it is no job any more; it got back what it had.
    Idle,
    /// It is left alone from now on, or no longer among those to look after; it got back what it had,
    /// as far as that was ours.
    Excluded,
    /// Watching is over; it got back what it had.
    WatchStopped,
}

impl DetachCause {
    /// All.
    pub const ALL: &[DetachCause] =
        &[DetachCause::Ended, DetachCause::Idle, DetachCause::Excluded, DetachCause::WatchStopped];

    /// The name in journals.
    pub fn name(self) -> &'static str {
        match self {
            DetachCause::Ended => "ended",
            DetachCause::Idle => "sleeps",
            DetachCause::Excluded => "left-alone",
            DetachCause::WatchStopped => "watch-ends",
        }
    }
}

/// Why a job is left alone from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnmanagedCause {
    /// Somebody else set this affinity.
    AffinityChanged(CpuSet),
    /// The kernel does not let us.
    NotPermitted,
}

/// How a job ended and what it used; its waited-for children are included in times and memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobExit {
    /// How.
    pub status: ExitStatus,
    /// We ended it, as the workload asked or because the run stops: no failure.
    pub stopped_by_host: bool,
    /// It is due again at once (a job that restarts until the others are done).
    pub restarts: bool,
    /// From its start to its end.
    pub wall: Nanos,
    /// CPU time in its own code.
    pub user: Nanos,
    /// CPU time in the kernel.
    pub system: Nanos,
    /// Largest resident memory of one of its processes.
    pub max_resident: Bytes,
    /// How long its tasks were runnable and did not run.
    pub wait: Measured,
    /// How often the kernel or we moved its tasks to another CPU.
    pub n_migrations: Measured,
    /// What was counted of all its tasks together. Page faults and context switches are those of the
    /// first process and of the children that were waited for, as the kernel tells them at the end.
    pub counters: Counters,
    /// Bytes between its last-level caches and memory, where its group counted them.
    pub traffic: Measured,
    /// Processes that it left behind, ended by us.
    pub n_orphans: u32,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// By itself, with this status.
    Exited(i32),
    /// By a signal with this number.
    Signaled(i32),
}

/// A task's cumulative figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSample {
    /// Which thread.
    pub task: TaskId,
    /// The process that it is part of.
    pub process: u32,
    /// The job that it belongs to.
    pub job: JobId,
    /// CPU time used since its birth. The first task of a process also answers for children of the
    /// process that came and went without being seen themselves.
    pub cpu_time: Nanos,
    /// When its figures were looked at before, where that was not in the interval turn before this
    /// one: a task that sleeps is looked at ever more seldom.
    pub previous_sample_at: Option<Nanos>,
    /// Nanoseconds that it was runnable and did not run, since its birth.
    pub wait: Measured,
    /// The CPU that it ran on last, where that was looked at.
    pub last_cpu: Option<CpuId>,
    /// What was counted of it since its birth, or since we could count.
    pub counters: Counters,
}

/// A node's figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSample {
    /// Which.
    pub node: NodeId,
    /// Free memory.
    pub memory_free: Option<Bytes>,
    /// Memory that the kernel can take back at once and at little cost: pages of files that were
    /// not used lately and are clean, and what it keeps for itself and can rebuild.
    pub memory_reclaimable: Option<Bytes>,
    /// Operations of its memory controllers, reads and writes of lines, cumulative.
    pub controller_ops: Measured,
    /// Width of that counter, which wraps.
    pub counter_bits: u8,
    /// Bytes read from its memory, cumulative, where its controllers tell reads and writes apart.
    pub read_bytes: Measured,
    /// Bytes written to its memory, cumulative.
    pub written_bytes: Measured,
}
