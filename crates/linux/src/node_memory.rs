//! Memory of one node for a measurement: an anonymous mapping, with huge pages if the kernel provides them.
//!
//! The kernel allocates a page at its first access by the memory policy of the accessing thread ([`crate::mempolicy`]). A
//! thread that is bound to a node therefore allocates the mapping there when it writes to it.

use std::io;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::ptr::NonNull;

use crate::fault;

/// Size of a huge page on x86-64 and, with 4 KiB pages, on arm64. A mapping of a multiple of this size can consist of huge
/// pages only.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A private anonymous mapping of 64-bit words, which are initially 0.
#[derive(Debug)]
pub struct NodeBuffer {
    start: NonNull<u64>,
    n_bytes: usize,
}

// SAFETY: the mapping belongs to this value only, like the memory of a Vec<u64>.
unsafe impl Send for NodeBuffer {}
// SAFETY: a shared reference permits reads only.
unsafe impl Sync for NodeBuffer {}

impl NodeBuffer {
    /// Maps at least this number of bytes, rounded up to huge pages. No page is allocated yet.
    pub fn map(n_bytes: usize) -> io::Result<Self> {
        let n_bytes = n_bytes.max(1).next_multiple_of(HUGE_PAGE_BYTES);
        fault::inject("mmap")?;
        let (access, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new private mapping at an address that the kernel selects.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), n_bytes, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // An error means that the kernel has no huge pages. The mapping is valid without them.
        if fault::inject("madvise").is_ok() {
            // SAFETY: the range is the mapping, and the advice does not change its content.
            unsafe { libc::madvise(start, n_bytes, libc::MADV_HUGEPAGE) };
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(NodeBuffer { start, n_bytes })
    }
}

/// Returns whether the kernel provides transparent huge pages to mappings that request them.
pub fn has_huge_pages(root: &Path) -> bool {
    let path = root.join("sys/kernel/mm/transparent_hugepage/enabled");
    let text = fault::retry("openat", || std::fs::read_to_string(&path));
    text.is_ok_and(|text| !text.contains("[never]"))
}

impl Deref for NodeBuffer {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        // SAFETY: the mapping is aligned to a page, readable, initialised with zeros by the kernel, and lives as long as
        // `self`. Every bit pattern is a valid u64.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.n_bytes / 8) }
    }
}

impl DerefMut for NodeBuffer {
    fn deref_mut(&mut self) -> &mut [u64] {
        // SAFETY: as in `deref`; `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.n_bytes / 8) }
    }
}

impl Drop for NodeBuffer {
    fn drop(&mut self) {
        // No fault injection: the call fails for invalid ranges only.
        // SAFETY: the range is the mapping, and no reference to it remains.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.n_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_zero_writable_and_a_multiple_of_a_huge_page() {
        let mut memory = NodeBuffer::map(3 << 20).expect("4 MiB are available");
        assert_eq!((memory.len(), memory.iter().max()), ((4 << 20) / 8, Some(&0)));
        memory[7] = 5;
        assert_eq!(memory.iter().sum::<u64>(), 5);
    }
}
