//! Finds the processes of the jobs of a run.
//!
//! ```text
//!   named in the record ─────────┐
//!   this run in its environment ─┴► jobs ─► their process groups ─► their descendants
//! ```
//!
//! A process that cannot be read may belong to a job and have a changed mask. Each such process is listed as
//! unreadable. A record with unreadable processes stays. Unreadable processes of other users are ignored, because
//! evenkeel had no permission to change them. A process of this user that is not dumpable has no readable environment,
//! now and later: its parent and its mask decide.

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

/// Processes with their jobs and states.
pub(super) type JobMembers = BTreeMap<u32, (String, ProcStat)>;

/// Processes that could not be read, with reasons, one line each.
pub(super) type UnreadableProcesses = BTreeSet<String>;

/// Result of a search.
pub(super) struct FoundMembers {
    pub(super) jobs: JobMembers,
    /// Whether the job of a process in execve(2) is still unknown.
    pub(super) has_undecided: bool,
    /// Number of processes whose environment was not read, because the restore must end.
    pub(super) n_unread: usize,
    /// Processes of this user whose environment is not readable.
    pub(super) denied: BTreeSet<u32>,
}

/// Relation of a process to the run of the record, from its environment.
#[derive(PartialEq, Eq)]
pub(super) enum RunInEnviron {
    /// The run and a job of the record.
    Job(String),
    /// No run, or the run without a job of the record.
    NoJob,
    OtherRun,
    /// The environment cannot be read yet.
    InExec,
    /// The environment cannot be read, now and later.
    Denied,
}

/// The environments that one search has read, each once.
pub(super) struct Environments<'a> {
    must_end: &'a dyn Fn(bool) -> bool,
    read: BTreeMap<u32, RunInEnviron>,
    n_unread: usize,
}

impl<'a> Environments<'a> {
    pub(super) fn new(must_end: &'a dyn Fn(bool) -> bool) -> Self {
        Environments { must_end, read: BTreeMap::new(), n_unread: 0 }
    }
}

/// Input of a search.
#[derive(Clone, Copy)]
pub(super) struct MemberSearch<'a> {
    pub(super) root: &'a Path,
    pub(super) header: &'a UndoHeader,
    pub(super) records: &'a Records,
    pub(super) masks: &'a MaskIndex<'a>,
}

