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

use std::collections::{BTreeMap, BTreeSet};

use base::{Bytes, CoreId, CpuId, CpuSet, LlcId, NodeId, NodeSet};

use crate::Figures;

/// The firmware's number for the distance of a node to itself.
pub const DISTANCE_LOCAL: u32 = 10;

/// A machine whose parts agree with each other. Made by [`Machine::new`]; cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    parts: MachineParts,
    online: CpuSet,
    allowed: CpuSet,
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
    /// What the source of this machine told wrongly and how it was mended, a sentence each.
    pub warnings: Vec<String>,
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
    /// Whether this process may run on it (affinity and cpuset together).
    pub allowed: bool,
    /// Its core; absent while offline.
    pub core: Option<CoreId>,
    /// Its last-level cache, where known.
    pub llc: Option<LlcId>,
    /// Its node, where there is one.
    pub node: Option<NodeId>,
}

/// How the parts of a machine contradict each other. Each names the part at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// Two entries with one number.
    #[error("{0} stands twice")]
    Twice(String),
    /// A list names a CPU that `cpus` does not have.
    #[error("{whose} has {cpu}, which is not among the machine's CPUs")]
    NoSuchCpu {
        /// The list.
        whose: String,
        /// The CPU.
        cpu: CpuId,
    },
    /// Two nodes, caches or cores hold the same CPU.
    #[error("{cpu} belongs to {first} and to {second}")]
    Shared {
        /// The CPU.
        cpu: CpuId,
        /// One that has it.
        first: String,
        /// Another that has it.
        second: String,
    },
    /// A CPU says it belongs to a part that does not list it, or the other way round.
    #[error("{cpu} says that it belongs to {said}, but {said} does not list it")]
    NotListed {
        /// The CPU.
        cpu: CpuId,
        /// The part that it names.
        said: String,
    },
    /// A distance to a node that is not there.
    #[error("{node} has a distance to {to}, which is not a node of this machine")]
    DistanceToNowhere {
        /// From.
        node: NodeId,
        /// To.
        to: NodeId,
    },
    /// A figure that cannot be.
    #[error("{0}")]
    Absurd(String),
    /// Nothing to run on.
    #[error("the machine has no CPU online")]
    NoCpu,
}

