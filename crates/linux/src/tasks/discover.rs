//! Discovery of threads and children of jobs, and assignment of orphans.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::environ::{Environ, environ};
use crate::proc_stat::ProcStat;
use crate::procfs;
use crate::source::Source;
use base::{CpuSet, JobId, Nanos, TaskId};

use super::unseen_children::UnseenChildren;
use super::{KeptFile, TaskFiles, TaskReader, TaskTotals, Thread, TrackedProcess};

/// Size of the buffer for a `children` file. Longer files are opened and read as a whole.
const CHILDREN_BYTES: usize = 4096;

/// The job of an orphan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrphanOwner {
    /// The process belongs to this job.
    Job(JobId),
    /// The process is executing execve(2), so its environment cannot be read now.
    InExec,
    /// No job of this run can be identified.
    Unknown,
}

impl<S: Source> TaskReader<S> {
    /// Returns PID and start time of all known processes.
    pub fn all_processes(&self) -> impl Iterator<Item = (u32, u64)> {
        self.processes.iter().map(|(&(_, pid), process)| (pid, process.start_time_ticks))
    }

    /// Finds the job of an orphan: from an earlier sample, from its process group (if this is the group of the main
    /// process of a job), or from its environment.
    pub fn orphan_owner(
        &self,
        pid: u32,
        stat: &ProcStat,
        is_first: impl Fn(JobId, u32) -> bool,
    ) -> OrphanOwner {
        let by_group = || self.job_of(stat.group).filter(|&job| is_first(job, stat.group));
        if let Some(job) = self.job_of(pid).or_else(by_group) {
            return OrphanOwner::Job(job);
        }
        if stat.has_exited() {
            return OrphanOwner::Unknown; // A zombie has no environment.
        }
        match environ(Path::new("/"), pid) {
            Ok(Environ::InExec) => OrphanOwner::InExec,
            Ok(environ) if environ.run() == Some(&self.run) => {
                let job = environ.job().and_then(|name| self.names.get(name));
                job.map_or(OrphanOwner::Unknown, |&job| OrphanOwner::Job(job))
            }
            _ => OrphanOwner::Unknown,
        }
    }

    /// Adds a process and its descendants to a job. `mask` is the affinity that processes of the job inherit.
    /// Returns the new processes.
    pub fn adopt(&mut self, job: JobId, pid: u32, mask: &Arc<CpuSet>) -> Vec<u32> {
        let mut new_pids = Vec::new();
        let mut pending = vec![pid];
        while let Some(pid) = pending.pop() {
            if self.job_of.contains_key(&pid) {
                continue;
            }
            let stat = ok_or_note(self.files.stat(pid, pid), &mut self.has_unreadable);
            let Some(stat) = stat else { continue };
            self.add_process(job, pid, &stat);
            new_pids.push(pid);
            for tid in self.list_threads(job, pid, mask) {
                if !self.follows_children {
                    continue;
                }
                let children = self.files.children(pid, tid);
                let children = ok_or_note(children, &mut self.has_unreadable);
                pending.extend(children.unwrap_or_default());
            }
        }
        new_pids
    }

    fn add_process(&mut self, job: JobId, pid: u32, stat: &ProcStat) {
        let parent = self.processes.get_mut(&(job, stat.parent));
        let is_known = parent.map(|parent| parent.unseen.record_child()).is_some();
        let process = TrackedProcess::new(stat.start_time_ticks, is_known.then_some(stat.parent));
        self.processes.insert((job, pid), process);
        self.job_of.insert(pid, job);
    }

    /// Adds the new threads of a process. Returns their TIDs.
    pub(super) fn list_threads(&mut self, job: JobId, pid: u32, mask: &Arc<CpuSet>) -> Vec<u32> {
        self.add_threads(job, pid, mask, |thread, files| thread.is_running(pid, files))
    }

    /// Adds the new threads of a process. `is_same` returns whether a known thread still has its TID.
    pub(super) fn add_threads(
        &mut self,
        job: JobId,
        pid: u32,
        mask: &Arc<CpuSet>,
        is_same: impl Fn(&Thread, &mut TaskFiles<S>) -> bool,
    ) -> Vec<u32> {
        let Some(process) = self.processes.get_mut(&(job, pid)) else { return Vec::new() };
        let mut new_threads = Vec::new();
        let tids = ok_or_note(self.files.threads(pid), &mut self.has_unreadable);
        for tid in tids.unwrap_or_default() {
            let mut known = process.threads.iter().filter(|thread| thread.id.tid == tid);
            if !known.any(|thread| is_same(thread, &mut self.files)) {
                let stat = ok_or_note(self.files.stat(pid, tid), &mut self.has_unreadable);
                new_threads.extend(stat.map(|stat| (tid, stat)));
            }
        }
        // A PID is not reused while its process runs. If the start time of the process is unchanged after the read, the
        // read threads belong to this process.
        if new_threads.is_empty()
            || !process.is_still(pid, &mut self.files, &mut self.has_unreadable)
        {
            return Vec::new();
        }
        let n_known = process.threads.len();
        for (tid, stat) in new_threads {
            let id = TaskId { tid, start_time_ticks: stat.start_time_ticks };
            let mut thread = Thread::new(id, Arc::clone(mask));
            thread.keep_schedstat(pid, &mut self.files);
            thread.counters = self.counters.open(job, id, &mut self.files);
            process.threads.push(thread);
        }
        process.sample_at = Nanos::ZERO;
        self.next_sample = Some(Nanos::ZERO);
        process.threads[n_known..].iter().map(|thread| thread.id.tid).collect()
    }

