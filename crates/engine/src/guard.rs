//! The guard: checks the requests of a policy before the host applies them.
//!
//! A request is approved if the target is due or running, and managed, if the request changes a setting, and if the
//! CPUs or nodes of the request are usable. If only a part of a request is possible, the guard narrows the request to
//! that part. All other requests are rejected with a cause and a message. The journal records narrowed and rejected
//! requests.

use std::collections::BTreeSet;

use base::{CpuSet, JobId, TaskId};
use program::{Job, MemoryPolicy};
use sched::{
    Action, ActionKind, CauseAndDetail, JobState, RejectCause, Rejection, Request, Target,
};
use topology::Machine;

use crate::derive::Tasks;
use crate::jobs::{JobEntry, Jobs};
use crate::page_migrations::ActivePageMigrations;
use crate::task_affinities::TaskAffinities;

mod pages;

pub(crate) use pages::MemoryView;

/// State against which requests are checked.
#[derive(Clone, Copy)]
pub(crate) struct Guard<'a> {
    pub machine: &'a Machine,
    pub usable: &'a CpuSet,
    pub jobs: &'a Jobs,
    pub tasks: &'a Tasks,
    pub task_affinities: &'a TaskAffinities,
    pub memory: MemoryView<'a>,
}

/// Result of the checks of one plan.
#[derive(Debug, Default)]
pub(crate) struct GuardResult {
    /// Approved requests in the order of the plan, some of them narrowed.
    pub approved: Vec<Request>,
    /// Approved requests that were narrowed.
    pub narrowed: Vec<Request>,
    pub rejected: Vec<Rejection>,
}

