//! Consistency checks of the parts of a machine.

use std::collections::{BTreeMap, BTreeSet};

use base::{Bytes, CoreId, CpuId, CpuSet, LlcId, NodeId, NodeSet};

use super::{Core, Cpu, MachineParts};
use crate::{PerfAttributes, SourcedValue};

/// The highest cache level. Real machines have at most 4.
const LEVEL_MAX: u32 = 9;

/// A contradiction between the parts of a machine. Parts have names such as `node1` or `cpu3`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum MachineError {
    #[error("{0} is defined twice")]
    DuplicateId(String),
    #[error("{part} has {cpu}, which is not among the machine's CPUs")]
    UnknownCpu { part: String, cpu: CpuId },
    #[error("{cpu} belongs to {first} and to {second}")]
    SharedCpu { cpu: CpuId, first: String, second: String },
    #[error("{cpu} refers to {part}, but {part} does not contain {cpu}")]
    NotListed { cpu: CpuId, part: String },
    #[error("{node} has a distance to {to}, which is not a node of this machine")]
    UnknownDistance { node: NodeId, to: NodeId },
    #[error("{part} {problem}")]
    Invalid { part: String, field: &'static str, problem: String },
    #[error("the machine has no CPU online")]
    NoCpu,
}

/// Sorts the parts, sets the node, LLC domain and core of each CPU, and checks all values.
pub(super) fn check(parts: &mut MachineParts) -> Result<(), MachineError> {
    sort_and_check_ids(parts)?;
    let cpu_ids: CpuSet = parts.cpus.iter().map(|cpu| cpu.id).collect();
    let owners = Owners::collect(parts, &cpu_ids)?;
    for cpu in &mut parts.cpus {
        owners.assign(cpu)?;
        cpu.allowed &= cpu.online;
    }
    check_values(parts)?;
    check_cores(parts)
}

fn sort_and_check_ids(parts: &mut MachineParts) -> Result<(), MachineError> {
    parts.nodes.sort_by_key(|node| node.id);
    parts.llcs.sort_by_key(|llc| llc.id);
    parts.cores.sort_by_key(|core| core.id);
    parts.cpus.sort_by_key(|cpu| cpu.id);
    check_unique(parts.nodes.iter().map(|node| node.id))?;
    check_unique(parts.llcs.iter().map(|llc| llc.id))?;
    check_unique(parts.cores.iter().map(|core| core.id))?;
    check_unique(parts.cpus.iter().map(|cpu| cpu.id))
}

fn check_unique<I: Ord + Copy + std::fmt::Display>(
    ids: impl Iterator<Item = I>,
) -> Result<(), MachineError> {
    let mut unique = BTreeSet::new();
    for id in ids {
        if !unique.insert(id) {
            return Err(MachineError::DuplicateId(id.to_string()));
        }
    }
    Ok(())
}

/// The node, cache and core of each CPU according to the lists.
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

    fn assign(&self, cpu: &mut Cpu) -> Result<(), MachineError> {
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
                return Err(MachineError::UnknownCpu { part: owner.to_string(), cpu });
            }
            if let Some(first) = owner_of.insert(cpu, owner) {
                let (first, second) = (first.to_string(), owner.to_string());
                return Err(MachineError::SharedCpu { cpu, first, second });
            }
        }
    }
    Ok(owner_of)
}

fn agreed<I: Copy + PartialEq + std::fmt::Display>(
    cpu: CpuId,
    named: Option<I>,
    listed: Option<&I>,
) -> Result<Option<I>, MachineError> {
    match named {
        Some(named) if listed != Some(&named) => {
            Err(MachineError::NotListed { cpu, part: named.to_string() })
        }
        _ => Ok(listed.copied()),
    }
}

