//! Memory policy of a process: set_mempolicy(2), called by a child before exec. The constants are those of
//! `linux/mempolicy.h`; no maintained library has them.

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
/// The kernel supports at most 1024 nodes.
const WORDS: usize = 1024 / 64;

/// A memory policy in the form of the system call, prepared for a child between fork and exec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    mode: i32,
    nodes: Vec<u64>,
}

impl Prepared {
    /// Converts a policy. A single preferred node is converted to MPOL_PREFERRED, which every kernel supports.
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

    /// Sets the policy of the calling thread and of its future children. Does not allocate.
    pub fn apply(&self) -> io::Result<()> {
        fault::inject("set_mempolicy")?;
        // The kernel reads one bit less than `maxnode`.
        let n_bits = self.nodes.len() * 64 + 1;
        // SAFETY: the kernel reads n_bits - 1 bits, which is all of `nodes`.
        let done = unsafe {
            libc::syscall(libc::SYS_set_mempolicy, self.mode, self.nodes.as_ptr(), n_bits)
        };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Returns whether the kernel supports weighted interleaving. evenkeel does not change the weights, which are
/// system-wide.
pub fn has_weighted(root: &Path) -> bool {
    let path = root.join("sys/kernel/mm/mempolicy/weighted_interleave");
    fault::retry("stat", || std::fs::metadata(&path)).is_ok_and(|meta| meta.is_dir())
}

/// Returns whether the memory policy of the calling thread interleaves, and the nodes of the policy.
pub fn thread_policy() -> io::Result<(bool, NodeSet)> {
    fault::inject("get_mempolicy")?;
    let mut mode: i32 = 0;
    let mut nodes = [0u64; WORDS];
    // SAFETY: the kernel writes one int and at most the given number of bits, the size of `nodes`.
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
    fn one_preferred_node_uses_the_mode_of_old_kernels() {
        let one = MemoryPolicy::Preferred([base::NodeId(3)].into_iter().collect());
        assert_eq!(Prepared::new(&one), Prepared { mode: MPOL_PREFERRED, nodes: vec![8] });
        let two = MemoryPolicy::Preferred([0, 64].map(base::NodeId).into_iter().collect());
        assert_eq!(Prepared::new(&two), Prepared { mode: MPOL_PREFERRED_MANY, nodes: vec![1, 1] });
    }

    #[test]
    fn a_policy_that_was_set_is_read_back() {
        std::thread::spawn(|| {
            let node0: NodeSet = [base::NodeId(0)].into_iter().collect();
            if Prepared::new(&MemoryPolicy::Interleave(node0.clone())).apply().is_err() {
                println!("not run: no memory policies in this kernel, or node 0 is not allowed");
                return;
            }
            assert_eq!(thread_policy().expect("own policy"), (true, node0));
        })
        .join()
        .expect("the thread");
    }
}
