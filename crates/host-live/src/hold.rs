//! Binding processes that run, whoever started them.
//!
//! ```text
//!   find every thread ─► is it still as we know it? ─► record ─► bind ─► look again ─► confirm
//! ```
//!
//! A job is held by its first process: what it had, what we gave it, and which masks its threads can
//! have from us. A thread whose mask is not what we know it to have was bound by somebody else and is
//! left alone. If that is the first thread of a job, the whole job is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{CpuSet, JobId, TaskId};
use linux::glance::Glance;
pub(crate) use linux::procfs::{is_alive, lives, may_live};
use linux::undo::{Held, Log, Seen};
use linux::{affinity, fault, procfs, system};
use sched::{JobEvent, RejectCause, UnmanagedCause};

use crate::command::plain;
use crate::host::in_one_line;
use crate::masks::is_same;
use linux::tasks::{TaskReader, Thread};

/// How often a job is looked through again for threads that were born while it was being bound.
const PASSES_MAX: u32 = 8;
/// More masks than this are not remembered of one job; the oldest go first.
const MASKS_MAX: usize = 16;

/// Why something is not done, in a word and in words.
pub(crate) type Refused = (RejectCause, String);
/// A thread as the undo record names it: number, birth, process.
pub(crate) type Whose = (u32, u64, u32);

/// A job that runs, as far as its CPUs are concerned.
#[derive(Debug)]
pub(crate) struct Hold {
    pub job: JobId,
    /// What the undo record calls it.
    pub name: String,
    /// Its first process, whose first thread decides about the whole job.
    pub pid: u32,
    /// The mask that it would have without us.
    pub base: Arc<CpuSet>,
    /// Where we put it.
    pub placed: Option<Arc<CpuSet>>,
    /// All masks that its tasks can have from us.
    pub masks: Vec<Arc<CpuSet>>,
    pub hands_off: bool,
    /// Some of its tasks were put elsewhere than the others.
    pub parts_placed: bool,
}

/// What is needed to bind.
pub(crate) struct Hands<'a> {
    pub family: &'a mut TaskReader,
    pub undo: &'a mut Result<Log, String>,
    pub own_cpus: Arc<CpuSet>,
    /// The CPUs among which masks are compared: ours, and where jobs are strangers theirs too.
    pub compared: Arc<CpuSet>,
    /// Changes in the undo record that still need a look at what was born meanwhile.
    pub unconfirmed: &'a mut Vec<u64>,
    /// What is to be told of jobs.
    pub told: &'a mut Vec<JobEvent>,
    /// Threads with times to keep (FIFO, RR, DEADLINE) are left alone: nobody asked us to run them.
    pub of_strangers: bool,
}

impl Hold {
    /// Whether its tasks ever had a mask from us.
    pub(crate) fn was_ever_placed(&self) -> bool {
        1 < self.masks.len()
    }

    /// What a process of this job has by birth.
    pub(crate) fn mask_by_birth(&self) -> &Arc<CpuSet> {
        self.placed.as_ref().unwrap_or(&self.base)
    }

    /// Tasks of the job can have this mask from us from now on.
    fn remember(&mut self, target: &Arc<CpuSet>) {
        self.masks.retain(|mask| mask != target);
        self.masks.push(Arc::clone(target));
        if MASKS_MAX < self.masks.len() {
            self.masks.remove(1); // The first is what the job had before us.
        }
    }
}

