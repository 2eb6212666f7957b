//! Finds the processes of the jobs of a run.
//!
//! ```text
//!   named in the record ─────────┐
//!   this run in its environment ─┴► jobs ─► their process groups ─► their descendants
//! ```
//!
//! A process that cannot be read may belong to a job and have a changed mask. Each such process is listed as
//! unreadable. A record with unreadable processes stays. Unreadable processes of other users are ignored, because
//! evenkeel had no permission to change them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use base::CpuSet;

use crate::affinity;
use crate::environ::{Environ, environ};
use crate::proc_stat::ProcStat;
use crate::procfs;
use crate::undo::mask_index::MaskIndex;
use crate::undo::record::{Records, UndoHeader};
use crate::undo::{JOB_VARIABLE, RUN_VARIABLE};

/// Processes with their jobs and states.
pub(super) type JobMembers = BTreeMap<u32, (String, ProcStat)>;

/// Processes that could not be read, with reasons, one line each.
pub(super) type UnreadableProcesses = BTreeSet<String>;

/// Input of a search.
#[derive(Clone, Copy)]
pub(super) struct MemberSearch<'a> {
    pub(super) root: &'a Path,
    pub(super) header: &'a UndoHeader,
    pub(super) records: &'a Records,
    pub(super) masks: &'a MaskIndex<'a>,
}

