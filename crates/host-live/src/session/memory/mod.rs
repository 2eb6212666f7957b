//! Memory of the jobs. A helper thread migrates pages and samples the nodes of pages, because both operations can take
//! longer than a turn.
//!
//! ```text
//!   event loop                            helper thread
//!     │ ── HelperRequest ─────────────►    │  batch of a migration · sample of a process · pause · …
//!     │ ◄── HelperResult, eventfd ──────   │
//! ```
//!
//! The two threads exchange only messages. The first request starts the helper. On a machine with one node there is by
//! default no request. The helper does not start, bind or terminate processes. If a process that evenkeel did not start
//! has its own memory policy, its pages do not migrate.

mod helper;
mod job_page_migrator;
mod schedule;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

use base::{Bytes, JobId, Nanos, NodeId, TaskId};
use linux::cgroup::Cgroup;
use linux::fault;
use linux::numa_maps::{NodePages, PagesByNode};
use linux::proc_dir::ProcDir;
use rustix::event::EventfdFlags;
use sched::{
    CauseAndDetail, CompletedPageMigration, NodeMemory, PageMigrationEnd, ProcessMemory,
    RejectCause, Sample, Target,
};
use topology::Machine;

use super::JobSource;
use super::affinity::exited;
use super::wakeups::Wakeups;
use linux::tasks::TaskReader;
use schedule::{SAMPLE_EVERY, SampleDepth, SampleSchedule};

/// Setting: whether the memory of processes is sampled by node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemorySampling {
    /// Memory is sampled if several nodes have memory.
    #[default]
    Auto,
    /// Memory is always sampled.
    On,
    /// Memory is never sampled. Page migrations then use only the page status that the kernel returns.
    Off,
}

/// Options of page migration and of memory samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOptions {
    /// Whether memory by node is sampled.
    pub sampling: MemorySampling,
    /// Rate limit of all page migrations together, in bytes per second.
    pub page_migration_rate: Bytes,
    /// Time limit of one page migration.
    pub page_migration_time_max: Nanos,
    /// Share of a node's memory that page migrations leave free, in permille.
    pub reserve_permille: u16,
    /// Share of one CPU that sampling may use, in permille.
    pub sampling_cpu_permille: u16,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        let limits = engine::PageMigrationLimits::default();
        MemoryOptions {
            sampling: MemorySampling::Auto,
            page_migration_rate: limits.per_second,
            page_migration_time_max: Nanos::from_secs(60),
            reserve_permille: limits.reserve_permille,
            sampling_cpu_permille: 10,
        }
    }
}

/// A process of a job, by PID and start time.
pub(crate) type JobProcess = (JobId, TaskId);

/// A request to the helper thread.
#[derive(Debug)]
pub(crate) enum HelperRequest {
    Migrate(PageMigrationOrder),
    /// Request to end the page migrations of a job with this cause.
    Stop(JobId, PageMigrationEnd),
    /// Request to sample the memory of these processes.
    Sample(Vec<(JobProcess, SampleDepth)>),
}

/// A migration of the memory of a job or of one process.
#[derive(Clone, Debug)]
pub(crate) struct PageMigrationOrder {
    pub target: Target,
    pub job: JobId,
    pub processes: Vec<TaskId>,
    pub from: Option<NodeId>,
    pub to: NodeId,
    /// Maximum number of bytes to move.
    pub limit: Bytes,
    /// The cgroup that binds the job's memory, if any.
    pub cgroup: Option<Arc<Cgroup>>,
}

/// Pages of a process by node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcessPages {
    pub nodes: PagesByNode,
    /// Share of the pages that were sampled, in permille.
    pub permille: u16,
    /// Resident memory in bytes.
    pub resident: u64,
    pub is_sampled: bool,
    /// Whether the process set a memory policy.
    pub has_memory_policy: bool,
}

/// Configuration of the helper thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryConfig {
    pub options: MemoryOptions,
    /// Time between two samples of jobs; `None` without periodic samples.
    pub interval: Option<Nanos>,
    /// Nice value of the helper: the value of the jobs. The event loop has a higher priority.
    pub nice: Option<i32>,
    pub source: JobSource,
}

