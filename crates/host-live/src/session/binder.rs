//! Sets the CPU affinity of running processes, for both job sources.
//!
//! ```text
//!   list threads ─► compare masks ─► undo record ─► sched_setaffinity ─► list again ─► confirm
//! ```
//!
//! If the mask of a thread is neither assigned nor inherited, another program set it, and the thread becomes unmanaged.
//! If the thread is the main thread of a job, the job becomes unmanaged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{CpuSet, TaskId};
use linux::affinity::is_same;
use linux::proc_stat::ProcStat;
use linux::procfs::{is_known_running, is_running, may_be_running};
use linux::tasks::{TaskReader, Thread};
use linux::undo::MaskOrigin;
use linux::{affinity, fault, procfs, system};
use sched::{CauseAndDetail, JobEvent, RejectCause, UnmanagedCause};

use super::affinity::{AffinityState, exited};
use super::undo_record::{TaskEntry, UndoRecord};
use super::{JobSource, UsableCpus};
use crate::errors::kernel_message;

/// Maximum number of passes over the threads of a job. A pass is repeated because threads may start during a pass.
const PASSES_MAX: u32 = 8;

/// Parts of the session that the binder uses.
pub(crate) struct Binder<'a> {
    pub tasks: &'a mut TaskReader,
    pub undo: &'a mut UndoRecord,
    pub cpus: UsableCpus,
    /// Events of jobs that the binder reports.
    pub events: &'a mut Vec<JobEvent>,
    pub source: JobSource,
}

