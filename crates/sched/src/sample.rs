//! Turns and raw samples: what a host reports to the engine.
//!
//! A [`Sample`] holds cumulative counters and events, dated, so that live runs and replays derive the same
//! rates from it. Times count from the start of the run. A sample holds changes only: a value that it
//! leaves out is unchanged.

use base::{Bytes, CpuId, CpuSet, JobId, Nanos, NodeId, TaskId};
use program::Job;

use crate::{
    CompletedPageMove, CounterReading, Counters, CpuTimes, LlcSample, MonGroupSample, Pressure,
    ProcessMemory,
};

/// One instant at which the policy decides, with all of its causes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Number of the turn, from 0.
    pub number: u64,
    /// Time of the turn.
    pub at: Nanos,
    /// Causes of the turn; never empty.
    pub causes: Vec<Cause>,
}

/// Cause of a turn.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The interval of the policy has elapsed. Every task is sampled and all rates are updated.
    Interval,
    /// Jobs are due to start.
    JobsDue,
    /// Jobs, or processes of jobs, exited.
    Ended,
    /// CPUs went offline or online, or the cpuset changed.
    CpusChanged,
    /// The run is being stopped (by a signal, a failed job or its time limit).
    Stopping,
    /// Page moves completed.
    MemoryMoved,
    /// A counter overflowed since the last interval turn and caused this one. Always together with
    /// [`Cause::Interval`], and only for policies that wait for overflows ([`crate::Wake`]).
    Overflow,
}

/// Changes since the last sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Events of jobs, oldest first.
    pub jobs: Vec<JobEvent>,
    /// Tasks that are new or whose counters changed.
    pub tasks: Vec<TaskSample>,
    /// Tasks that exited.
    pub exited: Vec<TaskId>,
    /// Nodes whose values changed.
    pub nodes: Vec<NodeSample>,
    /// LLC domains whose traffic was read.
    pub llcs: Vec<LlcSample>,
    /// Traffic of jobs per LLC domain, from their resctrl monitoring groups.
    pub mon_groups: Vec<MonGroupSample>,
    /// CPUs whose times were read.
    pub cpus: Vec<CpuTimes>,
    /// Pressure stall information of the system, where the kernel provides it.
    pub pressure: Option<Pressure>,
    /// The usable CPUs, if they changed. Always present in the first sample.
    pub usable_cpus: Option<CpuSet>,
    /// Memory placement by the kernel. Present in the first sample only.
    pub numa_settings: Option<NumaSettings>,
    /// Functions of the host that are no longer available, as messages, each reported once (such as no
    /// free file descriptors).
    pub degraded: Vec<String>,
    /// Memory by node of the processes that were sampled. Processes are sampled in turn every few
    /// seconds; on machines with one node only if requested.
    pub memory: Vec<ProcessMemory>,
    /// Page moves that completed, oldest first.
    pub page_moves_completed: Vec<CompletedPageMove>,
}

impl Sample {
    /// Appends the events of another sample: job events, exits, memory samples, completed page moves and
    /// messages. Values that were read (tasks, nodes, LLC domains) are left out.
    pub fn merge_events(&mut self, other: Sample) {
        self.jobs.extend(other.jobs);
        self.exited.extend(other.exited);
        self.degraded.extend(other.degraded);
        self.memory.extend(other.memory);
        self.page_moves_completed.extend(other.page_moves_completed);
    }
}

/// Memory placement by the kernel, outside of evenkeel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumaSettings {
    /// Automatic NUMA balancing is on (`kernel.numa_balancing`).
    pub numa_balancing: bool,
    /// The inherited memory policy interleaves over nodes.
    pub interleaves: bool,
}