/// A result of the helper thread.
#[derive(Debug)]
pub(crate) enum HelperResult {
    Migrated(CompletedPageMigration),
    Sampled(JobProcess, SampleDepth, ProcessPages),
    /// All processes of a request have been sampled.
    SampledAll,
    /// The memory of a process cannot be read; the text contains the error.
    Unreadable(String),
}

/// Handle of the helper thread.
struct Helper {
    requests: Option<Sender<HelperRequest>>,
    results: Receiver<HelperResult>,
    thread: Option<JoinHandle<()>>,
    n_migrating: usize,
    is_sampling: bool,
}

/// Page migrations and memory samples of a session.
pub(crate) struct SessionMemory {
    config: MemoryConfig,
    /// Whether memory is sampled on this machine.
    is_enabled: bool,
    helper: Option<Helper>,
    sample_at: Nanos,
    schedule: SampleSchedule,
    has_warned: bool,
    /// Processes that set a memory policy; their memory does not migrate.
    own_policy: BTreeSet<TaskId>,
}

impl Helper {
    fn start(wakeups: &Wakeups, config: MemoryConfig) -> std::io::Result<Helper> {
        fault::inject("eventfd2")?;
        let eventfd =
            Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        wakeups.watch_helper(&*eventfd)?;
        let (requests, to_helper) = channel();
        let (from_helper, results) = channel();
        let faults = fault::plan();
        fault::inject("clone3")?;
        let thread = std::thread::Builder::new().name("memory".to_owned()).spawn(move || {
            fault::set_plan(faults);
            if let Some(nice) = config.nice {
                let _ = linux::system::set_own_nice(nice);
            }
            helper::run(&to_helper, helper::ResultSender::new(from_helper, eventfd), config);
        })?;
        let (requests, thread) = (Some(requests), Some(thread));
        Ok(Helper { requests, results, thread, n_migrating: 0, is_sampling: false })
    }

    fn send(&self, request: HelperRequest) -> Result<(), CauseAndDetail> {
        let is_sent = self.requests.as_ref().is_some_and(|to| to.send(request).is_ok());
        let exited =
            || (RejectCause::Unsupported, "the memory helper thread has exited".to_owned());
        is_sent.then_some(()).ok_or_else(exited)
    }
}

