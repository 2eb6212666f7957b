//! Where the memory of a process comes from: `set_mempolicy`, set by a child on itself before exec.
//!
//! No library that is kept up has these calls, so they stand here as bare system calls.

use std::io;
use std::path::Path;

use base::NodeSet;
use program::MemoryPolicy;

use crate::fault;

const MPOL_PREFERRED: i32 = 1;
const MPOL_BIND: i32 = 2;
const MPOL_INTERLEAVE: i32 = 3;
/// Since Linux 5.15.
const MPOL_PREFERRED_MANY: i32 = 5;
/// Since Linux 6.9.
const MPOL_WEIGHTED_INTERLEAVE: i32 = 6;
/// The kernel can be built for 1024 nodes at most.
const WORDS: usize = 1024 / 64;

/// A memory policy in the kernel's own form, ready for a child between fork and exec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    mode: i32,
    nodes: Vec<u64>,
}

impl Prepared {
    /// Translates; a preference for one node takes the form that every kernel knows.
    pub fn new(policy: &MemoryPolicy) -> Self {
        let (mode, nodes) = match policy {
            MemoryPolicy::Bind(nodes) => (MPOL_BIND, nodes),
            MemoryPolicy::Preferred(nodes) if nodes.len() == 1 => (MPOL_PREFERRED, nodes),
            MemoryPolicy::Preferred(nodes) => (MPOL_PREFERRED_MANY, nodes),
            MemoryPolicy::Interleave(nodes) => (MPOL_INTERLEAVE, nodes),
            MemoryPolicy::WeightedInterleave(nodes) => (MPOL_WEIGHTED_INTERLEAVE, nodes),
        };
        Prepared { mode, nodes: nodes.words().collect() }
    }

    /// Makes it the policy of the calling thread and of all that it starts. Allocates nothing.
    pub fn apply(&self) -> io::Result<()> {
        fault::refuse("set_mempolicy")?;
        // The kernel reads one bit less than it is told: a quirk as old as the call.
        let n_bits = self.nodes.len() * 64 + 1;
        // SAFETY: the kernel reads as many words as n_bits - 1 bits fill, which is what there is.
        let done = unsafe {
            libc::syscall(libc::SYS_set_mempolicy, self.mode, self.nodes.as_ptr(), n_bits)
        };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Whether this kernel interleaves by weights; the weights are the system's, and are left as they are.
pub fn has_weighted(root: &Path) -> bool {
    let path = root.join("sys/kernel/mm/mempolicy/weighted_interleave");
    fault::retry("stat", || std::fs::metadata(&path)).is_ok_and(|meta| meta.is_dir())
}

/// The nodes that the calling thread's own policy names and whether it interleaves over them.
pub fn own() -> io::Result<(bool, NodeSet)> {
    fault::refuse("get_mempolicy")?;
    let mut mode: i32 = 0;
    let mut nodes = [0u64; WORDS];
    // SAFETY: the kernel writes one int and at most the number of bits given, into memory of ours.
    let done = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            &raw mut mode,
            nodes.as_mut_ptr(),
            WORDS * 64,
            std::ptr::null::<u8>(),
            0,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    // The upper bits of the mode are flags.
    let interleaves = matches!(mode & 0xff, MPOL_INTERLEAVE | MPOL_WEIGHTED_INTERLEAVE);
    Ok((interleaves, NodeSet::from_words(&nodes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_preferred_node_takes_the_form_that_old_kernels_know() {
        let one = MemoryPolicy::Preferred([base::NodeId(3)].into_iter().collect());
        assert_eq!(Prepared::new(&one), Prepared { mode: MPOL_PREFERRED, nodes: vec![8] });
        let two = MemoryPolicy::Preferred([0, 64].map(base::NodeId).into_iter().collect());
        assert_eq!(Prepared::new(&two), Prepared { mode: MPOL_PREFERRED_MANY, nodes: vec![1, 1] });
    }

    #[test]
    fn a_policy_that_was_set_is_read_again() {
        std::thread::spawn(|| {
            let node0: NodeSet = [base::NodeId(0)].into_iter().collect();
            if Prepared::new(&MemoryPolicy::Interleave(node0.clone())).apply().is_err() {
                println!("not run: this kernel has no memory policies, or no node 0 for us");
                return;
            }
            assert_eq!(own().expect("own policy"), (true, node0));
        })
        .join()
        .expect("the thread");
    }
}
