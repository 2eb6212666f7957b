//! Turns and raw samples: what a host reports to the engine.
//!
//! A [`Sample`] contains cumulative counters and timestamps, so that live runs and replays derive the same rates.
//! Times are nanoseconds since the start of the run. A sample contains changes only: a value that is not in the
//! sample is unchanged.

use base::{Bytes, CpuId, CpuSet, JobId, Nanos, NodeId, TaskId};
use program::Job;

use crate::{
    CompletedPageMigration, Counters, CpuTimes, JobExit, LlcSample, MonGroupSample, Pressure,
    ProcessMemory, RawCounter,
};

/// One instant at which a policy decides. Written by the host.
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
    /// The interval of the policy has elapsed. Tasks are sampled and all rates are updated.
    /// Sleeping tasks are sampled less often.
    Interval,
    /// Jobs are due to start.
    JobsDue,
    /// Jobs, or processes of jobs, exited, or jobs were detached.
    Ended,
    /// CPUs went offline or online, or the cpuset changed.
    CpusChanged,
    /// The run is stopping, because of a signal, a failed job or its time limit.
    Stopping,
    /// Page migrations completed.
    PageMigrationCompleted,
    /// A counter overflowed since the last interval turn. Always together with [`Cause::Interval`], and
    /// only for policies with [`crate::Wake::Overflow`].
    Overflow,
}

/// Changes since the last sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Events of jobs, oldest first.
    pub jobs: Vec<JobEvent>,
    /// New tasks, and tasks with changed counters.
    pub tasks: Vec<TaskSample>,
    /// Tasks that exited.
    pub exited: Vec<TaskId>,
    /// Nodes with changed values.
    pub nodes: Vec<NodeSample>,
    /// LLC domains with a new sample of their traffic.
    pub llcs: Vec<LlcSample>,
    /// Traffic of jobs per LLC domain, from their resctrl monitoring groups.
    pub mon_groups: Vec<MonGroupSample>,
    /// CPUs with a new sample of their times.
    pub cpus: Vec<CpuTimes>,
    /// Pressure stall information of the system, if the kernel provides it.
    pub pressure: Option<Pressure>,
    /// The usable CPUs, if they changed. Always present in the first sample.
    pub usable_cpus: Option<CpuSet>,
    /// NUMA settings of the kernel. Present in the first sample only.
    pub numa_settings: Option<NumaSettings>,
    /// Messages about functions of the host that do not work, for example because no file descriptor is free. Each
    /// message is reported once.
    pub degraded: Vec<String>,
    /// Notes of the host, for example about the signature of a program that it uses. Each note is reported once.
    pub host_notes: Vec<String>,
    /// Memory by node of the sampled processes. The host samples each process every few seconds; on machines with one
    /// node, only on request.
    pub memory: Vec<ProcessMemory>,
    /// Page migrations that completed, oldest first.
    pub page_migrations_completed: Vec<CompletedPageMigration>,
}

impl Sample {
    /// Appends the events of another sample: job events, exits, memory samples, completed page migrations and
    /// messages. Sampled values (tasks, nodes, LLC domains) are omitted.
    pub fn merge_events(&mut self, other: Sample) {
        self.jobs.extend(other.jobs);
        self.exited.extend(other.exited);
        self.degraded.extend(other.degraded);
        self.host_notes.extend(other.host_notes);
        self.memory.extend(other.memory);
        self.page_migrations_completed.extend(other.page_migrations_completed);
    }
}

/// Settings of the kernel that affect the node of new and existing pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumaSettings {
    /// Automatic NUMA balancing is on (`kernel.numa_balancing`).
    pub numa_balancing: bool,
    /// The memory policy that evenkeel inherited interleaves over nodes.
    pub interleaves: bool,
}

