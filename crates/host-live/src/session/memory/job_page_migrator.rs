//! Page migration of a job, one process after another.
//!
//! If a cgroup binds the memory of the job, pages cannot leave the nodes in its `cpuset.mems`. The target node is
//! therefore added first. When all pages are on the target, the source nodes are removed, and the kernel migrates pages
//! that were missed. If the migration ends early, a part of the memory is still on the source: the cgroup keeps both
//! nodes, and the result reports this. The cgroup is changed only after a process of the job has been opened. If all
//! processes have exited, the job may have restarted, and the cgroup with this name may belong to its next run.

use std::io;
use std::time::Duration;

use base::{Bytes, Nanos, NodeId, NodeSet, TaskId};
use linux::address_sampling::AddressSampling;
use linux::cgroup::Cgroup;
use linux::memory;
use linux::pages::{
    BatchSize, LiveProcessMemory, PageMigrationRequest, PageMigrationStop, ProcessMigrationTotals,
    ProcessPageMigrator,
};
use sched::{CompletedPageMigration, FailedPages, PageMigrationEnd, Target};

use super::{JobSource, MemoryConfig, OWN_POLICY, PageMigrationOrder};

/// Duration of the sampling of memory accesses before the pages of a process migrate.
const ADDRESS_SAMPLING_TIME: Duration = Duration::from_millis(100);
/// Minimum resident size, in bytes, of a process whose memory accesses are sampled.
const ADDRESS_SAMPLING_MIN: u64 = 64 << 20;

pub(super) struct JobPageMigrator {
    pub order: PageMigrationOrder,
    /// Processes whose migration has not started, in reverse order.
    waiting: Vec<TaskId>,
    current: Option<ProcessPageMigrator<LiveProcessMemory>>,
    started: Nanos,
    config: MemoryConfig,
    sums: MigrationSums,
    /// Batch size at the end of the previous process, with which the next process starts.
    batch: BatchSize,
    /// Nodes of the cgroup before and after the target was added.
    widened: Option<(NodeSet, NodeSet)>,
}

/// Sums over the processes of the job.
#[derive(Default)]
struct MigrationSums {
    requested: u64,
    moved: u64,
    failed: FailedPages,
    not_attempted: u64,
    in_kernel: Nanos,
    any_done: bool,
    error: Option<String>,
}

impl JobPageMigrator {
    pub fn new(order: PageMigrationOrder, started: Nanos, config: MemoryConfig) -> Self {
        let mut waiting = order.processes.clone();
        waiting.reverse();
        let (sums, batch) = (MigrationSums::default(), BatchSize::default());
        JobPageMigrator {
            order,
            waiting,
            current: None,
            started,
            config,
            sums,
            batch,
            widened: None,
        }
    }

    pub fn started(&self) -> Nanos {
        self.started
    }

    /// Runs one batch. Returns the bytes requested from the kernel, and the result if the migration has ended.
    pub fn step(
        &mut self,
        at: Nanos,
        sampling: &AddressSampling,
    ) -> (u64, Option<CompletedPageMigration>) {
        let Some(migrator) = &mut self.current else { return (0, self.start_next(at, sampling)) };
        let before = migrator.attempted();
        let totals = migrator.step();
        let requested = migrator.attempted() - before;
        let Some(totals) = totals else { return (requested, None) };
        self.batch = migrator.batch();
        self.current = None;
        let stop = self.take(totals);
        let ends = !matches!(
            stop,
            PageMigrationStop::Done | PageMigrationStop::Exited | PageMigrationStop::Error(_)
        );
        (requested, ends.then(|| self.completed(end_of(&stop), at)))
    }

