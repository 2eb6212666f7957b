//! Starts the jobs that are due. Affinity and memory of a job are bound before its first instruction.
//!
//! ```text
//!   undo record ─► fork ─► PID into the record ─► the child sets its own affinity ─► exec
//! ```
//!
//! All jobs of a turn are forked first. Then evenkeel waits until each child has called execve(2). Without an undo
//! record, jobs are started without a placement.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{CpuSet, JobId};
use engine::Approved;
use linux::mempolicy;
use linux::spawn::{SpawnBatch, SpawnFailure, SpawnStage};
use linux::{fault, procfs};
use program::{Ending, MemoryPolicy};
use sched::{
    Action, CauseAndDetail, JobEvent, Outcome, OutcomeResult, RejectCause, Target, UnmanagedCause,
};
use topology::Machine;

use super::command::{Binding, LaunchContext};
use super::jobs::{JobRunState, RunningJob};
use super::lifecycle::Lifecycle;
use super::timer_queue::TimedEvent;
use crate::errors::kernel_message;
use crate::session::{AffinityState, Session};

/// A child before execve(2).
struct Forked {
    job: JobId,
    pid: u32,
    running: RunningJob,
    place: Option<(CpuSet, Result<(), CauseAndDetail>)>,
    memory: Option<MemoryPolicy>,
}

/// The placement that a plan requests for a job at its start.
#[derive(Default)]
struct StartPlacement {
    cpus: Option<CpuSet>,
    memory: Option<MemoryPolicy>,
}

impl StartPlacement {
    fn from_plan(plan: &Approved, job: JobId) -> Self {
        let mut placement = StartPlacement::default();
        for action in plan.for_job(job) {
            match action {
                Action::Place(cpus) => placement.cpus = Some(cpus.clone()),
                Action::MemoryPolicy(policy) => placement.memory = Some(policy.clone()),
                _ => {}
            }
        }
        placement
    }
}

/// Parts of the host that a start uses.
pub(super) struct Starter<'a> {
    pub session: &'a mut Session,
    pub run: &'a mut Lifecycle,
    pub context: &'a LaunchContext,
    pub machine: &'a Machine,
}

