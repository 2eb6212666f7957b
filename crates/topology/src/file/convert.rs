//! Between a machine and its file. Everything that a machine knows survives the way there and back.

use std::collections::BTreeMap;

use base::{Bytes, CoreId, CpuId, IdSet, LlcId, NodeId, NodeSet, ParseSetError, SetId};

use super::{
    AccessEntry, Bandwidth, Besides, CoreEntry, CpuEntry, FORMAT_VERSION, Frequency, KindEntry,
    Latency, LlcEntry, MachineFile, NodeEntry, Share, SourceName, Version,
};
use crate::{
    Access, CacheFigures, Core, Cpu, DISTANCE_LOCAL, Figure, Figures, KindFigures, Llc, Machine,
    MachineError, MachineParts, Node, Source, System,
};

/// As for sets of CPUs and nodes; the kernel's own limits are lower.
const ID_MAX: u32 = 65_535;

/// Why a file that could be read is no machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// A version of the format that this build does not know.
    #[error("format_version is {0}, this evenkeel reads {FORMAT_VERSION}")]
    Version(u32),
    /// A list of CPUs or nodes that is none.
    #[error("{field} of {whose}")]
    List {
        /// The entry.
        whose: String,
        /// The field in it.
        field: &'static str,
        /// What is wrong with the text.
        source: ParseSetError,
    },
    /// A number beyond anything that Linux supports; sets of such numbers would fill the memory.
    #[error("{what} {id}: numbers go up to {ID_MAX}")]
    Number {
        /// What is numbered.
        what: &'static str,
        /// The number.
        id: u32,
    },
    /// A distance to something else than a node number, written as the kernel writes it.
    #[error("distances of {whose}: {key:?} is no node number")]
    Distance {
        /// The node.
        whose: NodeId,
        /// What stood there.
        key: String,
    },
    /// The parts contradict each other.
    #[error(transparent)]
    Contradiction(#[from] MachineError),
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
            llcs: parts.llcs.iter().map(|llc| llc_entry(llc, &parts.figures)).collect(),
            cores: parts.cores.iter().map(core_entry).collect(),
            cpus: parts.cpus.iter().map(cpu_entry).collect(),
            accesses: parts.figures.accesses.iter().map(access_entry).collect(),
            core_kinds: parts.figures.kinds.iter().map(kind_entry).collect(),
            kernel: parts.system.kernel.clone(),
            numa_balancing: parts.system.numa_balancing,
            placement: Besides,
            signals: Besides,
            processor_family: Besides,
            events: Besides,
            groups: Besides,
        }
    }
}

impl TryFrom<MachineFile> for Machine {
    type Error = FileError;

    fn try_from(file: MachineFile) -> Result<Self, FileError> {
        Version { format_version: file.format_version }.check()?;
        check_numbers(&file)?;
        let figures = figures(&file);
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
            figures,
            system: System { kernel: file.kernel, numa_balancing: file.numa_balancing },
            warnings: file.warnings,
        };
        refuse_unknown_nodes(&parts.nodes, &parts.nodes_allowed)?;
        refuse_odd_distances(&parts.nodes)?;
        let machine = Machine::new(parts)?;
        refuse_offline_members(&machine)?;
        refuse_missing_distances(machine.nodes())?;
        Ok(machine)
    }
}

