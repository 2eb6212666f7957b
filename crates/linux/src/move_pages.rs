//! move_pages(2), migrate_pages(2) and capset(2) as plain system calls; no maintained library has them.
//!
//! After some failures move_pages(2) stops early, returns the number of pages that were not moved, and does not write
//! the status of these pages. Each status is therefore initialized with [`UNWRITTEN`], and the caller queries the nodes
//! again.

use std::io;

use base::NodeId;

use crate::fault;

/// Status that the kernel never writes: the page was not processed.
pub const UNWRITTEN: i32 = i32::MIN;
/// Flag: moves only pages that no other process maps.
const MPOL_MF_MOVE: i32 = 1 << 1;

/// Queries the nodes of pages. For each page, `status` receives a node number or a negative error number (`-ENOENT`: no
/// page at this address).
pub fn query(pid: u32, pages: &[u64], status: &mut Vec<i32>) -> io::Result<()> {
    status.clear();
    status.resize(pages.len(), UNWRITTEN);
    fault::inject("move_pages")?;
    // SAFETY: the kernel reads and writes `pages.len()` elements, the size of both lists. The addresses belong to
    // another process and are not dereferenced here.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid,
            pages.len(),
            pages.as_ptr(),
            std::ptr::null::<i32>(),
            status.as_mut_ptr(),
            0,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Moves pages that no other process maps to a node. `status` receives the result of each page, or [`UNWRITTEN`].
pub fn request(pid: u32, pages: &[u64], to: NodeId, status: &mut Vec<i32>) -> io::Result<()> {
    status.clear();
    status.resize(pages.len(), UNWRITTEN);
    fault::inject("move_pages")?;
    let nodes = vec![to.0 as i32; pages.len()];
    // SAFETY: as in `query`; the kernel also reads `pages.len()` nodes.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid,
            pages.len(),
            pages.as_ptr(),
            nodes.as_ptr(),
            status.as_mut_ptr(),
            MPOL_MF_MOVE,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Moves all pages of a process from one node to another, in one call that cannot be interrupted. If the thread has
/// `CAP_SYS_NICE`, the kernel also moves pages that other processes map ([`drop_cap_sys_nice`]).
pub fn migrate_all(pid: u32, from: NodeId, to: NodeId) -> io::Result<()> {
    fault::inject("migrate_pages")?;
    let bit = |node: NodeId| {
        let mut words = vec![0u64; node.index() / 64 + 1];
        words[node.index() / 64] |= 1 << (node.0 % 64);
        words
    };
    let (mut old, mut new) = (bit(from), bit(to));
    let n_words = old.len().max(new.len());
    old.resize(n_words, 0);
    new.resize(n_words, 0);
    // The kernel reads one bit less than `maxnode`.
    let n_bits = n_words * 64 + 1;
    // SAFETY: the kernel reads n_bits - 1 bits of both masks, which is all of their words.
    let done =
        unsafe { libc::syscall(libc::SYS_migrate_pages, pid, n_bits, old.as_ptr(), new.as_ptr()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

const CAP_SYS_NICE: u32 = 23;

/// Removes `CAP_SYS_NICE` from the effective capabilities of the calling thread: with this capability migrate_pages(2)
/// moves pages that other processes map. Other threads keep the capability.
pub fn drop_cap_sys_nice() -> io::Result<()> {
    #[repr(C)]
    struct Head {
        version: u32,
        pid: i32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    fault::inject("capset")?;
    let mut head = Head { version: VERSION_3, pid: 0 };
    let mut sets = [[0u32; 3]; 2]; // Effective, permitted and inheritable set, each with a low and a high word.
    // SAFETY: version 3 writes two such triples, the size of `sets`.
    let got = unsafe { libc::syscall(libc::SYS_capget, &raw mut head, sets.as_mut_ptr()) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    sets[0][0] &= !(1 << CAP_SYS_NICE);
    // SAFETY: the kernel reads the header and two triples, both local variables.
    let set = unsafe { libc::syscall(libc::SYS_capset, &raw mut head, sets.as_ptr()) };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
