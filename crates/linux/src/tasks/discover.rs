//! Finding what jobs start: threads and children.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::procfs;
use base::{CpuSet, JobId, Nanos, TaskId};

use super::unseen_children::UnseenChildren;
use super::{Process, TaskReader, TaskTotals, Thread};

/// A `children` file longer than this is read in another way.
const CHILDREN_BYTES: usize = 4096;

impl TaskReader {
    /// Takes a process and everything below it into a job. `mask` is what a process of this job has by
    /// birth. Tells the processes that are new.
    pub fn adopt(&mut self, job: JobId, pid: u32, mask: &Arc<CpuSet>) -> Vec<u32> {
        let mut fresh = Vec::new();
        let mut to_do = vec![pid];
        while let Some(pid) = to_do.pop() {
            if self.job_of.contains_key(&pid) {
                continue;
            }
            let Some(stat) = seen(procfs::stat(root(), pid), &mut self.is_blind) else { continue };
            self.take_in(job, pid, &stat);
            fresh.push(pid);
            for tid in self.list_threads(job, pid, mask) {
                if !self.follows_children {
                    continue;
                }
                let children = procfs::children(root(), pid, tid);
                to_do.extend(seen(children, &mut self.is_blind).unwrap_or_default());
            }
        }
        fresh
    }

    fn take_in(&mut self, job: JobId, pid: u32, stat: &procfs::Stat) {
        let parent = self.processes.get_mut(&(job, stat.parent));
        let is_known = parent.map(|parent| parent.unseen.has_child()).is_some();
        let process = Process::new(stat.born_ticks, is_known.then_some(stat.parent));
        self.processes.insert((job, pid), process);
        self.job_of.insert(pid, job);
    }

    /// Takes in threads of a process that are not known yet, and tells them.
    pub(super) fn list_threads(&mut self, job: JobId, pid: u32, mask: &Arc<CpuSet>) -> Vec<u32> {
        let Some(process) = self.processes.get_mut(&(job, pid)) else { return Vec::new() };
        let is_known =
            |tid| process.threads.iter().any(|thread| thread.id.tid == tid && thread.is_alive());
        let mut fresh = Vec::new();
        for tid in seen(procfs::threads(root(), pid), &mut self.is_blind).unwrap_or_default() {
            if !is_known(tid) {
                let stat = seen(procfs::thread_stat(root(), pid, tid), &mut self.is_blind);
                fresh.extend(stat.map(|stat| (tid, stat)));
            }
        }
        // As long as it lives its number is nobody else's: if it is this process now, it was then.
        if fresh.is_empty() || !process.is_still(pid, &mut self.is_blind) {
            return Vec::new();
        }
        let n_known = process.threads.len();
        for (tid, stat) in fresh {
            let id = TaskId { tid, start_time_ticks: stat.born_ticks };
            let mut thread = Thread::new(id, Arc::clone(mask));
            thread.keep_schedstat(pid, &mut self.descriptors);
            thread.counters = self.counters.open(job, id, &mut self.descriptors);
            process.threads.push(thread);
        }
        process.look_at = Nanos::ZERO;
        self.look_at = Some(Nanos::ZERO);
        process.threads[n_known..].iter().map(|thread| thread.id.tid).collect()
    }

    /// Looks again at everything in a job: threads and children that are not known yet are taken in.
    /// Tells whether there were any.
    pub fn refresh(&mut self, job: JobId, mask: &Arc<CpuSet>) -> bool {
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
        if !self.follows_children {
            return false;
        }
        let Some(process) = self.processes.get_mut(&(job, pid)) else { return false };
        let mut unknown = Vec::new();
        for thread in process.threads.iter_mut().filter(|thread| wanted(thread)) {
            let job_of = &self.job_of;
            let children = thread.children(pid, &mut self.descriptors, |child| {
                if !job_of.contains_key(&child) {
                    unknown.push(child);
                }
            });
            seen(children, &mut self.is_blind);
        }
        // The children may be those of a stranger who got the number of a process that is gone.
        if unknown.is_empty() || !process.is_still(pid, &mut self.is_blind) {
            return false;
        }
        unknown.into_iter().map(|child| self.adopt(job, child, mask).len()).sum::<usize>() != 0
    }
}

impl Process {
    fn new(born_ticks: u64, parent: Option<u32>) -> Self {
        Process {
            start_time_ticks: born_ticks,
            parent,
            threads: Vec::new(),
            past: TaskTotals::default(),
            unseen: UnseenChildren::default(),
            look_at: Nanos::ZERO,
            folder: None,
        }
    }

    /// Whether the process with this number is still the one that it was.
    fn is_still(&self, pid: u32, is_blind: &mut bool) -> bool {
        seen(procfs::stat(root(), pid), is_blind)
            .is_some_and(|stat| stat.born_ticks == self.start_time_ticks)
    }
}

impl Thread {
    pub(super) fn keep_schedstat(&mut self, pid: u32, descriptors: &mut super::DescriptorBudget) {
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
        descriptors: &mut super::DescriptorBudget,
        mut child: impl FnMut(u32),
    ) -> io::Result<()> {
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
                let all = procfs::children(root(), pid, self.id.tid)?;
                all.into_iter().for_each(&mut child);
            }
        }
        Ok(())
    }
}

/// What a look told; `None` when who was looked at is gone, or when the look was refused, which makes blind.
fn seen<T>(told: io::Result<T>, is_blind: &mut bool) -> Option<T> {
    let refused = |error: &io::Error| error.kind() != io::ErrorKind::NotFound;
    *is_blind |= told.as_ref().is_err_and(refused);
    told.ok()
}

fn root() -> &'static Path {
    Path::new("/")
}
