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
use linux::start::{Batch, Failure, Stage};
use linux::{fault, procfs};
use program::{Ending, MemoryPolicy};
use sched::{Action, Deed, Outcome, OutcomeResult, Target, Why};

use crate::agenda::Item;
use crate::command::{Binding, plain};
use crate::ending::fails_run;
use crate::host::{LiveHost, Running, State, in_one_line};
use crate::place::{Refused, deed_of};

/// A child on its way to become its program.
struct Forked {
    job: JobId,
    pid: u32,
    running: Running,
    place: Option<(CpuSet, Result<(), Refused>)>,
    memory: Option<MemoryPolicy>,
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
        let mut forked = Vec::with_capacity(due.len());
        let mut batch = Batch::new();
        for job in due {
            let begun = match &mut batch {
                Ok(batch) => self.fork(job, plan, batch),
                Err(error) => Err(format!("no pipe: {}", plain(error))),
            };
            match begun {
                Ok(child) => forked.push(child),
                Err(detail) => self.cannot_start(job, plan, detail, outcomes),
            }
        }
        let failures = batch.and_then(Batch::finish).unwrap_or_default();
        for child in forked {
            match failures.iter().find(|failure| failure.pid == child.pid) {
                Some(failure) => {
                    let (job, detail) = (child.job, self.failure(failure, &child));
                    self.give_up(child);
                    self.cannot_start(job, plan, detail, outcomes);
                }
                None => self.has_begun(child, outcomes),
            }
        }
        were_due
    }

    fn fork(&mut self, job: JobId, plan: &Approved, batch: &mut Batch) -> Result<Forked, String> {
        let base = self.base_cpus(job)?;
        let mut place = None;
        let mut memory = None;
        for action in plan.for_job(job) {
            match action {
                Action::Place(cpus) => place = Some(cpus.clone()),
                Action::MemoryPolicy(policy) => memory = Some(policy.clone()),
                Action::Release => {}
            }
        }
        let name = self.slots[job.index()].job.name.clone();
        // The record comes first: without one the job runs where it would without us.
        let mut nr = None;
        let place = place.map(|cpus| {
            let announced = self.announce(&name, &base, &cpus);
            let result = announced.map(|announced| nr = Some(announced));
            (cpus, result)
        });
        let bound = place.as_ref().and_then(|(cpus, result)| result.is_ok().then(|| cpus.clone()));
        let slot = &self.slots[job.index()];
        let own_memory = slot.job.memory.clone();
        let of_nodes = slot.job.nodes.clone().map(MemoryPolicy::Bind);
        let binding = Binding {
            cpus: bound.clone().or_else(|| (base != self.own_cpus).then(|| (*base).clone())),
            memory: own_memory.or_else(|| memory.clone()).or(of_nodes),
        };
        let run = self.undo.as_ref().map_or("none", |log| log.run());
        let started = self.common.start(&slot.job, run, binding, 0 < slot.n_runs);
        let forked = started.and_then(|start| batch.fork(&start).map_err(|e| plain(&e)));
        let pid = match forked {
            Ok(pid) => pid,
            Err(error) => {
                nr.into_iter().for_each(|nr| self.confirm(nr));
                return Err(error);
            }
        };
        fault::point();
        let born_ticks = procfs::stat("/".as_ref(), pid).map_or(0, |stat| stat.born_ticks);
        if let (Some(nr), Ok(log)) = (nr, &mut self.undo) {
            // If this cannot be written the child is still found by its environment.
            let _ = log.name_child(nr, (pid, born_ticks, pid));
        }
        if let Some(keeper) = &mut self.keeper {
            keeper.add(pid);
        }
        let placed = bound.map(Arc::new);
        let masks = [Some(Arc::clone(&base)), placed.clone()].into_iter().flatten().collect();
        let started = self.wakes.now();
        let ends = self.watch_end(pid);
        let running = Running {
            pid,
            ends,
            started,
            base,
            placed,
            masks,
            hands_off: false,
            told: None,
            ended: None,
        };
        Ok(Forked { job, pid, running, place, memory })
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

    fn announce(&mut self, name: &str, old: &CpuSet, new: &CpuSet) -> Result<u64, Refused> {
        let log = self.undo.as_mut().map_err(|error| (Why::NoUndo, error.clone()))?;
        log.announce(name, old, new).map_err(|e| (Why::NoUndo, in_one_line(&e)))
    }

    /// A change is made, or given up.
    pub(crate) fn confirm(&mut self, nr: u64) {
        if let Ok(log) = &mut self.undo {
            // If this cannot be written both masks count as ours for a while longer.
            let _ = log.done(nr);
        }
    }

    fn failure(&self, failure: &Failure, child: &Forked) -> String {
        let job = &self.slots[child.job.index()].job;
        let said = plain(&failure.error);
        match failure.stage {
            Stage::Exec => match self.common.program(job) {
                Ok(program) => format!("cannot run {}: {said}", program.display()),
                Err(why) => why,
            },
            Stage::Dir => format!("cannot begin in {}: {said}", self.common.dir(job).display()),
            Stage::Cpus => format!("cannot be bound to its CPUs: {said}"),
            Stage::Memory => format!("cannot have its memory policy: {said}"),
            Stage::Group | Stage::Files | Stage::Limit | Stage::Tie | Stage::Nice => {
                format!("cannot be set up ({:?}): {said}", failure.stage)
            }
        }
    }

    fn give_up(&mut self, child: Forked) {
        if let Some(ends) = &child.running.ends {
            self.wakes.unwatch(ends);
        }
        if let Some(keeper) = &mut self.keeper {
            keeper.remove(child.pid);
        }
        let name = self.slots[child.job.index()].job.name.clone();
        if let Ok(log) = &mut self.undo {
            let _ = log.free(&name);
        }
    }

    fn cannot_start(
        &mut self,
        job: JobId,
        plan: &Approved,
        detail: String,
        outcomes: &mut Vec<Outcome>,
    ) {
        let refuse = |deed| Outcome {
            target: Target::Job(job),
            deed,
            result: OutcomeResult::Refused { why: Why::CannotStart, detail: detail.clone() },
        };
        outcomes.push(refuse(Deed::Start));
        outcomes.extend(plan.for_job(job).map(|action| refuse(deed_of(action))));
        self.is_over_now(job);
        if self.options.fail_fast {
            fails_run(self);
        }
    }

    fn has_begun(&mut self, child: Forked, outcomes: &mut Vec<Outcome>) {
        let Forked { job, pid, running, place, memory } = child;
        let target = Target::Job(job);
        let done = |deed, n| Outcome { target, deed, result: OutcomeResult::Done { n } };
        outcomes.push(done(Deed::Start, pid));
        outcomes.extend(place.map(|(cpus, result)| match result {
            Ok(()) => done(Deed::Place(cpus), 1),
            Err((why, detail)) => {
                let result = OutcomeResult::Refused { why, detail };
                Outcome { target, deed: Deed::Place(cpus), result }
            }
        }));
        outcomes.extend(memory.map(|policy| done(Deed::MemoryPolicy(policy), 1)));
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