fn check_numbers(file: &MachineFile) -> Result<(), FileError> {
    let nodes = file.nodes.iter().map(|node| ("node", node.id));
    let llcs = file.llcs.iter().map(|llc| ("llc", llc.id));
    let cores = file.cores.iter().map(|core| ("core", core.id));
    let cpus = file.cpus.iter().map(|cpu| ("cpu", cpu.id));
    match nodes.chain(llcs).chain(cores).chain(cpus).find(|(_, id)| ID_MAX < *id) {
        Some((what, id)) => Err(FileError::Number { what, id }),
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

fn llc_entry(llc: &Llc, figures: &Figures) -> LlcEntry {
    let known = figures.llcs.get(&llc.id).copied().unwrap_or_default();
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

fn access_entry(access: &Access) -> AccessEntry {
    AccessEntry {
        from_node: access.from.0,
        to_node: access.to.0,
        latency: access.latency_ns.map(Latency::from),
        bandwidth: access.bandwidth_bytes_per_s.map(Bandwidth::from),
    }
}

fn kind_entry((kind, known): (&String, &KindFigures)) -> KindEntry {
    let frequency = |its: Figure| Frequency { mhz: its.value, source: its.source.into() };
    let share = |its: Figure| Share { permille: its.value, source: its.source.into() };
    KindEntry {
        kind: kind.clone(),
        frequency: known.frequency_mhz.map(frequency),
        smt: known.smt_permille.map(share),
    }
}

fn kind_figures(entry: &KindEntry) -> (String, KindFigures) {
    let figure = |value, source: SourceName| Figure { value, source: source.into() };
    let frequency_mhz = entry.frequency.map(|its| figure(its.mhz, its.source));
    let smt_permille = entry.smt.map(|its| figure(its.permille, its.source));
    (entry.kind.clone(), KindFigures { frequency_mhz, smt_permille })
}

fn node(entry: NodeEntry) -> Result<Node, FileError> {
    let id = NodeId(entry.id);
    let mut distances = BTreeMap::new();
    for (key, cost) in entry.distances {
        // `0`, `00` and `+0` would be one node three times.
        let number = key.parse().ok().filter(|number: &u32| number.to_string() == key);
        let refuse = || FileError::Distance { whose: id, key: key.clone() };
        distances.insert(NodeId(number.ok_or_else(refuse)?), cost);
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

fn figures(file: &MachineFile) -> Figures {
    let accesses = file.accesses.iter().map(|entry| Access {
        from: NodeId(entry.from_node),
        to: NodeId(entry.to_node),
        latency_ns: entry.latency.map(Figure::from),
        bandwidth_bytes_per_s: entry.bandwidth.map(Figure::from),
    });
    let known = file.llcs.iter().filter(|llc| llc.latency.is_some() || llc.bandwidth.is_some());
    let llcs = known.map(|llc| {
        let latency_ns = llc.latency.map(Figure::from);
        let bandwidth_bytes_per_s = llc.bandwidth.map(Figure::from);
        (LlcId(llc.id), CacheFigures { latency_ns, bandwidth_bytes_per_s })
    });
    let kinds = file.core_kinds.iter().map(kind_figures);
    Figures { accesses: accesses.collect(), llcs: llcs.collect(), kinds: kinds.collect() }
}

fn list<T: SetId>(whose: &str, field: &'static str, text: &str) -> Result<IdSet<T>, FileError> {
    text.parse().map_err(|source| FileError::List { whose: whose.to_owned(), field, source })
}

fn refuse_unknown_nodes(nodes: &[Node], allowed: &NodeSet) -> Result<(), MachineError> {
    match allowed.iter().find(|id| nodes.iter().all(|node| node.id != *id)) {
        Some(id) => Err(MachineError::Absurd {
            whose: "nodes_allowed".to_owned(),
            field: "nodes_allowed",
            problem: format!("has {id}, which is not a node of this machine"),
        }),
        None => Ok(()),
    }
}

/// As the kernel does with the firmware's: 10 is local and nothing is nearer.
fn refuse_odd_distances(nodes: &[Node]) -> Result<(), MachineError> {
    for node in nodes {
        let is_odd = |(to, cost): &(&NodeId, &u32)| match **to == node.id {
            true => **cost != DISTANCE_LOCAL,
            false => **cost < DISTANCE_LOCAL,
        };
        if let Some((to, cost)) = node.distances.iter().find(is_odd) {
            return Err(MachineError::Absurd {
                whose: node.id.to_string(),
                field: "distances",
                problem: format!("is {cost} from {to}: 10 is local, others are farther"),
            });
        }
    }
    Ok(())
}

/// As the kernel tells them: a square of all nodes, or nothing.
fn refuse_missing_distances(nodes: &[Node]) -> Result<(), MachineError> {
    let any_told = nodes.iter().any(|node| !node.distances.is_empty());
    for node in nodes.iter().filter(|_| any_told) {
        if let Some(to) = nodes.iter().find(|to| !node.distances.contains_key(&to.id)) {
            return Err(MachineError::Absurd {
                whose: node.id.to_string(),
                field: "distances",
                problem: format!("tells no distance to {}: tell all of them or none", to.id),
            });
        }
    }
    Ok(())
}

/// Nodes, caches and cores list CPUs that can run something.
fn refuse_offline_members(machine: &Machine) -> Result<(), MachineError> {
    let is_member = |cpu: &&Cpu| cpu.node.is_some() || cpu.llc.is_some() || cpu.core.is_some();
    match machine.cpus().iter().filter(|cpu| !cpu.online).find(is_member) {
        Some(cpu) => Err(MachineError::Absurd {
            whose: cpu.id.to_string(),
            field: "online",
            problem: "is offline, yet a node, an llc or a core lists it".to_owned(),
        }),
        None => Ok(()),
    }
}

impl From<Figure> for Latency {
    fn from(figure: Figure) -> Self {
        Latency { ns: figure.value, source: figure.source.into() }
    }
}

impl From<Figure> for Bandwidth {
    fn from(figure: Figure) -> Self {
        Bandwidth { bytes_per_s: figure.value, source: figure.source.into() }
    }
}

impl From<Latency> for Figure {
    fn from(latency: Latency) -> Self {
        Figure { value: latency.ns, source: latency.source.into() }
    }
}

impl From<Bandwidth> for Figure {
    fn from(bandwidth: Bandwidth) -> Self {
        Figure { value: bandwidth.bytes_per_s, source: bandwidth.source.into() }
    }
}

impl From<Source> for SourceName {
    fn from(source: Source) -> Self {
        match source {
            Source::Measured => SourceName::Measured,
            Source::Firmware => SourceName::Firmware,
            Source::Assumed => SourceName::Assumed,
        }
    }
}

impl From<SourceName> for Source {
    fn from(name: SourceName) -> Self {
        match name {
            SourceName::Measured => Source::Measured,
            SourceName::Firmware => Source::Firmware,
            SourceName::Assumed => Source::Assumed,
        }
    }
}