impl MemberSearch<'_> {
    /// Returns all processes of the jobs of this run, and whether the job of another process is still unknown.
    pub(super) fn members(&self, unreadable: &mut UnreadableProcesses) -> (JobMembers, bool) {
        let mut all = self.processes(unreadable);
        let (mut job_of, groups) = self.named(&all, unreadable);
        if !self.header.watches {
            self.mark_by_environment(&all, &mut job_of, unreadable);
        }
        for (&pid, stat) in &all {
            if let Some(job) = groups.get(&stat.group) {
                job_of.entry(pid).or_insert_with(|| job.clone());
            }
        }
        // A child that is older than the watch was forked before its parent was placed.
        let since = if self.header.watches { self.header.start_time_ticks } else { 0 };
        all.retain(|pid, stat| since <= stat.start_time_ticks || job_of.contains_key(pid));
        self.follow_parents(&all, &mut job_of, unreadable);
        let has_undecided = !self.header.watches
            && all
                .iter()
                .filter(|(pid, _)| !job_of.contains_key(pid))
                .any(|process| self.is_undecided(process, unreadable));
        let member = |(pid, job)| Some((pid, (job, *all.get(&pid)?)));
        (job_of.into_iter().filter_map(member).collect(), has_undecided)
    }

    /// Returns the processes that may be descendants of a process of a watch whose parent has exited: they were started
    /// during the watch and have a mask that evenkeel set, and their parent has another mask. Each with its job, its mask
    /// and the original mask of the job.
    pub(super) fn with_unknown_parent(
        &self,
        unreadable: &mut UnreadableProcesses,
    ) -> Vec<(u32, ProcStat, String, [CpuSet; 2])> {
        if !self.header.watches {
            return Vec::new();
        }
        let (members, _) = self.members(unreadable);
        let unknown = |(pid, stat): (u32, ProcStat)| {
            let is_new = self.header.start_time_ticks <= stat.start_time_ticks;
            if !is_new || stat.is_kernel_thread || members.contains_key(&pid) {
                return None;
            }
            let mask = affinity::get(pid).ok().filter(|mask| self.masks.contains(mask))?;
            if affinity::get(stat.parent).is_ok_and(|of_parent| of_parent == mask) {
                return None;
            }
            let (job, original) = self.masks.job_with(&mask)?;
            Some((pid, stat, job.to_owned(), [mask, original]))
        };
        self.processes(unreadable).into_iter().filter_map(unknown).collect()
    }

    /// Reads the state of every running process.
    fn processes(&self, unreadable: &mut UnreadableProcesses) -> BTreeMap<u32, ProcStat> {
        procfs::running_processes(self.root, |pid, error| match pid {
            Some(pid) => drop(self.ok_or_unreadable::<()>(pid, Err(error), unreadable)),
            None => drop(unreadable.insert(format!("processes cannot be listed: {error}"))),
        })
    }

    /// Returns the jobs of the recorded processes and of their process groups.
    fn named(
        &self,
        all: &BTreeMap<u32, ProcStat>,
        unreadable: &mut UnreadableProcesses,
    ) -> (BTreeMap<u32, String>, BTreeMap<u32, String>) {
        let (mut job_of, mut groups) = (BTreeMap::new(), BTreeMap::new());
        for (id, change) in self.records.tasks() {
            let stat = match all.get(&id.tid) {
                Some(stat) => Some(*stat),
                None => {
                    let stat = procfs::stat(self.root, id.tid);
                    self.ok_or_unreadable(id.tid, stat, unreadable)
                }
            };
            if stat.is_none_or(|stat| stat.start_time_ticks != id.start_time_ticks) {
                continue;
            }
            job_of.insert(change.process, change.job.clone());
            let leads = all.get(&change.process).is_some_and(|stat| stat.group == change.process);
            if leads && !self.header.watches {
                groups.insert(change.process, change.job.clone());
            }
        }
        (job_of, groups)
    }

    /// Assigns each process to the job in its environment, if the environment contains this run. The parent of the
    /// process is not relevant.
    fn mark_by_environment(
        &self,
        all: &BTreeMap<u32, ProcStat>,
        job_of: &mut BTreeMap<u32, String>,
        unreadable: &mut UnreadableProcesses,
    ) {
        for (&pid, stat) in all {
            // A process that is older than the run cannot belong to the run.
            let is_older = stat.start_time_ticks < self.header.start_time_ticks;
            if stat.is_kernel_thread || is_older || job_of.contains_key(&pid) {
                continue;
            }
            let environ = match procfs::environ(self.root, pid) {
                Ok(environ) => environ,
                Err(error) => {
                    if self.may_be_changed((&pid, stat), unreadable) {
                        self.ok_or_unreadable::<()>(pid, Err(error), unreadable);
                    }
                    continue;
                }
            };
            if let Some(job) = self.job_in(&environ) {
                job_of.insert(pid, job.to_owned());
            }
        }
    }

    /// Returns the job in the environment of a process of this run.
    fn job_in<'e>(&self, environ: &'e [u8]) -> Option<&'e str> {
        let variable = |name| procfs::parse_environ(environ, name);
        variable(RUN_VARIABLE).filter(|run| *run == self.header.run)?;
        variable(JOB_VARIABLE).filter(|job| self.records.contains_job(job))
    }

    /// Returns the job in the environment of a process with a changed affinity, and the state of the process. The
    /// process may exit at any time. In the record of a watch no process has a job in its environment.
    pub(super) fn new_member(&self, pid: u32) -> Option<(String, ProcStat)> {
        // The affinity is read first: it takes one system call, and most processes have another one.
        let mask = affinity::get(pid).ok()?;
        if !self.masks.contains(&mask) {
            return None;
        }
        let environ = procfs::environ(self.root, pid).ok()?;
        let job = self.job_in(&environ)?;
        Some((job.to_owned(), procfs::stat(self.root, pid).ok()?))
    }

    /// Assigns the children of processes of a job to the job, unless their environment contains another run.
    fn follow_parents(
        &self,
        all: &BTreeMap<u32, ProcStat>,
        job_of: &mut BTreeMap<u32, String>,
        unreadable: &mut UnreadableProcesses,
    ) {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (&pid, stat) in all {
            children.entry(stat.parent).or_default().push(pid);
        }
        let mut parents: Vec<(u32, String)> =
            job_of.iter().map(|(&pid, job)| (pid, job.clone())).collect();
        while let Some((parent, job)) = parents.pop() {
            for &pid in children.get(&parent).into_iter().flatten() {
                if !job_of.contains_key(&pid) && self.names_no_other_run(pid, unreadable) {
                    job_of.insert(pid, job.clone());
                    parents.push((pid, job.clone()));
                }
            }
        }
    }

    /// Returns whether the environment of a child contains no other run. False if the environment cannot be read.
    fn names_no_other_run(&self, pid: u32, unreadable: &mut UnreadableProcesses) -> bool {
        let n_unreadable = unreadable.len();
        let environ = self
            .ok_or_unreadable(pid, procfs::environ(self.root, pid), unreadable)
            .unwrap_or_default();
        let run = procfs::parse_environ(&environ, RUN_VARIABLE);
        unreadable.len() == n_unreadable && run.is_none_or(|run| run == self.header.run)
    }

    /// Returns whether a process may belong to the run and is in execve(2), so that its environment cannot be read yet.
    pub(super) fn is_undecided(
        &self,
        process: (&u32, &ProcStat),
        unreadable: &mut UnreadableProcesses,
    ) -> bool {
        let pid = *process.0;
        self.may_be_changed(process, unreadable)
            && self.ok_or_unreadable(pid, environ(self.root, pid), unreadable)
                == Some(Environ::InExec)
    }

    /// Returns whether evenkeel may have changed the mask of a process. A process that is older than the run cannot
    /// belong to the run. A mask that is not in the record was set by another program.
    fn may_be_changed(
        &self,
        (&pid, stat): (&u32, &ProcStat),
        unreadable: &mut UnreadableProcesses,
    ) -> bool {
        if stat.start_time_ticks < self.header.start_time_ticks {
            return false;
        }
        let mask = self.ok_or_unreadable(pid, affinity::get(pid), unreadable);
        mask.is_some_and(|mask| self.masks.contains(&mask))
    }

    /// Returns the value of a read; `None` if the process has exited, belongs to another user, or is unreadable.
    pub(super) fn ok_or_unreadable<T>(
        &self,
        pid: u32,
        result: io::Result<T>,
        unreadable: &mut UnreadableProcesses,
    ) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let has_exited = match error.raw_os_error() {
            Some(libc::ESRCH) => !may_exist(self.root, pid),
            _ => error.kind() == io::ErrorKind::NotFound,
        };
        let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
        if !(has_exited || is_denied && self.is_of_another_user(pid)) {
            unreadable.insert(format!("process {pid} cannot be read: {error}"));
        }
        None
    }

    fn is_of_another_user(&self, pid: u32) -> bool {
        let this_uid = rustix::process::geteuid().as_raw();
        procfs::owner(self.root, pid).is_ok_and(|owner| owner != this_uid)
    }
}

/// Returns whether a process or thread with this number may exist.
pub(super) fn may_exist(root: &Path, tid: u32) -> bool {
    match procfs::stat(root, tid) {
        Ok(stat) => !stat.has_exited(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}
