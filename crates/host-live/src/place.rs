//! Binding: jobs that begin, and jobs that run.
//!
//! ```text
//!   begin   record ─► fork ─► the child binds itself ─► exec      then: confirm
//!   run     find every thread ─► is it still as we know it? ─► record ─► bind ─► look again ─► confirm
//! ```
//!
//! A thread whose mask is not what we know it to have was bound by somebody else and is left alone. If
//! that is the first thread of a job, the whole job is.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{CpuSet, JobId, TaskId};
use engine::Approved;
use linux::start::{Batch, Stage};
use linux::{affinity, fault, procfs};
use program::{Ending, MemoryPolicy};
use sched::{Action, Deed, HandsOff, JobEvent, Outcome, OutcomeResult, Target, Why};

use crate::agenda::Item;
use crate::command::{Binding, plain};
use crate::ending::fails_run;
use crate::family::Kept;
use crate::host::{LiveHost, Running, State};

/// How often a job is looked through again for threads that were born while it was being bound.
const PASSES_MAX: u32 = 8;
/// More masks than this are not remembered of one job; the oldest go first.
const MASKS_MAX: usize = 16;

type Refused = (Why, String);
/// A thread as the undo record names it: number, birth, process.
type Whose = (u32, u64, u32);

/// A child on its way to become its program.
struct Forked {
    job: JobId,
    pid: u32,
    running: Running,
    place: Option<Result<CpuSet, Refused>>,
    memory: Option<MemoryPolicy>,
}

impl LiveHost {
    /// Starts everything that is due, each bound as the plan says.
    pub(crate) fn start_due(&mut self, plan: &Approved) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        let due = std::mem::take(&mut self.due);
        if due.is_empty() {
            return outcomes;
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
                Err(detail) => self.cannot_start(job, plan, detail, &mut outcomes),
            }
        }
        let failures = batch.and_then(Batch::finish).unwrap_or_default();
        for child in forked {
            match failures.iter().find(|failure| failure.pid == child.pid) {
                Some(failure) => {
                    let (job, detail) = (child.job, self.failure(failure, &child));
                    self.give_up(child);
                    self.cannot_start(job, plan, detail, &mut outcomes);
                }
                None => self.has_begun(child, &mut outcomes),
            }
        }
        outcomes
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
            nr = Some(self.announce(&name, &base, &cpus)?);
            Ok(cpus)
        });
        let bound = place.as_ref().and_then(|place| place.as_ref().ok()).cloned();
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
        log.announce(name, old, new).map_err(|e| (Why::NoUndo, crate::host::in_one_line(&e)))
    }

    /// A change is made, or given up.
    fn confirm(&mut self, nr: u64) {
        if let Ok(log) = &mut self.undo {
            // If this cannot be written both masks count as ours for a while longer.
            let _ = log.done(nr);
        }
    }

    /// A descriptor that wakes us at the end of a process. If there is none left, the process is asked
    /// now and then.
    pub(crate) fn watch_end(&mut self, pid: u32) -> Option<Kept> {
        let kept = self.family.descriptors.keep_end(pid).ok().flatten();
        let watched = kept.filter(|file| self.wakes.watch(file, pid).is_ok());
        if watched.is_none() {
            if !std::mem::replace(&mut self.said_blind, true) {
                self.degraded(
                    "no descriptor is left to hear of the end of some jobs: they are asked ten times \
                     a second; raise the hard limit (ulimit -Hn)",
                );
            }
            let now = self.wakes.now();
            self.agenda.add(now + crate::host::ASK_EVERY, Item::Ask);
        }
        watched
    }

    fn failure(&self, failure: &linux::start::Failure, child: &Forked) -> String {
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
        match place {
            Some(Ok(cpus)) => outcomes.push(done(Deed::Place(cpus), 1)),
            Some(Err((why, detail))) => outcomes.push(Outcome {
                target,
                deed: Deed::Place(CpuSet::new()),
                result: OutcomeResult::Refused { why, detail },
            }),
            None => {}
        }
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

    /// Carries out what a plan says about jobs and threads that run.
    pub(crate) fn change_running(&mut self, plan: &Approved, outcomes: &mut Vec<Outcome>) {
        for ask in plan.asks() {
            let has_outcome =
                |o: &Outcome| o.target == ask.target && o.deed == deed_of(&ask.action);
            if outcomes.iter().any(has_outcome) {
                continue; // It was part of a start.
            }
            let result = match (ask.target, &ask.action) {
                (Target::Job(job), Action::Place(cpus)) => self.place_job(job, cpus),
                (Target::Job(job), Action::Release) => Ok(self.release_job(job)),
                (Target::Task(task), Action::Place(cpus)) => self.place_task(task, Some(cpus)),
                (Target::Task(task), Action::Release) => self.place_task(task, None),
                (_, Action::MemoryPolicy(_)) => {
                    Err((Why::TooLate, "it runs already: its pages lie where they lie".to_owned()))
                }
            };
            let result = match result {
                Ok(n) => OutcomeResult::Done { n },
                Err((why, detail)) => OutcomeResult::Refused { why, detail },
            };
            outcomes.push(Outcome { target: ask.target, deed: deed_of(&ask.action), result });
        }
    }

    fn place_job(&mut self, job: JobId, cpus: &CpuSet) -> Result<u32, Refused> {
        let running = self.running(job).ok_or_else(not_running)?;
        if running.hands_off {
            return Err((Why::HandsOff, "it is not ours to place any more".to_owned()));
        }
        let target = Arc::new(cpus.clone());
        running.placed = Some(Arc::clone(&target));
        running.masks.retain(|mask| *mask != target);
        running.masks.push(Arc::clone(&target));
        if MASKS_MAX < running.masks.len() {
            running.masks.remove(1); // The first is what the job had before us.
        }
        let first = running.pid;
        let mut n_bound = 0;
        for _ in 0..PASSES_MAX {
            self.family.refresh(job, &target);
            match self.bind_threads(job, &target, Some(first))? {
                0 => break,
                n => n_bound += n,
            }
        }
        let anybody = self.family.threads_of(job).any(|(_, thread)| lives(thread.id));
        if anybody { Ok(n_bound) } else { Err(not_running()) }
    }
}