impl MemberSearch<'_> {
    /// Returns all processes of the jobs of this run. `must_end` returns whether no further environment is read, or no
    /// further large environment.
    pub(super) fn members(
        &self,
        must_end: &dyn Fn(bool) -> bool,
        unreadable: &mut UnreadableProcesses,
    ) -> FoundMembers {
        let mut environments = Environments::new(must_end);
        let mut all = self.processes(unreadable);
        let (mut job_of, groups) = self.named(&all, unreadable);
        if !self.header.watches {
            self.mark_by_environment(&all, &mut job_of, &mut environments, unreadable);
        }
        for (&pid, stat) in &all {
            if let Some(job) = groups.get(&stat.group) {
                job_of.entry(pid).or_insert_with(|| job.clone());
            }
        }
        // A child that is older than the watch was forked before its parent was placed.
        let since = if self.header.watches { self.header.start_time_ticks } else { 0 };
        all.retain(|pid, stat| since <= stat.start_time_ticks || job_of.contains_key(pid));
        self.follow_parents(&all, &mut job_of, &mut environments, unreadable);
        let has_undecided = !self.header.watches
            && all
                .iter()
                .filter(|(pid, _)| !job_of.contains_key(pid))
                .any(|process| self.is_undecided(process, &environments, unreadable));
        let member = |(pid, job)| Some((pid, (job, *all.get(&pid)?)));
        let denied = environments.read.iter().filter(|(_, found)| **found == RunInEnviron::Denied);
        FoundMembers {
            denied: denied.map(|(&pid, _)| pid).collect(),
            jobs: job_of.into_iter().filter_map(member).collect(),
            has_undecided,
            n_unread: environments.n_unread,
        }
    }

    /// Returns the processes that may be descendants of a process of a job whose parent has exited: they were started
    /// during the run or the watch and have a mask that evenkeel set, and their parent has another mask. During a run
    /// only processes whose environment is not readable are unknown. Each with its job, its mask and the original mask of
    /// the job.
    pub(super) fn with_unknown_parent(
        &self,
        must_end: &dyn Fn(bool) -> bool,
        unreadable: &mut UnreadableProcesses,
    ) -> Vec<(u32, ProcStat, String, [CpuSet; 2])> {
        let found = self.members(must_end, unreadable);
        let unknown = |(pid, stat): (u32, ProcStat)| {
            let is_new = self.header.start_time_ticks <= stat.start_time_ticks;
            let may_belong = self.header.watches || found.denied.contains(&pid);
            if !is_new || !may_belong || stat.is_kernel_thread || found.jobs.contains_key(&pid) {
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
        environments: &mut Environments<'_>,
        unreadable: &mut UnreadableProcesses,
    ) {
        // A process that is older than the run cannot belong to the run.
        let is_candidate = |(pid, stat): &(&u32, &ProcStat)| {
            !stat.is_kernel_thread
                && self.header.start_time_ticks <= stat.start_time_ticks
                && !job_of.contains_key(pid)
        };
        let mut candidates: Vec<(&u32, &ProcStat)> = all.iter().filter(is_candidate).collect();
        // Large environments are read last, and only if a thread of the process may be changed.
        candidates.sort_by_key(|(_, stat)| stat.environ_bytes());
        for (&pid, stat) in candidates {
            if stat.has_large_environ() && !self.has_changed_thread(pid, stat) {
                continue;
            }
            match self.environment((pid, stat), environments) {
                Ok(Some(RunInEnviron::Job(job))) => drop(job_of.insert(pid, job.clone())),
                Ok(_) => {}
                Err(error) => {
                    if self.may_be_changed((&pid, stat), unreadable) {
                        self.ok_or_unreadable::<()>(pid, Err(error), unreadable);
                    }
                }
            }
        }
    }

    /// Reads the relation of a process to the run from its environment. Returns `None` if the pass must end.
    pub(super) fn environment<'e>(
        &self,
        (pid, stat): (u32, &ProcStat),
        environments: &'e mut Environments<'_>,
    ) -> io::Result<Option<&'e RunInEnviron>> {
        if !environments.read.contains_key(&pid) {
            if (environments.must_end)(stat.has_large_environ()) {
                environments.n_unread += 1;
                return Ok(None);
            }
            let found = match environ(self.root, pid) {
                Ok(environ) => self.run_in(&environ),
                Err(error) if self.is_denied(pid, &error) => RunInEnviron::Denied,
                Err(error) => return Err(error),
            };
            environments.read.insert(pid, found);
        }
        Ok(environments.read.get(&pid))
    }

    fn run_in(&self, environ: &Environ) -> RunInEnviron {
        match (environ, environ.run()) {
            (Environ::InExec, _) => RunInEnviron::InExec,
            (_, Some(run)) if run != self.header.run => RunInEnviron::OtherRun,
            _ => self
                .job_in(environ)
                .map_or(RunInEnviron::NoJob, |job| RunInEnviron::Job(job.into())),
        }
    }

    /// Returns whether the environment of a process cannot be read, now and later: a process of this user is not dumpable
    /// (`PR_SET_DUMPABLE`), as programs that store keys are, or the process has unmapped its environment (EIO). Its
    /// affinity can be read and set.
    pub(super) fn is_denied(&self, pid: u32, error: &io::Error) -> bool {
        match error.raw_os_error() {
            Some(libc::EACCES) => !self.is_of_another_user(pid),
            Some(libc::EIO) => true,
            _ => false,
        }
    }

    /// Returns the job in the environment of a process of this run.
    fn job_in<'e>(&self, environ: &'e Environ) -> Option<&'e str> {
        environ.run().filter(|run| *run == self.header.run)?;
        environ.job().filter(|job| self.records.contains_job(job))
    }

    /// Returns the job in the environment of a process with a changed affinity, and the state of the process. The
    /// process may exit at any time. In the record of a watch no process has a job in its environment.
    pub(super) fn new_member(&self, pid: u32) -> Option<(String, ProcStat)> {
        // The affinity is read first: it takes one system call, and most processes have another one.
        let mask = affinity::get(pid).ok()?;
        if !self.masks.contains(&mask) {
            return None;
        }
        let environ = environ(self.root, pid).ok()?;
        let job = self.job_in(&environ)?;
        Some((job.to_owned(), procfs::stat(self.root, pid).ok()?))
    }

    /// Assigns the children of processes of a job to the job, unless their environment contains another run.
    fn follow_parents(
        &self,
        all: &BTreeMap<u32, ProcStat>,
        job_of: &mut BTreeMap<u32, String>,
        environments: &mut Environments<'_>,
        unreadable: &mut UnreadableProcesses,
    ) {
        let mut children: BTreeMap<u32, Vec<(u32, &ProcStat)>> = BTreeMap::new();
        for (&pid, stat) in all {
            children.entry(stat.parent).or_default().push((pid, stat));
        }
        let mut parents: Vec<(u32, String)> =
            job_of.iter().map(|(&pid, job)| (pid, job.clone())).collect();
        while let Some((parent, job)) = parents.pop() {
            for &child in children.get(&parent).into_iter().flatten() {
                let pid = child.0;
                if !job_of.contains_key(&pid)
                    && self.belongs_to_parent(child, environments, unreadable)
                {
                    job_of.insert(pid, job.clone());
                    parents.push((pid, job.clone()));
                }
            }
        }
    }

    /// Returns whether a child of a process of a job belongs to the job: its environment contains no other run. Without
    /// a readable environment, its affinity decides.
    fn belongs_to_parent(
        &self,
        child: (u32, &ProcStat),
        environments: &mut Environments<'_>,
        unreadable: &mut UnreadableProcesses,
    ) -> bool {
        let found = self.environment(child, environments);
        match self.ok_or_unreadable(child.0, found, unreadable).flatten() {
            None | Some(RunInEnviron::OtherRun) => false,
            Some(RunInEnviron::Denied) => self.may_be_changed((&child.0, child.1), unreadable),
            Some(RunInEnviron::Job(_) | RunInEnviron::NoJob | RunInEnviron::InExec) => true,
        }
    }

    /// Returns whether a process may belong to the run and is in execve(2), so that its environment cannot be read yet.
    pub(super) fn is_undecided(
        &self,
        (pid, stat): (&u32, &ProcStat),
        environments: &Environments<'_>,
        unreadable: &mut UnreadableProcesses,
    ) -> bool {
        environments.read.get(pid) == Some(&RunInEnviron::InExec)
            && self.may_be_changed((pid, stat), unreadable)
    }

    /// Returns whether a thread of a process has a mask that evenkeel set. True if this cannot be read.
    fn has_changed_thread(&self, pid: u32, stat: &ProcStat) -> bool {
        let is_changed = |tid| affinity::get(tid).map_or(true, |mask| self.masks.contains(&mask));
        match stat.n_threads {
            1 => is_changed(pid),
            _ => procfs::threads(self.root, pid)
                .map_or(true, |tids| tids.into_iter().any(is_changed)),
        }
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
