//! The calls that tell where pages lie and move them.
//!
//! No library that is kept up has these calls, so they stand here as bare system calls. `move_pages` has
//! a trap: when one page cannot be moved it gives up, answers how many were not moved, and leaves the
//! status of a whole run of pages unwritten. So each status begins as [`UNWRITTEN`], and who asks
//! looks at the pages again.

use std::io;

use base::NodeId;

use crate::fault;

/// What the kernel never answers for a page: it was not asked, or it gave up before.
pub const UNWRITTEN: i32 = i32::MIN;
/// Only pages that this process alone maps.
const MPOL_MF_MOVE: i32 = 1 << 1;

/// Where pages lie: for each its node, or a negative error number (`-ENOENT`: no page there).
pub fn query(pid: u32, pages: &[u64], status: &mut Vec<i32>) -> io::Result<()> {
    status.clear();
    status.resize(pages.len(), UNWRITTEN);
    fault::refuse("move_pages")?;
    // SAFETY: the kernel reads as many addresses and writes as many numbers as the count says, which
    // both lists have; the addresses are another process's and are not followed here.
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

/// Asks for pages to be moved to a node, those that no other process maps. What came of each stands in
/// `status`, as far as the kernel wrote it.
pub fn ask(pid: u32, pages: &[u64], to: NodeId, status: &mut Vec<i32>) -> io::Result<()> {
    status.clear();
    status.resize(pages.len(), UNWRITTEN);
    fault::refuse("move_pages")?;
    let nodes = vec![to.0 as i32; pages.len()];
    // SAFETY: as in `query`, and the kernel reads as many nodes.
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

/// Moves all pages of a process that lie on one node to another, in one call that cannot be stopped.
/// Whoever has `CAP_SYS_NICE` moves with it what other processes map too ([`drop_move_all`]).
pub fn whole(pid: u32, from: NodeId, to: NodeId) -> io::Result<()> {
    fault::refuse("migrate_pages")?;
    let bit = |node: NodeId| {
        let mut words = vec![0u64; node.index() / 64 + 1];
        words[node.index() / 64] |= 1 << (node.0 % 64);
        words
    };
    let (mut old, mut new) = (bit(from), bit(to));
    let n_words = old.len().max(new.len());
    old.resize(n_words, 0);
    new.resize(n_words, 0);
    // The kernel reads one bit less than it is told.
    let n_bits = n_words * 64 + 1;
    // SAFETY: the kernel reads as many words of both as n_bits - 1 bits fill, which is what there is.
    let done =
        unsafe { libc::syscall(libc::SYS_migrate_pages, pid, n_bits, old.as_ptr(), new.as_ptr()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

const CAP_SYS_NICE: u32 = 23;

/// Takes from the calling thread the right to move what other processes map too (`CAP_SYS_NICE`,
/// from what is effective): `migrate_pages` would use it unasked. Other threads keep theirs.
pub fn drop_move_all() -> io::Result<()> {
    #[repr(C)]
    struct Head {
        version: u32,
        pid: i32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    fault::refuse("capset")?;
    let mut head = Head { version: VERSION_3, pid: 0 };
    let mut sets = [[0u32; 3]; 2]; // Effective, permitted, inheritable; low word, high word.
    // SAFETY: version 3 has two such triples, and the kernel writes no more.
    let got = unsafe { libc::syscall(libc::SYS_capget, &raw mut head, sets.as_mut_ptr()) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    sets[0][0] &= !(1 << CAP_SYS_NICE);
    // SAFETY: the kernel reads the head and the two triples, which are ours.
    let set = unsafe { libc::syscall(libc::SYS_capset, &raw mut head, sets.as_ptr()) };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