impl LiveHost {
    /// Binds every thread of a job that is not there yet; tells how many that were. `first` is the
    /// process whose first thread decides about the whole job.
    fn bind_threads(
        &mut self,
        job: JobId,
        target: &Arc<CpuSet>,
        first: Option<u32>,
    ) -> Result<u32, Refused> {
        let Some(running) = self.running(job) else { return Err(not_running()) };
        let (base, masks) = (Arc::clone(&running.base), running.masks.clone());
        let own_cpus = Arc::clone(&self.own_cpus);
        let mut wanted: BTreeMap<CpuSet, Vec<Whose>> = BTreeMap::new();
        let mut foreign = None;
        for (process, thread) in self.family.threads_of(job).filter(|(_, t)| !t.is_foreign) {
            let Ok(mask) = affinity::get(thread.id.tid) else { continue };
            if mask == **target {
                thread.mask = Arc::clone(target);
            } else if is_known(&mask, &thread.mask, &masks, &own_cpus) {
                let whose = (thread.id.tid, thread.id.born_ticks, process);
                wanted.entry(mask).or_default().push(whose);
            } else {
                thread.is_foreign = true;
                if Some(thread.id.tid) == first {
                    foreign = Some(mask);
                }
            }
        }
        if let Some(mask) = foreign {
            return Err(self.hands_off(job, HandsOff::AffinityChanged(mask)));
        }
        let name = self.slots[job.index()].job.name.clone();
        let mut n_bound = 0;
        for (now, tasks) in wanted {
            self.record(&name, [&base, &now, target], tasks.clone())?;
            n_bound += self.bind_each(job, target, first, &tasks)?;
        }
        Ok(n_bound)
    }

