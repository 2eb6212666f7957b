//! Binding jobs that run.
//!
//! ```text
//!   find every thread ─► is it still as we know it? ─► record ─► bind ─► look again ─► confirm
//! ```
//!
//! A thread whose mask is not what we know it to have was bound by somebody else and is left alone. If
//! that is the first thread of a job, the whole job is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{CpuSet, JobId, TaskId};
use engine::Approved;
use linux::{affinity, fault, procfs};
use sched::{Action, Ask, HandsOff, JobEvent, Outcome, OutcomeResult, Target, Why};

use crate::command::plain;
use crate::host::{LiveHost, in_one_line};

/// How often a job is looked through again for threads that were born while it was being bound.
const PASSES_MAX: u32 = 8;

/// Why something is not done, in a word and in words.
pub(crate) type Refused = (Why, String);
/// A thread as the undo record names it: number, birth, process.
type Whose = (u32, u64, u32);

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
        for ask in plan.asks().iter().filter(|ask| !is_start(ask.target)) {
            let result = match (ask.target, &ask.action) {
                (Target::Job(job), Action::Place(cpus)) => self.place_job(job, cpus),
                (Target::Job(job), Action::Release) => Ok(self.release_job(job)),
                (Target::Task(task), Action::Place(cpus)) => self.place_task(task, Some(cpus)),
                (Target::Task(task), Action::Release) => self.place_task(task, None),
                (_, Action::MemoryPolicy(_)) => {
                    Err((Why::TooLate, "it runs already: its pages lie where they lie".to_owned()))
                }
                (target, Action::MovePages { from, to, limit }) => {
                    let begun = self.move_pages(target, (*from, *to, *limit));
                    outcomes.push(outcome(ask, begun.map(|()| OutcomeResult::Begun)));
                    continue;
                }
            };
            outcomes.push(outcome(ask, result.map(|n| OutcomeResult::Done { n })));
        }
    }

    fn place_job(&mut self, job: JobId, cpus: &CpuSet) -> Result<u32, Refused> {
        let running = self.running(job).ok_or_else(not_running)?;
        if running.hands_off {
            return Err((Why::HandsOff, "it is not ours to place any more".to_owned()));
        }
        let target = Arc::new(cpus.clone());
        running.placed = Some(Arc::clone(&target));
        running.remember(&target);
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
                thread.has(target);
            } else if thread.may_have(&mask, &masks, &own_cpus) {
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
        let nr = written.map_err(|error| (Why::NoUndo, in_one_line(&error)))?;
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
                    thread.has(target);
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
    pub(crate) fn hands_off(&mut self, job: JobId, why: HandsOff) -> Refused {
        if let Some(running) = self.running(job) {
            running.hands_off = true;
        }
        self.stop_moves_of(job);
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
        let own_cpus = Arc::clone(&self.own_cpus);
        let mut n_freed = 0;
        for _ in 0..PASSES_MAX {
            self.family.refresh(job, &base);
            let mut n_now = 0;
            for (_, thread) in self.family.threads_of(job).filter(|(_, t)| !t.is_foreign) {
                let Ok(mask) = affinity::get(thread.id.tid) else { continue };
                let is_ours = mask != *base && thread.may_have(&mask, &masks, &own_cpus);
                if is_ours && lives(thread.id) && affinity::set(thread.id.tid, &base).is_ok() {
                    n_now += 1;
                    fault::point();
                    thread.has(&base);
                }
            }
            n_freed += n_now;
            if n_now == 0 {
                break;
            }
        }
        // What an earlier run left behind may still have a mask of ours: then the record stays.
        let any_left = self.has_stragglers(job);
        let name = &self.slots[job.index()].job.name;
        if let Ok(log) = &mut self.undo
            && !any_left
        {
            let _ = log.free(name);
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
        if thread.is_foreign || !thread.may_have(&mask, &masks, &own_cpus) {
            thread.is_foreign = true;
            return Err((Why::HandsOff, format!("somebody else bound it to the CPUs {mask}")));
        }
        if mask == *target {
            return Ok(0);
        }
        let whose = (task.tid, task.born_ticks, process);
        let name = self.slots[job.index()].job.name.clone();
        if let Some(running) = self.running(job) {
            running.remember(&target); // Whoever this thread starts has it by birth.
        }
        self.record(&name, [&base, &mask, &target], vec![whose])?;
        self.bind_each(job, &target, None, &[whose])
    }
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
pub(crate) fn lives(id: TaskId) -> bool {
    let stat = procfs::stat("/".as_ref(), id.tid);
    stat.is_ok_and(|stat| stat.born_ticks == id.born_ticks && stat.state != 'Z')
}

fn outcome(ask: &Ask, result: Result<OutcomeResult, Refused>) -> Outcome {
    let refuse = |(why, detail)| OutcomeResult::Refused { why, detail };
    let result = result.unwrap_or_else(refuse);
    Outcome { target: ask.target, deed: (&ask.action).into(), result }
}

pub(crate) fn not_running() -> Refused {
    (Why::Ended, "it has ended".to_owned())
}
