//! Carrying out what a plan says about jobs that run. How they are bound stands in [`crate::hold`].

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{Bytes, CpuSet, JobId, NodeId, TaskId};
use engine::Approved;
use sched::{Action, Outcome, OutcomeResult, RejectCause, Request, Target};

use crate::hold::{Hands, Hold, Refused, confirm, not_running};
use crate::host::{LiveHost, State};

impl LiveHost {
    /// Carries out what a plan says about jobs and threads that run.
    /// What it says about `started` jobs was part of their start.
    pub(crate) fn change_running(
        &mut self,
        plan: &Approved,
        started: &BTreeSet<JobId>,
        outcomes: &mut Vec<Outcome>,
    ) {
        let is_start = |target| matches!(target, Target::Job(job) if started.contains(&job));
        for ask in plan.requests().iter().filter(|ask| !is_start(ask.target)) {
            let result = match (ask.target, &ask.action) {
                (Target::Job(job), Action::Place(cpus)) => self.place_job(job, cpus),
                (Target::Job(job), Action::Release) => Ok(self.release_job(job)),
                (Target::Task(task), Action::Place(cpus)) => self.place_task(task, Some(cpus)),
                (Target::Task(task), Action::Release) => self.place_task(task, None),
                (_, Action::MemoryPolicy(_)) => Err((
                    RejectCause::AlreadyStarted,
                    "it runs already: its pages lie where they lie".to_owned(),
                )),
                (target, Action::MovePages { from, to, limit }) => {
                    let begun = self.move_pages(target, (*from, *to, *limit));
                    outcomes.push(outcome(ask, begun.map(|()| OutcomeResult::InProgress)));
                    continue;
                }
            };
            outcomes.push(outcome(ask, result.map(|n| OutcomeResult::Done { n })));
        }
    }

    fn place_job(&mut self, job: JobId, cpus: &CpuSet) -> Result<u32, Refused> {
        self.memory.look_anew(job);
        let (hold, mut hands) = self.grasp(job).ok_or_else(not_running)?;
        hands.place(hold, cpus)
    }

    /// Binds one thread, or gives it back what its job has.
    fn place_task(&mut self, task: TaskId, cpus: Option<&CpuSet>) -> Result<u32, Refused> {
        let job = self.family.job_of_task(task).ok_or_else(not_running)?;
        let (hold, mut hands) = self.grasp(job).ok_or_else(not_running)?;
        hands.place_task(hold, task, cpus)
    }

    /// Begins a move of memory.
    fn move_pages(
        &mut self,
        target: Target,
        wish: (Option<NodeId>, NodeId, Bytes),
    ) -> Result<(), Refused> {
        let slots = &self.slots;
        let is_ours = |job: JobId| match &slots.get(job.index())?.state {
            State::Running(running) => Some(!running.hold.hands_off),
            _ => None,
        };
        let groups = &self.job_groups;
        let who = (&self.wakes, &mut self.family);
        self.memory.begin_move(who, is_ours, target, wish, |job| groups.of(job))
    }

    /// A job that runs, and the hands that place it.
    pub(crate) fn grasp(&mut self, job: JobId) -> Option<(&mut Hold, Hands<'_>)> {
        let State::Running(running) = &mut self.slots.get_mut(job.index())?.state else {
            return None;
        };
        let hands = Hands {
            family: &mut self.family,
            undo: &mut self.undo,
            own_cpus: Arc::clone(&self.own_cpus),
            compared: Arc::clone(&self.own_cpus),
            unconfirmed: &mut self.unconfirmed,
            told: &mut self.pending.jobs,
            of_strangers: false,
        };
        Some((&mut running.hold, hands))
    }

    /// Changes have been made, and everything that was being born meanwhile has been looked at too:
    /// the masks before them are no longer ours.
    pub(crate) fn confirm_changes(&mut self) {
        confirm(&mut self.undo, &mut self.unconfirmed);
    }

    /// Processes and threads that were born since the last look have the mask of whoever started
    /// them. One that was forked while its job was being moved may have the mask before.
    pub(crate) fn check_newcomers(&mut self, job: JobId) {
        if let Some((hold, mut hands)) = self.grasp(job) {
            hands.check_newcomers(hold);
        }
    }

    /// Gives a job back what it had before we placed it; tells how many threads that concerned.
    pub(crate) fn release_job(&mut self, job: JobId) -> u32 {
        // What an earlier run left behind may still have a mask of ours: then the record stays.
        let any_left = self.has_stragglers(job);
        let Some((hold, mut hands)) = self.grasp(job) else { return 0 };
        hands.release(hold, !any_left).0
    }
}

fn outcome(ask: &Request, result: Result<OutcomeResult, Refused>) -> Outcome {
    let refuse = |(why, detail)| OutcomeResult::Rejected { cause: why, detail };
    let result = result.unwrap_or_else(refuse);
    Outcome { target: ask.target, action: Some(ask.action.clone()), result }
}