    /// Writes down a change before it is made.
    fn record(
        &mut self,
        name: &str,
        masks: [&CpuSet; 3],
        tasks: Vec<Whose>,
    ) -> Result<(), Refused> {
        let log = self.undo.as_mut().map_err(|error| (Why::NoUndo, error.clone()))?;
        let written = log.set(name, masks, tasks);
        let nr = written.map_err(|error| (Why::NoUndo, crate::host::in_one_line(&error)))?;
        self.unconfirmed.push(nr);
        Ok(())
    }

    /// Changes have been made, and everything that was being born meanwhile has been looked at too:
    /// the masks before them are no longer ours.
    pub(crate) fn confirm_changes(&mut self) {
        for nr in std::mem::take(&mut self.unconfirmed) {
            self.confirm(nr);
            fault::point();
        }
    }

    fn bind_each(
        &mut self,
        job: JobId,
        target: &Arc<CpuSet>,
        first: Option<u32>,
        wanted: &[Whose],
    ) -> Result<u32, Refused> {
        let mut n_bound = 0;
        let mut refused = None;
        for &(tid, born_ticks, _) in wanted {
            let id = TaskId { tid, born_ticks };
            let Some((_, thread)) = self.family.thread(job, id) else { continue };
            if !lives(id) {
                continue;
            }
            match affinity::set(tid, target) {
                Ok(()) => {
                    thread.mask = Arc::clone(target);
                    n_bound += 1;
                }
                Err(error) => {
                    let refusal = refusal(&error, target);
                    thread.is_foreign |= refusal.0 == Why::NotPermitted;
                    if Some(tid) == first || refused.is_none() {
                        refused = Some((tid, refusal));
                    }
                }
            }
            fault::point();
        }
        match refused {
            Some((tid, (Why::NotPermitted, _))) if Some(tid) == first => {
                Err(self.hands_off(job, HandsOff::NotPermitted))
            }
            Some((_, refusal)) if n_bound == 0 && refusal.0 != Why::Ended => Err(refusal),
            _ => Ok(n_bound),
        }
    }

    /// Leaves a job alone from now on.
    fn hands_off(&mut self, job: JobId, why: HandsOff) -> Refused {
        if let Some(running) = self.running(job) {
            running.hands_off = true;
        }
        let refused = match &why {
            HandsOff::AffinityChanged(mask) => {
                (Why::HandsOff, format!("somebody else bound it to the CPUs {mask}"))
            }
            HandsOff::NotPermitted => {
                let text = "another user's process now: binding it needs CAP_SYS_NICE".to_owned();
                (Why::NotPermitted, text)
            }
        };
        self.pending.jobs.push(JobEvent::HandsOff(job, why));
        refused
    }

    /// Processes and threads that were born since the last look have the mask of whoever started
    /// them. One that was forked while its job was being moved may have the mask before.
    pub(crate) fn check_newcomers(&mut self, job: JobId) {
        let Some(running) = self.running(job) else { return };
        if running.hands_off {
            return;
        }
        if let Some(target) = running.placed.clone() {
            // A refusal here concerns a thread that will be asked for again with the next plan.
            let _ = self.bind_threads(job, &target, None);
        }
    }