impl Guard<'_> {
    pub fn check(&self, requests: &[Request]) -> GuardResult {
        let mut result =
            GuardResult { approved: Vec::with_capacity(requests.len()), ..GuardResult::default() };
        let mut approved_targets = ApprovedTargets::default();
        let mut active = self.jobs.active_page_migrations();
        for request in requests {
            let Request { target, action: requested, reason } = request;
            let checked = self.check_request(request, &active).and_then(|action| {
                approved_targets.insert(*target, requested.kind()).map(|()| action)
            });
            match checked {
                Ok(action) => {
                    self.count_move(*target, &action, &mut active);
                    let is_narrowed = action != *requested;
                    let approved = Request { target: *target, action, reason: reason.clone() };
                    if is_narrowed {
                        result.narrowed.push(approved.clone());
                    }
                    result.approved.push(approved);
                }
                Err((cause, detail)) => {
                    result.rejected.push(Rejection { request: request.clone(), cause, detail });
                }
            }
        }
        result
    }

    /// Returns the approved action, which may be narrowed.
    fn check_request(
        &self,
        request: &Request,
        active: &ActivePageMigrations,
    ) -> Result<Action, CauseAndDetail> {
        let target = request.target;
        let job = self.job_of(target).ok_or_else(|| exited(target))?;
        let (job, entry) = self.jobs.live(job).ok_or_else(|| exited(target))?;
        let is_unmanaged_task = match target {
            Target::Task(task) => self.task_affinities.is_unmanaged(task),
            Target::Job(_) => false,
        };
        if entry.is_unmanaged || is_unmanaged_task {
            let detail = format!("evenkeel no longer manages {}", job.name);
            return Err((RejectCause::Unmanaged, detail));
        }
        match &request.action {
            Action::Place(cpus) => self.place(target, job, entry, cpus),
            Action::MemoryPolicy(policy) => self.memory(target, job, entry, policy),
            Action::Release => match self.placed(target, entry) {
                Some(_) => Ok(Action::Release),
                None => Err(unchanged(format!("evenkeel did not place {}", job.name))),
            },
            Action::MovePages { from, to, limit } => {
                self.move_pages((job, entry), (*from, *to, *limit), active)
            }
        }
    }

    fn job_of(&self, target: Target) -> Option<JobId> {
        match target {
            Target::Job(job) => Some(job),
            Target::Task(task) => self.tasks.job_of(task),
        }
    }

    /// Adds an approved page migration to the active migrations, which limit later requests of this turn.
    fn count_move(&self, target: Target, action: &Action, active: &mut ActivePageMigrations) {
        let Action::MovePages { from, to, limit } = action else { return };
        let entry = self.job_of(target).and_then(|job| self.jobs.live(job)).map(|(_, entry)| entry);
        active.add(*to, entry.map_or(*limit, |entry| entry.amount(*from, *to, *limit)));
    }

    fn place(
        &self,
        target: Target,
        job: &Job,
        entry: &JobEntry,
        cpus: &CpuSet,
    ) -> Result<Action, CauseAndDetail> {
        if !cpus.intersects(self.usable) {
            let detail = format!("none of the CPUs {cpus} is usable");
            return Err((RejectCause::CpusUnusable, detail));
        }
        let possible = cpus.and(self.usable);
        let allowed = entry.allowed.as_ref().unwrap_or(self.usable);
        let possible = if possible.is_subset(allowed) { possible } else { possible.and(allowed) };
        if possible.is_empty() {
            let detail = format!("{} is allowed on the CPUs {allowed} only, not {cpus}", job.name);
            return Err((RejectCause::OutsideAllowed, detail));
        }
        if self.placed(target, entry) == Some(&possible) {
            return Err(unchanged(format!("its affinity is {possible} already")));
        }
        Ok(Action::Place(possible))
    }

    fn placed<'a>(&'a self, target: Target, entry: &'a JobEntry) -> Option<&'a CpuSet> {
        match target {
            Target::Job(_) => entry.placed.as_ref(),
            Target::Task(task) => self.task_affinities.get(task),
        }
    }

    fn memory(
        &self,
        target: Target,
        job: &Job,
        entry: &JobEntry,
        policy: &MemoryPolicy,
    ) -> Result<Action, CauseAndDetail> {
        if entry.state != Some(JobState::Due) || matches!(target, Target::Task(_)) {
            let detail = format!("{} is running: its memory policy is set at the start", job.name);
            return Err((RejectCause::AlreadyStarted, detail));
        }
        if job.memory.is_some() {
            return Err(memory_is_declared(job));
        }
        let nodes = policy.nodes();
        let possible = nodes.and(self.machine.nodes_with_memory());
        if possible.is_empty() {
            let detail = format!("none of the nodes {nodes} has usable memory");
            return Err((RejectCause::NodesUnusable, detail));
        }
        let possible = job.nodes.as_ref().map_or_else(|| possible.clone(), |own| possible.and(own));
        if possible.is_empty() {
            let detail = format!("the workload does not allow {} on the nodes {nodes}", job.name);
            return Err((RejectCause::OutsideAllowed, detail));
        }
        Ok(Action::MemoryPolicy(policy.with_nodes(possible)))
    }
}

/// Targets of approved requests, by kind of action.
#[derive(Debug, Default)]
struct ApprovedTargets {
    /// Targets by job id. Ids are consecutive from 0.
    jobs: Vec<[bool; ActionKind::N]>,
    tasks: BTreeSet<(TaskId, ActionKind)>,
}

impl ApprovedTargets {
    /// Adds a target. Returns an error if an approved request has the same target and kind.
    fn insert(&mut self, target: Target, kind: ActionKind) -> Result<(), CauseAndDetail> {
        let is_first = match target {
            Target::Task(task) => self.tasks.insert((task, kind)),
            Target::Job(job) => {
                if self.jobs.len() <= job.index() {
                    self.jobs.resize(job.index() + 1, [false; ActionKind::N]);
                }
                !std::mem::replace(&mut self.jobs[job.index()][kind as usize], true)
            }
        };
        let duplicate = || "an earlier request of this turn has the same target".to_owned();
        if is_first { Ok(()) } else { Err((RejectCause::Duplicate, duplicate())) }
    }
}

fn exited(target: Target) -> CauseAndDetail {
    let name = match target {
        Target::Job(JobId(id)) => format!("job {id}"),
        Target::Task(task) => task.to_string(),
    };
    (RejectCause::Exited, format!("{name} is not running"))
}

fn unchanged(detail: String) -> CauseAndDetail {
    (RejectCause::Unchanged, detail)
}

fn memory_is_declared(job: &Job) -> CauseAndDetail {
    (RejectCause::Unmanaged, format!("the workload sets the memory policy of {}", job.name))
}
