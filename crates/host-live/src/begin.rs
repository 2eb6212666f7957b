//! Beginning: jobs that are due, each bound before its first instruction.
//!
//! ```text
//!   record ─► fork ─► name the child in the record ─► the child binds itself ─► exec
//! ```
//!
//! All jobs of one turn are forked first and waited for together. Without a record a job runs where it
//! would without us: nothing is changed that could not be put back.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{CpuSet, JobId};
use engine::Approved;
use linux::child_exit::ChildUsage;
use linux::mempolicy;
use linux::spawn::{SpawnBatch, SpawnFailure, SpawnStage};
use linux::{fault, procfs};
use program::{Ending, MemoryPolicy};
use sched::{Action, Outcome, OutcomeResult, RejectCause, Target};

use crate::agenda::Item;
use crate::command::{Binding, plain};
use crate::ending::fails_run;
use crate::hold::{Hold, Refused};
use crate::host::{LiveHost, Running, State, in_one_line};

/// A child on its way to become its program.
struct Forked {
    job: JobId,
    pid: u32,
    running: Running,
    place: Option<(CpuSet, Result<(), Refused>)>,
    memory: Option<MemoryPolicy>,
}

/// What a plan says about a job that is due.
#[derive(Default)]
struct Wish {
    cpus: Option<CpuSet>,
    memory: Option<MemoryPolicy>,
}

impl Wish {
    fn of(plan: &Approved, job: JobId) -> Self {
        let mut wish = Wish::default();
        for action in plan.for_job(job) {
            match action {
                Action::Place(cpus) => wish.cpus = Some(cpus.clone()),
                Action::MemoryPolicy(policy) => wish.memory = Some(policy.clone()),
                Action::Release | Action::MovePages { .. } => {}
            }
        }
        wish
    }
}