    /// Starts the next process, or returns the result if all processes are done.
    fn start_next(
        &mut self,
        at: Nanos,
        sampling: &AddressSampling,
    ) -> Option<CompletedPageMigration> {
        let Some(process) = self.waiting.pop() else {
            let sums = &self.sums;
            let cause = match (&sums.error, sums.any_done) {
                (Some(_), _) => PageMigrationEnd::Error,
                (None, true) => PageMigrationEnd::Done,
                (None, false) => PageMigrationEnd::Exited,
            };
            return Some(self.completed(cause, at));
        };
        let limit = self.order.limit.0;
        if limit != u64::MAX && limit <= self.sums.moved + self.sums.failed.total().0 {
            self.waiting.push(process);
            return Some(self.completed(PageMigrationEnd::Limit, at));
        }
        match self.open(process, sampling) {
            Ok(Some(migrator)) => {
                if let Err(error) = self.widen_cgroup() {
                    let to = self.order.to;
                    self.note_error(&format!(
                        "node {to} cannot be added to its cgroup's cpuset.mems: {error}"
                    ));
                    return Some(self.completed(PageMigrationEnd::Error, at));
                }
                self.current = Some(migrator);
            }
            Ok(None) => self.note_error(&format!("process {}: {OWN_POLICY}", process.tid)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(error) => self.note_error(&access_error(process, &error, "moving its memory")),
        }
        None
    }

    /// Opens the memory of a process. Returns `None` if the process set a memory policy that must be kept.
    fn open(
        &self,
        process: TaskId,
        sampling: &AddressSampling,
    ) -> io::Result<Option<ProcessPageMigrator<LiveProcessMemory>>> {
        let reserve_permille = self.config.options.reserve_permille;
        let memory =
            LiveProcessMemory::open(process.tid, process.start_time_ticks, reserve_permille)?;
        if self.config.source == JobSource::Attached && memory.has_memory_policy()? {
            return Ok(None);
        }
        let limit = match self.order.limit.0 {
            u64::MAX => u64::MAX,
            limit => limit - (self.sums.moved + self.sums.failed.total().0),
        };
        let request = PageMigrationRequest { from: self.order.from, to: self.order.to, limit };
        let migrator =
            ProcessPageMigrator::new(memory, request, &hot_pages(sampling, process.tid))?;
        Ok(Some(migrator.with_batch(self.batch)))
    }

    fn note_error(&mut self, detail: &str) {
        self.sums.error.get_or_insert_with(|| detail.to_owned());
    }

    fn take(&mut self, totals: ProcessMigrationTotals) -> PageMigrationStop {
        let sums = &mut self.sums;
        sums.requested = sums.requested.saturating_add(totals.requested);
        sums.moved = sums.moved.saturating_add(totals.moved);
        sums.not_attempted = sums.not_attempted.saturating_add(totals.not_attempted);
        sums.in_kernel = sums.in_kernel.saturating_add(totals.in_kernel);
        sums.any_done |= totals.stop == PageMigrationStop::Done;
        let failed = totals.failed;
        let sums = [
            (&mut sums.failed.busy, failed.busy),
            (&mut sums.failed.no_memory, failed.no_memory),
            (&mut sums.failed.not_present, failed.not_present),
            (&mut sums.failed.not_permitted, failed.not_permitted),
            (&mut sums.failed.elsewhere, failed.elsewhere),
            (&mut sums.failed.exited, failed.exited),
            (&mut sums.failed.other, failed.other),
        ];
        sums.into_iter().for_each(|(sum, bytes)| *sum = sum.saturating_add(Bytes(bytes)));
        if let PageMigrationStop::Error(detail) = &totals.stop {
            let detail = detail.clone();
            self.note_error(&detail);
        }
        totals.stop
    }

    /// Ends the migration early. Returns the result.
    pub fn stop(&mut self, cause: PageMigrationEnd, at: Nanos) -> CompletedPageMigration {
        if let Some(mut migrator) = self.current.take() {
            let totals = migrator.end(PageMigrationStop::Stopped);
            self.take(totals);
        }
        self.completed(cause, at)
    }

    fn widen_cgroup(&mut self) -> io::Result<()> {
        let Some(cgroup) = self.order.cgroup.as_ref().filter(|_| self.widened.is_none()) else {
            return Ok(());
        };
        let nodes = cgroup.nodes()?;
        let wider = nodes.or(&[self.order.to].into_iter().collect());
        if nodes != wider {
            cgroup.set_nodes(&wider, false).inspect_err(|_| {
                // The kernel may have applied a part of the change.
                let _ = cgroup.set_nodes(&nodes, false);
            })?;
        }
        self.widened = Some((nodes, wider));
        Ok(())
    }

    /// Removes the source nodes from the cgroup if all pages are on the target; otherwise reports that the nodes are
    /// kept. If all processes exited and no page was moved, the nodes are restored, unless another program changed
    /// the nodes.
    fn narrow_cgroup(&mut self, stopped_by: PageMigrationEnd) {
        let Some((before, wider)) = self.widened.take() else { return };
        let Some(cgroup) = self.order.cgroup.clone() else { return };
        if stopped_by == PageMigrationEnd::Exited {
            if self.sums.moved == 0 && cgroup.nodes().is_ok_and(|nodes| nodes == wider) {
                let _ = cgroup.set_nodes(&before, false); // The call fails if the cgroup is being removed.
            }
            return;
        }
        // After a migration of one process, other processes of the job may use the source nodes.
        let is_whole =
            stopped_by == PageMigrationEnd::Done && matches!(self.order.target, Target::Job(_));
        let (from, to) = (self.order.from, self.order.to);
        let narrowed = if is_whole { narrow(&cgroup, from, to) } else { Ok(()) };
        let wide = cgroup.nodes().ok().filter(|nodes| 1 < nodes.len() && !is_whole);
        match (narrowed, wide) {
            (Err(error), _) => {
                self.note_error(&format!("its cgroup cannot be restricted to node {to}: {error}"));
            }
            (Ok(()), Some(nodes)) => self.note_error(&format!("its cgroup keeps nodes {nodes}")),
            (Ok(()), None) => {}
        }
    }

    fn completed(&mut self, stopped_by: PageMigrationEnd, at: Nanos) -> CompletedPageMigration {
        self.narrow_cgroup(stopped_by);
        let (order, sums) = (&self.order, &self.sums);
        CompletedPageMigration {
            target: order.target,
            job: order.job,
            from: order.from,
            to: order.to,
            limit: order.limit,
            requested: Bytes(sums.requested),
            moved: Bytes(sums.moved),
            failed: sums.failed,
            not_attempted: Bytes(sums.not_attempted),
            duration: at.saturating_sub(self.started),
            in_kernel: sums.in_kernel,
            stopped_by,
            detail: sums.error.clone().unwrap_or_default(),
        }
    }
}

/// Returns the most frequently accessed address ranges of a process, which migrate first. Returns no range if addresses
/// cannot be sampled, or if the process is so small that a few batches suffice.
fn hot_pages(sampling: &AddressSampling, pid: u32) -> Vec<(u64, u64)> {
    let is_large =
        || memory::resident("/".as_ref(), pid).is_ok_and(|size| ADDRESS_SAMPLING_MIN <= size);
    if sampling.is_unsupported() || !is_large() {
        return Vec::new();
    }
    // If the kernel rejects sampling, pages migrate in the order of their addresses.
    sampling.hottest_ranges(pid, ADDRESS_SAMPLING_TIME).unwrap_or_default()
}

/// Removes the source node from a cgroup, or all nodes except the target if there is no source node. The kernel
/// migrates the remaining pages before the write returns.
fn narrow(cgroup: &Cgroup, from: Option<NodeId>, to: NodeId) -> io::Result<()> {
    let nodes = cgroup.nodes()?;
    let stays = |node: &NodeId| *node == to || from.is_some_and(|from| from != *node);
    let narrow: NodeSet = nodes.iter().filter(stays).collect();
    if narrow == nodes { Ok(()) } else { cgroup.set_nodes(&narrow, true) }
}

/// Returns the text of an error with the PID. If access was denied, the text also names the required permission.
pub(super) fn access_error(process: TaskId, error: &io::Error, operation: &str) -> String {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("; {operation} requires the same user, or CAP_SYS_PTRACE (root)")
        }
        _ => String::new(),
    };
    format!("process {}: {error}{hint}", process.tid)
}

