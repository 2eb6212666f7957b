//! Budget of file descriptors that stay open between samples.
//!
//! A part of the limit is reserved for other files, for example the files of jobs. Of the remaining descriptors, pidfds
//! of jobs have priority. Without a free descriptor the files of a task are opened for each sample, and the exit of the
//! task is polled.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::fault;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Descriptors for a journal, a report, a terminal, pipes, and files that are open for a short time.
const RESERVE: u64 = 64;
/// Descriptors for remaining processes, which run after the main process of their job has ended.
const REMAINING_PROCESSES: u64 = 16;

/// Number of descriptors that may stay open.
#[derive(Debug)]
pub struct DescriptorBudget {
    free: Arc<AtomicU64>,
    free_for_pidfds: Arc<AtomicU64>,
    /// Whether a request failed because no descriptor was free.
    pub ran_out: bool,
    /// Initial number of free descriptors, without the descriptors for pidfds.
    pub n_all: u64,
    /// Whether files stay open. Otherwise descriptors are used only for counters.
    keeps_files: bool,
}

/// A file that stays open.
#[derive(Debug)]
pub struct KeptFile {
    file: OwnedFd,
    free: Arc<AtomicU64>,
}

impl DescriptorBudget {
    /// Creates the budget for a limit of open descriptors. One pidfd for each job is reserved.
    pub fn new(limit: u64, n_jobs: u64) -> Self {
        let without_reserve = limit.saturating_sub(RESERVE);
        let for_pidfds = (n_jobs + REMAINING_PROCESSES).min(without_reserve / 2);
        let n_all = match crate::fault::is_injected("no-descriptors") {
            true => 0,
            false => without_reserve - for_pidfds,
        };
        let count = |n: u64| Arc::new(AtomicU64::new(n));
        let free_for_pidfds = count(if n_all == 0 { 0 } else { for_pidfds });
        let free = count(n_all);
        DescriptorBudget { free, free_for_pidfds, ran_out: false, n_all, keeps_files: true }
    }

    /// Creates a budget without a limit for counters. No file stays open, because a recording contains each read with
    /// its path.
    pub fn for_recording() -> Self {
        let free = Arc::new(AtomicU64::new(u64::MAX));
        let free_for_pidfds = Arc::default();
        DescriptorBudget { free, free_for_pidfds, ran_out: false, n_all: 0, keeps_files: false }
    }

    /// Opens a pidfd, which becomes readable when the process exits. Returns `Ok(None)` if no descriptor is free.
    pub fn keep_pidfd(&self, pid: u32) -> io::Result<Option<KeptFile>> {
        if self.free_for_pidfds.load(Ordering::Relaxed) == 0 {
            return Ok(None);
        }
        let Some(process) = Pid::from_raw(pid.cast_signed()) else { return Ok(None) };
        let open = || Ok(pidfd_open(process, PidfdFlags::empty())?);
        match fault::retry("pidfd_open", open) {
            Ok(file) => Ok(Some(KeptFile::new(file, &self.free_for_pidfds))),
            Err(error) if is_shortage(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens a file that stays open. Returns `Ok(None)` if no descriptor is free.
    pub fn keep(&mut self, path: &Path) -> io::Result<Option<KeptFile>> {
        if !self.keeps_files {
            return Ok(None);
        }
        if self.free.load(Ordering::Relaxed) == 0 {
            self.ran_out = true;
            return Ok(None);
        }
        match crate::procfs::open(path) {
            Ok(file) => Ok(Some(KeptFile::new(file, &self.free))),
            Err(error) if is_shortage(&error) => {
                self.ran_out = true;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Reserves descriptors for counters. Returns `None` if too few would remain for files.
    pub fn reserve(&self, n: usize) -> Option<DescriptorReservation> {
        let n = n as u64;
        let n_free = self.free.load(Ordering::Relaxed).checked_sub(n)?;
        if n_free < self.n_all / 4 {
            return None;
        }
        self.free.fetch_sub(n, Ordering::Relaxed);
        Some(DescriptorReservation { n, free: Arc::clone(&self.free) })
    }

    /// Records a shortage of descriptors if the error is EMFILE or ENFILE.
    pub(super) fn note_shortage(&mut self, error: &io::Error) {
        self.ran_out |= is_shortage(error);
    }
}

/// Reserved descriptors.
#[derive(Debug)]
pub struct DescriptorReservation {
    n: u64,
    free: Arc<AtomicU64>,
}

impl Drop for DescriptorReservation {
    fn drop(&mut self) {
        self.free.fetch_add(self.n, Ordering::Relaxed);
    }
}

fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

impl KeptFile {
    fn new(file: OwnedFd, free: &Arc<AtomicU64>) -> Self {
        free.fetch_sub(1, Ordering::Relaxed);
        KeptFile { file, free: Arc::clone(free) }
    }

    /// Reads the file again from its start.
    pub fn read<'a>(&self, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
        crate::procfs::read_again(&self.file, buffer)
    }

    /// Returns the number of threads. The file must be a `task` directory.
    pub fn count_threads(&self) -> io::Result<u32> {
        crate::procfs::count_threads(&self.file)
    }
}

impl AsFd for KeptFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        self.free.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_descriptor_is_free_again_and_a_shortage_is_recorded() {
        let mut descriptors = DescriptorBudget::new(RESERVE + 4, 0);
        let path = Path::new("/proc/self/stat");
        let first = descriptors.keep(path).expect("readable").expect("one of two");
        let second = descriptors.keep(path).expect("readable").expect("two of two");
        assert!(descriptors.keep(path).expect("readable").is_none() && descriptors.ran_out);
        drop((first, second));
        assert!(descriptors.keep(path).expect("readable").is_some());
    }
}
