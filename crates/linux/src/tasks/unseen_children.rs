//! CPU time of children that come and go between two looks.
//!
//! A shell that runs many short programs uses hardly any time itself, and none of its children may
//! live long enough to be seen. The kernel tells for every process what the children used that it has
//! waited for. Of that, what we saw ourselves is known already; the rest is credited to the first
//! thread of the process, so that a job's load is all of its load.

use crate::procfs;
use base::{JobId, Nanos};

use super::sampling::SampledTasks;
use super::{TaskReader, TaskTotals};

/// A process that never had a child is asked about children every so many looks that it ran in.
const ASK_EVERY: u32 = 8;

/// What is known of the children of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnseenChildren {
    n_looks: u32,
    has_children: bool,
    /// What the kernel told last of children that were waited for, in nanoseconds.
    told_ns: u64,
    /// What children that we saw, and that are gone, came to.
    of_seen_ns: u64,
    credited_ns: u64,
}

impl UnseenChildren {
    /// What children used that nobody saw.
    pub(super) fn credited(&self) -> Nanos {
        Nanos(self.credited_ns)
    }

    /// There is a child, so there may be others.
    pub(super) fn has_child(&mut self) {
        self.has_children = true;
    }

    /// A child that we saw is gone, after it used so much.
    pub(super) fn seen_one_go(&mut self, used_ns: u64) {
        self.of_seen_ns = self.of_seen_ns.saturating_add(used_ns);
    }

    /// Whether there was a child that may not be the last.
    pub(super) fn has_had_children(&self) -> bool {
        self.has_children
    }

    /// Whether to ask the kernel in this look.
    fn is_asked(&mut self) -> bool {
        self.n_looks = self.n_looks.wrapping_add(1);
        self.has_children || self.n_looks % ASK_EVERY == 1
    }

    /// Takes in what the kernel told; gives what nobody saw of it and was not credited yet. Whom
    /// nobody waits for properly the kernel leaves out, so that it can tell less than we saw.
    fn take(&mut self, told_ns: u64) -> Nanos {
        self.told_ns = told_ns;
        let unseen = told_ns.saturating_sub(self.of_seen_ns);
        let more = unseen.saturating_sub(self.credited_ns);
        self.credited_ns += more;
        Nanos(more)
    }
}

impl TaskReader {
    /// Adds to the samples what children used that came and went unseen.
    pub(super) fn credit_unseen(&mut self, (job, pid): (JobId, u32), look: &mut SampledTasks) {
        let more = self.ask_about_children(job, pid).unwrap_or_default();
        if more != Nanos::ZERO {
            self.credit(job, pid, more, look);
        }
    }

    fn ask_about_children(&mut self, job: JobId, pid: u32) -> Option<Nanos> {
        let process = self.processes.get_mut(&(job, pid))?;
        if !process.unseen.is_asked() {
            return None;
        }
        let first = process.threads.first_mut()?;
        let told_ns =
            first.read_stat(pid, true, &mut self.descriptors, procfs::parse_children_time)?;
        if told_ns == process.unseen.told_ns {
            return None;
        }
        process.unseen.has_children = true;
        // Who was waited for before the kernel was asked is gone by now, so nobody counts twice.
        self.settle_children(job, pid);
        Some(self.processes.get_mut(&(job, pid))?.unseen.take(told_ns))
    }

    /// Finds the children of a process that are gone, though not yet missed.
    fn settle_children(&mut self, job: JobId, parent: u32) {
        let mut gone_ns = 0u64;
        for (_, child) in self.processes.range_mut((job, 0)..=(job, u32::MAX)) {
            let is_child = child.parent == Some(parent);
            if is_child && !child.threads.iter().any(|thread| thread.is_alive()) {
                child.parent = None; // It is accounted for.
                gone_ns = gone_ns.saturating_add(child.totals().used_ns);
            }
        }
        if let Some(process) = self.processes.get_mut(&(job, parent)) {
            process.unseen.seen_one_go(gone_ns);
        }
    }

    /// A process is gone: what it came to stays with its job, and is known of its parent's children.
    pub(super) fn lose(&mut self, pid: u32) {
        let Some(job) = self.job_of(pid) else { return };
        let Some(process) = self.processes.get(&(job, pid)) else { return };
        let (totals, parent) = (process.totals(), process.parent);
        self.past.entry(job).or_default().add(totals);
        if let Some(parent) = parent.and_then(|parent| self.processes.get_mut(&(job, parent))) {
            parent.unseen.seen_one_go(totals.used_ns);
        }
        self.forget(pid);
    }

    /// Credits to the first process of a job that has ended what it used, as the kernel told when it
    /// was waited for, beyond what was seen.
    pub fn credit_rest(
        &mut self,
        (job, pid): (JobId, u32),
        totals: &TaskTotals,
        used: Nanos,
        look: &mut SampledTasks,
    ) {
        let rest = used.0.saturating_sub(totals.used_ns);
        let Some(process) = self.processes.get_mut(&(job, pid)).filter(|_| rest != 0) else {
            return;
        };
        process.unseen.credited_ns = process.unseen.credited_ns.saturating_add(rest);
        self.credit(job, pid, Nanos(rest), look);
    }

    /// Adds CPU time that was just credited to the sample of the first thread of a process, which may
    /// have to be made.
    fn credit(&self, job: JobId, pid: u32, more: Nanos, look: &mut SampledTasks) {
        let is_first = |thread: &&super::Thread| thread.id.tid == pid;
        let Some(process) = self.processes.get(&(job, pid)) else { return };
        let Some(first) = process.threads.iter().find(is_first) else { return };
        match look.tasks.iter_mut().find(|sample| sample.task == first.id) {
            Some(sample) => sample.cpu_time += more,
            None => look.tasks.push(first.sample(job, pid, process.unseen.credited())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_of_children_is_not_credited_again() {
        let mut unseen = UnseenChildren::default();
        assert_eq!(unseen.take(30), Nanos(30), "nobody was seen");
        unseen.seen_one_go(50);
        assert_eq!(unseen.take(85), Nanos(5), "a seen one used 50, its last 5 unseen");
        assert_eq!((unseen.take(85), unseen.credited()), (Nanos(0), Nanos(35)));
    }

    #[test]
    fn a_child_that_nobody_waited_for_takes_nothing_back() {
        let mut unseen = UnseenChildren::default();
        assert_eq!(unseen.take(30), Nanos(30));
        unseen.seen_one_go(100);
        assert_eq!((unseen.take(60), unseen.credited()), (Nanos(0), Nanos(30)));
    }

    #[test]
    fn a_process_without_children_is_asked_now_and_then() {
        let mut unseen = UnseenChildren::default();
        let asked: Vec<u32> = (1..20).filter(|_| unseen.is_asked()).collect();
        assert_eq!(asked, [1, 9, 17]);
        unseen.has_child();
        assert!(unseen.is_asked() && unseen.is_asked());
    }
}