impl Starter<'_> {
    /// Starts all due jobs with the placement of the plan. Returns the due jobs.
    pub(super) fn start_due(
        &mut self,
        plan: &Approved,
        outcomes: &mut Vec<Outcome>,
    ) -> BTreeSet<JobId> {
        let due = std::mem::take(&mut self.run.jobs.due);
        let were_due = due.iter().copied().collect();
        if due.is_empty() {
            return were_due;
        }
        let mut batch = SpawnBatch::new();
        let mut forked = Vec::with_capacity(due.len());
        let mut failed = Vec::new();
        for job in due {
            let child = match &mut batch {
                Ok(batch) => self.fork(job, plan, batch),
                Err(error) => Err(format!("cannot create a pipe: {}", kernel_message(error))),
            };
            match child {
                Ok(child) => forked.push(child),
                Err(detail) => failed.push((job, detail)),
            }
        }
        let failures = batch.map_or_else(|_| Vec::new(), |batch| self.finish(batch, &forked));
        for child in forked {
            match failures.iter().find(|failure| failure.pid == child.pid) {
                Some(failure) => failed.push((child.job, self.abort(&child, failure))),
                None => self.handle_start(child, outcomes),
            }
        }
        let (remaining, mut parts) = self.run.split(self.session);
        remaining.update_supervisor(&mut parts);
        // Failures are handled last: a failure may stop the run, and the started jobs then get an exit request.
        for (job, detail) in failed {
            self.handle_failure(job, plan, &detail, outcomes);
        }
        were_due
    }

    fn fork(
        &mut self,
        job: JobId,
        plan: &Approved,
        batch: &mut SpawnBatch,
    ) -> Result<Forked, String> {
        let base = self.base_cpus(job)?;
        let name = self.run.jobs.job(job).name.clone();
        let mut placement = StartPlacement::from_plan(plan, job);
        placement.memory = placement.memory.map(|policy| self.supported(policy));
        let recorded = placement.cpus.as_ref().map(|cpus| self.record(job, &base, cpus));
        let change = recorded.as_ref().and_then(|change| change.as_ref().ok()).copied();
        let placed = placement.cpus.clone().filter(|_| change.is_some());
        let binding = self.binding(job, &base, placed.clone(), placement.memory.clone());
        let memory = binding.memory.map(|policy| self.supported(policy));
        let undo = &mut self.session.undo;
        self.run.mon_groups.begin(job, &name, undo);
        let cgroup = self.run.cgroups.begin(job, &name, memory.as_ref(), undo);
        let binding = Binding { memory, cgroup, ..binding };
        let pid = self.spawn(job, binding, batch).inspect_err(|_| {
            change.into_iter().for_each(|change| self.session.undo.confirm(change));
            self.run.remove_job_groups(self.session, job);
        })?;
        self.run.mon_groups.add(job, pid, &mut self.session.undo);
        fault::point();
        self.name_child(change, pid);
        let place = placement.cpus.take().zip(recorded.map(|change| change.map(|_| ())));
        let mut affinity = AffinityState::new(job, name, pid, base, placed.map(Arc::new));
        affinity.is_unmanaged = matches!(&place, Some((_, Err((RejectCause::NotPermitted, _)))));
        let started = self.session.now();
        let pidfd = self.run.timers.watch_exit(self.session, pid);
        let running = RunningJob::new(affinity, started, pidfd);
        Ok(Forked { job, pid, running, place, memory: placement.memory })
    }

    /// Writes the undo record of a placement before the fork. Without a record the job starts without a placement.
    fn record(&mut self, job: JobId, base: &CpuSet, cpus: &CpuSet) -> Result<u64, CauseAndDetail> {
        let job = self.run.jobs.job(job);
        match self.context.not_restorable(job) {
            Some(reason) => Err((RejectCause::NotPermitted, reason)),
            None => self.session.undo.record_before_fork(&job.name, base, cpus),
        }
    }

    /// Replaces a policy that the kernel does not support: weighted interleaving becomes interleaving.
    fn supported(&mut self, policy: MemoryPolicy) -> MemoryPolicy {
        match policy {
            MemoryPolicy::WeightedInterleave(nodes) if !mempolicy::has_weighted("/".as_ref()) => {
                self.session.warn_once(
                    "this kernel does not support weighted interleaving of memory (it requires Linux 6.9): \
                     nodes get equal shares",
                );
                MemoryPolicy::Interleave(nodes)
            }
            policy => policy,
        }
    }

    /// Returns the affinity and the memory policy that a child sets itself.
    fn binding(
        &self,
        job: JobId,
        base: &CpuSet,
        placed: Option<CpuSet>,
        memory: Option<MemoryPolicy>,
    ) -> Binding {
        let job = self.run.jobs.job(job);
        let of_nodes = job.nodes.clone().map(MemoryPolicy::Bind);
        let own_cpus = &self.session.cpus.own;
        Binding {
            cpus: placed.or_else(|| (*base != **own_cpus).then(|| base.clone())),
            memory: job.memory.clone().or(memory).or(of_nodes),
            cgroup: None,
        }
    }

    fn spawn(&self, job: JobId, binding: Binding, batch: &mut SpawnBatch) -> Result<u32, String> {
        let (jobs, appends) = (&self.run.jobs, 0 < self.run.jobs.n_runs(job));
        let request = self.context.spawn_request(jobs.job(job), binding, appends)?;
        batch.fork(&request).map_err(|error| kernel_message(&error))
    }

    /// Reports the child to the undo record and the supervisor. If the start time cannot be read, `restore` identifies
    /// the child by its environment.
    fn name_child(&mut self, change: Option<u64>, pid: u32) {
        let stat = procfs::stat("/".as_ref(), pid);
        let start_time_ticks = stat.as_ref().map_or(0, |stat| stat.start_time_ticks);
        if let (Some(change), Ok(_)) = (change, stat) {
            self.session.undo.name_child(change, (pid, start_time_ticks, pid));
        }
        if let Some(supervisor) = &mut self.run.supervisor {
            supervisor.add_group(pid, start_time_ticks);
        }
    }

    /// Returns the mask of a job without a placement: the mask of evenkeel, restricted by the workload.
    fn base_cpus(&self, job: JobId) -> Result<Arc<CpuSet>, String> {
        let job = self.run.jobs.job(job);
        let own = &self.session.cpus.own;
        if job.cpus.is_none() && job.nodes.is_none() {
            return Ok(Arc::clone(own));
        }
        let mut cpus = (**own).clone();
        if let Some(requested) = &job.cpus {
            cpus = cpus.and(requested);
        }
        if let Some(nodes) = &job.nodes {
            cpus = cpus.and(&self.machine.cpus_of_nodes(nodes));
        }
        match cpus.is_empty() {
            true => Err("no CPU that the workload permits for it is usable now".to_owned()),
            false => Ok(Arc::new(cpus)),
        }
    }

    /// Waits until every child has called execve(2) or failed. Returns the failures.
    fn finish(&mut self, batch: SpawnBatch, forked: &[Forked]) -> Vec<SpawnFailure> {
        let finished = batch.finish();
        for (pid, error) in &finished.not_in_cgroup {
            if let Some(child) = forked.iter().find(|child| child.pid == *pid) {
                self.run.cgroups.handle_join_error(child.job, error);
            }
        }
        if let Err(error) = finished.reports {
            let error = kernel_message(&error);
            self.session.warn(format!("cannot check whether every job called execve: {error}"));
        }
        finished.failures
    }

    /// Cleans up after a child that failed before execve(2). Returns the reason of the failure.
    fn abort(&mut self, child: &Forked, failure: &SpawnFailure) -> String {
        let detail = self.describe(failure, child.job);
        self.run.remove_job_groups(self.session, child.job);
        if let Some(pidfd) = &child.running.pidfd {
            self.session.wakeups.unwatch(pidfd);
        }
        if let Some(supervisor) = &mut self.run.supervisor {
            supervisor.remove_group(child.pid);
        }
        detail
    }

    fn describe(&self, failure: &SpawnFailure, job: JobId) -> String {
        let job = self.run.jobs.job(job);
        let error = kernel_message(&failure.error);
        match failure.stage {
            SpawnStage::Exec => match self.context.program(job) {
                Ok(program) => format!("cannot run {}: {error}", program.display()),
                Err(reason) => reason,
            },
            SpawnStage::Dir => {
                format!("cannot change to directory {}: {error}", self.context.dir(job).display())
            }
            SpawnStage::Group => format!("cannot create its process group: {error}"),
            SpawnStage::Foreground => format!("cannot move it to the foreground: {error}"),
            SpawnStage::Files => format!("cannot set its standard streams: {error}"),
            SpawnStage::Limit => format!("cannot set its limit of open files: {error}"),
            SpawnStage::Cpus => format!("cannot set its CPU affinity: {error}"),
            SpawnStage::Memory => format!("cannot set its memory policy: {error}"),
            SpawnStage::DeathSignal => {
                format!("cannot request SIGKILL at the exit of evenkeel: {error}")
            }
            SpawnStage::Nice => format!("cannot set its nice value: {error}"),
        }
    }

    fn handle_failure(
        &mut self,
        job: JobId,
        plan: &Approved,
        detail: &str,
        outcomes: &mut Vec<Outcome>,
    ) {
        let rejected = |action| Outcome {
            target: Target::Job(job),
            action,
            result: OutcomeResult::Rejected {
                cause: RejectCause::StartFailed,
                detail: detail.to_owned(),
            },
        };
        outcomes.push(rejected(None));
        outcomes.extend(plan.for_job(job).map(|action| rejected(Some(action.clone()))));
        self.run.set_finished(self.session, job);
        self.run.free_if_done(self.session, job);
        self.run.job_failed(self.session);
    }

    /// Verifies after execve(2) that the affinity of a job can be restored: the file could have been replaced since it
    /// was inspected. Setting the same mask again has no effect, but needs the same permission.
    fn verify_binding(&mut self, running: &mut RunningJob) {
        let AffinityState { name, pid, base, placed, is_unmanaged, .. } = &mut running.affinity;
        let Some(placed) = placed.as_ref().filter(|_| !self.context.may_bind_all) else { return };
        let set = linux::affinity::set(*pid, placed);
        if set.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied) {
            *is_unmanaged = true;
            self.session.warn(format!(
                "{name}: process {pid} gained privileges at its start and keeps the CPUs {placed}: without CAP_SYS_NICE \
                 evenkeel cannot restore its affinity; as root: taskset -pc {base} {pid}"
            ));
        }
    }

    fn handle_start(&mut self, child: Forked, outcomes: &mut Vec<Outcome>) {
        let Forked { job, pid, mut running, place, memory } = child;
        self.verify_binding(&mut running);
        if running.affinity.is_unmanaged {
            self.session.report(JobEvent::Unmanaged(job, UnmanagedCause::NotPermitted));
        }
        let target = Target::Job(job);
        let done = |action, n| Outcome { target, action, result: OutcomeResult::Done { n } };
        outcomes.push(done(None, pid));
        outcomes.extend(place.map(|(cpus, result)| match result {
            Ok(()) => done(Some(Action::Place(cpus)), 1),
            Err((cause, detail)) => {
                let result = OutcomeResult::Rejected { cause, detail };
                Outcome { target, action: Some(Action::Place(cpus)), result }
            }
        }));
        outcomes.extend(memory.map(|policy| done(Some(Action::MemoryPolicy(policy)), 1)));
        self.run.jobs.by_pid.insert(pid, job);
        self.session.tasks.adopt(job, pid, running.affinity.inherited_mask());
        let entry = self.run.jobs.entry(job);
        entry.n_runs += 1;
        if let Ending::After(time) = entry.job.ending {
            self.run.timers.add(running.started + time, TimedEvent::StopAfter(job, entry.n_runs));
        }
        entry.state = JobRunState::Running(Box::new(running));
    }
}
