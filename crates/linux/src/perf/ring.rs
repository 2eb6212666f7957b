//! Ring buffer of a counter, shared with the kernel.
//!
//! ```text
//!   page 0      head: bytes written by the kernel · tail: bytes read by this program
//!   pages 1…    records; after the last page the kernel continues at page 1
//! ```

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::fault;

/// The mapped pages, unmapped on drop.
#[derive(Debug)]
pub(crate) struct RingBuffer {
    pages: NonNull<u8>,
    page_bytes: usize,
    n_data_pages: usize,
}

/// Offset of `data_head` in `struct perf_event_mmap_page`.
const DATA_HEAD: usize = 1024;
/// Offset of `data_tail` in `struct perf_event_mmap_page`.
const DATA_TAIL: usize = 1032;

impl RingBuffer {
    /// Maps the ring buffer of a counter with `n_data_pages` data pages, a power of two.
    pub fn map(counter: BorrowedFd<'_>, n_data_pages: usize) -> io::Result<Self> {
        fault::inject("mmap")?;
        debug_assert!(n_data_pages.is_power_of_two());
        let page_bytes = rustix::param::page_size();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel selects overlaps no memory in use.
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
            return Err(mlock_limit(io::Error::last_os_error()));
        }
        let pages = NonNull::new(pages.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(RingBuffer { pages, page_bytes, n_data_pages })
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both offsets are multiples of 8 within the first page, which is mapped for reading and
        // writing as long as `self` lives. The kernel accesses these words atomically.
        unsafe { AtomicU64::from_ptr(self.pages.as_ptr().add(offset).cast()) }
    }

    /// Returns the total number of bytes written by the kernel.
    pub fn written(&self) -> u64 {
        self.word(DATA_HEAD).load(Ordering::Acquire)
    }

    /// Returns whether unread records exist.
    pub fn has_records(&self) -> bool {
        self.written() != self.word(DATA_TAIL).load(Ordering::Relaxed)
    }

    /// Marks all records as read.
    pub fn mark_read(&self) {
        self.word(DATA_TAIL).store(self.written(), Ordering::Release);
    }

    /// Returns all unread records and marks them as read.
    pub fn take(&self) -> Vec<u8> {
        let size = self.n_data_pages * self.page_bytes;
        let written = self.written();
        let read = self.word(DATA_TAIL).load(Ordering::Relaxed);
        let n_bytes = usize::try_from(written.wrapping_sub(read)).unwrap_or(size).min(size);
        let from = (read % size as u64) as usize;
        let first = n_bytes.min(size - from);
        let mut bytes = vec![0u8; n_bytes];
        // SAFETY: both ranges are within the data pages, which are mapped as long as `self` lives. The
        // kernel writes only after `head`, which it publishes with release semantics, and does not
        // overwrite data between `tail` and `head` before `tail` is moved below.
        unsafe {
            let data = self.pages.as_ptr().add(self.page_bytes);
            std::ptr::copy_nonoverlapping(data.add(from), bytes.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(data, bytes[first..].as_mut_ptr(), n_bytes - first);
        }
        self.word(DATA_TAIL).store(written, Ordering::Release);
        bytes
    }
}

/// Explains EPERM of mmap(2): the limit `perf_event_mlock_kb` is exceeded. Counting itself is permitted.
fn mlock_limit(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::EPERM) => io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the limit of locked memory is reached: raise ulimit -l or kernel.perf_event_mlock_kb",
        ),
        _ => error,
    }
}

impl Drop for RingBuffer {
    fn drop(&mut self) {
        let size = (1 + self.n_data_pages) * self.page_bytes;
        // No fault injection: the call cannot fail for an existing mapping.
        // SAFETY: the range is the whole mapping of `map`; no reference into it outlives `self`.
        unsafe { libc::munmap(self.pages.as_ptr().cast(), size) };
    }
}

// SAFETY: the mapping belongs to the process, not to a thread, and is accessed only through `self`.
unsafe impl Send for RingBuffer {}
