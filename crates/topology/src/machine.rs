//! A machine as a value: nodes, last-level caches, cores and CPUs.
//!
//! ```text
//!   node 0 (memory, distances)            node 1
//!     llc 0            llc 1                llc 2 …
//!       core 0  core 1   core 2 …
//!         cpu 0 cpu 4      …        two SMT siblings
//! ```
//!
//! The drawing shows the usual structure. A node may have no CPUs or no memory, a CPU may have no node and no known
//! cache, a cache may span nodes (sub-NUMA clustering), and ids may have gaps. A machine therefore consists of four
//! flat lists that refer to each other. [`Machine::new`] checks their consistency.

pub(crate) mod check;

use std::collections::BTreeMap;

use base::{Bytes, CoreId, CpuId, CpuSet, LlcId, NodeId, NodeSet};
use serde::{Deserialize, Serialize};

use crate::{CoreKindsSource, PerfAttributes, SourcedValue};

pub use check::{CORE_KINDS_MAX, MachineError};

/// SLIT distance of a node to itself.
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
    /// Name of the machine in output.
    pub name: String,
    /// NUMA nodes. Empty if the kernel reports none; the machine then has one memory without a node number.
    pub nodes: Vec<Node>,
    /// Last-level caches. Empty if the machine does not report its caches.
    pub llcs: Vec<Llc>,
    /// Physical cores with at least one online CPU.
    pub cores: Vec<Core>,
    /// The sources of the core kinds and capacities, if known. `None` for a machine with one kind.
    pub core_kinds_source: Option<CoreKindsSource>,
    /// All present CPUs, including offline CPUs.
    pub cpus: Vec<Cpu>,
    /// Nodes on which this process may allocate memory.
    pub nodes_allowed: NodeSet,
    /// Latencies, bandwidths and frequencies, where known.
    pub perf_attributes: PerfAttributes,
    /// The kernel of the machine.
    pub system: System,
    /// Corrections that the reader made to inconsistent sources, one sentence each.
    pub warnings: Vec<String>,
}

/// The kernel that the simulator models.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct System {
    /// Name of the kernel, such as `linux-6.18`.
    pub kernel: Option<String>,
    /// Whether automatic NUMA balancing is enabled (`kernel.numa_balancing`).
    pub numa_balancing: Option<bool>,
    /// Name of the simulated grain.
    pub grain: Option<String>,
    /// Settings of the quantum grain; only with this grain.
    pub quantum: Option<QuantumAttributes>,
}

/// Settings of the simulator's quantum grain, in which one task runs on a CPU for a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuantumAttributes {
    /// The CPUs that have one queue of waiting tasks.
    pub queue: Option<QueueScope>,
    /// CPU time of a task before the next task of its queue runs, in nanoseconds.
    pub slice_ns: Option<SourcedValue>,
    /// CPU time that a switch to another task costs, in nanoseconds; may be zero.
    pub switch_cost_ns: Option<SourcedValue>,
    /// Whether a task that wakes up preempts a running task that has received more CPU time.
    pub wakeup_preemption: Option<bool>,
}

/// The CPUs that have one queue of waiting tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueScope {
    /// Each CPU has its own queue.
    #[default]
    Cpu,
    /// The CPUs of an LLC domain have one queue.
    Llc,
}

impl QueueScope {
    /// Returns the name of the scope in machine files.
    pub fn name(self) -> &'static str {
        match self {
            QueueScope::Cpu => "cpu",
            QueueScope::Llc => "llc",
        }
    }
}

/// A NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Number of the node in the kernel.
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
    /// Number of the cache, assigned by evenkeel.
    pub id: LlcId,
    /// The online CPUs that share the cache.
    pub cpus: CpuSet,
    /// The node of all CPUs of the cache; absent if these CPUs are on several nodes or on no node.
    pub node: Option<NodeId>,
    /// Size of the cache, if known.
    pub size: Option<Bytes>,
    /// The cache level, such as 3.
    pub level: u32,
}

/// A physical core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Core {
    /// Number of the core, assigned by evenkeel.
    pub id: CoreId,
    /// Online SMT siblings of the core.
    pub cpus: CpuSet,
    /// The core kind: `performance`, `efficiency`, …; `uniform` if the machine has only one.
    pub kind: String,
    /// Relative throughput; 1024 for the fastest core of the machine.
    pub capacity: u32,
}

/// Capacity of the fastest core of a machine.
pub const CAPACITY_MAX: u32 = 1024;

/// The cores of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreKind<'m> {
    /// Name of the kind.
    pub name: &'m str,
    /// The cores, by id; at least one.
    pub cores: Vec<&'m Core>,
}