/// An event of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEvent {
    /// The start time of the job is reached. The host starts the job with the plan of this turn.
    Due(JobId),
    /// The main process of the job exited.
    Ended(JobId, Box<JobExit>),
    /// evenkeel no longer places the job.
    Unmanaged(JobId, UnmanagedCause),
    /// evenkeel starts managing a process that it did not start. The affinity of the process is unchanged. The sample
    /// contains the tasks of the process, and their counters count from this sample on. The job id is the next unused
    /// id, or the id of a detached job.
    Attached(Box<Job>),
    /// evenkeel stops managing an attached process. The counters are sums since the process was attached.
    Detached(JobId, DetachCause, Box<Counters>),
}

named_enum! {
    /// Cause of the event [`JobEvent::Detached`]. If the process is running and evenkeel set its affinity, the
    /// affinity is restored.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    DetachCause {
        /// The process exited. Its exit status is unknown, because only its parent receives it.
        Ended "ended",
        /// The process slept longer than the limit.
        Idle "idle",
        /// The process was excluded, or is no longer selected.
        Excluded "excluded",
        /// The watch ended.
        WatchStopped "watch-stopped",
    }
}

named_enum! {
    /// Kind of the host of a run.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    HostKind {
        /// This machine, with programs that evenkeel starts.
        Live "live",
        /// This machine, with processes that were running already.
        Watch "watch",
        /// A simulated machine.
        Sim "sim",
        /// A recorded run, with the decisions of another policy.
        Replay "replay",
    }
}

/// Cause for which evenkeel no longer places a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnmanagedCause {
    /// Another program set this affinity.
    AffinityChanged(CpuSet),
    /// The kernel does not permit the change (EPERM).
    NotPermitted,
}

/// Raw counters of a task, cumulative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSample {
    /// The task.
    pub task: TaskId,
    /// The PID of the task's process.
    pub process: u32,
    /// The job of the task.
    pub job: JobId,
    /// CPU time since the task started. For the main thread of a process, it includes the CPU time of children that
    /// started and exited between two samples.
    pub cpu_time: Nanos,
    /// The part of `cpu_time` that such children used.
    pub unseen_children: Nanos,
    /// Time of the previous sample of the task, if it was before the last interval turn. Sleeping tasks are sampled
    /// less often.
    pub previous_sample_at: Option<Nanos>,
    /// Wait time (runnable and not running) since the task started.
    pub wait: Option<Nanos>,
    /// The CPU that the task last ran on, if the host read it.
    pub last_cpu: Option<CpuId>,
    /// Counters since the task started, or since the counters were opened.
    pub counters: Counters,
    /// Whether the counters are inherited and therefore include all descendants of the task. The engine subtracts
    /// descendants that have separate counters.
    pub includes_children: bool,
}

impl TaskSample {
    /// Returns a sample without values, for the main thread of a process.
    pub fn new(task: TaskId, job: JobId) -> Self {
        TaskSample {
            task,
            process: task.tid,
            job,
            cpu_time: Nanos::ZERO,
            unseen_children: Nanos::ZERO,
            previous_sample_at: None,
            wait: None,
            last_cpu: None,
            counters: Counters::NONE,
            includes_children: false,
        }
    }
}

/// Memory and raw counters of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSample {
    /// The node.
    pub node: NodeId,
    /// Free memory.
    pub memory_free: Option<Bytes>,
    /// Memory that the kernel can reclaim at low cost: clean page cache on the inactive list, and
    /// reclaimable slab.
    pub memory_reclaimable: Option<Bytes>,
    /// Cache lines read and written, summed over the memory controllers of the node.
    pub controller_ops: Option<RawCounter>,
    /// Width of `controller_ops` in bits; 0 without a counter. The counter wraps at this width.
    pub counter_bits: u8,
    /// Bytes read, if the controllers count reads and writes separately.
    pub read_bytes: Option<RawCounter>,
    /// Bytes written, if the controllers count reads and writes separately.
    pub written_bytes: Option<RawCounter>,
}

impl NodeSample {
    /// Returns a sample without values.
    pub fn new(node: NodeId) -> Self {
        NodeSample {
            node,
            memory_free: None,
            memory_reclaimable: None,
            controller_ops: None,
            counter_bits: 0,
            read_bytes: None,
            written_bytes: None,
        }
    }
}
