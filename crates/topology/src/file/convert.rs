//! Lossless conversion between [`Machine`] and [`MachineFile`].

use std::collections::BTreeMap;

use base::{Bytes, CoreId, CpuId, IdSet, LlcId, NodeId, NodeSet, ParseSetError, SetId};

use super::{
    AccessEntry, Bandwidth, ClusterEntry, CoreEntry, Count, CpuEntry, CurveEntry, FORMAT_VERSION,
    FormatVersion, Frequency, Ignored, KindEntry, Latency, LinkEntry, LlcEntry, MachineFile,
    NodeEntry, PhysicsEntry, QuantumEntry, Share, Shares, Size, Time,
};
use crate::machine::check::{access_name, invalid, kind_name};
use crate::{
    CacheAttributes, ClusterAttributes, Core, CoreKindAttributes, Cpu, DISTANCE_LOCAL,
    LatencyCurve, LinkAttributes, Llc, Machine, MachineError, MachineParts, MemoryAccess, Node,
    PerfAttributes, PhysicsAttributes, QuantumAttributes, SourcedList, SourcedValue, System,
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
            cores: parts
                .cores
                .iter()
                .map(|core| core_entry(core, &parts.perf_attributes))
                .collect(),
            core_kinds_source: parts.core_kinds_source.clone(),
            cpus: parts.cpus.iter().map(cpu_entry).collect(),
            accesses: parts.perf_attributes.accesses.iter().map(access_entry).collect(),
            core_kinds: parts.perf_attributes.kinds.iter().map(kind_entry).collect(),
            links: parts.perf_attributes.links.iter().map(link_entry).collect(),
            clusters: parts.perf_attributes.clusters.iter().map(cluster_entry).collect(),
            physics: physics_entry(&parts.perf_attributes.physics),
            kernel: parts.system.kernel.clone(),
            numa_balancing: parts.system.numa_balancing,
            grain: parts.system.grain.clone(),
            quantum: parts.system.quantum.map(quantum_entry),
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
        let perf_attributes = perf_attributes(&file)?;
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
            core_kinds_source: file.core_kinds_source,
            cpus: file.cpus.into_iter().map(cpu).collect(),
            perf_attributes,
            system: System {
                kernel: file.kernel,
                numa_balancing: file.numa_balancing,
                grain: file.grain,
                quantum: file.quantum.as_ref().map(quantum_attributes),
            },
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
        memory_bandwidth: known.memory_bandwidth_bytes_per_s.map(Bandwidth::from),
    }
}

fn core_entry(core: &Core, attributes: &PerfAttributes) -> CoreEntry {
    let (id, cpus) = (core.id.0, core.cpus.to_string());
    let frequency = attributes.core_mhz.get(&core.id).copied().map(Frequency::from);
    CoreEntry { id, cpus, kind: core.kind.clone(), capacity: core.capacity, frequency }
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
        achievable: access.achievable_permille.map(Share::from),
        loaded_latency: access.loaded_latency.as_ref().map(curve_entry),
        link: access.link,
    }
}

fn access(entry: &AccessEntry) -> Result<MemoryAccess, MachineError> {
    let (from, to) = (NodeId(entry.from_node), NodeId(entry.to_node));
    let curve = |curve: &CurveEntry| {
        let CurveEntry { utilization_permille, latency_permille, source } = curve;
        let (n_utilizations, n_latencies) = (utilization_permille.len(), latency_permille.len());
        if n_utilizations != n_latencies {
            let problem = format!("has {n_utilizations} utilizations and {n_latencies} latencies");
            return Err(invalid(access_name(from, to), "loaded_latency", problem));
        }
        let points = utilization_permille.iter().copied().zip(latency_permille.iter().copied());
        Ok(LatencyCurve { points: points.collect(), source: *source })
    };
    Ok(MemoryAccess {
        from,
        to,
        latency_ns: entry.latency.map(SourcedValue::from),
        bandwidth_bytes_per_s: entry.bandwidth.map(SourcedValue::from),
        achievable_permille: entry.achievable.map(SourcedValue::from),
        loaded_latency: entry.loaded_latency.as_ref().map(curve).transpose()?,
        link: entry.link,
    })
}

fn curve_entry(curve: &LatencyCurve) -> CurveEntry {
    CurveEntry {
        utilization_permille: curve.points.iter().map(|point| point.0).collect(),
        latency_permille: curve.points.iter().map(|point| point.1).collect(),
        source: curve.source,
    }
}

fn link_entry(link: &LinkAttributes) -> LinkEntry {
    LinkEntry { id: link.id, bandwidth: link.bandwidth_bytes_per_s.into() }
}

fn cluster_entry(cluster: &ClusterAttributes) -> ClusterEntry {
    let cpus = cluster.cpus.to_string();
    ClusterEntry { id: cluster.id, cpus, cache: cluster.cache_bytes.into() }
}

