//! Masks that children inherit from a placed process.
//!
//! ```text
//!   placed ──fork──► child with the same mask      recorded, not changed
//!      │               └──fork──► its descendants too
//!      ▼
//!   released ─► children and descendants with an assigned mask are restored, repeatedly for at least one second
//! ```
//!
//! This module records discovered children. Other descendants are searched when their ancestor is released, and
//! then in every interval for at least one second: a fork in progress at the release is not visible yet, and the
//! new child inherits the assigned mask. On a busy machine a fork can take longer than an interval.
//!
//! A process that started before the first placement of its ancestor has no assigned mask. A mask that evenkeel did not
//! assign was set by another program. A process with an assigned mask whose parent has another mask (its creator used
//! CLONE_PARENT or has exited) may have it from either: it is named at the end of the watch, and not changed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use base::{CpuSet, JobId, Nanos, TaskId};
use linux::proc_stat::ProcStat;
use linux::procfs::may_be_running;
use linux::undo::{Entry, RestoreAction};
use linux::{affinity, fork_latency, procfs};

use super::jobs::{AttachedJob, AttachedJobs};
use crate::session::{JobAffinities, Session, restore_threads, task_id};

/// Minimum time for which descendants are searched after a release.
const LATE_CHILDREN_TIME: Nanos = Nanos::from_secs(1);
const DESCENDANTS_MAX: usize = 1 << 16;

/// A process that is not a job and inherited an assigned mask.
#[derive(Clone, Debug)]
pub(super) struct InheritedAffinity {
    /// The job of the ancestor.
    pub job: JobId,
    pub start_time_ticks: u64,
    pub mask: Arc<CpuSet>,
}

/// The masks that evenkeel set and that descendants of a released process may have.
#[derive(Clone, Debug)]
struct AncestorMasks {
    /// Name of the job in the undo record.
    name: String,
    process: TaskId,
    base: Arc<CpuSet>,
    masks: Vec<Arc<CpuSet>>,
    since_ticks: u64,
}

/// All processes with inherited masks.
#[derive(Debug, Default)]
pub(super) struct InheritedMasks {
    processes: BTreeMap<u32, InheritedAffinity>,
    /// Released processes, each with the time at which the search for descendants ends.
    released: Vec<(Nanos, AncestorMasks)>,
    /// Every mask that a released process had, with the last such process.
    assigned: BTreeMap<CpuSet, LastWithMask>,
}

/// The last released process that had a mask.
#[derive(Clone, Debug)]
struct LastWithMask {
    name: String,
    base: Arc<CpuSet>,
    /// Time of the first placement with this mask, in clock ticks since boot.
    since_ticks: u64,
    /// Process group and name of all processes that had the mask.
    had_mask: BTreeSet<(u32, String)>,
}

impl AncestorMasks {
    /// Returns the masks of a job, or `None` if the job was never placed.
    fn of_job(jobs: &AttachedJobs, job: JobId) -> Option<Self> {
        let attached = jobs.get(job)?;
        let state = &attached.affinity;
        Some(AncestorMasks {
            name: state.name.clone(),
            process: task_id(state.pid, attached.start_time_ticks),
            base: Arc::clone(&state.base),
            masks: state.assigned_masks().cloned().collect(),
            since_ticks: attached.placed_ticks?,
        })
    }

    fn is_assigned(&self, mask: &CpuSet) -> bool {
        *mask != *self.base && self.masks.iter().any(|assigned| **assigned == *mask)
    }

    /// Restores all threads of a process with an assigned mask. Returns whether no running thread has such a mask.
    fn release_process(&self, pid: u32) -> bool {
        restore_threads(pid, |tid| {
            Ok(self.is_assigned(&affinity::get(tid)?).then(|| (*self.base).clone()))
        })
    }

    /// Records the ancestor again, because a descendant could not be restored, and the job may have been removed from
    /// the record. `restore` then finds the descendants of the ancestor.
    fn keep_record(&self, session: &mut Session) {
        let TaskId { tid, start_time_ticks } = self.process;
        if let Some(mask) = self.masks.last() {
            let before = self.masks.first().unwrap_or(mask);
            // If the line cannot be written, the record stays without the descendants.
            let _ = session.undo.set(
                &self.name,
                [&self.base, before, mask],
                vec![(tid, start_time_ticks, tid)],
            );
        }
        session.undo.keep();
    }

