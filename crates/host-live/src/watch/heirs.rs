//! Who has CPUs from us by birth: what a placed process starts.
//!
//! ```text
//!   placed ──fork──► child with the same mask      an heir: written down, left where it is
//!      │               └──fork──► its child too
//!      ▼
//!   given back ─► heirs and descendants that still have a mask of ours ─► again for a second, or longer
//! ```
//!
//! Whoever was born since the last look is no heir yet, but a descendant: those are looked for when their
//! parent is given back what it had. So they are in every look of the next second, since a child that was
//! just being born has its parent's old mask and could not be seen; on a busy machine a birth can be
//! interrupted for longer than an interval.
//!
//! A process that is older than the first placement of its ancestor has nothing from us, and one that
//! has another mask than ours has it from somebody else.

use std::io;
use std::sync::Arc;

use base::{CpuSet, JobId, Nanos, TaskId};
use linux::glance::Glance;
use linux::{affinity, fork_latency, procfs};

use super::WatchHost;
use crate::hold::{Hold, may_live};

/// A process with a mask of ours by birth.
#[derive(Clone, Debug)]
pub(super) struct Heir {
    /// Whose child it is.
    pub of: JobId,
    pub born_ticks: u64,
    /// What it was born with.
    pub mask: Arc<CpuSet>,
}

/// What the descendants of a process that was placed may have from us.
#[derive(Clone, Debug)]
pub(super) struct Given {
    process: TaskId,
    base: Arc<CpuSet>,
    masks: Vec<Arc<CpuSet>>,
    since_ticks: u64,
}

impl Given {
    /// Whose children are looked for.
    pub(super) fn parent(&self) -> u32 {
        self.process.tid
    }

    fn is_ours(&self, mask: &CpuSet) -> bool {
        *mask != *self.base && self.masks.iter().any(|ours| **ours == *mask)
    }
}

/// How long descendants are looked for at least after their ancestor was given back what it had.
const LATE_FOR: Nanos = Nanos::from_secs(1);

/// How deep descendants are followed: a chain of this length that nobody has seen is none.
const DESCENDANTS_MAX: usize = 1 << 16;

impl WatchHost {
    /// Gives a job and its heirs back what they had; tells how many threads of its own that concerned.
    pub(super) fn release(&mut self, job: JobId) -> u32 {
        // First itself, so that whoever it starts from now on has nothing of ours.
        let (n_freed, any_left) = match self.grasp(job) {
            Some((hold, mut hands)) => hands.release(hold, false),
            None => return 0,
        };
        let any_left = self.release_heirs(job) || any_left;
        if let (false, Some(watched), Ok(log)) = (any_left, self.watched.get(&job), &mut self.undo)
        {
            // If this cannot be written, who restores finds everything as it was before.
            let _ = log.free(&watched.hold.name);
        }
        n_freed
    }

    /// Gives those who have a mask of ours by birth what their parent had, if they still have ours.
    /// Tells whether any of them could not be given it: then the record is kept.
    fn release_heirs(&mut self, job: JobId) -> bool {
        let Some(given) = self.given(job) else { return false };
        let is_its = |(_, heir): &(&u32, &Heir)| heir.of == job;
        let heirs: Vec<(u32, Heir)> =
            self.heirs.iter().filter(is_its).map(|(&pid, heir)| (pid, heir.clone())).collect();
        let mut any_left = self.release_descendants(&given);
        let parents = heirs.iter().map(|(pid, _)| *pid).chain([given.parent()]);
        let longest = Nanos::from(fork_latency::max_fork_latency("/".as_ref(), parents));
        let until = self.wakes.now() + LATE_FOR.max(longest);
        for (pid, Heir { born_ticks, mask, .. }) in heirs {
            self.heirs.remove(&pid);
            let process = TaskId { tid: pid, start_time_ticks: born_ticks };
            let mut given = Given { process, ..given.clone() };
            given.masks.push(mask);
            if may_live(process) {
                any_left |= !release_process(pid, &given) && may_live(process);
                any_left |= self.release_descendants(&given);
                self.late.push((until, given));
            }
        }
        self.late.push((until, given));
        if let Ok(log) = &mut self.undo
            && any_left
        {
            log.keep();
        }
        any_left
    }

