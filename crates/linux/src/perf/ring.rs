//! The ring of a counter: where the kernel writes records, and how far it is.
//!
//! ```text
//!   page 0      head: so much was written in all · tail: so much we have read
//!   pages 1…    records, one after another; what comes after the last page goes on at the first
//! ```

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::fault;

/// Pages that the kernel writes to. They are unmapped with this.
#[derive(Debug)]
pub(super) struct Ring {
    pages: NonNull<u8>,
    page_bytes: usize,
    n_data_pages: usize,
}

/// Where the kernel's page says how far it has written (`struct perf_event_mmap_page`).
const DATA_HEAD: usize = 1024;
/// Where we say how far we have read.
const DATA_TAIL: usize = 1032;

impl Ring {
    /// The ring of a counter, with a power of two of pages for records.
    pub fn map(counter: BorrowedFd<'_>, n_data_pages: usize) -> io::Result<Self> {
        fault::refuse("mmap")?;
        debug_assert!(n_data_pages.is_power_of_two());
        let page_bytes = rustix::param::page_size();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at a place that the kernel chooses touches no memory of ours.
        let pages = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                (1 + n_data_pages) * page_bytes,
                access,
                libc::MAP_SHARED,
                counter.as_raw_fd(),
                0,
            )
        };
        if pages == libc::MAP_FAILED {
            return Err(refused(io::Error::last_os_error()));
        }
        let pages = NonNull::new(pages.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Ring { pages, page_bytes, n_data_pages })
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both offsets lie within the first page, which is mapped for reading and writing as
        // long as `self` lives, and are multiples of 8; the kernel reads and writes these words as
        // whole ones.
        unsafe { AtomicU64::from_ptr(self.pages.as_ptr().add(offset).cast()) }
    }

    /// How many bytes the kernel has written in all.
    pub fn written(&self) -> u64 {
        self.word(DATA_HEAD).load(Ordering::Acquire)
    }

    /// Whether the kernel wrote since we read last.
    pub fn has_records(&self) -> bool {
        self.written() != self.word(DATA_TAIL).load(Ordering::Relaxed)
    }

    /// What was written counts as read.
    pub fn empty(&self) {
        self.word(DATA_TAIL).store(self.written(), Ordering::Release);
    }

    /// What the kernel wrote since, in one piece; it counts as read.
    pub fn take(&self) -> Vec<u8> {
        let size = self.n_data_pages * self.page_bytes;
        let written = self.written();
        let read = self.word(DATA_TAIL).load(Ordering::Relaxed);
        let n_bytes = usize::try_from(written.wrapping_sub(read)).unwrap_or(size).min(size);
        let from = (read % size as u64) as usize;
        let first = n_bytes.min(size - from);
        let mut bytes = vec![0u8; n_bytes];
        // SAFETY: both stretches lie within the data pages, which are mapped as long as `self` lives.
        // The kernel writes only after `head`, which it has told with a release, and not over what
        // lies between `tail` and `head` before `tail` is moved below.
        unsafe {
            let data = self.pages.as_ptr().add(self.page_bytes);
            std::ptr::copy_nonoverlapping(data.add(from), bytes.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(data, bytes[first..].as_mut_ptr(), n_bytes - first);
        }
        self.word(DATA_TAIL).store(written, Ordering::Release);
        bytes
    }
}

/// A ring that is not permitted has nothing to do with the right to count.
fn refused(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::EPERM) => io::Error::new(
            io::ErrorKind::PermissionDenied,
            "no more memory may be locked for it: raise ulimit -l or kernel.perf_event_mlock_kb",
        ),
        _ => error,
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let size = (1 + self.n_data_pages) * self.page_bytes;
        // Not refused: it has no way to fail for a mapping that is there.
        // SAFETY: this is the mapping that `map` made, whole, and no reference into it outlives `self`.
        unsafe { libc::munmap(self.pages.as_ptr().cast(), size) };
    }
}

// SAFETY: the mapping belongs to the process, not to a thread, and is reached only through `self`.
unsafe impl Send for Ring {}