impl Binder<'_> {
    /// Binds all processes and threads of a job. Returns the number of threads that changed.
    pub(crate) fn place(
        &mut self,
        state: &mut AffinityState,
        cpus: &CpuSet,
    ) -> Result<u32, CauseAndDetail> {
        if state.is_unmanaged {
            let text = "its affinity is no longer managed by evenkeel".to_owned();
            return Err((RejectCause::Unmanaged, text));
        }
        let target = Arc::new(cpus.clone());
        state.placed = Some(Arc::clone(&target));
        state.add_assigned_mask(&target);
        let mut n_bound = 0;
        for _ in 0..PASSES_MAX {
            self.tasks.refresh(state.job, &target);
            match self.bind_threads(state, &target, true)? {
                0 => break,
                n => n_bound += n,
            }
        }
        let is_running =
            self.tasks.threads_of(state.job).any(|(_, thread)| is_known_running(thread.id));
        if is_running { Ok(n_bound) } else { Err(exited()) }
    }

    /// Binds one thread. If `cpus` is `None`, restores the mask of its job.
    pub(crate) fn place_task(
        &mut self,
        state: &mut AffinityState,
        task: TaskId,
        cpus: Option<&CpuSet>,
    ) -> Result<u32, CauseAndDetail> {
        let unmanaged = |text: String| Err((RejectCause::Unmanaged, text));
        if state.is_unmanaged {
            return unmanaged(
                "the affinity of its job is no longer managed by evenkeel".to_owned(),
            );
        }
        let target =
            cpus.map_or_else(|| Arc::clone(state.inherited_mask()), |c| Arc::new(c.clone()));
        let (process, thread) = self.tasks.thread(state.job, task).ok_or_else(exited)?;
        let mask = affinity::get(task.tid).map_err(|_| exited())?;
        if thread.is_foreign || !thread.may_have(&mask, &state.masks, &self.cpus.compared) {
            thread.is_foreign = true;
            return unmanaged(format!("bound to the CPUs {mask}, not by evenkeel"));
        }
        if mask == *target {
            return Ok(0);
        }
        if self.source == JobSource::Attached && is_real_time(task.tid) {
            return unmanaged("it is a real-time thread".to_owned());
        }
        let entry = (task.tid, task.start_time_ticks, process);
        state.has_placed_threads = true;
        state.add_assigned_mask(&target); // Threads started by this thread inherit the mask.
        self.undo.set(&state.name, [&state.base, &mask, &target], vec![entry])?;
        self.bind_each(state, (&mask, &target), None, &[entry])
    }

    /// Binds every thread of a job with another mask than `target`. Returns the number of bound threads. If
    /// `first_decides` is set, an error of the main thread is an error of the job.
    fn bind_threads(
        &mut self,
        state: &mut AffinityState,
        target: &Arc<CpuSet>,
        first_decides: bool,
    ) -> Result<u32, CauseAndDetail> {
        let (first, source) = (first_decides.then_some(state.pid), self.source);
        let mut to_bind: BTreeMap<CpuSet, Vec<TaskEntry>> = BTreeMap::new();
        let mut foreign = None;
        let is_managed = |thread: &Thread| !thread.is_foreign && !thread.is_rejected;
        for (process, thread) in self.tasks.threads_of(state.job).filter(|(_, t)| is_managed(t)) {
            let Ok(mask) = affinity::get(thread.id.tid) else { continue };
            if source == JobSource::Attached && is_real_time(thread.id.tid) {
                continue;
            }
            if mask == **target {
                thread.record_mask(target);
            } else if thread.may_have(&mask, &state.masks, &self.cpus.compared) {
                let entry = (thread.id.tid, thread.id.start_time_ticks, process);
                to_bind.entry(mask).or_default().push(entry);
            } else if !are_cpus_changing(&self.cpus.own) {
                thread.is_foreign = true;
                if Some(thread.id.tid) == first {
                    foreign = Some(mask);
                }
            }
        }
        if let Some(mask) = foreign {
            return Err(self.stop_managing(state, UnmanagedCause::AffinityChanged(mask)));
        }
        let mut n_bound = 0;
        for (now, tasks) in to_bind {
            self.undo.set(&state.name, [&state.base, &now, target], tasks.clone())?;
            n_bound += self.bind_each(state, (&now, target), first, &tasks)?;
        }
        Ok(n_bound)
    }

    /// Changes the mask of threads from `now` to `target`. A thread that keeps its mask is recorded with this mask.
    fn bind_each(
        &mut self,
        state: &mut AffinityState,
        (now, target): (&CpuSet, &Arc<CpuSet>),
        first: Option<u32>,
        tasks: &[TaskEntry],
    ) -> Result<u32, CauseAndDetail> {
        let mut n_bound = 0;
        let mut rejected = None;
        let mut unchanged = Vec::new();
        for &task in tasks {
            let (tid, start_time_ticks, _) = task;
            let id = TaskId { tid, start_time_ticks };
            let Some((_, thread)) = self.tasks.thread(state.job, id) else { continue };
            if !is_known_running(id) {
                continue;
            }
            match affinity::set(tid, target) {
                Ok(()) => {
                    thread.record_mask(target);
                    n_bound += 1;
                }
                Err(error) => {
                    unchanged.push(task);
                    let rejection = rejection(&error, target);
                    thread.is_rejected |= rejection.0 == RejectCause::NotPermitted;
                    if Some(tid) == first || rejected.is_none() {
                        rejected = Some((tid, rejection));
                    }
                }
            }
            fault::point();
        }
        // A thread with its original mask has nothing to restore.
        if !unchanged.is_empty() && *now != *state.base {
            self.undo.set(&state.name, [&state.base, now, now], unchanged)?;
        }
        match rejected {
            Some((tid, (RejectCause::NotPermitted, _))) if Some(tid) == first => {
                Err(self.stop_managing(state, UnmanagedCause::NotPermitted))
            }
            Some((_, rejection)) if n_bound == 0 && rejection.0 != RejectCause::Exited => {
                Err(rejection)
            }
            _ => Ok(n_bound),
        }
    }

    /// Marks a job as unmanaged and reports the event. Returns the rejection of the request.
    fn stop_managing(
        &mut self,
        state: &mut AffinityState,
        cause: UnmanagedCause,
    ) -> CauseAndDetail {
        state.is_unmanaged = true;
        let rejected = match &cause {
            UnmanagedCause::AffinityChanged(mask) => {
                (RejectCause::Unmanaged, format!("bound to the CPUs {mask}, not by evenkeel"))
            }
            UnmanagedCause::NotPermitted => (RejectCause::NotPermitted, NOT_PERMITTED.to_owned()),
        };
        self.events.push(JobEvent::Unmanaged(state.job, cause));
        rejected
    }

    /// Binds new threads that inherited an earlier mask of their job.
    pub(crate) fn bind_new_threads(&mut self, state: &mut AffinityState) {
        if state.is_unmanaged {
            return;
        }
        if let Some(target) = state.placed.clone() {
            // A rejection concerns a single thread. The next plan may repeat the request.
            let _ = self.bind_threads(state, &target, false);
        }
    }

    /// Compares the mask of a thread with its last recorded mask. If another program changed the mask, the thread
    /// becomes unmanaged. If the thread is the main thread of the job, the job becomes unmanaged.
    pub(crate) fn verify(&mut self, state: &mut AffinityState, id: TaskId) {
        if state.placed.is_none() || state.is_unmanaged {
            return;
        }
        let Some((_, thread)) = self.tasks.thread(state.job, id) else { return };
        let Ok(mask) = affinity::get(id.tid) else { return };
        if thread.is_foreign {
            return;
        }
        if is_same(&thread.mask, &mask, &self.cpus.compared) {
            thread.is_confirmed = true;
        } else if thread.may_have(&mask, &state.masks, &self.cpus.compared) {
            self.bind_new_threads(state);
        } else if !are_cpus_changing(&self.cpus.own) {
            thread.is_foreign = true;
            if id.tid == state.pid {
                self.stop_managing(state, UnmanagedCause::AffinityChanged(mask));
            }
        }
    }

    /// Restores the mask that a job had before it was placed. Returns the number of changed threads, and whether a
    /// thread could not be restored. If a thread could not be restored, the undo record is kept. If all threads were
    /// restored and `removes_job` is set, the job is removed from the record. `is_tracked` returns whether the caller
    /// restores a recorded process that the task reader does not read.
    pub(crate) fn release(
        &mut self,
        state: &mut AffinityState,
        removes_job: bool,
        is_tracked: impl Fn(u32) -> bool,
    ) -> (u32, bool) {
        let was_placed = state.placed.take().is_some();
        let had_placed_threads = std::mem::take(&mut state.has_placed_threads);
        if !was_placed && !had_placed_threads {
            return (0, false);
        }
        let (mut n_restored, mut any_left) = (0, false);
        for _ in 0..PASSES_MAX {
            self.tasks.take_unreadable(); // Clears earlier read errors: a read may succeed now.
            self.tasks.refresh(state.job, &state.base);
            let n_now;
            (n_now, any_left) = self.release_threads(state);
            any_left |= self.tasks.take_unreadable();
            n_restored += n_now;
            if n_now == 0 && !any_left {
                break;
            }
        }
        any_left |= self.release_lost(state, is_tracked) || self.was_never_read(state);
        match any_left {
            true => self.undo.keep(),
            false if removes_job => self.undo.free(&state.name),
            false => {}
        }
        (n_restored, any_left)
    }

    /// Restores the threads of a job again. If a fork was in progress during the first restoration, the child
    /// inherits an assigned mask, and the kernel lists the child only afterwards.
    pub(crate) fn release_late_children(&mut self, state: &AffinityState) {
        if state.was_ever_placed() {
            self.tasks.take_unreadable();
            self.tasks.refresh(state.job, &state.base);
            let (_, any_left) = self.release_threads(state);
            if any_left | self.tasks.take_unreadable() {
                self.undo.keep();
            }
        }
    }

    /// Returns whether the main process of a job is running but was never readable. In this state only the undo record
    /// contains the mask of the process, and its children are unknown.
    fn was_never_read(&self, state: &AffinityState) -> bool {
        let is_known = self.tasks.processes_of(state.job).any(|(pid, _)| pid == state.pid);
        let is_running = || match procfs::stat("/".as_ref(), state.pid) {
            Ok(stat) => !stat.has_exited(),
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        };
        !is_known && is_running()
    }

    /// Restores threads that are in the undo record but unknown to the task reader and to the caller, because they
    /// could not be read. Returns whether such a thread has or may have an assigned mask. The record is then kept, so
    /// that `restore` finds the thread and its children.
    fn release_lost(&mut self, state: &AffinityState, is_tracked: impl Fn(u32) -> bool) -> bool {
        let threads = self.tasks.threads_of(state.job);
        let known: BTreeSet<TaskId> = threads.map(|(_, thread)| thread.id).collect();
        let Some(records) = self.undo.records() else { return false };
        let recorded = records.tasks_of(&state.name);
        let lost =
            recorded.filter(|(id, change)| !known.contains(id) && !is_tracked(change.process));
        let mut any_assigned = false;
        for id in lost.map(|(id, _)| id).filter(|id| may_be_running(*id)) {
            let mask = affinity::get(id.tid);
            if mask.is_err() && !may_be_running(id) {
                continue; // The thread has exited.
            }
            let judge = |mask| records.classify_mask(id, &state.name, &mask, &self.cpus.compared);
            let seen = mask.map(judge);
            any_assigned |= !matches!(seen, Ok(MaskOrigin::Original | MaskOrigin::OtherProgram));
            if let Ok(MaskOrigin::Evenkeel(before)) = seen {
                // If the call fails, the record is kept.
                let _ = affinity::set(id.tid, &before);
            }
        }
        any_assigned
    }

    /// Restores the threads of a job. Returns the number of restored threads, and whether a running thread that may
    /// have an assigned mask could not be restored.
    fn release_threads(&mut self, state: &AffinityState) -> (u32, bool) {
        let (mut n_restored, mut any_left) = (0, false);
        for (_, thread) in self.tasks.threads_of(state.job) {
            let tid = thread.id.tid;
            let restored = affinity::get(tid).and_then(|mask| {
                let is_assigned = match thread.is_foreign {
                    true => is_hidden_by_cpuset(state, thread, &mask),
                    false => {
                        mask != *state.base
                            && thread.may_have(&mask, &state.masks, &self.cpus.compared)
                    }
                };
                match is_assigned && is_running(thread.id)? {
                    true => affinity::set(tid, &state.base).map(|()| true),
                    false => Ok(false),
                }
            });
            match restored {
                Ok(true) => {
                    // The visible mask of a thread in a smaller cpuset does not change, so the thread is not counted.
                    n_restored += u32::from(!thread.is_foreign);
                    fault::point();
                    thread.record_mask(&state.base);
                }
                Ok(false) => {}
                Err(_) => any_left |= may_be_running(thread.id),
            }
        }
        (n_restored, any_left)
    }
}

