//! What stands between a wish and the machine.
//!
//! A policy may wish anything. What comes through concerns somebody who lives and is ours to place,
//! changes something, and names CPUs and nodes that can be used: a wish that is partly possible is
//! narrowed to what is possible, one that is not is refused with a word why. Both are recorded.

use std::collections::BTreeSet;

use base::{CpuSet, JobId, TaskId};
use program::{Job, MemoryPolicy};
use sched::{Action, ActionKind, JobState, RejectCause, Rejection, Request, Target};
use topology::Machine;

use crate::derive::Tasks;
use crate::engine::TaskPlaces;
use crate::jobs::{JobEntry, Jobs};
use crate::moves::ActiveMoves;

mod pages;

pub(crate) use pages::MemoryView;

/// What the guard knows.
#[derive(Clone, Copy)]
pub(crate) struct Guard<'a> {
    pub machine: &'a Machine,
    pub usable: &'a CpuSet,
    pub jobs: &'a Jobs,
    pub tasks: &'a Tasks,
    pub task_places: &'a TaskPlaces,
    pub memory: MemoryView<'a>,
}

/// What became of the wishes of a turn.
#[derive(Debug, Default)]
pub(crate) struct GuardResult {
    /// Those that come through, in order, as they come through.
    pub asks: Vec<Request>,
    /// Those of them that come through in part.
    pub narrowed: Vec<Request>,
    /// Those that do not.
    pub refused: Vec<Rejection>,
}

/// Why a wish did not come through.
type Refused = (RejectCause, String);