/// Checks the cores. If the machine has cores, every online CPU must belong to one.
fn check_cores(parts: &MachineParts) -> Result<(), MachineError> {
    let has_no_core = |cpu: &&Cpu| cpu.online && cpu.core.is_none();
    if let Some(cpu) = parts.cpus.iter().find(has_no_core).filter(|_| !parts.cores.is_empty()) {
        return Err(invalid(cpu.id, "id", "is online and in no core, although cores are listed"));
    }
    for core in &parts.cores {
        if core.capacity == 0 || 1024 < core.capacity {
            let problem = format!("has capacity {}: capacities are 1 to 1024", core.capacity);
            return Err(invalid(core.id, "capacity", problem));
        }
        if core.cpus.is_empty() {
            return Err(invalid(core.id, "cpus", "has no CPU"));
        }
        check_same_domain(core, parts.nodes.iter().map(|node| (node.id, &node.cpus)))?;
        check_same_domain(core, parts.llcs.iter().map(|llc| (llc.id, &llc.cpus)))?;
    }
    Ok(())
}

/// Checks that all CPUs of a core belong to the same node and the same LLC domain, if the CPUs belong to any.
fn check_same_domain<'a, I: std::fmt::Display>(
    core: &Core,
    lists: impl Iterator<Item = (I, &'a CpuSet)>,
) -> Result<(), MachineError> {
    let mut owners = lists.filter(|(_, cpus)| cpus.intersects(&core.cpus));
    match (owners.next(), owners.next()) {
        (Some((first, _)), Some((second, _))) => {
            let problem = format!("is in {first} and in {second}: a core belongs to only one");
            Err(invalid(core.id, "cpus", problem))
        }
        _ => Ok(()),
    }
}

pub(crate) fn invalid(
    part: impl std::fmt::Display,
    field: &'static str,
    problem: impl Into<String>,
) -> MachineError {
    MachineError::Invalid { part: part.to_string(), field, problem: problem.into() }
}

fn check_values(parts: &MachineParts) -> Result<(), MachineError> {
    let node_ids: NodeSet = parts.nodes.iter().map(|node| node.id).collect();
    for node in &parts.nodes {
        if let Some((&to, _)) = node.distances.iter().find(|(to, _)| !node_ids.contains(**to)) {
            return Err(MachineError::UnknownDistance { node: node.id, to });
        }
        if node.memory < node.memory_free {
            let problem = "has more free memory than memory";
            return Err(invalid(node.id, "memory_free_bytes", problem));
        }
    }
    for llc in &parts.llcs {
        let node = llc.node.and_then(|id| parts.nodes.iter().find(|node| node.id == id));
        if llc.node.is_some() && !node.is_some_and(|node| llc.cpus.is_subset(&node.cpus)) {
            return Err(invalid(
                llc.id,
                "node",
                "is assigned to a node that does not contain all of its CPUs",
            ));
        }
        if llc.size == Some(Bytes::ZERO) {
            let problem = "has size 0: remove the key if the size is unknown";
            return Err(invalid(llc.id, "size_bytes", problem));
        }
        if llc.cpus.is_empty() {
            return Err(invalid(llc.id, "cpus", "has no CPU: remove the entry"));
        }
        if !(1..=LEVEL_MAX).contains(&llc.level) {
            let problem = format!("has level {}: cache levels are 1 to {LEVEL_MAX}", llc.level);
            return Err(invalid(llc.id, "level", problem));
        }
    }
    check_attributes(&parts.perf_attributes, parts)?;
    check_sizes(parts)
}

/// Maximum of every size in a machine file: 2^60. TOML integers and the IEEE 754 doubles of JSON readers represent it.
const VALUE_MAX: u64 = 1 << 60;