    /// Restores undiscovered descendants, except jobs. Returns whether a descendant could not be restored.
    fn release_descendants(&self, session: &Session) -> bool {
        if !may_be_running(self.process) {
            return false; // The process has exited; its children have been reparented.
        }
        let mut any_left = false;
        let mut parents = vec![self.process.tid];
        let mut n_children = 0;
        while let Some(parent) = parents.pop().filter(|_| n_children < DESCENDANTS_MAX) {
            let children = procfs::all_children("/".as_ref(), parent);
            any_left |= children.as_ref().is_err_and(is_not_exit);
            for child in children.unwrap_or_default() {
                n_children += 1;
                let stat = procfs::stat("/".as_ref(), child);
                any_left |= stat.as_ref().is_err_and(is_not_exit);
                let is_younger = stat.is_ok_and(|stat| self.since_ticks <= stat.start_time_ticks);
                if !is_younger || session.tasks.job_of(child).is_some() {
                    continue;
                }
                any_left |= !self.release_process(child);
                parents.push(child);
            }
        }
        any_left
    }
}

fn is_not_exit(error: &io::Error) -> bool {
    error.kind() != io::ErrorKind::NotFound
}

impl InheritedMasks {
    pub(super) fn len(&self) -> usize {
        self.processes.len()
    }

    pub(super) fn get(&self, pid: u32) -> Option<&InheritedAffinity> {
        self.processes.get(&pid)
    }

    pub(super) fn remove(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }

    /// Returns the released processes with a pending search for descendants.
    pub(super) fn late_parents(&self) -> impl Iterator<Item = u32> {
        self.released.iter().map(|(_, ancestor)| ancestor.process.tid)
    }

    /// Restores the affinity of a job and of its descendants. Returns the number of threads of the
    /// job that changed.
    pub(super) fn release(
        &mut self,
        session: &mut Session,
        jobs: &mut AttachedJobs,
        job: JobId,
    ) -> u32 {
        // The job is restored first, so that its next children inherit no assigned mask.
        let Some(state) = jobs.affinity_mut(job) else { return 0 };
        let (n_restored, any_left) =
            session.binder().release(state, false, |pid| self.processes.contains_key(&pid));
        let any_left = self.release_descendants(session, jobs, job) || any_left;
        if let (false, Some(state)) = (any_left, jobs.affinity(job)) {
            // If the line cannot be written, `restore` finds that all masks are restored.
            session.undo.free(&state.name);
        }
        n_restored
    }

    /// Restores the descendants of a job. Returns whether a descendant could not be restored; the record is then kept.
    fn release_descendants(
        &mut self,
        session: &mut Session,
        jobs: &AttachedJobs,
        job: JobId,
    ) -> bool {
        let Some(ancestor) = AncestorMasks::of_job(jobs, job) else { return false };
        if let Some(attached) = jobs.get(job) {
            self.remember(&ancestor, attached);
        }
        let is_of_job = |(_, it): &(&u32, &InheritedAffinity)| it.job == job;
        let children = self.processes.iter().filter(is_of_job);
        let children: Vec<(u32, InheritedAffinity)> =
            children.map(|(&pid, it)| (pid, it.clone())).collect();
        let mut any_left = ancestor.release_descendants(session);
        let parents = children.iter().map(|(pid, _)| *pid).chain([ancestor.process.tid]);
        let longest = Nanos::from(fork_latency::max_fork_latency("/".as_ref(), parents));
        let until = session.now() + LATE_CHILDREN_TIME.max(longest);
        for (pid, InheritedAffinity { start_time_ticks, mask, .. }) in children {
            self.processes.remove(&pid);
            let process = task_id(pid, start_time_ticks);
            let mut masks = AncestorMasks { process, ..ancestor.clone() };
            masks.masks.push(mask);
            if may_be_running(process) {
                any_left |= !masks.release_process(pid) && may_be_running(process);
                any_left |= masks.release_descendants(session);
                self.released.push((until, masks));
            }
        }
        self.released.push((until, ancestor));
        if any_left {
            session.undo.keep();
        }
        any_left
    }

