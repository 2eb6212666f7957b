//! Jobs that the kernel OOM-killed.
//!
//! An OOM kill sends SIGKILL, like every other program that may kill a process. The kernel counts its OOM kills in
//! `/proc/vmstat` (`oom_kill`, since Linux 4.13), for the whole system and for all memory cgroups. A job that ends by
//! SIGKILL counts as OOM-killed if evenkeel did not send the signal and the kernel has counted an OOM kill in this run
//! that no earlier job accounts for. If a child of the job was killed, its shell exits with status 137.

use std::path::PathBuf;

use linux::procfs;
use sched::ExitStatus;

const SIGKILL: i32 = 9;
/// Exit status of a shell whose last command was ended by SIGKILL.
const SHELL_SIGKILL: i32 = 128 + SIGKILL;

/// OOM kills of the system during a run.
#[derive(Debug)]
pub(super) struct OomKills {
    root: PathBuf,
    /// OOM kills before the run, and of jobs of the run; `None` if the kernel does not count them.
    n_accounted: Option<u64>,
}

impl OomKills {
    /// Starts to count. `root` is `/` outside of tests.
    pub fn new(root: PathBuf) -> Self {
        let n_accounted = procfs::n_oom_kills(&root);
        OomKills { root, n_accounted }
    }

    /// Returns whether an OOM kill explains this exit of a job, and accounts for the OOM kill.
    pub fn explains(&mut self, status: ExitStatus) -> bool {
        let is_killed =
            matches!(status, ExitStatus::Signaled(SIGKILL) | ExitStatus::Exited(SHELL_SIGKILL));
        let Some(n_accounted) = self.n_accounted.as_mut().filter(|_| is_killed) else {
            return false;
        };
        let is_new = procfs::n_oom_kills(&self.root).is_some_and(|n| *n_accounted < n);
        *n_accounted += u64::from(is_new);
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_ended_by_sigkill_is_oom_killed_only_if_the_kernel_counted_an_oom_kill() {
        let dir = tempfile::tempdir().expect("a directory");
        let count = |text: &str| {
            std::fs::create_dir_all(dir.path().join("proc")).expect("can be created");
            std::fs::write(dir.path().join("proc/vmstat"), text).expect("can be written");
        };
        count("nr_free_pages 7\noom_kill 3\n");
        let mut kills = OomKills::new(dir.path().to_owned());
        assert!(!kills.explains(ExitStatus::Signaled(9)), "no OOM kill in this run");
        count("nr_free_pages 7\noom_kill 5\n");
        assert!(
            !kills.explains(ExitStatus::Exited(1)) && !kills.explains(ExitStatus::Signaled(15))
        );
        assert!(kills.explains(ExitStatus::Signaled(9)), "the first OOM kill");
        assert!(kills.explains(ExitStatus::Exited(137)), "the second OOM kill, of a child");
        assert!(!kills.explains(ExitStatus::Signaled(9)), "all OOM kills are accounted for");
    }

    #[test]
    fn without_a_count_of_the_kernel_no_job_is_oom_killed() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(!OomKills::new(dir.path().to_owned()).explains(ExitStatus::Signaled(9)));
    }
}