impl LiveHost {
    /// Starts everything that is due, each bound as the plan says.
    /// Tells the jobs that were due.
    pub(crate) fn start_due(
        &mut self,
        plan: &Approved,
        outcomes: &mut Vec<Outcome>,
    ) -> BTreeSet<JobId> {
        let due = std::mem::take(&mut self.due);
        let were_due = due.iter().copied().collect();
        if due.is_empty() {
            return were_due;
        }
        let mut batch = SpawnBatch::new();
        let mut forked = Vec::with_capacity(due.len());
        let mut refused = Vec::new();
        for job in due {
            let begun = match &mut batch {
                Ok(batch) => self.fork(job, plan, batch),
                Err(error) => Err(format!("no pipe: {}", plain(error))),
            };
            match begun {
                Ok(child) => forked.push(child),
                Err(detail) => refused.push((job, detail)),
            }
        }
        let failures = batch.map_or_else(|_| Vec::new(), |batch| self.finish(batch, &forked));
        for child in forked {
            match failures.iter().find(|failure| failure.pid == child.pid) {
                Some(failure) => refused.push((child.job, self.give_up(&child, failure))),
                None => self.has_begun(child, outcomes),
            }
        }
        self.tell_keeper();
        // Last, since a refusal may be the end of the run: whoever began is told to end then.
        for (job, detail) in refused {
            self.cannot_start(job, plan, &detail, outcomes);
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
        let mut wish = Wish::of(plan, job);
        wish.memory = wish.memory.map(|policy| self.known_policy(policy));
        // The record comes first: without one the job runs where it would without us.
        let announced = wish.cpus.as_ref().map(|cpus| self.announce(job, &base, cpus));
        let nr = announced.as_ref().and_then(|announced| announced.as_ref().ok()).copied();
        let placed = wish.cpus.clone().filter(|_| nr.is_some());
        let binding = self.binding(job, &base, placed.clone(), wish.memory.clone());
        let memory = binding.memory.map(|policy| self.known_policy(policy));
        let name = &self.slots[job.index()].job.name;
        self.groups.begin(job, name, &mut self.undo);
        let group = self.job_groups.begin(job, name, memory.as_ref(), &mut self.undo);
        let binding = Binding { memory, group, ..binding };
        let pid = self.start(job, binding, batch).inspect_err(|_| {
            nr.into_iter().for_each(|nr| self.confirm(nr));
            self.groups.end(job, &mut self.undo);
            self.job_groups.end(job);
        })?;
        self.groups.add(job, pid, &mut self.undo);
        fault::point();
        self.name_child(nr, pid);
        let place = wish.cpus.take().zip(announced.map(|announced| announced.map(|_| ())));
        let running = self.follow((job, pid), base, placed);
        Ok(Forked { job, pid, running, place, memory: wish.memory })
    }

    /// A policy that this kernel has: without weights each node gets as much as the others.
    fn known_policy(&mut self, policy: MemoryPolicy) -> MemoryPolicy {
        match policy {
            MemoryPolicy::WeightedInterleave(nodes) if !mempolicy::has_weighted("/".as_ref()) => {
                self.say_no_weights();
                MemoryPolicy::Interleave(nodes)
            }
            policy => policy,
        }
    }

    fn say_no_weights(&mut self) {
        if !std::mem::replace(&mut self.said_no_weights, true) {
            self.degraded(
                "this kernel cannot interleave memory by weights (Linux 6.9 can): nodes get equal shares",
            );
        }
    }

    fn finish(&mut self, batch: SpawnBatch, forked: &[Forked]) -> Vec<SpawnFailure> {
        let finished = batch.finish();
        for (pid, error) in &finished.stayed_out {
            if let Some(child) = forked.iter().find(|child| child.pid == *pid) {
                self.job_groups.stayed_out(child.job, error);
            }
        }
        if let Err(error) = finished.told {
            let said = plain(&error);
            self.degraded(&format!("whether all jobs became their program cannot be told: {said}"));
        }
        finished.failures
    }

    /// What a child binds itself to.
    fn binding(
        &self,
        job: JobId,
        base: &CpuSet,
        placed: Option<CpuSet>,
        memory: Option<MemoryPolicy>,
    ) -> Binding {
        let wish = &self.slots[job.index()].job;
        let of_nodes = wish.nodes.clone().map(MemoryPolicy::Bind);
        Binding {
            cpus: placed.or_else(|| (*base != *self.own_cpus).then(|| base.clone())),
            memory: wish.memory.clone().or(memory).or(of_nodes),
            group: None,
        }
    }

    fn start(&self, job: JobId, binding: Binding, batch: &mut SpawnBatch) -> Result<u32, String> {
        let slot = &self.slots[job.index()];
        let start = self.common.start(&slot.job, binding, 0 < slot.n_runs)?;
        batch.fork(&start).map_err(|error| plain(&error))
    }

    /// Says who the child is to those who outlive us.
    fn name_child(&mut self, nr: Option<u64>, pid: u32) {
        let stat = procfs::stat("/".as_ref(), pid);
        let born_ticks = stat.as_ref().map_or(0, |stat| stat.born_ticks);
        if let (Some(nr), Ok(log), Ok(_)) = (nr, &mut self.undo, stat) {
            // If this cannot be written, or its birth not told, the child is found by its environment.
            let _ = log.name_child(nr, (pid, born_ticks, pid));
        }
        if let Some(keeper) = &mut self.keeper {
            keeper.add(pid, born_ticks);
        }
    }

    fn follow(
        &mut self,
        (job, pid): (JobId, u32),
        base: Arc<CpuSet>,
        placed: Option<CpuSet>,
    ) -> Running {
        let name = self.slots[job.index()].job.name.clone();
        let placed = placed.map(Arc::new);
        let masks = [Some(Arc::clone(&base)), placed.clone()].into_iter().flatten().collect();
        Running {
            pid,
            started: self.wakes.now(),
            ends: self.watch_end(pid),
            hold: Hold {
                job,
                name,
                pid,
                base,
                placed,
                masks,
                hands_off: false,
                parts_placed: false,
            },
            told: None,
            ended: None,
            of_orphans: ChildUsage::default(),
            said_stopped: false,
        }
    }

    /// The mask that a job would have without any policy: ours, or what the workload allows it.
    fn base_cpus(&self, job: JobId) -> Result<Arc<CpuSet>, String> {
        let wish = &self.slots[job.index()].job;
        if wish.cpus.is_none() && wish.nodes.is_none() {
            return Ok(Arc::clone(&self.own_cpus));
        }
        let mut cpus = (*self.own_cpus).clone();
        if let Some(wanted) = &wish.cpus {
            cpus = cpus.and(wanted);
        }
        if let Some(nodes) = &wish.nodes {
            cpus = cpus.and(&self.machine.cpus_of_nodes(nodes));
        }
        match cpus.is_empty() {
            true => Err("none of the CPUs that the workload allows it can be used now".to_owned()),
            false => Ok(Arc::new(cpus)),
        }
    }

    fn announce(&mut self, job: JobId, old: &CpuSet, new: &CpuSet) -> Result<u64, Refused> {
        let name = &self.slots[job.index()].job.name;
        let log =
            self.undo.as_mut().map_err(|error| (RejectCause::UndoRecordFailed, error.clone()))?;
        log.announce(name, old, new).map_err(|e| (RejectCause::UndoRecordFailed, in_one_line(&e)))
    }

    /// A change is made, or given up.
    pub(crate) fn confirm(&mut self, nr: u64) {
        if let Ok(log) = &mut self.undo {
            // If this cannot be written both masks count as ours for a while longer.
            let _ = log.done(nr);
        }
    }

    fn failure(&self, failure: &SpawnFailure, child: &Forked) -> String {
        let job = &self.slots[child.job.index()].job;
        let said = plain(&failure.error);
        match failure.stage {
            SpawnStage::Exec => match self.common.program(job) {
                Ok(program) => format!("cannot run {}: {said}", program.display()),
                Err(why) => why,
            },
            SpawnStage::Dir => {
                format!("cannot begin in {}: {said}", self.common.dir(job).display())
            }
            SpawnStage::Cpus => format!("cannot be bound to its CPUs: {said}"),
            SpawnStage::Memory => format!("cannot have its memory policy: {said}"),
            SpawnStage::Group
            | SpawnStage::Files
            | SpawnStage::Limit
            | SpawnStage::Tie
            | SpawnStage::Nice => {
                format!("cannot be set up ({:?}): {said}", failure.stage)
            }
        }
    }

    /// Forgets a child that did not become its program; tells why.
    fn give_up(&mut self, child: &Forked, failure: &SpawnFailure) -> String {
        let detail = self.failure(failure, child);
        self.groups.end(child.job, &mut self.undo);
        self.job_groups.end(child.job);
        if let Some(ends) = &child.running.ends {
            self.wakes.unwatch(ends);
        }
        if let Some(keeper) = &mut self.keeper {
            keeper.remove(child.pid);
        }
        detail
    }

    fn cannot_start(
        &mut self,
        job: JobId,
        plan: &Approved,
        detail: &str,
        outcomes: &mut Vec<Outcome>,
    ) {
        let refuse = |action| Outcome {
            target: Target::Job(job),
            action,
            result: OutcomeResult::Rejected {
                cause: RejectCause::StartFailed,
                detail: detail.to_owned(),
            },
        };
        outcomes.push(refuse(None));
        outcomes.extend(plan.for_job(job).map(|action| refuse(Some(action.clone()))));
        self.is_over_now(job);
        self.free_if_alone(job);
        if self.options.fail_fast {
            fails_run(self);
        }
    }

    fn has_begun(&mut self, child: Forked, outcomes: &mut Vec<Outcome>) {
        let Forked { job, pid, running, place, memory } = child;
        let target = Target::Job(job);
        let done = |action, n| Outcome { target, action, result: OutcomeResult::Done { n } };
        outcomes.push(done(None, pid));
        outcomes.extend(place.map(|(cpus, result)| match result {
            Ok(()) => done(Some(Action::Place(cpus)), 1),
            Err((why, detail)) => {
                let result = OutcomeResult::Rejected { cause: why, detail };
                Outcome { target, action: Some(Action::Place(cpus)), result }
            }
        }));
        outcomes.extend(memory.map(|policy| done(Some(Action::MemoryPolicy(policy)), 1)));
        self.first_process_of.insert(pid, job);
        self.family.adopt(job, pid, running.mask_by_birth());
        let slot = &mut self.slots[job.index()];
        slot.n_runs += 1;
        if let Ending::After(time) = slot.job.ending {
            self.agenda.add(running.started + time, Item::StopAfter(job, slot.n_runs));
        }
        slot.state = State::Running(Box::new(running));
    }
}