    /// What a job's descendants may have from us; `None` if it was never placed.
    fn given(&self, job: JobId) -> Option<Given> {
        let watched = self.watched.get(&job)?;
        let Hold { pid, base, masks, .. } = &watched.hold;
        let process = TaskId { tid: *pid, start_time_ticks: watched.born_ticks };
        let (base, masks) = (Arc::clone(base), masks.iter().skip(1).cloned().collect());
        Some(Given { process, base, masks, since_ticks: watched.placed_ticks? })
    }

    /// Those whose parent was given back what it had a short while ago: a child that was being born then
    /// can be seen now.
    pub(super) fn release_late(&mut self, now: Nanos) {
        for (until, given) in std::mem::take(&mut self.late) {
            // What a job that is placed again starts has its CPUs from us anew.
            let is_placed =
                |job| self.watched.get(&job).is_some_and(|its| its.hold.placed.is_some());
            if !self.family.job_of(given.process.tid).is_some_and(is_placed)
                && self.release_descendants(&given)
                && let Ok(log) = &mut self.undo
            {
                log.keep();
            }
            if now < until {
                self.late.push((until, given));
            }
        }
    }

    /// Gives back what descendants have from us that were not seen yet; tells whether any could not be
    /// given it. Jobs of their own are given theirs by themselves.
    fn release_descendants(&self, given: &Given) -> bool {
        let mut any_left = false;
        let mut parents = vec![given.process.tid];
        let mut n_seen = 0;
        if !may_live(given.process) {
            return false; // Its children are somebody else's by now.
        }
        while let Some(parent) = parents.pop().filter(|_| n_seen < DESCENDANTS_MAX) {
            let is_refused = |error: &io::Error| error.kind() != io::ErrorKind::NotFound;
            let children = procfs::all_children("/".as_ref(), parent);
            any_left |= children.as_ref().is_err_and(is_refused);
            for child in children.unwrap_or_default() {
                n_seen += 1;
                let stat = procfs::stat("/".as_ref(), child);
                any_left |= stat.as_ref().is_err_and(is_refused);
                let is_younger = stat.is_ok_and(|stat| given.since_ticks <= stat.born_ticks);
                if !is_younger || self.family.job_of(child).is_some() {
                    continue;
                }
                let is_gone =
                    || procfs::stat("/".as_ref(), child).is_err_and(|error| !is_refused(&error));
                any_left |= !release_process(child, given) && !is_gone();
                parents.push(child);
            }
        }
        any_left
    }

    /// Notices that a new process has a mask of ours by birth, and writes that down.
    pub(super) fn inherits(&mut self, pid: u32, glance: &Glance, parent: u32) {
        let of_heir = self.heirs.get(&parent).map(|heir| heir.of);
        let Some(of) = self.family.job_of(parent).or(of_heir) else { return };
        let Some((hold, mut hands)) = self.grasp(of) else { return };
        let Ok(mask) = affinity::get(pid) else { return };
        let ours = hold.masks.iter().skip(1).find(|ours| ***ours == mask).cloned();
        let Some(mask) = ours.filter(|mask| **mask != *hold.base) else { return };
        let whose = (pid, glance.born_ticks, pid);
        // If this cannot be written it is found as a child of its parent, as long as that lives.
        let _ = hands.record(&hold.name, [&hold.base, &mask, &mask], vec![whose]);
        self.heirs.insert(pid, Heir { of, born_ticks: glance.born_ticks, mask });
    }
}

/// Gives each thread of a process that still has a mask of ours what it would have had; tells whether
/// that could be done.
fn release_process(pid: u32, given: &Given) -> bool {
    let Ok(tids) = procfs::threads("/".as_ref(), pid) else { return false };
    let freed = tids.into_iter().map(|tid| {
        let mask = affinity::get(tid)?;
        if given.is_ours(&mask) { affinity::set(tid, &given.base) } else { Ok(()) }
    });
    // Each is tried, whatever became of the one before.
    freed.fold(true, |all, freed: std::io::Result<()>| all & freed.is_ok())
}
