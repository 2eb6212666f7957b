//! How much memory each node has left.

use std::os::fd::OwnedFd;

use base::{Bytes, NodeId};
use linux::memory::{self, NodeMeminfo};
use linux::system;
use sched::{Measured, NodeSample};
use topology::Machine;

/// The nodes, each with the file that tells its free memory.
pub(crate) struct Nodes(Vec<NodeFile>);

struct NodeFile {
    node: NodeId,
    meminfo: OwnedFd,
    seen: Option<NodeMeminfo>,
}

impl Nodes {
    /// Opens what can be opened; of other nodes nothing is told.
    pub(crate) fn open(machine: &Machine) -> Self {
        let open = |node: NodeId| {
            let meminfo = system::open_node_meminfo("/".as_ref(), node).ok()?;
            Some(NodeFile { node, meminfo, seen: None })
        };
        Nodes(machine.nodes().iter().filter_map(|node| open(node.id)).collect())
    }

    /// What has changed since the last look.
    pub(crate) fn look(&mut self) -> Vec<NodeSample> {
        let mut changed = Vec::new();
        for file in &mut self.0 {
            let seen = memory::node_meminfo(&file.meminfo);
            if seen != file.seen {
                file.seen = seen;
                changed.push(NodeSample {
                    node: file.node,
                    memory_free: seen.map(|figures| Bytes(figures.free)),
                    memory_reclaimable: seen.map(|figures| Bytes(figures.reclaimable)),
                    controller_ops: Measured::Absent,
                    counter_bits: 64,
                    read_bytes: Measured::Absent,
                    written_bytes: Measured::Absent,
                });
            }
        }
        changed
    }
}