fn cluster(entry: &ClusterEntry) -> Result<ClusterAttributes, FileError> {
    let cpus = list(&format!("cluster{}", entry.id), "cpus", &entry.cpus)?;
    Ok(ClusterAttributes { id: entry.id, cpus, cache_bytes: entry.cache.into() })
}

fn physics_entry(physics: &PhysicsAttributes) -> PhysicsEntry {
    PhysicsEntry {
        replacement: physics.replacement,
        smt: physics.smt,
        open_streams: physics.open_streams,
        prefetch_loss: physics.prefetch_loss_permille.map(Share::from),
        context_switch: physics.context_switch,
    }
}

fn physics(entry: &PhysicsEntry) -> PhysicsAttributes {
    PhysicsAttributes {
        replacement: entry.replacement,
        smt: entry.smt,
        open_streams: entry.open_streams,
        prefetch_loss_permille: entry.prefetch_loss.map(SourcedValue::from),
        context_switch: entry.context_switch,
    }
}

fn kind_entry((kind, known): (&String, &CoreKindAttributes)) -> KindEntry {
    let shares = |list: &SourcedList| Shares { permille: list.values.clone(), source: list.source };
    KindEntry {
        kind: kind.clone(),
        frequency: known.frequency_mhz.map(Frequency::from),
        smt_throughput: known.smt_throughput_permille.as_ref().map(shares),
        smt: None,
        max_outstanding_misses: known.max_outstanding_misses.map(Count::from),
        prefetcher: known.has_prefetcher,
        core_cycles: known.core_cycles_permille.map(Share::from),
        private_cache: known.private_cache_bytes.map(Size::from),
    }
}

fn core_kinds(entries: &[KindEntry]) -> Result<BTreeMap<String, CoreKindAttributes>, MachineError> {
    let mut kinds = BTreeMap::new();
    for entry in entries {
        if kinds.insert(entry.kind.clone(), kind_attributes(entry)?).is_some() {
            return Err(MachineError::DuplicateId(kind_name(&entry.kind)));
        }
    }
    Ok(kinds)
}

fn kind_attributes(entry: &KindEntry) -> Result<CoreKindAttributes, MachineError> {
    let list =
        |shares: &Shares| SourcedList { values: shares.permille.clone(), source: shares.source };
    let former = |share: Share| SourcedList {
        values: vec![share.permille.saturating_mul(2)],
        source: share.source,
    };
    if entry.smt.is_some() && entry.smt_throughput.is_some() {
        let problem = "has smt and smt_throughput: remove smt";
        return Err(invalid(kind_name(&entry.kind), "core_kinds", problem));
    }
    let throughput = entry.smt_throughput.as_ref().map(list);
    Ok(CoreKindAttributes {
        frequency_mhz: entry.frequency.map(SourcedValue::from),
        smt_throughput_permille: throughput.or(entry.smt.map(former)),
        max_outstanding_misses: entry.max_outstanding_misses.map(SourcedValue::from),
        has_prefetcher: entry.prefetcher,
        core_cycles_permille: entry.core_cycles.map(SourcedValue::from),
        private_cache_bytes: entry.private_cache.map(SourcedValue::from),
    })
}

fn quantum_entry(known: QuantumAttributes) -> QuantumEntry {
    QuantumEntry {
        queue: known.queue,
        slice: known.slice_ns.map(Time::from),
        switch_cost: known.switch_cost_ns.map(Time::from),
        wakeup_preemption: known.wakeup_preemption,
    }
}

fn quantum_attributes(entry: &QuantumEntry) -> QuantumAttributes {
    QuantumAttributes {
        queue: entry.queue,
        slice_ns: entry.slice.map(SourcedValue::from),
        switch_cost_ns: entry.switch_cost.map(SourcedValue::from),
        wakeup_preemption: entry.wakeup_preemption,
    }
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

fn perf_attributes(file: &MachineFile) -> Result<PerfAttributes, FileError> {
    let llcs = file.llcs.iter().map(|llc| {
        let attributes = CacheAttributes {
            latency_ns: llc.latency.map(SourcedValue::from),
            bandwidth_bytes_per_s: llc.bandwidth.map(SourcedValue::from),
            memory_bandwidth_bytes_per_s: llc.memory_bandwidth.map(SourcedValue::from),
        };
        (LlcId(llc.id), attributes)
    });
    let core_mhz =
        file.cores.iter().filter_map(|core| Some((CoreId(core.id), core.frequency?.into())));
    let link = |link: &LinkEntry| LinkAttributes {
        id: link.id,
        bandwidth_bytes_per_s: link.bandwidth.into(),
    };
    Ok(PerfAttributes {
        accesses: file.accesses.iter().map(access).collect::<Result<_, _>>()?,
        llcs: llcs.filter(|(_, known)| *known != CacheAttributes::default()).collect(),
        kinds: core_kinds(&file.core_kinds)?,
        core_mhz: core_mhz.collect(),
        links: file.links.iter().map(link).collect(),
        clusters: file.clusters.iter().map(cluster).collect::<Result<_, _>>()?,
        physics: physics(&file.physics),
    })
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
