//! What a policy sees: rates instead of counters, everything by id.

use base::{Bytes, CpuId, CpuSet, JobId, Nanos, NodeId, TaskId};
use program::Job;
use topology::{Domains, Machine};

use crate::{
    ActivePageMove, CompletedPageMove, CounterDeltas, CpuTimes, JobMemory, LlcView, MonGroupView,
    NumaSettings, Pressure, SignalTier, Tiers, Turn,
};

/// The whole view of one turn.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// When and why.
    pub turn: &'a Turn,
    /// The machine as it was read at the start.
    pub machine: &'a Machine,
    /// The CPUs that may be used now: online, and allowed to us.
    pub usable_cpus: &'a CpuSet,
    /// The places that the policy asked for, among the usable CPUs.
    pub domains: &'a Domains,
    /// The load of each of those places in the last interval.
    pub loads: &'a DomainLoads,
    /// What the figures of the last interval stand on.
    pub tiers: &'a Tiers,
    /// How long that interval was; zero before the first has gone by.
    pub interval: Nanos,
    /// How many of the policy's intervals have gone by since the interval turn before: more than one
    /// after turns were left out because nothing ran, or because one came late. The load of those
    /// left out is zero; `loads` are those of the last one.
    pub n_intervals: u64,
    /// How the system places memory by itself.
    pub numa_settings: &'a NumaSettings,
    /// Jobs that are due or running, by id.
    pub jobs: &'a [JobView<'a>],
    /// Their tasks, by job and then by id.
    pub tasks: &'a [TaskView],
    /// All nodes, by id.
    pub nodes: &'a [NodeView],
    /// LLC domains whose traffic is counted, by id.
    pub llcs: &'a [LlcView],
    /// Jobs whose traffic is counted, by job and LLC domain.
    pub mon_groups: &'a [MonGroupView],
    /// CPUs whose times are told, by id: what each ran and let wait in the last interval.
    pub cpus: &'a [CpuTimes],
    /// Pressure on the system in the last interval.
    pub pressure: &'a Pressure,
}

/// How much memory traffic each place had in the last interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainLoads {
    /// What the figures stand on.
    pub tier: SignalTier,
    /// By index of the domain: memory controller operations (last-level cache misses in tier
    /// `counters`) in the interval.
    pub loads: Vec<u64>,
    /// False when a counter that could be read before could not be read this time: the loads
    /// are then those of the interval before.
    pub readable: bool,
}

/// A job that is due or running.
#[derive(Clone, Copy, Debug)]
pub struct JobView<'a> {
    /// Its line of the workload: class, threads, and so on.
    pub job: &'a Job,
    /// Where it is in its life.
    pub state: JobState,
    /// The CPUs that it may use: its own wish, within what may be used at all. Empty when the
    /// CPUs that it asked for are gone.
    pub allowed: &'a CpuSet,
    /// Where it was put: by us, or by who took it out of our hands. `None` when it was never placed,
    /// was released, or is not told of.
    pub placed: Option<&'a CpuSet>,
    /// The domain that it is in: where it was put, or else where most of its tasks ran last. `None`
    /// when that is not known, or when they lie on several.
    pub domain: Option<usize>,
    /// False when it is not ours to place any more.
    pub movable: bool,
    /// When it started (this time, if it restarts).
    pub started: Option<Nanos>,
    /// CPU time used in the last interval, all tasks.
    pub cpu_time: Nanos,
    /// Memory traffic in the last interval, in the unit of [`DomainLoads`].
    pub load: u64,
    /// Time spent runnable and not running in the last interval, all tasks.
    pub wait: Option<Nanos>,
    /// How many tasks it has now.
    pub n_tasks: u32,
    /// Where its memory lies; `None` when that was not looked at (yet).
    pub memory: Option<&'a JobMemory>,
    /// The move of its memory that is under way.
    pub active_page_move: Option<&'a ActivePageMove>,
    /// How the last move of its memory ended, and when that was told.
    pub last_page_move: Option<(Nanos, &'a CompletedPageMove)>,
}

/// Where a job is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// It starts with this turn's plan.
    Due,
    /// It runs.
    Running,
}

/// A task of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskView {
    /// Which thread.
    pub task: TaskId,
    /// The process that it is part of.
    pub process: u32,
    /// The job that it belongs to.
    pub job: JobId,
    /// CPU time used in the last interval.
    pub cpu_time: Nanos,
    /// Time spent runnable and not running in the last interval.
    pub wait: Option<Nanos>,
    /// The CPU that it ran on last.
    pub last_cpu: Option<CpuId>,
    /// What was counted of it in the last interval.
    pub counters: CounterDeltas,
}

/// A node's figures now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Which.
    pub node: NodeId,
    /// Free memory.
    pub memory_free: Option<Bytes>,
    /// Memory that the kernel can take back at once and at little cost.
    pub memory_reclaimable: Option<Bytes>,
    /// All of its memory.
    pub memory_total: Option<Bytes>,
    /// Memory controller operations in the last interval.
    pub controller_ops: Option<u64>,
    /// Bytes read from its memory in the last interval.
    pub read_bytes: Option<u64>,
    /// Bytes written to its memory in the last interval.
    pub written_bytes: Option<u64>,
}

impl Snapshot<'_> {
    /// One job that is due or running.
    pub fn job(&self, id: JobId) -> Option<&JobView<'_>> {
        let idx = self.jobs.binary_search_by_key(&id, |seen| seen.job.id).ok()?;
        Some(&self.jobs[idx])
    }

    /// The tasks of a job.
    pub fn tasks_of(&self, id: JobId) -> &[TaskView] {
        // Where every job has one task it stands where its job's number says.
        let at = id.index();
        let is_first = |at: usize| at.checked_sub(1).is_none_or(|at| self.tasks[at].job < id);
        let is_there = self.tasks.get(at).is_some_and(|seen| seen.job == id) && is_first(at);
        let from = if is_there { at } else { self.tasks.partition_point(|seen| seen.job < id) };
        let n = self.tasks[from..].iter().take_while(|seen| seen.job == id).count();
        &self.tasks[from..from + n]
    }
}
