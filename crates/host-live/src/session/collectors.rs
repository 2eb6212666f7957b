//! System-wide values: free memory per node, memory controllers, caches, pressure.
//!
//! The memory of a node is reported when it changes. The other sources and their periods are described in
//! [`linux::collectors`].

use std::os::fd::OwnedFd;

use base::{Bytes, NodeId};
use linux::collectors::LiveCollectors;
use linux::memory::{self, NodeMeminfo};
use linux::perf::PmuGroups;
use linux::system;
use linux::tasks::{CounterMode, TaskCounters};
use sched::{NodeSample, Sample};
use topology::Machine;

/// The system-wide sources of a session.
pub(crate) struct Collectors {
    nodes: Vec<NodeFile>,
    /// Memory controllers, caches and pressure. `None` in a watch without a machine description.
    system: Option<LiveCollectors>,
}

struct NodeFile {
    node: NodeId,
    meminfo: OwnedFd,
    last: Option<NodeMeminfo>,
}

impl Collectors {
    /// Opens the available sources. Also returns the counter groups of tasks, and warnings about missing sources.
    /// `measured` is the machine with the controllers, caches and pressure files to read.
    pub(crate) fn open(
        machine: &Machine,
        measured: Option<&Machine>,
        counters: CounterMode,
    ) -> (Self, Vec<PmuGroups>, Vec<String>) {
        let open = |node: NodeId| {
            let meminfo = system::open_node_meminfo("/".as_ref(), node).ok()?;
            Some(NodeFile { node, meminfo, last: None })
        };
        let nodes = machine.nodes().iter().filter_map(|node| open(node.id)).collect();
        match measured.map(|machine| LiveCollectors::open(machine, counters)) {
            Some((system, chosen, warnings)) => {
                (Collectors { nodes, system: Some(system) }, chosen, warnings)
            }
            None => (Collectors { nodes, system: None }, Vec::new(), Vec::new()),
        }
    }

    /// Reads the sources of loads.
    pub(crate) fn sample_loads(&mut self, sample: &mut Sample) {
        if let Some(system) = &mut self.system {
            system.sample(sample);
        }
    }

    /// Reads the sources that are sampled once per second.
    pub(crate) fn sample_slow(&mut self, sample: &mut Sample) {
        if let Some(system) = &mut self.system {
            system.sample_pressure(sample);
        }
    }

    /// Returns the memory of all nodes with changed values.
    pub(crate) fn sample_nodes(&mut self) -> Vec<NodeSample> {
        self.nodes.iter_mut().filter_map(NodeFile::sample).collect()
    }

    /// Returns warnings about tasks without counters. Each warning is returned once.
    pub(crate) fn counter_warnings(&mut self, counting: &mut TaskCounters) -> Vec<String> {
        self.system.as_mut().map(|system| system.notes(counting)).unwrap_or_default()
    }
}

impl NodeFile {
    fn sample(&mut self) -> Option<NodeSample> {
        let now = memory::node_meminfo(&self.meminfo);
        (now != std::mem::replace(&mut self.last, now)).then(|| NodeSample {
            memory_free: now.map(|memory| Bytes(memory.free)),
            memory_reclaimable: now.map(|memory| Bytes(memory.reclaimable)),
            ..NodeSample::new(self.node)
        })
    }
}
