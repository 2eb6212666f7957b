//! Snapshots: the input of a policy.
//!
//! A snapshot has deltas of the last interval instead of cumulative counters. All tables are sorted by id. The engine
//! creates one snapshot per turn.

use base::{Bytes, CpuId, CpuSet, JobId, Nanos, NodeId, TaskId};
use program::Job;
use topology::{Domains, Machine};

use crate::{
    ActivePageMigration, CompletedPageMigration, CounterDeltas, CpuTimes, JobMemory, LlcView,
    MonGroupView, NumaSettings, Pressure, SignalTier, Tiers, Turn,
};

/// State of machine, jobs and tasks in one turn.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// Time and causes of the turn.
    pub turn: &'a Turn,
    /// The machine, as read at the start of the run.
    pub machine: &'a Machine,
    /// The usable CPUs: online and in the cpuset.
    pub usable_cpus: &'a CpuSet,
    /// The domains at the level of [`crate::Policy::domains`], with their usable CPUs.
    pub domains: &'a Domains,
    /// Load of each domain in the last interval.
    pub loads: &'a DomainLoads,
    /// Signal tiers of the values of the last interval.
    pub tiers: &'a Tiers,
    /// Length of the last interval; zero before the first interval has ended.
    pub interval: Nanos,
    /// Number of intervals since the last interval turn. Larger than 1 if the host skipped turns because the policy
    /// was quiescent or waited for a counter overflow, or if a turn was late. `loads` covers only the last interval; the
    /// loads of earlier intervals are unknown.
    pub n_intervals: u64,
    /// NUMA settings of the kernel.
    pub numa_settings: &'a NumaSettings,
    /// Jobs that are due or running, by id.
    pub jobs: &'a [JobView<'a>],
    /// Tasks of these jobs, by job id and then by task id.
    pub tasks: &'a [TaskView],
    /// All nodes, by id.
    pub nodes: &'a [NodeView],
    /// LLC domains with resctrl counters, by id.
    pub llcs: &'a [LlcView],
    /// Monitoring groups of jobs, by job id and LLC domain.
    pub mon_groups: &'a [MonGroupView],
    /// Run and wait time of CPUs in the last interval, by id. CPUs without measured times are omitted.
    pub cpus: &'a [CpuTimes],
    /// Pressure stall times of the system in the last interval.
    pub pressure: &'a Pressure,
}

/// Memory traffic of each domain in the last interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainLoads {
    /// Source of the loads.
    pub tier: SignalTier,
    /// Loads by domain index: memory controller operations in the interval; in tier `counters`, misses of the
    /// last-level cache.
    pub loads: Vec<u64>,
    /// Whether all counters of the loads could be read. If not, the loads are those of the previous interval.
    pub readable: bool,
}

/// A job that is due or running.
#[derive(Clone, Copy, Debug)]
pub struct JobView<'a> {
    /// The job as declared in the workload: class, threads and other settings.
    pub job: &'a Job,
    /// Due or running.
    pub state: JobState,
    /// The usable CPUs that the workload allows for the job; may be empty.
    pub allowed: &'a CpuSet,
    /// The affinity that evenkeel set, or that another program set later. `None` if the job was never placed or was
    /// released, or if its affinity is unknown.
    pub placed: Option<&'a CpuSet>,
    /// The domain of `placed`; without `placed`, the domain in which most tasks of the job last ran. `None` if the
    /// domain is unknown or if the job uses several domains.
    pub domain: Option<usize>,
    /// Whether evenkeel manages the job. Requests for other jobs are rejected.
    pub movable: bool,
    /// Time of the last start.
    pub started: Option<Nanos>,
    /// CPU time of all tasks in the last interval.
    pub cpu_time: Nanos,
    /// Memory traffic in the last interval, in the unit of [`DomainLoads`].
    pub load: u64,
    /// Wait time of all tasks in the last interval.
    pub wait: Option<Nanos>,
    /// Number of tasks of the job.
    pub n_tasks: u32,
    /// Memory by node; `None` if it has not been sampled.
    pub memory: Option<&'a JobMemory>,
    /// The active page migration.
    pub active_page_migration: Option<&'a ActivePageMigration>,
    /// The last completed page migration, and the time of the sample that reported it.
    pub last_page_migration: Option<(Nanos, &'a CompletedPageMigration)>,
}

/// State of a job in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// The job starts with the plan of this turn.
    Due,
    /// The job is running.
    Running,
}

/// A task of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskView {
    /// The task.
    pub task: TaskId,
    /// The PID of the task's process.
    pub process: u32,
    /// The job of the task.
    pub job: JobId,
    /// CPU time in the last interval.
    pub cpu_time: Nanos,
    /// Wait time (runnable and not running) in the last interval.
    pub wait: Option<Nanos>,
    /// The CPU that the task last ran on.
    pub last_cpu: Option<CpuId>,
    /// Deltas of the task's counters in the last interval.
    pub counters: CounterDeltas,
}

/// Memory and traffic of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// The node.
    pub node: NodeId,
    /// Free memory.
    pub memory_free: Option<Bytes>,
    /// Memory that the kernel can reclaim at low cost.
    pub memory_reclaimable: Option<Bytes>,
    /// Total memory.
    pub memory_total: Option<Bytes>,
    /// Memory controller operations in the last interval.
    pub controller_ops: Option<u64>,
    /// Bytes read in the last interval.
    pub read_bytes: Option<u64>,
    /// Bytes written in the last interval.
    pub written_bytes: Option<u64>,
}

impl Snapshot<'_> {
    /// Returns a job that is due or running.
    pub fn job(&self, id: JobId) -> Option<&JobView<'_>> {
        let idx = self.jobs.binary_search_by_key(&id, |view| view.job.id).ok()?;
        Some(&self.jobs[idx])
    }

    /// Returns the tasks of a job, sorted by id.
    pub fn tasks_of(&self, id: JobId) -> &[TaskView] {
        // If every job has one task, the index of the task is the job id.
        let at = id.index();
        let is_first = |at: usize| at.checked_sub(1).is_none_or(|at| self.tasks[at].job < id);
        let is_known = self.tasks.get(at).is_some_and(|view| view.job == id) && is_first(at);
        let from = if is_known { at } else { self.tasks.partition_point(|view| view.job < id) };
        let n = self.tasks[from..].iter().take_while(|view| view.job == id).count();
        &self.tasks[from..from + n]
    }
}

/// State that a policy keeps for each job. Job ids are consecutive from 0 and are used as indexes.
#[derive(Clone, Debug, Default)]
pub struct PerJob<T>(Vec<Option<T>>);

impl<T: Default> PerJob<T> {
    /// Returns the state of a job. Adds the default state if the job has none.
    pub fn get_or_default(&mut self, job: JobId) -> &mut T {
        if self.0.len() <= job.index() {
            self.0.resize_with(job.index() + 1, || None);
        }
        self.0[job.index()].get_or_insert_default()
    }

    /// Returns the state of a job, if it has one.
    pub fn get(&self, job: JobId) -> Option<&T> {
        self.0.get(job.index())?.as_ref()
    }

    /// Removes the state of jobs that are not in the snapshot.
    pub fn forget_ended(&mut self, snapshot: &Snapshot<'_>) {
        let mut present = snapshot.jobs.iter().map(|job| job.job.id.index()).peekable();
        for (idx, state) in self.0.iter_mut().enumerate() {
            while present.next_if(|job| *job < idx).is_some() {}
            if present.peek() != Some(&idx) {
                *state = None;
            }
        }
    }
}
