//! One machine.
//!
//! ```text
//!   node 0 (memory, distances)            node 1
//!     llc 0            llc 1                llc 2 …
//!       core 0  core 1   core 2 …
//!         cpu 0 cpu 4      …        two SMT siblings
//! ```
//!
//! The drawing is the common case. A node may have no CPUs or no memory, a CPU may have no node and no known cache, a
//! cache may span nodes (sub-NUMA clustering), and ids may have gaps. A machine therefore consists of four flat lists
//! that refer to each other. Their consistency is checked once, in [`Machine::new`].

pub(crate) mod check;

use std::collections::BTreeMap;

use base::{Bytes, CoreId, CpuId, CpuSet, LlcId, NodeId, NodeSet};

use crate::PerfAttributes;

pub use check::MachineError;

/// The SLIT distance of a node to itself.
pub const DISTANCE_LOCAL: u32 = 10;

/// A consistent, immutable machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    parts: MachineParts,
    online: CpuSet,
    allowed: CpuSet,
    with_memory: NodeSet,
}

/// The parts of a machine, each list sorted by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineParts {
    /// A name for output.
    pub name: String,
    /// NUMA nodes. Empty if the kernel reports none; then there is one memory without a node number.
    pub nodes: Vec<Node>,
    /// Last-level caches. Empty if the machine does not report its caches.
    pub llcs: Vec<Llc>,
    /// Physical cores with at least one online CPU.
    pub cores: Vec<Core>,
    /// All present CPUs, including the offline ones.
    pub cpus: Vec<Cpu>,
    /// Nodes that this process may allocate memory on.
    pub nodes_allowed: NodeSet,
    /// Latencies, bandwidths and frequencies, where known.
    pub perf_attributes: PerfAttributes,
    /// The kernel of the machine.
    pub system: System,
    /// Corrections that the reader made to inconsistent sources, one sentence each.
    pub warnings: Vec<String>,
}

/// The kernel that the simulator behaves like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct System {
    /// Name of the kernel, such as `linux-6.18`.
    pub kernel: Option<String>,
    /// Whether automatic NUMA balancing is enabled (`kernel.numa_balancing`).
    pub numa_balancing: Option<bool>,
}

/// A NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The kernel's number.
    pub id: NodeId,
    /// Online CPUs of the node; may be empty.
    pub cpus: CpuSet,
    /// Memory of the node; zero for a node without memory, absent if unknown.
    pub memory: Option<Bytes>,
    /// Free memory when the machine was read.
    pub memory_free: Option<Bytes>,
    /// SLIT distances to every node; 10 is local. Empty if the firmware has none.
    pub distances: BTreeMap<NodeId, u32>,
}

/// A last-level cache and the CPUs that share it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Llc {
    /// Assigned by evenkeel.
    pub id: LlcId,
    /// The online CPUs that share it.
    pub cpus: CpuSet,
    /// The node of all its CPUs; absent if they are on several nodes or on none.
    pub node: Option<NodeId>,
    /// Size of the cache, if known.
    pub size: Option<Bytes>,
    /// The cache level, such as 3.
    pub level: u32,
}

/// A physical core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Core {
    /// Assigned by evenkeel.
    pub id: CoreId,
    /// Online SMT siblings of the core.
    pub cpus: CpuSet,
    /// The core kind: `performance`, `efficiency`, …; `uniform` if the machine has only one.
    pub kind: String,
    /// Relative throughput; 1024 for the fastest core of the machine.
    pub capacity: u32,
}

/// A logical CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// The kernel's number.
    pub id: CpuId,
    /// Whether it is online.
    pub online: bool,
    /// Whether this process may run on it (affinity and cpuset). False while it is offline.
    pub allowed: bool,
    /// Core of the CPU; absent while the CPU is offline.
    pub core: Option<CoreId>,
    /// Last-level cache of the CPU, if known.
    pub llc: Option<LlcId>,
    /// Node of the CPU, if the CPU belongs to one.
    pub node: Option<NodeId>,
}

