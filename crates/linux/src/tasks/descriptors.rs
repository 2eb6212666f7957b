//! How many files may stay open for reading, and those that do.
//!
//! Part of the limit is left for everything else: files of jobs must be opened even when thousands run.
//! Of the rest, ends of jobs come first. Who gets no descriptor is read by opening its files each time,
//! or asked now and then whether it has ended.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::fault;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Descriptors for a journal, a report, a terminal, pipes, and files that are opened for a moment.
const RESERVE: u64 = 64;
/// Processes that outlive their jobs are waited for too.
const STRAGGLERS: u64 = 16;

/// How many descriptors may be kept.
#[derive(Debug)]
pub struct DescriptorBudget {
    free: Arc<AtomicU64>,
    free_for_ends: Arc<AtomicU64>,
    /// Whether one was wanted and there was none.
    pub ran_out: bool,
    /// How many there were to begin with.
    pub n_all: u64,
}

/// A file that stays open.
#[derive(Debug)]
pub struct KeptFile {
    file: OwnedFd,
    free: Arc<AtomicU64>,
}

impl DescriptorBudget {
    /// What a limit leaves for reading, beside one descriptor for the end of each of these jobs.
    pub fn new(limit: u64, n_jobs: u64) -> Self {
        let without_reserve = limit.saturating_sub(RESERVE);
        let for_ends = (n_jobs + STRAGGLERS).min(without_reserve / 2);
        let n_all = match crate::fault::asked("no-descriptors") {
            true => 0,
            false => without_reserve - for_ends,
        };
        let count = |n: u64| Arc::new(AtomicU64::new(n));
        let free_for_ends = count(if n_all == 0 { 0 } else { for_ends });
        DescriptorBudget { free: count(n_all), free_for_ends, ran_out: false, n_all }
    }

    /// A descriptor that tells of the end of a process; `Ok(None)`: there is none left for it.
    pub fn keep_pidfd(&self, pid: u32) -> io::Result<Option<KeptFile>> {
        if self.free_for_ends.load(Ordering::Relaxed) == 0 {
            return Ok(None);
        }
        let Some(process) = Pid::from_raw(pid.cast_signed()) else { return Ok(None) };
        let open = || Ok(pidfd_open(process, PidfdFlags::empty())?);
        match fault::retry("pidfd_open", open) {
            Ok(file) => Ok(Some(KeptFile::new(file, &self.free_for_ends))),
            Err(error) if is_shortage(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens a file to be kept. `Ok(None)`: there is no descriptor left for it.
    pub fn keep(&mut self, path: &Path) -> io::Result<Option<KeptFile>> {
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

    /// Sets descriptors aside for counters; `None` when too few would be left for files.
    pub fn reserve(&self, n: usize) -> Option<DescriptorReservation> {
        let n = n as u64;
        let left = self.free.load(Ordering::Relaxed).checked_sub(n)?;
        if left < self.n_all / 4 {
            return None;
        }
        self.free.fetch_sub(n, Ordering::Relaxed);
        Some(DescriptorReservation { n, free: Arc::clone(&self.free) })
    }

    /// Takes notice if an error says that there are no descriptors.
    pub(super) fn note_shortage(&mut self, error: &io::Error) {
        self.ran_out |= is_shortage(error);
    }
}

/// Descriptors that are set aside.
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

    /// For a `task` folder: how many threads there are.
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
    fn what_is_closed_can_be_kept_again_and_a_shortage_is_told_once() {
        let mut descriptors = DescriptorBudget::new(RESERVE + 4, 0);
        let path = Path::new("/proc/self/stat");
        let first = descriptors.keep(path).expect("our own").expect("one of two");
        let second = descriptors.keep(path).expect("our own").expect("two of two");
        assert!(descriptors.keep(path).expect("our own").is_none() && descriptors.ran_out);
        drop((first, second));
        assert!(descriptors.keep(path).expect("our own").is_some());
    }
}