impl Drop for Helper {
    /// Closes the channel and waits for the thread, which returns after its current batch.
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl SessionMemory {
    pub(crate) fn new(machine: &Machine, config: MemoryConfig) -> Self {
        let is_enabled = match config.options.sampling {
            MemorySampling::Auto => 1 < machine.nodes_with_memory().len(),
            MemorySampling::On => true,
            MemorySampling::Off => false,
        };
        SessionMemory {
            config,
            is_enabled,
            helper: None,
            sample_at: Nanos::ZERO,
            schedule: SampleSchedule::new(config.interval.unwrap_or_default()),
            has_warned: false,
            own_policy: BTreeSet::new(),
        }
    }

    /// Starts a page migration. Rejects the request if the target node is outside of a cpuset, or if a process has its
    /// own memory policy.
    pub(crate) fn start_page_migration(
        &mut self,
        wakeups: &Wakeups,
        order: PageMigrationOrder,
    ) -> Result<(), CauseAndDetail> {
        if order.processes.iter().any(|process| self.own_policy.contains(process)) {
            return Err((RejectCause::Unmanaged, OWN_POLICY.to_owned()));
        }
        if order.cgroup.is_none() {
            // With a cgroup no check is needed: the helper adds the target node to the cgroup before the migration.
            check_cpusets(&order.processes, order.to)?;
        }
        self.schedule.restart(order.job);
        let helper = self.helper(wakeups)?;
        helper.send(HelperRequest::Migrate(order))?;
        helper.n_migrating += 1;
        Ok(())
    }

    fn helper(&mut self, wakeups: &Wakeups) -> Result<&mut Helper, CauseAndDetail> {
        if self.helper.is_none() {
            let failed = |error| {
                (
                    RejectCause::Unsupported,
                    format!("cannot start the memory helper thread: {error}"),
                )
            };
            self.helper = Some(Helper::start(wakeups, self.config).map_err(failed)?);
        }
        Ok(self.helper.as_mut().expect("it is running"))
    }

    /// Ends the page migrations of a job. The remaining pages do not migrate.
    pub(crate) fn stop_page_migrations_of(&mut self, job: JobId, cause: PageMigrationEnd) {
        if let Some(helper) = self.helper.as_ref().filter(|helper| helper.n_migrating != 0) {
            let _ = helper.send(HelperRequest::Stop(job, cause));
        }
    }

    /// Returns whether a page migration is active, or its result has not been read yet.
    pub(crate) fn is_migrating(&self) -> bool {
        self.helper.as_ref().is_some_and(|helper| helper.n_migrating != 0)
    }

    /// Ends the helper thread and its page migrations. Discards the results.
    pub(crate) fn end(&mut self) {
        self.helper = None;
    }

    /// Returns whether a process is known to have set a memory policy.
    pub(crate) fn has_memory_policy(&self, process: TaskId) -> bool {
        self.own_policy.contains(&process)
    }

    pub(crate) fn is_sample_due(&self, at: Nanos) -> bool {
        let is_sampling = self.helper.as_ref().is_some_and(|helper| helper.is_sampling);
        self.is_enabled && !is_sampling && self.sample_at <= at
    }

    /// Restarts the sampling of a job. Call this function after a placement, because new pages may be on another node.
    pub(crate) fn resample(&mut self, job: JobId) {
        self.schedule.restart(job);
    }

    /// Requests samples of the due processes of these jobs. Returns a warning for the first error.
    pub(crate) fn sample(
        &mut self,
        (wakeups, tasks): (&Wakeups, &TaskReader),
        jobs: impl Iterator<Item = JobId>,
        at: Nanos,
    ) -> Option<String> {
        self.sample_at = at + SAMPLE_EVERY;
        let mut all: Vec<JobProcess> = Vec::new();
        for job in jobs {
            all.extend(processes_of(tasks, job).map(|process| (job, process)));
        }
        self.own_policy.retain(|known| all.iter().any(|(_, process)| process == known));
        let due = self.schedule.take_due(all, at);
        if due.is_empty() {
            return None;
        }
        let sent = self.helper(wakeups).and_then(|helper| {
            helper.is_sampling = true;
            helper.send(HelperRequest::Sample(due))
        });
        sent.err().and_then(|(_, detail)| self.warn(&detail))
    }

    /// Adds the results of the helper to a sample. Returns whether a page migration ended.
    pub(crate) fn take_results(
        &mut self,
        tasks: &TaskReader,
        pending: &mut Sample,
        now: Nanos,
    ) -> bool {
        let mut any_ended = false;
        loop {
            let Some(helper) = &mut self.helper else { return any_ended };
            match helper.results.try_recv() {
                Ok(HelperResult::Migrated(moved)) => {
                    helper.n_migrating = helper.n_migrating.saturating_sub(1);
                    self.schedule.restart(moved.job);
                    pending.page_migrations_completed.push(moved);
                    any_ended = true;
                }
                Ok(HelperResult::Sampled(process, depth, pages)) => {
                    self.take_sample(tasks, process, (depth, pages), pending, now);
                }
                Ok(HelperResult::SampledAll) => helper.is_sampling = false,
                Ok(HelperResult::Unreadable(detail)) => pending.degraded.extend(self.warn(&detail)),
                Err(TryRecvError::Empty) => return any_ended,
                Err(TryRecvError::Disconnected) => {
                    helper.n_migrating = 0; // The thread has exited and sends no further results.
                    return any_ended;
                }
            }
        }
    }

    /// Adds the memory of a process to the sample of the next turn, unless the process has exited.
    fn take_sample(
        &mut self,
        tasks: &TaskReader,
        (job, process): JobProcess,
        (depth, pages): (SampleDepth, ProcessPages),
        pending: &mut Sample,
        at: Nanos,
    ) {
        let is_running = processes_of(tasks, job).any(|known| known == process);
        if !is_running || !self.schedule.take((job, process), depth, &pages, at) {
            return;
        }
        match self.config.source == JobSource::Attached && pages.has_memory_policy {
            true => self.own_policy.insert(process),
            false => self.own_policy.remove(&process),
        };
        let nodes = pages.nodes.iter().map(|(node, pages)| node_memory(*node, pages)).collect();
        let sampled_permille = pages.permille;
        pending.memory.retain(|known| known.process != process);
        pending.memory.push(ProcessMemory { job, process, nodes, sampled_permille, at });
    }

    fn warn(&mut self, detail: &str) -> Option<String> {
        let is_new = !std::mem::replace(&mut self.has_warned, true);
        is_new.then(|| format!("memory by node cannot be read: {detail}"))
    }
}

/// Detail of the rejection if a process set a memory policy.
pub(crate) const OWN_POLICY: &str = "it has its own memory policy, so its memory stays where it is";

/// Rejects a migration to a node outside of the cpuset of a process: the kernel would reject every page. If the cpuset
/// cannot be read, the request is passed to the kernel.
fn check_cpusets(processes: &[TaskId], to: NodeId) -> Result<(), CauseAndDetail> {
    let Ok(proc) = ProcDir::open("/".as_ref()) else { return Ok(()) };
    for process in processes {
        let nodes = proc.status(process.tid).ok().and_then(|status| status.nodes);
        if let Some(nodes) = nodes.filter(|nodes| !nodes.contains(to)) {
            let pid = process.tid;
            let detail = format!("a cpuset restricts the memory of process {pid} to nodes {nodes}");
            return Err((RejectCause::OutsideAllowed, detail));
        }
    }
    Ok(())
}

fn processes_of(tasks: &TaskReader, job: JobId) -> impl Iterator<Item = TaskId> {
    let all = tasks.processes_of(job);
    all.map(|(pid, process)| TaskId { tid: pid, start_time_ticks: process.start_time_ticks })
}

/// Returns the job and the processes of the target of an action.
pub(crate) fn processes_of_target(
    tasks: &mut TaskReader,
    target: Target,
) -> Option<(JobId, Vec<TaskId>)> {
    match target {
        Target::Job(job) => Some((job, processes_of(tasks, job).collect())),
        Target::Task(task) => {
            let job = tasks.job_of_task(task)?;
            let (pid, _) = tasks.thread(job, task)?;
            let process = processes_of(tasks, job).find(|process| process.tid == pid)?;
            Some((job, vec![process]))
        }
    }
}

/// Parameters of a page migration in a plan: source node, target node, limit in bytes.
pub(crate) type PageMigrationParameters = (Option<NodeId>, NodeId, Bytes);

/// Builds the order of a page migration. `is_managed` returns `None` for a job that does not run.
pub(crate) fn order(
    tasks: &mut TaskReader,
    is_managed: impl FnOnce(JobId) -> Option<bool>,
    target: Target,
    (from, to, limit): PageMigrationParameters,
    cgroup_of: impl FnOnce(JobId) -> Option<Arc<Cgroup>>,
) -> Result<PageMigrationOrder, CauseAndDetail> {
    let (job, processes) = processes_of_target(tasks, target).ok_or_else(exited)?;
    if !is_managed(job).ok_or_else(exited)? {
        let text = "its memory is no longer managed by evenkeel".to_owned();
        return Err((RejectCause::Unmanaged, text));
    }
    Ok(PageMigrationOrder { target, job, processes, from, to, limit, cgroup: cgroup_of(job) })
}

fn node_memory(node: NodeId, pages: &NodePages) -> NodeMemory {
    NodeMemory {
        node,
        small: Bytes(pages.small),
        huge: Bytes(pages.huge),
        file: Bytes(pages.file),
        shared: Bytes(pages.shared),
    }
}
