//! CPU time of children that start and exit between two samples.
//!
//! A shell that runs many short programs uses little CPU time itself, and its children may exit before they are
//! sampled. For each process the kernel accounts the CPU time of its reaped children, including the children that they
//! have reaped. The part of this time that was not sampled is credited to the main thread of the process, so that the
//! load of a job is complete.
//!
//! ```text
//!   make ── sh ── cc1      make reaps sh, which has reaped cc1: the kernel adds the CPU time of both to make
//! ```

use base::{JobId, Nanos};

use super::{SampledTasks, TaskReader, TaskTotals};
use crate::source::Source;

/// Interval, in samples, between polls for reaped children of a process without known children.
const POLL_PERIOD: u32 = 8;

/// Accounting of the children of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnseenChildren {
    n_samples: u32,
    has_children: bool,
    /// CPU time of reaped children according to the kernel, at the last poll.
    reaped_ns: u64,
    /// Sampled CPU time of children that have exited, including the children that they have reaped.
    sampled_ns: u64,
    credited_ns: u64,
}

impl UnseenChildren {
    /// Returns the CPU time of children that were never sampled.
    pub(super) fn credited(&self) -> Nanos {
        Nanos(self.credited_ns)
    }

    /// Records that the process has a child. The process may start further children.
    pub(super) fn record_child(&mut self) {
        self.has_children = true;
    }

    /// Adds the sampled CPU time of a child that has exited.
    fn add_exited(&mut self, sampled_ns: u64) {
        self.sampled_ns = self.sampled_ns.saturating_add(sampled_ns);
    }

    /// Returns whether the process has had a child.
    pub(super) fn has_had_children(&self) -> bool {
        self.has_children
    }

    /// Returns whether this sample polls for reaped children.
    fn is_polled(&mut self) -> bool {
        self.n_samples = self.n_samples.wrapping_add(1);
        self.has_children || self.n_samples % POLL_PERIOD == 1
    }

    /// Records the CPU time of reaped children. Returns the part that was neither sampled nor credited. The kernel
    /// omits children that are reaped automatically (SIGCHLD ignored), so `reaped_ns` may be smaller than the sampled
    /// CPU time.
    fn credit(&mut self, reaped_ns: u64) -> Nanos {
        self.reaped_ns = reaped_ns;
        let unseen = reaped_ns.saturating_sub(self.sampled_ns);
        let unaccounted = unseen.saturating_sub(self.credited_ns);
        self.credited_ns += unaccounted;
        Nanos(unaccounted)
    }
}

impl<S: Source> TaskReader<S> {
    /// Adds to the sample the CPU time of children that were never sampled.
    pub(super) fn credit_unseen(&mut self, (job, pid): (JobId, u32), sampled: &mut SampledTasks) {
        let unaccounted = self.poll_reaped_children(job, pid).unwrap_or_default();
        if unaccounted != Nanos::ZERO {
            self.credit(job, pid, unaccounted, sampled);
        }
    }

    fn poll_reaped_children(&mut self, job: JobId, pid: u32) -> Option<Nanos> {
        let process = self.processes.get_mut(&(job, pid))?;
        if !process.unseen.is_polled() {
            return None;
        }
        let stat = process.threads.first_mut()?.read_stat(pid, true, &mut self.files)?;
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
        let reaped_ns = stat.reaped_children_ticks.checked_mul(tick_ns)?;
        if reaped_ns == process.unseen.reaped_ns {
            return None;
        }
        process.unseen.has_children = true;
        // Children that exited since their last sample are accounted first, so that no child is counted twice.
        self.account_exited_children(job, pid);
        Some(self.processes.get_mut(&(job, pid))?.unseen.credit(reaped_ns))
    }

    /// Accounts children of a process that have exited since their last sample, and before them their children.
    fn account_exited_children(&mut self, job: JobId, parent: u32) {
        let (processes, files) = (&mut self.processes, &mut self.files);
        let exited: Vec<u32> = processes
            .range_mut((job, 0)..=(job, u32::MAX))
            .filter(|(_, child)| child.parent == Some(parent))
            .filter(|((_, pid), child)| {
                !child.threads.iter().any(|thread| thread.is_running(*pid, files))
            })
            .map(|(&(_, pid), _)| pid)
            .collect();
        for pid in exited {
            // The link is removed first: each child is accounted once, also if PIDs were reused.
            self.processes.entry((job, pid)).and_modify(|child| child.parent = None);
            self.account_exited_children(job, pid);
            self.add_to_parent(job, pid, parent);
        }
    }