impl Hands<'_> {
    /// Binds a job and everything that belongs to it; tells how many threads that took.
    pub(crate) fn place(&mut self, hold: &mut Hold, cpus: &CpuSet) -> Result<u32, Refused> {
        if hold.hands_off {
            return Err((RejectCause::Unmanaged, "it is not ours to place any more".to_owned()));
        }
        let target = Arc::new(cpus.clone());
        hold.placed = Some(Arc::clone(&target));
        hold.remember(&target);
        let mut n_bound = 0;
        for _ in 0..PASSES_MAX {
            self.family.refresh(hold.job, &target);
            match self.bind_threads(hold, &target, true)? {
                0 => break,
                n => n_bound += n,
            }
        }
        let anybody = self.family.threads_of(hold.job).any(|(_, thread)| lives(thread.id));
        if anybody { Ok(n_bound) } else { Err(not_running()) }
    }

    /// Binds every thread of a job that is not there yet; tells how many that were. Where the first
    /// thread decides, what is wrong with it is wrong with the whole job.
    fn bind_threads(
        &mut self,
        hold: &mut Hold,
        target: &Arc<CpuSet>,
        first_decides: bool,
    ) -> Result<u32, Refused> {
        let first = first_decides.then_some(hold.pid);
        let mut wanted: BTreeMap<CpuSet, Vec<Whose>> = BTreeMap::new();
        let mut foreign = None;
        let ours = |thread: &Thread| !thread.is_foreign && !thread.is_refused;
        let of_strangers = self.of_strangers;
        for (process, thread) in self.family.threads_of(hold.job).filter(|(_, t)| ours(t)) {
            let Ok(mask) = affinity::get(thread.id.tid) else { continue };
            if of_strangers && has_times_to_keep(thread.id.tid) {
                continue;
            }
            if mask == **target {
                thread.has(target);
            } else if thread.may_have(&mask, &hold.masks, &self.compared) {
                let whose = (thread.id.tid, thread.id.start_time_ticks, process);
                wanted.entry(mask).or_default().push(whose);
            } else if !are_cpus_changing(&self.own_cpus) {
                thread.is_foreign = true;
                if Some(thread.id.tid) == first {
                    foreign = Some(mask);
                }
            }
        }
        if let Some(mask) = foreign {
            return Err(self.hands_off(hold, UnmanagedCause::AffinityChanged(mask)));
        }
        let mut n_bound = 0;
        for (now, tasks) in wanted {
            self.record(&hold.name, [&hold.base, &now, target], tasks.clone())?;
            n_bound += self.bind_each(hold, target, first, &tasks)?;
        }
        Ok(n_bound)
    }

    /// Writes down a change before it is made.
    pub(crate) fn record(
        &mut self,
        name: &str,
        masks: [&CpuSet; 3],
        tasks: Vec<Whose>,
    ) -> Result<(), Refused> {
        let log =
            self.undo.as_mut().map_err(|error| (RejectCause::UndoRecordFailed, error.clone()))?;
        let written = log.set(name, masks, tasks);
        let nr = written.map_err(|error| (RejectCause::UndoRecordFailed, in_one_line(&error)))?;
        self.unconfirmed.push(nr);
        Ok(())
    }

    fn bind_each(
        &mut self,
        hold: &mut Hold,
        target: &Arc<CpuSet>,
        first: Option<u32>,
        wanted: &[Whose],
    ) -> Result<u32, Refused> {
        let mut n_bound = 0;
        let mut refused = None;
        for &(tid, born_ticks, _) in wanted {
            let id = TaskId { tid, start_time_ticks: born_ticks };
            let Some((_, thread)) = self.family.thread(hold.job, id) else { continue };
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
                    thread.is_refused |= refusal.0 == RejectCause::NotPermitted;
                    if Some(tid) == first || refused.is_none() {
                        refused = Some((tid, refusal));
                    }
                }
            }
            fault::point();
        }
        match refused {
            Some((tid, (RejectCause::NotPermitted, _))) if Some(tid) == first => {
                Err(self.hands_off(hold, UnmanagedCause::NotPermitted))
            }
            Some((_, refusal)) if n_bound == 0 && refusal.0 != RejectCause::Exited => Err(refusal),
            _ => Ok(n_bound),
        }
    }

    /// Leaves a job alone from now on.
    fn hands_off(&mut self, hold: &mut Hold, why: UnmanagedCause) -> Refused {
        hold.hands_off = true;
        let refused = match &why {
            UnmanagedCause::AffinityChanged(mask) => {
                (RejectCause::Unmanaged, format!("somebody else bound it to the CPUs {mask}"))
            }
            UnmanagedCause::NotPermitted => {
                let text = "another user's process: binding it needs CAP_SYS_NICE".to_owned();
                (RejectCause::NotPermitted, text)
            }
        };
        self.told.push(JobEvent::Unmanaged(hold.job, why));
        refused
    }

    /// Binds what was born since the last look and has a mask that its job had before.
    pub(crate) fn check_newcomers(&mut self, hold: &mut Hold) {
        if hold.hands_off {
            return;
        }
        if let Some(target) = hold.placed.clone() {
            // A refusal here concerns a thread that will be asked for again with the next plan.
            let _ = self.bind_threads(hold, &target, false);
        }
    }

    /// Notices that somebody else bound a thread that we had bound: from then on it is left alone, and
    /// its job too if it is the first thread of that.
    pub(crate) fn verify(&mut self, hold: &mut Hold, id: TaskId) {
        if hold.placed.is_none() || hold.hands_off {
            return;
        }
        let Some((_, thread)) = self.family.thread(hold.job, id) else { return };
        let Ok(mask) = affinity::get(id.tid) else { return };
        if thread.is_foreign {
            return;
        }
        if is_same(&thread.mask, &mask, &self.compared) {
            thread.is_confirmed = true;
        } else if thread.may_have(&mask, &hold.masks, &self.compared) {
            self.check_newcomers(hold);
        } else if !are_cpus_changing(&self.own_cpus) {
            thread.is_foreign = true;
            if id.tid == hold.pid {
                self.hands_off(hold, UnmanagedCause::AffinityChanged(mask));
            }
        }
    }

    /// Gives a job back what it had before we placed it; tells how many threads that concerned, and
    /// whether any could not be given it: then the record is kept. The record forgets the job if
    /// nothing else of it can have a mask of ours.
    pub(crate) fn release(&mut self, hold: &mut Hold, forget: bool) -> (u32, bool) {
        let (was_placed, were_parts) =
            (hold.placed.take().is_some(), std::mem::take(&mut hold.parts_placed));
        if !was_placed && !were_parts {
            return (0, false);
        }
        let (mut n_freed, mut any_left) = (0, false);
        for _ in 0..PASSES_MAX {
            self.family.take_unreadable(); // What was not seen before may be seen now.
            self.family.refresh(hold.job, &hold.base);
            let n_now;
            (n_now, any_left) = self.release_threads(hold);
            any_left |= self.family.take_unreadable();
            n_freed += n_now;
            if n_now == 0 && !any_left {
                break;
            }
        }
        any_left |= self.release_lost(hold) || self.was_never_seen(hold);
        if let Ok(log) = &mut self.undo {
            match any_left {
                true => log.keep(),
                false if forget => drop(log.free(&hold.name)),
                false => {}
            }
        }
        (n_freed, any_left)
    }

    /// Once more, after everything was given back: a child that was being born while its parent was
    /// given back what it had has the mask before, and can be seen only now.
    pub(crate) fn release_late(&mut self, hold: &Hold) {
        if hold.was_ever_placed() {
            self.family.take_unreadable();
            self.family.refresh(hold.job, &hold.base);
            let (_, any_left) = self.release_threads(hold);
            let any_left = any_left | self.family.take_unreadable();
            if let Ok(log) = &mut self.undo
                && any_left
            {
                log.keep();
            }
        }
    }

    /// Whether a job's first process lives and nothing could be found out about it: only the record knows
    /// then that it was bound, and what it started.
    fn was_never_seen(&self, hold: &Hold) -> bool {
        let is_known = self.family.processes_of(hold.job).any(|(pid, _)| pid == hold.pid);
        let lives = || match procfs::stat("/".as_ref(), hold.pid) {
            Ok(stat) => stat.state != 'Z',
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        };
        !is_known && lives()
    }

    /// Threads that the record names and that we lost sight of, because they could not be read. Whoever
    /// was born to them meanwhile is found by `restore`: so the record is kept when there are any.
    fn release_lost(&mut self, hold: &Hold) -> bool {
        let Ok(log) = &self.undo else { return false };
        let known: BTreeSet<TaskId> =
            self.family.threads_of(hold.job).map(|(_, thread)| thread.id).collect();
        let of_job = |(_, held): &(TaskId, &Held)| held.job == hold.name;
        let recorded = log.records().tasks().filter(of_job).map(|(id, _)| id);
        let lost: Vec<TaskId> =
            recorded.filter(|id| !known.contains(id) && may_live(*id)).collect();
        let mut any_of_ours = false;
        for id in lost {
            let mask = affinity::get(id.tid);
            let seen = mask.map(|mask| log.records().judge(id, &hold.name, &mask, &self.compared));
            any_of_ours |= !matches!(seen, Ok(Seen::AsBefore | Seen::Foreign));
            if let Ok(Seen::Ours(before)) = seen {
                // If it fails the record that is kept tells of it.
                let _ = affinity::set(id.tid, &before);
            }
        }
        any_of_ours
    }

    /// Tells how many threads were given back what they had, and whether any could not be, although it
    /// lives and may have a mask of ours.
    fn release_threads(&mut self, hold: &Hold) -> (u32, bool) {
        let (mut n_freed, mut any_left) = (0, false);
        for (_, thread) in self.family.threads_of(hold.job) {
            let tid = thread.id.tid;
            let freed = affinity::get(tid).and_then(|mask| {
                let is_ours = match thread.is_foreign {
                    true => is_below_a_cpuset(hold, thread, &mask),
                    false => {
                        mask != *hold.base && thread.may_have(&mask, &hold.masks, &self.compared)
                    }
                };
                match is_ours && is_alive(thread.id)? {
                    true => affinity::set(tid, &hold.base).map(|()| true),
                    false => Ok(false),
                }
            });
            match freed {
                Ok(true) => {
                    // One below a cpuset keeps that mask, and is done all the same.
                    n_freed += u32::from(!thread.is_foreign);
                    fault::point();
                    thread.has(&hold.base);
                }
                Ok(false) => {}
                Err(_) => any_left |= may_live(thread.id),
            }
        }
        (n_freed, any_left)
    }

    /// Binds one thread, or gives it back what its job has.
    pub(crate) fn place_task(
        &mut self,
        hold: &mut Hold,
        task: TaskId,
        cpus: Option<&CpuSet>,
    ) -> Result<u32, Refused> {
        if hold.hands_off {
            return Err((
                RejectCause::Unmanaged,
                "its job is not ours to place any more".to_owned(),
            ));
        }
        let target = cpus.map_or_else(|| Arc::clone(hold.mask_by_birth()), |c| Arc::new(c.clone()));
        let (process, thread) = self.family.thread(hold.job, task).ok_or_else(not_running)?;
        let mask = affinity::get(task.tid).map_err(|_| not_running())?;
        if thread.is_foreign || !thread.may_have(&mask, &hold.masks, &self.compared) {
            thread.is_foreign = true;
            return Err((
                RejectCause::Unmanaged,
                format!("somebody else bound it to the CPUs {mask}"),
            ));
        }
        if mask == *target {
            return Ok(0);
        }
        let whose = (task.tid, task.start_time_ticks, process);
        if self.of_strangers && has_times_to_keep(task.tid) {
            return Err((RejectCause::Unmanaged, "it is a real-time thread".to_owned()));
        }
        hold.parts_placed = true;
        hold.remember(&target); // Whoever this thread starts has it by birth.
        self.record(&hold.name, [&hold.base, &mask, &target], vec![whose])?;
        self.bind_each(hold, &target, None, &[whose])
    }
}

