//! Lossless conversion between [`Machine`] and [`MachineFile`].

use std::collections::BTreeMap;

use base::{Bytes, CoreId, CpuId, IdSet, LlcId, NodeId, NodeSet, ParseSetError, SetId};

use super::{
    AccessEntry, Bandwidth, CoreEntry, CpuEntry, FORMAT_VERSION, FormatVersion, Frequency, Ignored,
    KindEntry, Latency, LlcEntry, MachineFile, NodeEntry, Share,
};
use crate::machine::check::invalid;
use crate::{
    CacheAttributes, Core, CoreKindAttributes, Cpu, DISTANCE_LOCAL, Llc, Machine, MachineError,
    MachineParts, MemoryAccess, Node, PerfAttributes, SourcedValue, System,
};

/// Largest id of a CPU, core, cache or node: the limit of the id sets. The limits of the kernel are lower.
const ID_MAX: u32 = 65_535;

/// Error in the values of a machine file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum FileError {
    #[error("\"format_version\" is {0}; this evenkeel reads version {FORMAT_VERSION}")]
    Version(u32),
    #[error("{field} of {part}")]
    List { part: String, field: &'static str, source: ParseSetError },
    /// An id that is too large: sets of such ids would take too much memory.
    #[error("{kind} {id}: ids are at most {ID_MAX}")]
    Id { kind: &'static str, id: u32 },
    #[error("distances of {node}: {key:?} is not a node number")]
    DistanceKey { node: NodeId, key: String },
    #[error(transparent)]
    Machine(#[from] MachineError),
}

impl From<&Machine> for MachineFile {
    fn from(machine: &Machine) -> Self {
        let parts = machine.parts();
        MachineFile {
            format_version: FORMAT_VERSION,
            name: parts.name.clone(),
            nodes_allowed: Some(parts.nodes_allowed.to_string()),
            warnings: parts.warnings.clone(),
            nodes: parts.nodes.iter().map(node_entry).collect(),
            llcs: parts.llcs.iter().map(|llc| llc_entry(llc, &parts.perf_attributes)).collect(),
            cores: parts.cores.iter().map(core_entry).collect(),
            cpus: parts.cpus.iter().map(cpu_entry).collect(),
            accesses: parts.perf_attributes.accesses.iter().map(access_entry).collect(),
            core_kinds: parts.perf_attributes.kinds.iter().map(kind_entry).collect(),
            kernel: parts.system.kernel.clone(),
            numa_balancing: parts.system.numa_balancing,
            placement: Ignored,
            signals: Ignored,
            uarch: Ignored,
            uarch_name: Ignored,
            events: Ignored,
            cgroups: Ignored,
        }
    }
}

impl TryFrom<MachineFile> for Machine {
    type Error = FileError;

    fn try_from(file: MachineFile) -> Result<Self, FileError> {
        FormatVersion { format_version: file.format_version }.check()?;
        check_numbers(&file)?;
        let perf_attributes = perf_attributes(&file);
        let nodes: Vec<Node> = file.nodes.into_iter().map(node).collect::<Result<_, _>>()?;
        let parts = MachineParts {
            name: file.name,
            nodes_allowed: match &file.nodes_allowed {
                Some(text) => list("the machine", "nodes_allowed", text)?,
                None => nodes.iter().map(|node| node.id).collect(),
            },
            nodes,
            llcs: file.llcs.into_iter().map(llc).collect::<Result<_, _>>()?,
            cores: file.cores.into_iter().map(core).collect::<Result<_, _>>()?,
            cpus: file.cpus.into_iter().map(cpu).collect(),
            perf_attributes,
            system: System { kernel: file.kernel, numa_balancing: file.numa_balancing },
            warnings: file.warnings,
        };
        check_allowed_nodes(&parts.nodes, &parts.nodes_allowed)?;
        check_distances(&parts.nodes)?;
        let machine = Machine::new(parts)?;
        check_members_online(&machine)?;
        check_all_distances(machine.nodes())?;
        Ok(machine)
    }
}

fn check_numbers(file: &MachineFile) -> Result<(), FileError> {
    let nodes = file.nodes.iter().map(|node| ("node", node.id));
    let llcs = file.llcs.iter().map(|llc| ("llc", llc.id));
    let cores = file.cores.iter().map(|core| ("core", core.id));
    let cpus = file.cpus.iter().map(|cpu| ("cpu", cpu.id));
    match nodes.chain(llcs).chain(cores).chain(cpus).find(|(_, id)| ID_MAX < *id) {
        Some((kind, id)) => Err(FileError::Id { kind, id }),
        None => Ok(()),
    }
}

fn node_entry(node: &Node) -> NodeEntry {
    NodeEntry {
        id: node.id.0,
        cpus: node.cpus.to_string(),
        memory_bytes: node.memory.map(|bytes| bytes.0),
        memory_free_bytes: node.memory_free.map(|bytes| bytes.0),
        distances: node.distances.iter().map(|(to, &cost)| (to.0.to_string(), cost)).collect(),
    }
}

fn llc_entry(llc: &Llc, attributes: &PerfAttributes) -> LlcEntry {
    let known = attributes.llcs.get(&llc.id).copied().unwrap_or_default();
    LlcEntry {
        id: llc.id.0,
        cpus: llc.cpus.to_string(),
        node: llc.node.map(|node| node.0),
        size_bytes: llc.size.map(|bytes| bytes.0),
        level: llc.level,
        latency: known.latency_ns.map(Latency::from),
        bandwidth: known.bandwidth_bytes_per_s.map(Bandwidth::from),
    }
}

fn core_entry(core: &Core) -> CoreEntry {
    let (id, cpus) = (core.id.0, core.cpus.to_string());
    CoreEntry { id, cpus, kind: core.kind.clone(), capacity: core.capacity }
}

fn cpu_entry(cpu: &Cpu) -> CpuEntry {
    CpuEntry {
        id: cpu.id.0,
        online: cpu.online,
        allowed: cpu.allowed,
        core: cpu.core.map(|core| core.0),
        llc: cpu.llc.map(|llc| llc.0),
        node: cpu.node.map(|node| node.0),
    }
}

fn access_entry(access: &MemoryAccess) -> AccessEntry {
    AccessEntry {
        from_node: access.from.0,
        to_node: access.to.0,
        latency: access.latency_ns.map(Latency::from),
        bandwidth: access.bandwidth_bytes_per_s.map(Bandwidth::from),
    }
}

fn kind_entry((kind, known): (&String, &CoreKindAttributes)) -> KindEntry {
    KindEntry {
        kind: kind.clone(),
        frequency: known.frequency_mhz.map(Frequency::from),
        smt: known.smt_permille.map(Share::from),
    }
}

fn kind_attributes(entry: &KindEntry) -> (String, CoreKindAttributes) {
    let frequency_mhz = entry.frequency.map(SourcedValue::from);
    let smt_permille = entry.smt.map(SourcedValue::from);
    (entry.kind.clone(), CoreKindAttributes { frequency_mhz, smt_permille })
}

fn node(entry: NodeEntry) -> Result<Node, FileError> {
    let id = NodeId(entry.id);
    let mut distances = BTreeMap::new();
    for (key, cost) in entry.distances {
        // `00` and `+0` are rejected, because they would be the same node as `0`.
        let number = key.parse().ok().filter(|number: &u32| number.to_string() == key);
        let reject = || FileError::DistanceKey { node: id, key: key.clone() };
        distances.insert(NodeId(number.ok_or_else(reject)?), cost);
    }
    Ok(Node {
        id,
        cpus: list(&id.to_string(), "cpus", &entry.cpus)?,
        memory: entry.memory_bytes.map(Bytes),
        memory_free: entry.memory_free_bytes.map(Bytes),
        distances,
    })
}

fn llc(entry: LlcEntry) -> Result<Llc, FileError> {
    let id = LlcId(entry.id);
    Ok(Llc {
        id,
        cpus: list(&id.to_string(), "cpus", &entry.cpus)?,
        node: entry.node.map(NodeId),
        size: entry.size_bytes.map(Bytes),
        level: entry.level,
    })
}

fn core(entry: CoreEntry) -> Result<Core, FileError> {
    let id = CoreId(entry.id);
    let cpus = list(&id.to_string(), "cpus", &entry.cpus)?;
    Ok(Core { id, cpus, kind: entry.kind, capacity: entry.capacity })
}

fn cpu(entry: CpuEntry) -> Cpu {
    Cpu {
        id: CpuId(entry.id),
        online: entry.online,
        allowed: entry.allowed,
        core: entry.core.map(CoreId),
        llc: entry.llc.map(LlcId),
        node: entry.node.map(NodeId),
    }
}

fn perf_attributes(file: &MachineFile) -> PerfAttributes {
    let accesses = file.accesses.iter().map(|entry| MemoryAccess {
        from: NodeId(entry.from_node),
        to: NodeId(entry.to_node),
        latency_ns: entry.latency.map(SourcedValue::from),
        bandwidth_bytes_per_s: entry.bandwidth.map(SourcedValue::from),
    });
    let known = file.llcs.iter().filter(|llc| llc.latency.is_some() || llc.bandwidth.is_some());
    let llcs = known.map(|llc| {
        let latency_ns = llc.latency.map(SourcedValue::from);
        let bandwidth_bytes_per_s = llc.bandwidth.map(SourcedValue::from);
        (LlcId(llc.id), CacheAttributes { latency_ns, bandwidth_bytes_per_s })
    });
    let kinds = file.core_kinds.iter().map(kind_attributes);
    PerfAttributes { accesses: accesses.collect(), llcs: llcs.collect(), kinds: kinds.collect() }
}

fn list<T: SetId>(part: &str, field: &'static str, text: &str) -> Result<IdSet<T>, FileError> {
    text.parse().map_err(|source| FileError::List { part: part.to_owned(), field, source })
}

fn check_allowed_nodes(nodes: &[Node], allowed: &NodeSet) -> Result<(), MachineError> {
    match allowed.iter().find(|id| nodes.iter().all(|node| node.id != *id)) {
        Some(id) => Err(invalid(
            "nodes_allowed",
            "nodes_allowed",
            format!("has {id}, which is not a node of this machine"),
        )),
        None => Ok(()),
    }
}

/// Checks the distances as the kernel does: 10 is local, and no distance is smaller.
fn check_distances(nodes: &[Node]) -> Result<(), MachineError> {
    for node in nodes {
        let is_invalid = |(to, cost): &(&NodeId, &u32)| match **to == node.id {
            true => **cost != DISTANCE_LOCAL,
            false => **cost < DISTANCE_LOCAL,
        };
        if let Some((to, cost)) = node.distances.iter().find(is_invalid) {
            return Err(invalid(
                node.id,
                "distances",
                format!("has distance {cost} to {to}: 10 is local, no distance is smaller"),
            ));
        }
    }
    Ok(())
}

/// Checks that distances are given for all pairs of nodes or for no pair, as the kernel does.
fn check_all_distances(nodes: &[Node]) -> Result<(), MachineError> {
    let any_known = nodes.iter().any(|node| !node.distances.is_empty());
    for node in nodes.iter().filter(|_| any_known) {
        if let Some(to) = nodes.iter().find(|to| !node.distances.contains_key(&to.id)) {
            return Err(invalid(
                node.id,
                "distances",
                format!("has no distance to {}: give all distances or none", to.id),
            ));
        }
    }
    Ok(())
}

/// Checks that nodes, caches and cores list only online CPUs.
fn check_members_online(machine: &Machine) -> Result<(), MachineError> {
    let is_member = |cpu: &&Cpu| cpu.node.is_some() || cpu.llc.is_some() || cpu.core.is_some();
    match machine.cpus().iter().filter(|cpu| !cpu.online).find(is_member) {
        Some(cpu) => {
            Err(invalid(cpu.id, "online", "is offline, but a node, an llc or a core lists it"))
        }
        None => Ok(()),
    }
}
