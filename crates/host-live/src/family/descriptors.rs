//! How many files may stay open for reading, and those that do.
//!
//! Part of the limit is left for everything else: ends of jobs must be heard and files of jobs opened
//! even when thousands run. Who gets no descriptor is read by opening its files each time.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Descriptors for a journal, a report, a terminal, pipes, and files that are opened for a moment.
const RESERVE: u64 = 64;

/// How many descriptors may be kept.
#[derive(Debug)]
pub(crate) struct Descriptors {
    free: Arc<AtomicU64>,
    /// Whether one was wanted and there was none.
    pub ran_out: bool,
    /// How many there were to begin with.
    pub n_all: u64,
}

/// A file that stays open.
#[derive(Debug)]
pub(crate) struct Kept {
    file: OwnedFd,
    free: Arc<AtomicU64>,
}

impl Descriptors {
    /// What a limit leaves for reading, beside one descriptor for the end of each of these jobs.
    pub(crate) fn new(limit: u64, n_jobs: u64) -> Self {
        let without_reserve = limit.saturating_sub(RESERVE);
        let for_ends = n_jobs.min(without_reserve / 2);
        let n_all = match linux::fault::asked("no-descriptors") {
            true => 0,
            false => without_reserve - for_ends,
        };
        Descriptors { free: Arc::new(AtomicU64::new(n_all)), ran_out: false, n_all }
    }

    /// Opens a file to be kept. `Ok(None)`: there is no descriptor left for it.
    pub(crate) fn keep(&mut self, path: &Path) -> io::Result<Option<Kept>> {
        if self.free.load(Ordering::Relaxed) == 0 {
            self.ran_out = true;
            return Ok(None);
        }
        match linux::procfs::open(path) {
            Ok(file) => {
                self.free.fetch_sub(1, Ordering::Relaxed);
                Ok(Some(Kept { file, free: Arc::clone(&self.free) }))
            }
            Err(error) if is_shortage(&error) => {
                self.ran_out = true;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

impl Kept {
    /// Reads the file again from its start.
    pub(crate) fn read<'a>(&self, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
        linux::procfs::read_again(&self.file, buffer)
    }

    /// For a `task` folder: how many threads there are.
    pub(crate) fn count_threads(&self) -> io::Result<u32> {
        linux::procfs::count_threads(&self.file)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.free.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_closed_can_be_kept_again_and_a_shortage_is_told_once() {
        let mut descriptors = Descriptors::new(RESERVE + 3, 1);
        let path = Path::new("/proc/self/stat");
        let first = descriptors.keep(path).expect("our own").expect("one of two");
        let second = descriptors.keep(path).expect("our own").expect("two of two");
        assert!(descriptors.keep(path).expect("our own").is_none() && descriptors.ran_out);
        drop((first, second));
        assert!(descriptors.keep(path).expect("our own").is_some());
    }
}