impl Machine {
    /// Checks the parts against each other, sorts them by id, and fills in what each CPU belongs to.
    ///
    /// The `core`, `llc` and `node` of a CPU follow from the lists; what the caller put there is
    /// only checked: `None` is filled in, a contradiction is an error.
    pub fn new(mut parts: MachineParts) -> Result<Self, MachineError> {
        sort_and_find_twins(&mut parts)?;
        let cpu_ids: CpuSet = parts.cpus.iter().map(|cpu| cpu.id).collect();
        let owners = Owners::collect(&parts, &cpu_ids)?;
        for cpu in &mut parts.cpus {
            owners.tell(cpu)?;
        }
        check_figures(&parts)?;
        let online: CpuSet = parts.cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect();
        let allowed =
            parts.cpus.iter().filter(|cpu| cpu.online && cpu.allowed).map(|cpu| cpu.id).collect();
        if online.is_empty() {
            return Err(MachineError::NoCpu);
        }
        Ok(Machine { parts, online, allowed })
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
        find(&self.parts.cpus, |cpu| cpu.id, id)
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
    pub fn nodes_with_memory(&self) -> NodeSet {
        let has_memory = |node: &&Node| node.memory != Some(Bytes::ZERO);
        let ids = self.parts.nodes.iter().filter(has_memory).map(|node| node.id);
        ids.filter(|&id| self.parts.nodes_allowed.contains(id)).collect()
    }

    /// Latencies and bandwidths, as far as somebody knows.
    pub fn figures(&self) -> &Figures {
        &self.parts.figures
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

fn sort_and_find_twins(parts: &mut MachineParts) -> Result<(), MachineError> {
    parts.nodes.sort_by_key(|node| node.id);
    parts.llcs.sort_by_key(|llc| llc.id);
    parts.cores.sort_by_key(|core| core.id);
    parts.cpus.sort_by_key(|cpu| cpu.id);
    twin(parts.nodes.iter().map(|node| node.id))?;
    twin(parts.llcs.iter().map(|llc| llc.id))?;
    twin(parts.cores.iter().map(|core| core.id))?;
    twin(parts.cpus.iter().map(|cpu| cpu.id))
}

fn twin<I: Ord + Copy + std::fmt::Display>(
    ids: impl Iterator<Item = I>,
) -> Result<(), MachineError> {
    let mut seen = BTreeSet::new();
    for id in ids {
        if !seen.insert(id) {
            return Err(MachineError::Twice(id.to_string()));
        }
    }
    Ok(())
}

/// Which node, cache and core holds each CPU, as the lists say.
struct Owners {
    nodes: BTreeMap<CpuId, NodeId>,
    llcs: BTreeMap<CpuId, LlcId>,
    cores: BTreeMap<CpuId, CoreId>,
}

impl Owners {
    fn collect(parts: &MachineParts, cpu_ids: &CpuSet) -> Result<Self, MachineError> {
        Ok(Owners {
            nodes: owners(parts.nodes.iter().map(|n| (n.id, &n.cpus)), cpu_ids)?,
            llcs: owners(parts.llcs.iter().map(|l| (l.id, &l.cpus)), cpu_ids)?,
            cores: owners(parts.cores.iter().map(|c| (c.id, &c.cpus)), cpu_ids)?,
        })
    }

    fn tell(&self, cpu: &mut Cpu) -> Result<(), MachineError> {
        cpu.node = agreed(cpu.id, cpu.node, self.nodes.get(&cpu.id))?;
        cpu.llc = agreed(cpu.id, cpu.llc, self.llcs.get(&cpu.id))?;
        cpu.core = agreed(cpu.id, cpu.core, self.cores.get(&cpu.id))?;
        Ok(())
    }
}

fn owners<'a, I: Copy + std::fmt::Display>(
    lists: impl Iterator<Item = (I, &'a CpuSet)>,
    cpu_ids: &CpuSet,
) -> Result<BTreeMap<CpuId, I>, MachineError> {
    let mut owner_of = BTreeMap::new();
    for (owner, cpus) in lists {
        for cpu in cpus.iter() {
            if !cpu_ids.contains(cpu) {
                return Err(MachineError::NoSuchCpu { whose: owner.to_string(), cpu });
            }
            if let Some(first) = owner_of.insert(cpu, owner) {
                let (first, second) = (first.to_string(), owner.to_string());
                return Err(MachineError::Shared { cpu, first, second });
            }
        }
    }
    Ok(owner_of)
}

fn agreed<I: Copy + PartialEq + std::fmt::Display>(
    cpu: CpuId,
    said: Option<I>,
    listed: Option<&I>,
) -> Result<Option<I>, MachineError> {
    match said {
        Some(said) if listed != Some(&said) => {
            Err(MachineError::NotListed { cpu, said: said.to_string() })
        }
        _ => Ok(listed.copied()),
    }
}

fn check_figures(parts: &MachineParts) -> Result<(), MachineError> {
    let absurd = |text: String| Err(MachineError::Absurd(text));
    let node_ids: NodeSet = parts.nodes.iter().map(|node| node.id).collect();
    for node in &parts.nodes {
        if let Some((&to, _)) = node.distances.iter().find(|(to, _)| !node_ids.contains(**to)) {
            return Err(MachineError::DistanceToNowhere { node: node.id, to });
        }
        if node.memory < node.memory_free {
            return absurd(format!("{} has more memory free than it has", node.id));
        }
    }
    for llc in &parts.llcs {
        let node = llc.node.and_then(|id| parts.nodes.iter().find(|node| node.id == id));
        if llc.node.is_some() && !node.is_some_and(|node| llc.cpus.is_subset(&node.cpus)) {
            return absurd(format!("{} names a node that does not hold its CPUs", llc.id));
        }
        if llc.size == Some(Bytes::ZERO) {
            return absurd(format!("{} has no size: leave it out if it is not known", llc.id));
        }
    }
    check_knowledge(&parts.figures, parts)?;
    check_sizes(parts)?;
    for core in &parts.cores {
        if core.capacity == 0 || 1024 < core.capacity {
            return absurd(format!("{} has capacity {}: 1 to 1024", core.id, core.capacity));
        }
        if core.cpus.is_empty() {
            return absurd(format!("{} has no CPU", core.id));
        }
    }
    Ok(())
}

/// The largest figure of a machine, an exbibyte: files and other languages hold it exactly.
const FIGURE_MAX: u64 = 1 << 60;

fn check_sizes(parts: &MachineParts) -> Result<(), MachineError> {
    let of_nodes =
        parts.nodes.iter().flat_map(|n| [n.memory, n.memory_free].map(|b| (n.id.to_string(), b)));
    let of_llcs = parts.llcs.iter().map(|llc| (llc.id.to_string(), llc.size));
    let sizes = of_nodes.chain(of_llcs).filter_map(|(whose, bytes)| Some((whose, bytes?.0)));
    let figures = &parts.figures;
    let of_accesses = figures.accesses.iter().flat_map(|access| {
        let whose = format!("the access from {} to {}", access.from, access.to);
        [access.latency_ns, access.bandwidth_bytes_per_s].map(|figure| (whose.clone(), figure))
    });
    let of_caches = figures.llcs.iter().flat_map(|(id, known)| {
        [known.latency_ns, known.bandwidth_bytes_per_s].map(|figure| (id.to_string(), figure))
    });
    let known = of_accesses.chain(of_caches).filter_map(|(whose, f)| Some((whose, f?.value)));
    match sizes.chain(known).find(|(_, figure)| FIGURE_MAX < *figure) {
        Some((whose, figure)) => {
            Err(MachineError::Absurd(format!("{whose} has {figure}: no machine has so much")))
        }
        None => Ok(()),
    }
}

fn check_knowledge(figures: &Figures, parts: &MachineParts) -> Result<(), MachineError> {
    let node_ids: NodeSet = parts.nodes.iter().map(|node| node.id).collect();
    let mut pairs = BTreeSet::new();
    for access in &figures.accesses {
        let (from, to) = (access.from, access.to);
        if let Some(nowhere) = [from, to].into_iter().find(|&id| !node_ids.contains(id)) {
            let text = format!("an access names {nowhere}, which is not a node of this machine");
            return Err(MachineError::Absurd(text));
        }
        if !pairs.insert((from, to)) {
            return Err(MachineError::Twice(format!("the access from {from} to {to}")));
        }
    }
    match figures.llcs.keys().find(|&&id| parts.llcs.iter().all(|llc| llc.id != id)) {
        Some(nowhere) => {
            Err(MachineError::Absurd(format!("{nowhere} has figures and is not there")))
        }
        None => Ok(()),
    }
}