impl Guard<'_> {
    /// What comes through of these wishes.
    pub fn check(&self, asks: &[Request]) -> GuardResult {
        let mut checked =
            GuardResult { asks: Vec::with_capacity(asks.len()), ..GuardResult::default() };
        let mut concerned = Concerned::default();
        let mut under_way = self.jobs.active_moves();
        for ask in asks {
            let one = self.one(ask, &under_way);
            let kind = ask.action.kind();
            match one.and_then(|action| concerned.once(ask.target, kind).map(|()| action)) {
                Ok(action) => {
                    self.count(ask.target, &action, &mut under_way);
                    let is_whole = action == ask.action;
                    let ask = Request { target: ask.target, action, reason: ask.reason.clone() };
                    if !is_whole {
                        checked.narrowed.push(ask.clone());
                    }
                    checked.asks.push(ask);
                }
                Err((why, detail)) => {
                    checked.refused.push(Rejection { request: ask.clone(), cause: why, detail });
                }
            }
        }
        checked
    }

    fn one(&self, ask: &Request, under_way: &ActiveMoves) -> Result<Action, Refused> {
        let job = self.job_of(ask.target).ok_or_else(|| ended(ask.target))?;
        let (job, entry) = self.jobs.live(job).ok_or_else(|| ended(ask.target))?;
        let task_is_free = match ask.target {
            Target::Task(task) => self.task_places.is_unmanaged(task),
            Target::Job(_) => false,
        };
        if entry.is_unmanaged || task_is_free {
            return Err((
                RejectCause::Unmanaged,
                format!("{} is not ours to place any more", job.name),
            ));
        }
        match &ask.action {
            Action::Place(cpus) => self.place(ask.target, job, entry, cpus),
            Action::MemoryPolicy(policy) => self.memory(ask.target, job, entry, policy),
            Action::Release => self.release(ask.target, job, entry),
            Action::MovePages { from, to, limit } => {
                self.move_pages((job, entry), (*from, *to, *limit), under_way)
            }
        }
    }

    fn job_of(&self, target: Target) -> Option<JobId> {
        match target {
            Target::Job(job) => Some(job),
            Target::Task(task) => self.tasks.job_of(task),
        }
    }

    /// What comes through counts for the wishes after it.
    fn count(&self, target: Target, action: &Action, under_way: &mut ActiveMoves) {
        let Action::MovePages { from, to, limit } = action else { return };
        let entry = self.job_of(target).and_then(|job| self.jobs.live(job)).map(|(_, entry)| entry);
        under_way.add(*to, entry.map_or(*limit, |entry| entry.amount(*from, *to, *limit)));
    }

    fn place(
        &self,
        target: Target,
        job: &Job,
        entry: &JobEntry,
        cpus: &CpuSet,
    ) -> Result<Action, Refused> {
        if !cpus.intersects(self.usable) {
            let detail = format!("none of the CPUs {cpus} can be used now");
            return Err((RejectCause::CpusUnusable, detail));
        }
        let possible = cpus.and(self.usable);
        let allowed = entry.allowed.as_ref().unwrap_or(self.usable);
        let possible = if possible.is_subset(allowed) { possible } else { possible.and(allowed) };
        if possible.is_empty() {
            let detail = format!("{} may use the CPUs {allowed} only, not {cpus}", job.name);
            return Err((RejectCause::OutsideAllowed, detail));
        }
        if self.placed(target, entry) == Some(&possible) {
            return Err((RejectCause::Unchanged, format!("it is on the CPUs {possible} already")));
        }
        Ok(Action::Place(possible))
    }

    fn release(&self, target: Target, job: &Job, entry: &JobEntry) -> Result<Action, Refused> {
        match self.placed(target, entry) {
            Some(_) => Ok(Action::Release),
            None => Err((RejectCause::Unchanged, format!("{} was not placed by us", job.name))),
        }
    }

    fn placed<'a>(&'a self, target: Target, entry: &'a JobEntry) -> Option<&'a CpuSet> {
        match target {
            Target::Job(_) => entry.placed.as_ref(),
            Target::Task(task) => self.task_places.get(task),
        }
    }

    fn memory(
        &self,
        target: Target,
        job: &Job,
        entry: &JobEntry,
        policy: &MemoryPolicy,
    ) -> Result<Action, Refused> {
        if entry.state != Some(JobState::Due) || matches!(target, Target::Task(_)) {
            let detail = format!("{} runs already: its pages lie where they lie", job.name);
            return Err((RejectCause::AlreadyStarted, detail));
        }
        if job.memory.is_some() {
            let detail = format!("the workload says where the memory of {} comes from", job.name);
            return Err((RejectCause::Unmanaged, detail));
        }
        let nodes = policy.nodes();
        let possible = nodes.and(self.machine.nodes_with_memory());
        if possible.is_empty() {
            let detail = format!("none of the nodes {nodes} has memory that may be used");
            return Err((RejectCause::NodesUnusable, detail));
        }
        let possible = job.nodes.as_ref().map_or_else(|| possible.clone(), |own| possible.and(own));
        if possible.is_empty() {
            let detail = format!("the workload keeps {} off the nodes {nodes}", job.name);
            return Err((RejectCause::OutsideAllowed, detail));
        }
        Ok(Action::MemoryPolicy(policy.with_nodes(possible)))
    }
}

/// Whom wishes that came through are about.
#[derive(Debug, Default)]
struct Concerned {
    /// By number; jobs are numbered from 0 on.
    jobs: Vec<[bool; ActionKind::N]>,
    tasks: BTreeSet<(TaskId, ActionKind)>,
}

impl Concerned {
    /// Whether this is the first wish of its kind that comes through; notes it.
    fn once(&mut self, target: Target, kind: ActionKind) -> Result<(), Refused> {
        let is_first = match target {
            Target::Task(task) => self.tasks.insert((task, kind)),
            Target::Job(job) => {
                if self.jobs.len() <= job.index() {
                    self.jobs.resize(job.index() + 1, [false; ActionKind::N]);
                }
                !std::mem::replace(&mut self.jobs[job.index()][kind as usize], true)
            }
        };
        match is_first {
            true => Ok(()),
            false => {
                let detail = "another wish of this turn already says where it goes".to_owned();
                Err((RejectCause::Duplicate, detail))
            }
        }
    }
}

fn ended(target: Target) -> Refused {
    let whom = match target {
        Target::Job(JobId(number)) => format!("job {number}"),
        Target::Task(task) => task.to_string(),
    };
    (RejectCause::Exited, format!("{whom} does not run"))
}