    fn add_to_parent(&mut self, job: JobId, pid: u32, parent: u32) {
        let Some(child) = self.processes.get(&(job, pid)) else { return };
        let sampled_ns = child.totals().used_ns.saturating_add(child.unseen.sampled_ns);
        if let Some(process) = self.processes.get_mut(&(job, parent)) {
            process.unseen.add_exited(sampled_ns);
        }
    }

    /// Removes processes that exited, children before their parents, and adds their totals to their jobs and parents.
    pub(super) fn remove_exited(&mut self, mut exited: Vec<u32>) {
        exited.sort_by_key(|pid| std::cmp::Reverse(self.n_ancestors(*pid)));
        for pid in exited {
            let Some(job) = self.job_of(pid) else { continue };
            let Some(process) = self.processes.get(&(job, pid)) else { continue };
            let (totals, parent) = (process.totals(), process.parent);
            self.past.entry(job).or_default().add(totals);
            if let Some(parent) = parent {
                self.add_to_parent(job, pid, parent);
            }
            self.remove_process(pid);
        }
    }

    /// Returns the number of known ancestors of a process in its job.
    fn n_ancestors(&self, pid: u32) -> usize {
        /// Reused PIDs can be a cycle.
        const LIMIT: usize = 1000;
        let Some(job) = self.job_of(pid) else { return 0 };
        let parent = |pid: &u32| self.processes.get(&(job, *pid))?.parent;
        std::iter::successors(parent(&pid), parent).take(LIMIT).count()
    }

    /// Credits CPU time to an exited main process of a job: the CPU time that wait4(2) returned minus the sampled part.
    pub fn credit_unsampled(
        &mut self,
        (job, pid): (JobId, u32),
        totals: &TaskTotals,
        used: Nanos,
        sampled: &mut SampledTasks,
    ) {
        let unsampled_ns = used.0.saturating_sub(totals.used_ns);
        let Some(process) = self.processes.get_mut(&(job, pid)).filter(|_| unsampled_ns != 0)
        else {
            return;
        };
        process.unseen.credited_ns = process.unseen.credited_ns.saturating_add(unsampled_ns);
        self.credit(job, pid, Nanos(unsampled_ns), sampled);
    }

    /// Adds credited CPU time to the sample of the main thread of a process. Creates the sample if necessary.
    fn credit(&self, job: JobId, pid: u32, unaccounted: Nanos, sampled: &mut SampledTasks) {
        let is_first = |thread: &&super::Thread| thread.id.tid == pid;
        let Some(process) = self.processes.get(&(job, pid)) else { return };
        let Some(first) = process.threads.iter().find(is_first) else { return };
        match sampled.tasks.iter_mut().find(|sample| sample.task == first.id) {
            Some(sample) => {
                sample.cpu_time += unaccounted;
                sample.unseen_children += unaccounted;
            }
            None => sampled.tasks.push(first.sample(job, pid, process.unseen.credited())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampled_cpu_time_of_children_is_not_credited_again() {
        let mut unseen = UnseenChildren::default();
        assert_eq!(unseen.credit(30), Nanos(30), "no child was sampled");
        unseen.add_exited(50);
        assert_eq!(
            unseen.credit(85),
            Nanos(5),
            "the sampled child used 50, and 5 were not sampled"
        );
        assert_eq!((unseen.credit(85), unseen.credited()), (Nanos(0), Nanos(35)));
    }

    #[test]
    fn a_child_that_the_kernel_omits_does_not_reduce_credits() {
        let mut unseen = UnseenChildren::default();
        assert_eq!(unseen.credit(30), Nanos(30));
        unseen.add_exited(100);
        assert_eq!((unseen.credit(60), unseen.credited()), (Nanos(0), Nanos(30)));
    }

    #[test]
    fn a_process_without_children_is_polled_in_every_eighth_sample() {
        let mut unseen = UnseenChildren::default();
        let polled: Vec<u32> = (1..20).filter(|_| unseen.is_polled()).collect();
        assert_eq!(polled, [1, 9, 17]);
        unseen.record_child();
        assert!(unseen.is_polled() && unseen.is_polled());
    }
}
