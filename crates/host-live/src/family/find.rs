//! Finding what jobs start: threads and children.

use std::path::Path;
use std::sync::Arc;

use base::{CpuSet, JobId, TaskId};
use linux::procfs;

use super::{Family, Process, Thread};

/// A `children` file longer than this is read in another way.
const CHILDREN_BYTES: usize = 4096;

impl Family {
    /// Takes a process and everything below it into a job. `mask` is what a process of this job has by
    /// birth. Tells the processes that are new.
    pub(crate) fn adopt(&mut self, job: JobId, pid: u32, mask: &Arc<CpuSet>) -> Vec<u32> {
        let mut fresh = Vec::new();
        let mut to_do = vec![pid];
        while let Some(pid) = to_do.pop() {
            if self.job_of.contains_key(&pid) {
                continue;
            }
            let Ok(stat) = procfs::stat(root(), pid) else { continue };
            let process =
                Process { born_ticks: stat.born_ticks, threads: Vec::new(), folder: None };
            self.processes.insert((job, pid), process);
            self.job_of.insert(pid, job);
            fresh.push(pid);
            for tid in self.list_threads(job, pid, mask) {
                to_do.extend(procfs::children(root(), pid, tid).unwrap_or_default());
            }
        }
        fresh
    }

    /// Takes in threads of a process that are not known yet, and tells them.
    pub(super) fn list_threads(&mut self, job: JobId, pid: u32, mask: &Arc<CpuSet>) -> Vec<u32> {
        let mut fresh = Vec::new();
        let Some(process) = self.processes.get_mut(&(job, pid)) else { return fresh };
        for tid in procfs::threads(root(), pid).unwrap_or_default() {
            if process.threads.iter().any(|thread| thread.id.tid == tid && thread.is_alive()) {
                continue;
            }
            let born_ticks = match tid == pid {
                true => process.born_ticks,
                false => match procfs::stat(root(), tid) {
                    Ok(stat) => stat.born_ticks,
                    Err(_) => continue,
                },
            };
            let mut thread = Thread::new(TaskId { tid, born_ticks }, Arc::clone(mask));
            thread.keep_schedstat(pid, &mut self.descriptors);
            process.threads.push(thread);
            fresh.push(tid);
        }
        fresh
    }

    /// Looks again at everything in a job: threads and children that are not known yet are taken in.
    /// Tells whether there were any.
    pub(crate) fn refresh(&mut self, job: JobId, mask: &Arc<CpuSet>) -> bool {
        let mut found = false;
        let pids: Vec<u32> = self.processes_of(job).map(|(pid, _)| pid).collect();
        for pid in pids {
            found |= !self.list_threads(job, pid, mask).is_empty();
            found |= self.look_for_children(job, pid, mask, |_| true);
        }
        found
    }

    /// Takes in children of the threads of a process that are asked for.
    pub(super) fn look_for_children(
        &mut self,
        job: JobId,
        pid: u32,
        mask: &Arc<CpuSet>,
        wanted: impl Fn(&Thread) -> bool,
    ) -> bool {
        let Some(process) = self.processes.get_mut(&(job, pid)) else { return false };
        let mut unknown = Vec::new();
        for thread in process.threads.iter_mut().filter(|thread| wanted(thread)) {
            let job_of = &self.job_of;
            thread.children(pid, &mut self.descriptors, |child| {
                if !job_of.contains_key(&child) {
                    unknown.push(child);
                }
            });
        }
        unknown.into_iter().map(|child| self.adopt(job, child, mask).len()).sum::<usize>() != 0
    }
}

impl Thread {
    pub(super) fn keep_schedstat(&mut self, pid: u32, descriptors: &mut super::Descriptors) {
        if self.schedstat.is_none() {
            self.schedstat = descriptors.keep(&self.path(pid, "schedstat")).unwrap_or_default();
        }
    }

    pub(super) fn path(&self, pid: u32, file: &str) -> std::path::PathBuf {
        format!("/proc/{pid}/task/{}/{file}", self.id.tid).into()
    }

    /// Tells each child that this thread has started and that is still there.
    fn children(
        &mut self,
        pid: u32,
        descriptors: &mut super::Descriptors,
        mut child: impl FnMut(u32),
    ) {
        if self.children.is_none() {
            self.children = descriptors.keep(&self.path(pid, "children")).unwrap_or_default();
        }
        let mut buffer = [0; CHILDREN_BYTES];
        let text = self.children.as_ref().and_then(|file| file.read(&mut buffer).ok());
        match text {
            Some(text) if text.len() < CHILDREN_BYTES => {
                procfs::parse_children(text).for_each(child);
            }
            _ => {
                let all = procfs::children(root(), pid, self.id.tid).unwrap_or_default();
                all.into_iter().for_each(&mut child);
            }
        }
    }
}

fn root() -> &'static Path {
    Path::new("/")
}