    fn remember(&mut self, ancestor: &AncestorMasks, attached: &AttachedJob) {
        for mask in ancestor.masks.iter().filter(|mask| ancestor.is_assigned(mask)) {
            let last = self.assigned.entry((**mask).clone()).or_insert_with(|| LastWithMask {
                name: String::new(),
                base: Arc::clone(&ancestor.base),
                since_ticks: ancestor.since_ticks,
                had_mask: BTreeSet::new(),
            });
            last.name.clone_from(&ancestor.name);
            last.base = Arc::clone(&ancestor.base);
            last.since_ticks = last.since_ticks.min(ancestor.since_ticks);
            last.had_mask.insert((attached.group, attached.comm.clone()));
        }
    }

    /// Returns the processes that may have inherited the mask of a released process and are not its known descendants:
    /// they are younger than the first placement with the mask and in the process group of such a process, their parent
    /// has another mask, and the parent is not in the group or they have the name of such a process (CLONE_PARENT).
    pub(super) fn with_unknown_parent(&self) -> Vec<Entry> {
        if self.assigned.is_empty() {
            return Vec::new();
        }
        let all = procfs::running_processes("/".as_ref(), |_, _| ());
        let entry = |(&pid, stat): (&u32, &ProcStat)| {
            let mask = affinity::get(pid).ok()?;
            let last = self.assigned.get(&mask)?;
            let is_younger = last.since_ticks <= stat.start_time_ticks;
            let mut of_group = last.had_mask.iter().filter(|(group, _)| *group == stat.group);
            let is_in_group = of_group.clone().next().is_some();
            let parent = all.get(&stat.parent);
            let is_orphan = parent.is_none_or(|parent| parent.group != stat.group);
            let comm = stat.comm_text();
            let may_be_clone = of_group.any(|(_, name)| *name == comm);
            let has_parent_mask = affinity::get(stat.parent).is_ok_and(|parent| parent == mask);
            let is_unknown = is_younger && is_in_group && !has_parent_mask;
            (is_unknown && (is_orphan || may_be_clone)).then(|| Entry {
                job: last.name.clone(),
                process: pid,
                comm,
                n_threads: stat.n_threads,
                action: RestoreAction::UnknownParent { mask, original: (*last.base).clone() },
            })
        };
        all.iter().filter_map(entry).collect()
    }

    /// Searches and restores descendants of recently released processes.
    pub(super) fn release_late_children(
        &mut self,
        session: &mut Session,
        jobs: &AttachedJobs,
        now: Nanos,
    ) {
        for (until, ancestor) in std::mem::take(&mut self.released) {
            // Children of a job that is placed again inherit the new mask, so they are not restored.
            let job = session.tasks.job_of(ancestor.process.tid);
            let state = job.and_then(|job| jobs.affinity(job));
            if state.is_none_or(|state| state.placed.is_none())
                && ancestor.release_descendants(session)
            {
                ancestor.keep_record(session);
            }
            if now < until {
                self.released.push((until, ancestor));
            }
        }
    }

    /// Records a new process if it inherited an assigned mask.
    pub(super) fn check(
        &mut self,
        session: &mut Session,
        jobs: &AttachedJobs,
        (pid, stat): (u32, &ProcStat),
        parent: u32,
    ) {
        let job_of_parent = self.processes.get(&parent).map(|inherited| inherited.job);
        let Some(job) = session.tasks.job_of(parent).or(job_of_parent) else { return };
        let Some(state) = jobs.affinity(job) else { return };
        let Ok(mask) = affinity::get(pid) else { return };
        let assigned = state.assigned_masks().find(|assigned| ***assigned == mask).cloned();
        let Some(mask) = assigned.filter(|mask| **mask != *state.base) else { return };
        let entry = (pid, stat.start_time_ticks, pid);
        // If the line cannot be written, `restore` finds the process as a descendant while its parent is running.
        let _ = session.undo.set(&state.name, [&state.base, &mask, &mask], vec![entry]);
        let inherited = InheritedAffinity { job, start_time_ticks: stat.start_time_ticks, mask };
        self.processes.insert(pid, inherited);
    }
}