const NOT_PERMITTED: &str = "another user's process: binding it needs CAP_SYS_NICE";

/// Returns whether a thread has a real-time or deadline class. If the class cannot be read, the thread counts as
/// real-time.
fn is_real_time(tid: u32) -> bool {
    system::scheduling_class(tid).map_or(true, ProcStat::is_real_time)
}

/// Returns whether the visible mask of a bound thread results from its cpuset. The kernel stores the requested mask and
/// applies it when the thread returns to a larger cpuset ([`linux::cpuset`]).
fn is_hidden_by_cpuset(state: &AffinityState, thread: &Thread, mask: &CpuSet) -> bool {
    state.assigned_masks().any(|assigned| *assigned == thread.mask)
        && thread.mask != state.base
        && linux::cpuset::hides_requested_mask("/".as_ref(), thread.id.tid, mask, &state.base)
}

/// Returns whether the usable CPUs have changed since the last read. When a CPU goes offline, the kernel replaces the
/// mask of every thread that was bound only to this CPU.
fn are_cpus_changing(own_cpus: &CpuSet) -> bool {
    affinity::get(0).is_ok_and(|now| now != *own_cpus)
}

fn rejection(error: &std::io::Error, target: &CpuSet) -> CauseAndDetail {
    match error.raw_os_error() {
        Some(libc::ESRCH) => exited(),
        Some(libc::EPERM) => (RejectCause::NotPermitted, NOT_PERMITTED.to_owned()),
        Some(libc::EINVAL) => {
            (RejectCause::CpusUnusable, format!("it can use none of the CPUs {target} now"))
        }
        _ => (RejectCause::NotPermitted, kernel_message(error)),
    }
}
