//! Finds processes that exit before a pass over all processes inspects them.
//!
//! ```text
//!   A starts B and exits ─► B starts C and exits ─► C …     each with the changed affinity of its parent
//! ```
//!
//! A pass lists all processes before it inspects them, and then each of these processes may have exited. The newest PID
//! of `/proc/loadavg` is the PID of a process that was just started: its inspection begins microseconds later. As soon
//! as one process of the chain has its original affinity, its successors have it too.

use std::time::Duration;

use super::tasks::TaskRestore;
use crate::procfs;

/// Time for which new processes are inspected one by one after a pass during which a process was started. Guessed: a
/// shell starts some hundred processes in this time.
const WATCH_TIME: Duration = Duration::from_millis(50);
/// Number of newest PIDs that are inspected if several processes were started since the last inspection.
const N_NEWEST_MAX: u32 = 16;

impl TaskRestore<'_, '_> {
    /// Inspects the newest processes for a time. Returns the first process with restored threads and their number: the
    /// inspection ends there, because the process may have other changed children.
    pub(super) fn restore_newest(&mut self) -> Option<(u32, u64)> {
        let root = self.search.root;
        if self.search.header.watches {
            return None;
        }
        let end = self.run.now() + WATCH_TIME;
        let mut last = 0;
        while self.run.now() < end && !self.run.is_stop_requested() {
            let newest = procfs::newest_pid(root).ok()?;
            // The last PID is inspected again: its process may have been started in the meantime.
            let first = newest.saturating_sub(N_NEWEST_MAX);
            let first = if (first..=newest).contains(&last) { last } else { first };
            for pid in (first..=newest).rev() {
                let n_restored = self.restore_new(pid);
                if n_restored != 0 {
                    return Some((pid, n_restored));
                }
            }
            last = newest;
        }
        None
    }

    /// Restores a process if it belongs to a job and has a changed affinity. Returns the number of restored threads.
    fn restore_new(&mut self, pid: u32) -> u64 {
        let Some((job, stat)) = self.search.new_member(pid) else { return 0 };
        self.restore_process(pid, &job, &stat)
    }
}
