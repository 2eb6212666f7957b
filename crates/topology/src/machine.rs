//! One machine.
//!
//! ```text
//!   node 0 (memory, distances)            node 1
//!     llc 0            llc 1                llc 2 …
//!       core 0  core 1   core 2 …
//!         cpu 0 cpu 4      …        two SMT siblings
//! ```
//!
//! The drawing is the usual case, not the rule. A node may have no CPUs or no memory; a CPU may have
//! no node and no known cache; a cache may span nodes (sub-NUMA clusters); every numbering has holes.
//! So a machine is four flat lists that refer to each other, checked once when it is made.

mod check;

use std::collections::BTreeMap;

use base::{Bytes, CoreId, CpuId, CpuSet, LlcId, NodeId, NodeSet};

use crate::Figures;

pub use check::MachineError;

/// The firmware's number for the distance of a node to itself.
pub const DISTANCE_LOCAL: u32 = 10;

/// A machine whose parts agree with each other. Made by [`Machine::new`]; cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    parts: MachineParts,
    online: CpuSet,
    allowed: CpuSet,
    with_memory: NodeSet,
}

/// What a machine is made of, each list sorted by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineParts {
    /// What it is called, for people.
    pub name: String,
    /// NUMA nodes. Empty when the kernel tells of none (then there is one memory, without a number).
    pub nodes: Vec<Node>,
    /// Last-level caches. Empty when the machine does not tell of its caches.
    pub llcs: Vec<Llc>,
    /// Physical cores that have at least one CPU online.
    pub cores: Vec<Core>,
    /// All CPUs that are present, the offline ones too.
    pub cpus: Vec<Cpu>,
    /// Nodes that this process may take memory from.
    pub nodes_allowed: NodeSet,
    /// Latencies and bandwidths, as far as somebody knows.
    pub figures: Figures,
    /// What runs on it.
    pub system: System,
    /// What the source of this machine told wrongly and how it was mended, a sentence each.
    pub warnings: Vec<String>,
}

/// The kernel that runs on a machine, where a simulator is to behave like it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct System {
    /// Its name, such as `linux-6.18`.
    pub kernel: Option<String>,
    /// Whether it moves tasks and pages between nodes by itself (`kernel.numa_balancing`).
    pub numa_balancing: Option<bool>,
}

/// Memory and the CPUs near it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The kernel's number.
    pub id: NodeId,
    /// Its CPUs that are online; may be empty.
    pub cpus: CpuSet,
    /// Its memory; zero for a node without any, absent when not told.
    pub memory: Option<Bytes>,
    /// How much of it was free when the machine was read.
    pub memory_free: Option<Bytes>,
    /// Relative cost from here to every node, 10 is local. Empty when the firmware tells nothing.
    pub distances: BTreeMap<NodeId, u32>,
}

/// CPUs that share one last-level cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Llc {
    /// Our number.
    pub id: LlcId,
    /// The CPUs that share it, online ones only.
    pub cpus: CpuSet,
    /// The node that holds all of its CPUs; absent when they lie on several or on none.
    pub node: Option<NodeId>,
    /// Its size.
    pub size: Option<Bytes>,
    /// 3 for a third-level cache, and so on.
    pub level: u32,
}

/// A physical core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Core {
    /// Our number.
    pub id: CoreId,
    /// Its SMT siblings, online ones only.
    pub cpus: CpuSet,
    /// What sort of core: `performance`, `efficiency`, … ; `uniform` when all are alike.
    pub kind: String,
    /// Relative throughput, 1024 for the fastest core of the machine.
    pub capacity: u32,
}

/// What the kernel schedules on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// The kernel's number.
    pub id: CpuId,
    /// Whether the kernel schedules on it now.
    pub online: bool,
    /// Whether this process may run on it (affinity and cpuset together); never while it is offline.
    pub allowed: bool,
    /// Its core; absent while offline.
    pub core: Option<CoreId>,
    /// Its last-level cache, where known.
    pub llc: Option<LlcId>,
    /// Its node, where there is one.
    pub node: Option<NodeId>,
}

impl Machine {
    /// Checks the parts against each other, sorts them by id, and fills in what each CPU belongs to.
    ///
    /// The `core`, `llc` and `node` of a CPU follow from the lists; what the caller put there is
    /// only checked: `None` is filled in, a contradiction is an error.
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

    /// What it is called.
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

    /// All cores with a CPU online, by id.
    pub fn cores(&self) -> &[Core] {
        &self.parts.cores
    }

    /// All CPUs present, by id.
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
        // Where all are told, each is at the place of its number.
        let at = self.parts.cpus.get(id.index()).filter(|cpu| cpu.id == id);
        at.or_else(|| find(&self.parts.cpus, |cpu| cpu.id, id))
    }

    /// CPUs that the kernel schedules on.
    pub fn online(&self) -> &CpuSet {
        &self.online
    }

    /// CPUs that are online and that this process may run on.
    pub fn allowed(&self) -> &CpuSet {
        &self.allowed
    }

    /// Nodes that this process may take memory from.
    pub fn nodes_allowed(&self) -> &NodeSet {
        &self.parts.nodes_allowed
    }

    /// Those of them that are not known to be without memory: where memory can come from at all.
    pub fn nodes_with_memory(&self) -> &NodeSet {
        &self.with_memory
    }

    /// Latencies and bandwidths, as far as somebody knows.
    pub fn figures(&self) -> &Figures {
        &self.parts.figures
    }

    /// What runs on it, where that is told.
    pub fn system(&self) -> &System {
        &self.parts.system
    }

    /// What the source of this machine told wrongly and how it was mended, a sentence each.
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