/// Whether a thread is of a class whose times placing would break. One that cannot be asked may be.
fn has_times_to_keep(tid: u32) -> bool {
    system::scheduling_class(tid).map_or(true, Glance::is_real_time)
}

/// Changes have been made, and everything that was being born meanwhile has been looked at too: the
/// masks before them are no longer ours.
pub(crate) fn confirm(undo: &mut Result<Log, String>, unconfirmed: &mut Vec<u64>) {
    for nr in unconfirmed.drain(..) {
        if let Ok(log) = undo {
            // If this cannot be written both masks count as ours for a while longer.
            let _ = log.done(nr);
        }
        fault::point();
    }
}

/// Whether a thread that we had bound has a mask that its cpuset explains: it was moved there, and what
/// we asked for stands below, to come up again when it is moved back ([`linux::cpuset`]).
fn is_below_a_cpuset(hold: &Hold, thread: &Thread, mask: &CpuSet) -> bool {
    let was_bound = hold.masks.iter().skip(1).any(|ours| *ours == thread.mask);
    was_bound
        && thread.mask != hold.base
        && linux::cpuset::hides("/".as_ref(), thread.id.tid, mask, &hold.base)
}

/// Whether the CPUs that may be used are others than we know of: when one goes offline the kernel gives
/// other CPUs to whoever was bound to it, and that is nobody's wish. The next turn knows.
fn are_cpus_changing(own_cpus: &CpuSet) -> bool {
    affinity::get(0).is_ok_and(|now| now != *own_cpus)
}

fn refusal(error: &std::io::Error, target: &CpuSet) -> Refused {
    match error.raw_os_error() {
        Some(libc::ESRCH) => not_running(),
        Some(libc::EPERM) => (
            RejectCause::NotPermitted,
            "another user's process: binding it needs CAP_SYS_NICE".to_owned(),
        ),
        Some(libc::EINVAL) => {
            (RejectCause::CpusUnusable, format!("none of the CPUs {target} can be used by it now"))
        }
        _ => (RejectCause::NotPermitted, plain(error)),
    }
}

pub(crate) fn not_running() -> Refused {
    (RejectCause::Exited, "it has ended".to_owned())
}