fn check_sizes(parts: &MachineParts) -> Result<(), MachineError> {
    let attributes = &parts.perf_attributes;
    let of_nodes = parts.nodes.iter().flat_map(|node| {
        let sizes = [("memory_bytes", node.memory), ("memory_free_bytes", node.memory_free)];
        sizes.map(|(field, bytes)| (node.id.to_string(), field, bytes.map(|bytes| bytes.0)))
    });
    let of_llcs = parts
        .llcs
        .iter()
        .map(|llc| (llc.id.to_string(), "size_bytes", llc.size.map(|bytes| bytes.0)));
    let of_accesses = attributes.accesses.iter().flat_map(|access| {
        let part = format!("the access from {} to {}", access.from, access.to);
        known(part, access.latency_ns, access.bandwidth_bytes_per_s)
    });
    let of_caches = attributes
        .llcs
        .iter()
        .flat_map(|(id, llc)| known(id.to_string(), llc.latency_ns, llc.bandwidth_bytes_per_s));
    let of_kinds = attributes.kinds.iter().flat_map(|(kind, values)| {
        let part = format!("the kind {kind:?}");
        let values = [("core_kinds", values.frequency_mhz), ("core_kinds", values.smt_permille)];
        values.map(|(field, value)| (part.clone(), field, value.map(|value| value.value)))
    });
    let known: Vec<_> = of_accesses.chain(of_caches).chain(of_kinds).collect();
    if let Some((part, field, _)) = known.iter().find(|(.., value)| *value == Some(0)) {
        return Err(invalid(
            part,
            field,
            "has a value of 0: remove the key if the value is unknown",
        ));
    }
    let mut all = of_nodes.chain(of_llcs).chain(known);
    match all.find(|(.., value)| Some(VALUE_MAX) < *value) {
        Some((part, field, value)) => {
            let value = value.unwrap_or_default();
            Err(invalid(
                part,
                field,
                format!("has {value}, which is above the largest possible value"),
            ))
        }
        None => Ok(()),
    }
}

fn known(
    part: String,
    latency: Option<SourcedValue>,
    bandwidth: Option<SourcedValue>,
) -> [(String, &'static str, Option<u64>); 2] {
    [("latency", latency), ("bandwidth", bandwidth)]
        .map(|(field, value)| (part.clone(), field, value.map(|value| value.value)))
}

/// Run-to-run variation of measured latencies between nodes of one package, in permille.
const LATENCY_NOISE_PERMILLE: u64 = 100;

/// Checks that the memory of another node is not faster than local memory, except for measurement noise.
fn check_local_is_fastest(attributes: &PerfAttributes) -> Result<(), MachineError> {
    for local_access in attributes.accesses.iter().filter(|access| access.from == access.to) {
        let Some(local) = local_access.latency_ns else { continue };
        let latency_min = local.value.saturating_mul(1000 - LATENCY_NOISE_PERMILLE) / 1000;
        let from_node =
            attributes.accesses.iter().filter(|access| access.from == local_access.from);
        for (to, latency) in from_node.filter_map(|access| Some((access.to, access.latency_ns?))) {
            if latency.value < latency_min {
                let problem = format!(
                    "has a latency of {} ns, less than the {} ns of local memory",
                    latency.value, local.value
                );
                let part = format!("the access from {} to {to}", local_access.from);
                return Err(invalid(part, "latency", problem));
            }
        }
    }
    Ok(())
}

fn check_attributes(attributes: &PerfAttributes, parts: &MachineParts) -> Result<(), MachineError> {
    let node_ids: NodeSet = parts.nodes.iter().map(|node| node.id).collect();
    let mut pairs = BTreeSet::new();
    for access in &attributes.accesses {
        let (from, to) = (access.from, access.to);
        if let Some(unknown) = [from, to].into_iter().find(|&id| !node_ids.contains(id)) {
            let problem = format!("names {unknown}, which is not a node of this machine");
            return Err(invalid(format!("the access from {from} to {to}"), "accesses", problem));
        }
        if !pairs.insert((from, to)) {
            return Err(MachineError::DuplicateId(format!("the access from {from} to {to}")));
        }
    }
    check_local_is_fastest(attributes)?;
    for (kind, known) in &attributes.kinds {
        let part = format!("the kind {kind:?}");
        if parts.cores.iter().all(|core| core.kind != *kind) {
            return Err(invalid(part, "core_kinds", "has attributes, but no core is of this kind"));
        }
        if known.smt_permille.is_some_and(|share| 1000 < share.value) {
            let problem = "is faster with a busy sibling than alone: smt is at most 1000";
            return Err(invalid(part, "core_kinds", problem));
        }
    }
    match attributes.llcs.keys().find(|&&id| parts.llcs.iter().all(|llc| llc.id != id)) {
        Some(unknown) => Err(invalid(unknown, "latency", "has attributes but does not exist")),
        None => Ok(()),
    }
}