    /// Gives a job back what it had before we placed it; tells how many threads that concerned.
    pub(crate) fn release_job(&mut self, job: JobId) -> u32 {
        let Some(running) = self.running(job) else { return 0 };
        let (base, masks) = (Arc::clone(&running.base), running.masks.clone());
        if running.placed.take().is_none() {
            return 0;
        }
        let mut n_freed = 0;
        for _ in 0..PASSES_MAX {
            self.family.refresh(job, &base);
            let mut n_now = 0;
            for (_, thread) in self.family.threads_of(job).filter(|(_, t)| !t.is_foreign) {
                let Ok(mask) = affinity::get(thread.id.tid) else { continue };
                let is_ours =
                    mask != *base && (mask == *thread.mask || masks.iter().any(|m| **m == mask));
                if is_ours && lives(thread.id) && affinity::set(thread.id.tid, &base).is_ok() {
                    n_now += 1;
                    fault::point();
                }
                thread.mask = Arc::clone(&base);
            }
            n_freed += n_now;
            if n_now == 0 {
                break;
            }
        }
        let name = self.slots[job.index()].job.name.clone();
        if let Ok(log) = &mut self.undo {
            let _ = log.free(&name);
        }
        n_freed
    }

    /// Binds one thread, or gives it back what its job has.
    fn place_task(&mut self, task: TaskId, cpus: Option<&CpuSet>) -> Result<u32, Refused> {
        let job = self.family.job_of_task(task).ok_or_else(not_running)?;
        let running = self.running(job).ok_or_else(not_running)?;
        if running.hands_off {
            return Err((Why::HandsOff, "its job is not ours to place any more".to_owned()));
        }
        let (base, masks) = (Arc::clone(&running.base), running.masks.clone());
        let target =
            cpus.map_or_else(|| Arc::clone(running.mask_by_birth()), |c| Arc::new(c.clone()));
        let own_cpus = Arc::clone(&self.own_cpus);
        let (process, thread) = self.family.thread(job, task).ok_or_else(not_running)?;
        let mask = affinity::get(task.tid).map_err(|_| not_running())?;
        if thread.is_foreign || !is_known(&mask, &thread.mask, &masks, &own_cpus) {
            thread.is_foreign = true;
            return Err((Why::HandsOff, format!("somebody else bound it to the CPUs {mask}")));
        }
        if mask == *target {
            return Ok(0);
        }
        let whose = (task.tid, task.born_ticks, process);
        let name = self.slots[job.index()].job.name.clone();
        self.record(&name, [&base, &mask, &target], vec![whose])?;
        self.bind_each(job, &target, None, &[whose])
    }
}

/// Whether a mask is one that we know a thread to have. Masks are compared among the CPUs that can be
/// used now; when none of a mask can, the kernel has replaced it, and nobody else has set anything.
fn is_known(mask: &CpuSet, known: &CpuSet, of_job: &[Arc<CpuSet>], usable: &CpuSet) -> bool {
    let same = |ours: &CpuSet| {
        let among_usable = ours.and(usable);
        ours == mask || among_usable == mask.and(usable) || among_usable.is_empty()
    };
    same(known) || of_job.iter().any(|ours| same(ours))
}

fn refusal(error: &std::io::Error, target: &CpuSet) -> Refused {
    match error.raw_os_error() {
        Some(libc::ESRCH) => not_running(),
        Some(libc::EPERM) => {
            (Why::NotPermitted, "another user's process: binding it needs CAP_SYS_NICE".to_owned())
        }
        Some(libc::EINVAL) => {
            (Why::CpusUnusable, format!("none of the CPUs {target} can be used by it now"))
        }
        _ => (Why::NotPermitted, plain(error)),
    }
}

/// Whether a thread is still the one that it was, and has not ended: numbers are used again.
fn lives(id: TaskId) -> bool {
    let stat = procfs::stat("/".as_ref(), id.tid);
    stat.is_ok_and(|stat| stat.born_ticks == id.born_ticks && stat.state != 'Z')
}

fn not_running() -> Refused {
    (Why::Ended, "it has ended".to_owned())
}

fn deed_of(action: &Action) -> Deed {
    match action {
        Action::Place(cpus) => Deed::Place(cpus.clone()),
        Action::MemoryPolicy(policy) => Deed::MemoryPolicy(policy.clone()),
        Action::Release => Deed::Release,
    }
}