    /// Adds all new threads and children of a job. Returns whether a thread or child was added.
    pub fn refresh(&mut self, job: JobId, mask: &Arc<CpuSet>) -> bool {
        let mut found = false;
        let pids: Vec<u32> = self.processes_of(job).map(|(pid, _)| pid).collect();
        for pid in pids {
            found |= !self.list_threads(job, pid, mask).is_empty();
            found |= self.find_children(job, pid, mask, |_| true);
        }
        found
    }

    /// Adds the new children of the selected threads of a process. Returns whether a child was
    /// added.
    pub(super) fn find_children(
        &mut self,
        job: JobId,
        pid: u32,
        mask: &Arc<CpuSet>,
        is_selected: impl Fn(&Thread) -> bool,
    ) -> bool {
        if !self.follows_children {
            return false;
        }
        let Some(process) = self.processes.get_mut(&(job, pid)) else { return false };
        let mut unknown = Vec::new();
        for thread in process.threads.iter_mut().filter(|thread| is_selected(thread)) {
            let job_of = &self.job_of;
            let children = thread.children(pid, &mut self.files, |child| {
                if !job_of.contains_key(&child) {
                    unknown.push(child);
                }
            });
            ok_or_note(children, &mut self.has_unreadable);
        }
        // If the PID was reused, the children belong to another process.
        if unknown.is_empty() || !process.is_still(pid, &mut self.files, &mut self.has_unreadable) {
            return false;
        }
        unknown.into_iter().map(|child| self.adopt(job, child, mask).len()).sum::<usize>() != 0
    }
}

impl TrackedProcess {
    fn new(start_time_ticks: u64, parent: Option<u32>) -> Self {
        TrackedProcess {
            start_time_ticks,
            parent,
            threads: Vec::new(),
            past: TaskTotals::default(),
            unseen: UnseenChildren::default(),
            sample_at: Nanos::ZERO,
            dir: None,
        }
    }

    /// Returns whether the PID still belongs to this process.
    fn is_still(
        &self,
        pid: u32,
        files: &mut TaskFiles<impl Source>,
        has_unreadable: &mut bool,
    ) -> bool {
        ok_or_note(files.stat(pid, pid), has_unreadable)
            .is_some_and(|stat| stat.start_time_ticks == self.start_time_ticks)
    }
}

impl Thread {
    pub(super) fn keep_schedstat(&mut self, pid: u32, files: &mut TaskFiles<impl Source>) {
        if self.schedstat.is_none() {
            self.schedstat = self.keep(pid, "schedstat", files);
        }
    }

    /// Opens a file of the thread, which stays open.
    pub(super) fn keep(
        &self,
        pid: u32,
        file: &str,
        files: &mut TaskFiles<impl Source>,
    ) -> Option<KeptFile> {
        let path = format!("/proc/{pid}/task/{}/{file}", self.id.tid);
        files.descriptors.keep(path.as_ref()).unwrap_or_default()
    }

    /// Passes each child that this thread started and that was not reaped to `child`.
    fn children(
        &mut self,
        pid: u32,
        files: &mut TaskFiles<impl Source>,
        mut child: impl FnMut(u32),
    ) -> io::Result<()> {
        if self.children.is_none() {
            self.children = self.keep(pid, "children", files);
        }
        let mut buffer = [0; CHILDREN_BYTES];
        let text = self.children.as_ref().and_then(|file| file.read(&mut buffer).ok());
        match text {
            Some(text) if text.len() < CHILDREN_BYTES => {
                procfs::parse_children(text).for_each(child);
            }
            _ => files.children(pid, self.id.tid)?.into_iter().for_each(&mut child),
        }
        Ok(())
    }
}

/// Returns the value of a read, or `None` if the task has exited or the read failed. A failure sets `has_unreadable`.
fn ok_or_note<T>(result: io::Result<T>, has_unreadable: &mut bool) -> Option<T> {
    let failed = |error: &io::Error| error.kind() != io::ErrorKind::NotFound;
    *has_unreadable |= result.as_ref().is_err_and(failed);
    result.ok()
}