fn end_of(stop: &PageMigrationStop) -> PageMigrationEnd {
    match stop {
        PageMigrationStop::Done => PageMigrationEnd::Done,
        PageMigrationStop::Limit => PageMigrationEnd::Limit,
        PageMigrationStop::Full => PageMigrationEnd::Full,
        PageMigrationStop::Exited => PageMigrationEnd::Exited,
        PageMigrationStop::Stopped => PageMigrationEnd::Stopped,
        PageMigrationStop::Error(_) => PageMigrationEnd::Error,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use base::JobId;
    use linux::cgroup::{DelegatedCgroup, HierarchyVersion, RunCgroups};

    use super::*;
    use crate::session::memory::MemoryOptions;

    fn cgroup(root: &Path, nodes: &str) -> Arc<Cgroup> {
        for (file, text) in [("cpuset.cpus", "0-3\n"), ("cpuset.mems", "0-1\n")] {
            std::fs::write(root.join(file), text).expect("written");
        }
        let dir = "/".into();
        let home =
            DelegatedCgroup { version: HierarchyVersion::V1, dir, enables: false, moves_in: false };
        let run = RunCgroups::new(root, home, "3f").expect("a name");
        run.prepare().expect("a directory");
        Arc::new(run.create(0, "job", &nodes.parse().expect("nodes")).expect("a cgroup"))
    }

    fn migrator_of(cgroup: Option<Arc<Cgroup>>, process: TaskId) -> JobPageMigrator {
        let (target, to, limit) = (Target::Job(JobId(0)), NodeId(1), Bytes(u64::MAX));
        let processes = vec![process];
        let order =
            PageMigrationOrder { target, job: JobId(0), processes, from: None, to, limit, cgroup };
        let options = MemoryOptions::default();
        let config =
            MemoryConfig { options, interval: None, nice: None, source: JobSource::Launched };
        JobPageMigrator::new(order, Nanos::ZERO, config)
    }

    fn run_to_end(mut job_page_migrator: JobPageMigrator) -> CompletedPageMigration {
        let mut steps = 0..100_000;
        let ended =
            steps.find_map(|_| job_page_migrator.step(Nanos::ZERO, &AddressSampling::default()).1);
        ended.expect("every migration ends")
    }

    #[test]
    fn the_cgroup_of_a_job_whose_processes_have_exited_does_not_change() {
        let root = tempfile::tempdir().expect("a directory");
        let cgroup = cgroup(root.path(), "0");
        // The start time differs, so the PID counts as reused.
        let exited = TaskId { tid: std::process::id(), start_time_ticks: 1 };
        let ended = run_to_end(migrator_of(Some(Arc::clone(&cgroup)), exited));
        assert_eq!(ended.stopped_by, PageMigrationEnd::Exited);
        assert_eq!(cgroup.nodes().expect("nodes").to_string(), "0");
    }

    #[test]
    fn if_no_page_was_moved_the_cpuset_mems_of_the_cgroup_is_restored() {
        let root = tempfile::tempdir().expect("a directory");
        let cgroup = cgroup(root.path(), "0");
        let exited = TaskId { tid: std::process::id(), start_time_ticks: 1 };
        let nodes = |cgroup: &Cgroup| cgroup.nodes().expect("nodes").to_string();
        let mut job_page_migrator = migrator_of(Some(Arc::clone(&cgroup)), exited);
        job_page_migrator.widen_cgroup().expect("widened");
        assert_eq!(nodes(&cgroup), "0-1");
        job_page_migrator.stop(PageMigrationEnd::Exited, Nanos::ZERO);
        assert_eq!(nodes(&cgroup), "0");
        // The next run of the job has a cgroup of the same name with its own nodes.
        let mut job_page_migrator = migrator_of(Some(Arc::clone(&cgroup)), exited);
        job_page_migrator.widen_cgroup().expect("widened");
        cgroup.set_nodes(&"1".parse().expect("nodes"), false).expect("set");
        job_page_migrator.stop(PageMigrationEnd::Exited, Nanos::ZERO);
        assert_eq!(nodes(&cgroup), "1");
    }
}