impl CoreKind<'_> {
    /// Returns the capacity of the kind: the largest of its cores, so that the fastest kind has 1024. Cores of one kind
    /// differ by preferred cores and by the frequency limits of clusters.
    pub fn capacity(&self) -> u32 {
        self.cores.iter().map(|core| core.capacity).max().unwrap_or(CAPACITY_MAX)
    }

    /// Returns the online CPUs of the cores.
    pub fn cpus(&self) -> CpuSet {
        self.cores.iter().fold(CpuSet::new(), |all, core| all.or(&core.cpus))
    }
}

/// A logical CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Number of the CPU in the kernel.
    pub id: CpuId,
    /// Whether the CPU is online.
    pub online: bool,
    /// Whether this process may run on the CPU (affinity and cpuset). False while the CPU is offline.
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
    /// The `core`, `llc` and `node` of a CPU follow from the lists. A value that the caller set must agree with the
    /// lists.
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

    /// Returns the parts, each list sorted by id.
    pub fn parts(&self) -> &MachineParts {
        &self.parts
    }

    /// Returns the name of the machine in output.
    pub fn name(&self) -> &str {
        &self.parts.name
    }

    /// Returns all nodes, by id.
    pub fn nodes(&self) -> &[Node] {
        &self.parts.nodes
    }

    /// Returns all last-level caches, by id.
    pub fn llcs(&self) -> &[Llc] {
        &self.parts.llcs
    }

    /// Returns all cores with an online CPU, by id.
    pub fn cores(&self) -> &[Core] {
        &self.parts.cores
    }

    /// Returns the sources of the core kinds and capacities, if known.
    pub fn core_kinds_source(&self) -> Option<&CoreKindsSource> {
        self.parts.core_kinds_source.as_ref()
    }

    /// Returns the core kinds by decreasing capacity, then by name.
    pub fn core_kinds(&self) -> Vec<CoreKind<'_>> {
        let mut kinds: Vec<CoreKind<'_>> = Vec::new();
        for core in self.cores() {
            match kinds.iter_mut().find(|kind| kind.name == core.kind) {
                Some(kind) => kind.cores.push(core),
                None => kinds.push(CoreKind { name: &core.kind, cores: vec![core] }),
            }
        }
        kinds.sort_by_key(|kind| (std::cmp::Reverse(kind.capacity()), kind.name));
        kinds
    }

    /// Returns all present CPUs, by id.
    pub fn cpus(&self) -> &[Cpu] {
        &self.parts.cpus
    }

    /// Returns a node; `None` if the machine has no such node.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        find(&self.parts.nodes, |node| node.id, id)
    }

    /// Returns a last-level cache; `None` if the machine has no such cache.
    pub fn llc(&self, id: LlcId) -> Option<&Llc> {
        find(&self.parts.llcs, |llc| llc.id, id)
    }

    /// Returns a core; `None` if the machine has no such core.
    pub fn core(&self, id: CoreId) -> Option<&Core> {
        find(&self.parts.cores, |core| core.id, id)
    }

    /// Returns a CPU; `None` if the machine has no such CPU.
    pub fn cpu(&self, id: CpuId) -> Option<&Cpu> {
        // Without gaps in the ids, the index is the id.
        let at = self.parts.cpus.get(id.index()).filter(|cpu| cpu.id == id);
        at.or_else(|| find(&self.parts.cpus, |cpu| cpu.id, id))
    }

    /// Returns the online CPUs.
    pub fn online(&self) -> &CpuSet {
        &self.online
    }

    /// Returns the online CPUs on which this process may run.
    pub fn allowed(&self) -> &CpuSet {
        &self.allowed
    }

    /// Returns the nodes on which this process may allocate memory.
    pub fn nodes_allowed(&self) -> &NodeSet {
        &self.parts.nodes_allowed
    }

    /// Returns the allowed nodes, without nodes that are known to have no memory.
    pub fn nodes_with_memory(&self) -> &NodeSet {
        &self.with_memory
    }

    /// Returns the known latencies, bandwidths and frequencies.
    pub fn perf_attributes(&self) -> &PerfAttributes {
        &self.parts.perf_attributes
    }

    /// Returns the kernel of the machine, if the machine file names one.
    pub fn system(&self) -> &System {
        &self.parts.system
    }

    /// Returns the corrections that the reader made to inconsistent sources, one sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.parts.warnings
    }

    /// Returns the online CPUs of these nodes.
    pub fn cpus_of_nodes(&self, nodes: &NodeSet) -> CpuSet {
        let chosen = self.nodes().iter().filter(|node| nodes.contains(node.id));
        chosen.fold(CpuSet::new(), |cpus, node| cpus.or(&node.cpus))
    }
}

fn find<T, I: Ord + Copy>(list: &[T], id_of: impl Fn(&T) -> I, id: I) -> Option<&T> {
    list.binary_search_by_key(&id, id_of).ok().map(|idx| &list[idx])
}