impl Machine {
    /// Checks the parts against each other, sorts them by id, and sets the core, LLC and node of each CPU.
    ///
    /// The `core`, `llc` and `node` of a CPU follow from the lists. A value that the caller set must agree.
    ///
    /// # Errors
    /// [`MachineError`] for the first contradiction.
    pub fn new(mut parts: MachineParts) -> Result<Self, MachineError> {
        check::check(&mut parts)?;
        let online: CpuSet = parts.cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect();
        let allowed =
            parts.cpus.iter().filter(|cpu| cpu.online && cpu.allowed).map(|cpu| cpu.id).collect();
        if online.is_empty() {
            return Err(MachineError::NoCpu);
        }
        let has_memory = |node: &&Node| node.memory != Some(Bytes::ZERO);
        let nodes = parts.nodes.iter().filter(has_memory).map(|node| node.id);
        let with_memory = nodes.filter(|&id| parts.nodes_allowed.contains(id)).collect();
        Ok(Machine { parts, online, allowed, with_memory })
    }

    /// The parts, sorted by id.
    pub fn parts(&self) -> &MachineParts {
        &self.parts
    }

    /// The name for output.
    pub fn name(&self) -> &str {
        &self.parts.name
    }

    /// All nodes, by id.
    pub fn nodes(&self) -> &[Node] {
        &self.parts.nodes
    }

    /// All last-level caches, by id.
    pub fn llcs(&self) -> &[Llc] {
        &self.parts.llcs
    }

    /// All cores with an online CPU, by id.
    pub fn cores(&self) -> &[Core] {
        &self.parts.cores
    }

    /// All present CPUs, by id.
    pub fn cpus(&self) -> &[Cpu] {
        &self.parts.cpus
    }

    /// One node.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        find(&self.parts.nodes, |node| node.id, id)
    }

    /// One last-level cache.
    pub fn llc(&self, id: LlcId) -> Option<&Llc> {
        find(&self.parts.llcs, |llc| llc.id, id)
    }

    /// One core.
    pub fn core(&self, id: CoreId) -> Option<&Core> {
        find(&self.parts.cores, |core| core.id, id)
    }

    /// One CPU.
    pub fn cpu(&self, id: CpuId) -> Option<&Cpu> {
        // Without gaps in the ids, the index is the id.
        let at = self.parts.cpus.get(id.index()).filter(|cpu| cpu.id == id);
        at.or_else(|| find(&self.parts.cpus, |cpu| cpu.id, id))
    }

    /// Online CPUs.
    pub fn online(&self) -> &CpuSet {
        &self.online
    }

    /// Online CPUs that this process may run on.
    pub fn allowed(&self) -> &CpuSet {
        &self.allowed
    }

    /// Nodes that this process may allocate memory on.
    pub fn nodes_allowed(&self) -> &NodeSet {
        &self.parts.nodes_allowed
    }

    /// The allowed nodes, without those that are known to have no memory.
    pub fn nodes_with_memory(&self) -> &NodeSet {
        &self.with_memory
    }

    /// Latencies, bandwidths and frequencies, where known.
    pub fn perf_attributes(&self) -> &PerfAttributes {
        &self.parts.perf_attributes
    }

    /// The kernel of the machine, where the machine file has one.
    pub fn system(&self) -> &System {
        &self.parts.system
    }

    /// Corrections that the reader made to inconsistent sources, one sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.parts.warnings
    }

    /// Online CPUs of these nodes.
    pub fn cpus_of_nodes(&self, nodes: &NodeSet) -> CpuSet {
        let chosen = self.nodes().iter().filter(|node| nodes.contains(node.id));
        chosen.fold(CpuSet::new(), |cpus, node| cpus.or(&node.cpus))
    }
}

fn find<T, I: Ord + Copy>(list: &[T], id_of: impl Fn(&T) -> I, id: I) -> Option<&T> {
    list.binary_search_by_key(&id, id_of).ok().map(|idx| &list[idx])
}