/// An event of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEvent {
    /// Its start time has come. The host starts it with the plan of this turn.
    Due(JobId),
    /// Its first process exited.
    Ended(JobId, Box<JobExit>),
    /// evenkeel no longer places it.
    Unmanaged(JobId, UnmanagedCause),
    /// A process that evenkeel did not start is managed from now on, with the CPUs that it had. Its tasks
    /// are in the same sample; their counters up to here do not count. Its id is the next one, or that
    /// of a job that was detached before.
    Attached(Box<Job>),
    /// A process that was attached is no longer managed; with the sum of its counters meanwhile.
    Detached(JobId, DetachCause, Box<Counters>),
}

/// Why an attached process is no longer managed. In all cases but the first its affinity is restored, as
/// far as evenkeel had set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DetachCause {
    /// It exited. The exit status is reported to its parent only.
    Ended,
    /// It has slept for too long.
    Idle,
    /// It is excluded from now on, or no longer selected.
    Excluded,
    /// Watching has stopped.
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

/// Why evenkeel no longer places a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnmanagedCause {
    /// Another program set this affinity.
    AffinityChanged(CpuSet),
    /// The kernel refuses the request (EPERM).
    NotPermitted,
}

/// Exit of a job. Times and memory include the children that it has waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobExit {
    /// Exit status of its first process.
    pub status: ExitStatus,
    /// The host ended it, as the workload declares or because the run stops. This is no failure.
    pub stopped_by_host: bool,
    /// It is due again at once (a job that restarts until all others have ended).
    pub restarts: bool,
    /// Time from start to exit.
    pub wall: Nanos,
    /// CPU time in user mode.
    pub user: Nanos,
    /// CPU time in kernel mode.
    pub system: Nanos,
    /// Largest resident memory of one of its processes.
    pub max_resident: Bytes,
    /// Wait time of its tasks: runnable and not running.
    pub wait: Option<Nanos>,
    /// Migrations of its tasks to another CPU.
    pub n_migrations: Option<u64>,
    /// Raw counters of all its tasks together. Page faults and context switches are those of the first
    /// process and of the children that it has waited for (wait4(2)).
    pub counters: Counters,
    /// Bytes between its last-level caches and memory, from its resctrl monitoring group.
    pub traffic: Option<Bytes>,
    /// Processes that it left behind, ended by the host.
    pub n_orphans: u32,
}

/// Exit status of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// It exited with this status.
    Exited(i32),
    /// A signal with this number ended it.
    Signaled(i32),
}

/// Raw counters of a task, cumulative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSample {
    /// The task.
    pub task: TaskId,
    /// The pid of its process.
    pub process: u32,
    /// The job that it belongs to.
    pub job: JobId,
    /// CPU time since the task started. For the first task of a process it includes the CPU time of
    /// children that started and exited between two samples.
    pub cpu_time: Nanos,
    /// Time of the sample before, if that was not the last interval turn: sleeping tasks are sampled
    /// less often.
    pub previous_sample_at: Option<Nanos>,
    /// Wait time (runnable and not running) since the task started.
    pub wait: Option<Nanos>,
    /// The CPU that it ran on last, where that was read.
    pub last_cpu: Option<CpuId>,
    /// Counters since the task started, or since they were opened.
    pub counters: Counters,
    /// The counters are inherited: they include all descendants of the task. The engine subtracts the
    /// descendants that have counters of their own.
    pub includes_children: bool,
}

/// Values of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSample {
    /// The node.
    pub node: NodeId,
    /// Free memory.
    pub memory_free: Option<Bytes>,
    /// Memory that the kernel can reclaim at once and at little cost: clean page cache on the inactive
    /// list, and reclaimable slab.
    pub memory_reclaimable: Option<Bytes>,
    /// Reads and writes of cache lines by its memory controllers, all of them added.
    pub controller_ops: Option<CounterReading>,
    /// Width of that counter in bits. It wraps around.
    pub counter_bits: u8,
    /// Bytes read from its memory, where its controllers count reads and writes separately.
    pub read_bytes: Option<CounterReading>,
    /// Bytes written to its memory, where its controllers count reads and writes separately.
    pub written_bytes: Option<CounterReading>,
}
