//! Consistency checks of the parts of a machine.

mod capacities;
mod ranges;

use std::collections::{BTreeMap, BTreeSet};

use base::{Bytes, CoreId, CpuId, CpuSet, LlcId, NodeId, NodeSet, excerpt};

use super::{Core, Cpu, Llc, MachineParts, QuantumAttributes};
use crate::{
    CAPACITY_MAX, ContextSwitch, CoreKindAttributes, LatencyCurve, MemoryAccess, OpenStreams,
    PerfAttributes, PhysicsAttributes, SourcedValue,
};

use capacities::{CORE_CYCLES_PERMILLE, check_capacities};
use ranges::{CACHE_MIN, check_frequencies, check_latency, check_llc_latencies, check_llc_size};

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
    #[error(
        "there are more than {CORE_KINDS_MAX} core kinds; give cores of equal speed the same kind"
    )]
    TooManyKinds,
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

fn owners<'a, I: Clone + std::fmt::Display>(
    lists: impl Iterator<Item = (I, &'a CpuSet)>,
    cpu_ids: &CpuSet,
) -> Result<BTreeMap<CpuId, I>, MachineError> {
    let mut owner_of = BTreeMap::new();
    for (owner, cpus) in lists {
        for cpu in cpus.iter() {
            if !cpu_ids.contains(cpu) {
                return Err(MachineError::UnknownCpu { part: owner.to_string(), cpu });
            }
            if let Some(first) = owner_of.insert(cpu, owner.clone()) {
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

/// Maximum number of core kinds. Chosen: no processor with more than four is known.
pub const CORE_KINDS_MAX: usize = 64;

/// Checks the cores. If the machine has cores, every online CPU must belong to one.
fn check_cores(parts: &MachineParts) -> Result<(), MachineError> {
    let has_no_core = |cpu: &&Cpu| cpu.online && cpu.core.is_none();
    if let Some(cpu) = parts.cpus.iter().find(has_no_core).filter(|_| !parts.cores.is_empty()) {
        return Err(invalid(cpu.id, "id", "is online and in no core, although cores are listed"));
    }
    let kinds: BTreeSet<&str> = parts.cores.iter().map(|core| core.kind.as_str()).collect();
    if CORE_KINDS_MAX < kinds.len() {
        return Err(MachineError::TooManyKinds);
    }
    for core in &parts.cores {
        if !is_kind_name(&core.kind) {
            let problem = format!("has the kind {:?}: {KIND_NAME_FORM}", excerpt(&core.kind));
            return Err(invalid(core.id, "kind", problem));
        }
        if core.capacity == 0 || CAPACITY_MAX < core.capacity {
            let problem =
                format!("has capacity {}: capacities are 1 to {CAPACITY_MAX}", core.capacity);
            return Err(invalid(core.id, "capacity", problem));
        }
        if core.cpus.is_empty() {
            return Err(invalid(core.id, "cpus", "has no CPU"));
        }
        check_same_domain(core, parts.nodes.iter().map(|node| (node.id, &node.cpus)))?;
        check_same_domain(core, parts.llcs.iter().map(|llc| (llc.id, &llc.cpus)))?;
    }
    match parts.cores.iter().max_by_key(|core| core.capacity) {
        Some(Core { id, capacity, .. }) if *capacity != CAPACITY_MAX => {
            let problem = format!(
                "has the largest capacity, {capacity}: write {CAPACITY_MAX} for the fastest kind"
            );
            Err(invalid(id, "capacity", problem))
        }
        _ => Ok(()),
    }
}

/// The form of the names of core kinds, for errors.
pub(crate) const KIND_NAME_FORM: &str = "a name has 1 to 100 letters, digits and -";

/// Returns whether a text may be the name of a core kind, which options and drawings contain.
pub(crate) fn is_kind_name(text: &str) -> bool {
    (1..=100).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
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
        check_llc_size(llc)?;
        if llc.cpus.is_empty() {
            return Err(invalid(llc.id, "cpus", "has no CPU: remove the entry"));
        }
        if !(1..=LEVEL_MAX).contains(&llc.level) {
            let problem = format!("has level {}: cache levels are 1 to {LEVEL_MAX}", llc.level);
            return Err(invalid(llc.id, "level", problem));
        }
    }
    check_sizes(parts)?;
    parts.system.quantum.as_ref().map_or(Ok(()), check_quantum)?;
    check_attributes(&parts.perf_attributes, parts)
}

/// Shortest slice in nanoseconds, and longest slice and switch. A shorter slice would be shorter than a switch.
const SLICE_NS_MIN: u64 = 10_000;
const SLICE_NS_MAX: u64 = 10_000_000_000;

fn check_quantum(quantum: &QuantumAttributes) -> Result<(), MachineError> {
    let check = |key: &str, value: Option<SourcedValue>, ns_min: u64| match value {
        Some(SourcedValue { value, .. }) if !(ns_min..=SLICE_NS_MAX).contains(&value) => {
            let problem = format!("has {key} {value}: write {ns_min} to {SLICE_NS_MAX} ns");
            Err(invalid("quantum", "quantum", problem))
        }
        _ => Ok(()),
    };
    check("slice", quantum.slice_ns, SLICE_NS_MIN)?;
    check("switch_cost", quantum.switch_cost_ns, 0)
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
        let values = [
            ("latency", access.latency_ns),
            ("bandwidth", access.bandwidth_bytes_per_s),
            ("achievable", access.achievable_permille),
        ];
        known(access_name(access.from, access.to), values)
    });
    let of_caches = attributes.llcs.iter().flat_map(|(id, llc)| {
        let values = [
            ("latency", llc.latency_ns),
            ("bandwidth", llc.bandwidth_bytes_per_s),
            ("memory_bandwidth", llc.memory_bandwidth_bytes_per_s),
        ];
        known(id.to_string(), values)
    });
    let of_kinds = attributes.kinds.iter().flat_map(|(kind, values)| {
        let values = [
            values.frequency_mhz,
            values.max_outstanding_misses,
            values.core_cycles_permille,
            values.private_cache_bytes,
        ];
        known(kind_name(kind), values.map(|value| ("core_kinds", value)))
    });
    let of_cores = attributes
        .core_mhz
        .iter()
        .flat_map(|(id, mhz)| known(id.to_string(), [("frequency", Some(*mhz))]));
    let of_links = attributes.links.iter().flat_map(|link| {
        known(format!("link{}", link.id), [("bandwidth", Some(link.bandwidth_bytes_per_s))])
    });
    let of_clusters = attributes.clusters.iter().flat_map(|cluster| {
        known(format!("cluster{}", cluster.id), [("cache", Some(cluster.cache_bytes))])
    });
    let known = of_accesses.chain(of_caches).chain(of_kinds).chain(of_cores).chain(of_links);
    let known: Vec<_> = known.chain(of_clusters).collect();
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

fn known<const N: usize>(
    part: String,
    values: [(&'static str, Option<SourcedValue>); N],
) -> [(String, &'static str, Option<u64>); N] {
    values.map(|(field, value)| (part.clone(), field, value.map(|value| value.value)))
}

/// Returns the name of an access in messages.
pub(crate) fn access_name(from: NodeId, to: NodeId) -> String {
    format!("the access from {from} to {to}")
}

/// The beginning of [`kind_name`].
pub(crate) const KIND: &str = "the kind ";

/// Returns the name of an entry of `core_kinds` in messages.
pub(crate) fn kind_name(kind: &str) -> String {
    format!("{KIND}{kind:?}")
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
                return Err(invalid(access_name(local_access.from, to), "latency", problem));
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
            return Err(invalid(access_name(from, to), "accesses", problem));
        }
        if !pairs.insert((from, to)) {
            return Err(MachineError::DuplicateId(access_name(from, to)));
        }
        check_load(access)?;
        check_latency(access_name(from, to), access.latency_ns)?;
    }
    for (&llc, known) in &attributes.llcs {
        check_latency(llc, known.latency_ns)?;
    }
    check_llc_latencies(attributes)?;
    check_frequencies(attributes)?;
    check_local_is_fastest(attributes)?;
    check_links(attributes)?;
    check_clusters(parts)?;
    check_physics(&attributes.physics).map_err(|problem| invalid("physics", "physics", problem))?;
    for (kind, known) in &attributes.kinds {
        check_kind(kind, known, parts)
            .map_err(|problem| invalid(kind_name(kind), "core_kinds", problem))?;
    }
    check_capacities(attributes, parts)?;
    match attributes.llcs.keys().find(|&&id| parts.llcs.iter().all(|llc| llc.id != id)) {
        Some(unknown) => Err(invalid(unknown, "latency", "has attributes but does not exist")),
        None => Ok(()),
    }
}

/// Checks the values that describe memory under load.
fn check_load(access: &MemoryAccess) -> Result<(), MachineError> {
    let reject =
        |field, problem: String| Err(invalid(access_name(access.from, access.to), field, problem));
    if access.from != access.to {
        let keys = [
            ("achievable", access.achievable_permille.is_some()),
            ("loaded_latency", access.loaded_latency.is_some()),
        ];
        return match keys.into_iter().find(|(_, is_set)| *is_set) {
            Some((field, _)) => reject(
                field,
                format!(
                    "has {field}, which is a value of local memory: write it where from_node and to_node are equal"
                ),
            ),
            None => Ok(()),
        };
    }
    if access.link.is_some() {
        return reject("link", "has a link, but memory of the own node uses none".to_owned());
    }
    if let Some(share) = access.achievable_permille.filter(|share| 1000 < share.value) {
        let problem = format!("has achievable {}: it is at most 1000", share.value);
        return reject("achievable", problem);
    }
    let Some(curve) = &access.loaded_latency else { return Ok(()) };
    let points = &curve.points;
    if LatencyCurve::POINTS_MAX < points.len() {
        let problem =
            format!("has a loaded_latency with more than {} points", LatencyCurve::POINTS_MAX);
        return reject("loaded_latency", problem);
    }
    if points.first() != Some(&(0, 1000)) {
        let problem =
            "has a loaded_latency that does not begin with utilization 0 and latency 1000";
        return reject("loaded_latency", problem.to_owned());
    }
    if points.last().is_none_or(|(utilization, _)| *utilization != 1000) {
        let problem = "has a loaded_latency that does not end with utilization 1000";
        return reject("loaded_latency", problem.to_owned());
    }
    for pair in points.windows(2) {
        let [(utilization, latency), (next_utilization, next_latency)] = [pair[0], pair[1]];
        if next_utilization <= utilization {
            return reject(
                "loaded_latency",
                format!(
                    "has utilization {next_utilization} after {utilization}: utilizations increase"
                ),
            );
        }
        if next_latency < latency {
            return reject(
                "loaded_latency",
                format!(
                    "has latency {next_latency} after {latency}: a loaded latency does not fall"
                ),
            );
        }
    }
    match points.iter().find(|(_, latency)| LATENCY_PERMILLE_MAX < *latency) {
        Some((_, latency)) => reject(
            "loaded_latency",
            format!("has latency {latency}: the largest is {LATENCY_PERMILLE_MAX}"),
        ),
        None => Ok(()),
    }
}

/// The largest loaded latency in permille of the unloaded latency: a thousand times.
const LATENCY_PERMILLE_MAX: u64 = 1_000_000;

fn check_links(attributes: &PerfAttributes) -> Result<(), MachineError> {
    let uses = |id: u32| attributes.accesses.iter().any(|access| access.link == Some(id));
    let mut ids = BTreeSet::new();
    for link in &attributes.links {
        let part = format!("link{}", link.id);
        if !ids.insert(link.id) {
            return Err(MachineError::DuplicateId(part));
        }
        if !uses(link.id) {
            return Err(invalid(
                part,
                "id",
                "is used by no access: remove it, or write link in accesses",
            ));
        }
    }
    let unknown =
        attributes.accesses.iter().find(|access| access.link.is_some_and(|id| !ids.contains(&id)));
    match unknown {
        Some(access) => {
            let id = access.link.unwrap_or_default();
            let problem = format!("has link {id}, which is not in links");
            Err(invalid(access_name(access.from, access.to), "link", problem))
        }
        None => Ok(()),
    }
}

/// Checks that a cluster consists of whole cores of one LLC domain, and that its cache is not larger than the
/// last-level cache. The cache of a cluster is the largest cache between a core and its last-level cache.
fn check_clusters(parts: &MachineParts) -> Result<(), MachineError> {
    let clusters = &parts.perf_attributes.clusters;
    let cpu_ids: CpuSet = parts.cpus.iter().map(|cpu| cpu.id).collect();
    let name = |id: u32| format!("cluster{id}");
    let mut ids = BTreeSet::new();
    if let Some(twice) = clusters.iter().find(|cluster| !ids.insert(cluster.id)) {
        return Err(MachineError::DuplicateId(name(twice.id)));
    }
    owners(
        clusters.iter().map(|cluster| (format!("cluster{}", cluster.id), &cluster.cpus)),
        &cpu_ids,
    )?;
    for cluster in clusters {
        let reject = |field, problem: String| Err(invalid(name(cluster.id), field, problem));
        let (cpus, bytes) = (&cluster.cpus, cluster.cache_bytes.value);
        let Some(first) = cpus.iter().next() else {
            return reject("cpus", "has no CPU: remove the entry".to_owned());
        };
        let Some(llc) = parts.llcs.iter().find(|llc| llc.cpus.contains(first)) else {
            let problem = format!("has {first}, which is in no llc: a cluster is below one");
            return reject("cpus", problem);
        };
        if let Some(other) = cpus.iter().find(|&cpu| !llc.cpus.contains(cpu)) {
            let problem = format!("has {first} of {} and {other}, which is not in it", llc.id);
            return reject("cpus", problem);
        }
        for core in parts.cores.iter().filter(|core| core.cpus.intersects(cpus)) {
            if !core.cpus.minus(cpus).is_empty() {
                let problem = format!("has some of the CPUs of {}: write all or none", core.id);
                return reject("cpus", problem);
            }
            let kind = parts.perf_attributes.kinds.get(&core.kind);
            if kind.is_some_and(|kind| kind.private_cache_bytes.is_some()) {
                let problem = format!(
                    "has {} of the kind {:?}, which has a private_cache: remove one of them",
                    core.id, core.kind
                );
                return reject("cpus", problem);
            }
        }
        check_upper_cache(bytes, [llc.size]).or_else(|problem| reject("cache", problem))?;
    }
    Ok(())
}

/// Checks the size of a cache between the cores and their last-level caches. The error is the problem.
fn check_upper_cache(
    bytes: u64,
    llcs: impl IntoIterator<Item = Option<Bytes>>,
) -> Result<(), String> {
    if bytes < CACHE_MIN {
        return Err(format!("has a cache of {bytes} bytes: the smallest is {CACHE_MIN}"));
    }
    for llc in llcs {
        match llc {
            None => {
                return Err(format!(
                    "has a cache of {bytes} bytes, but its last-level cache has no size_bytes: add it"
                ));
            }
            Some(llc) if llc.0 < bytes => {
                return Err(format!(
                    "has a cache of {bytes} bytes, larger than the last-level cache of {}",
                    llc.0
                ));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Checks the physics. The error is the problem.
fn check_physics(physics: &PhysicsAttributes) -> Result<(), String> {
    if let Some(OpenStreams { count, permille, .. }) = physics.open_streams {
        if !(1..=STREAMS_MAX).contains(&count) {
            return Err(format!("has open_streams with count {count}: it is 1 to {STREAMS_MAX}"));
        }
        if !(1..=1000).contains(&permille) {
            return Err(format!("has open_streams with permille {permille}: it is 1 to 1000"));
        }
    }
    if let Some(ContextSwitch { ns, refill_bytes, .. }) = physics.context_switch {
        if SWITCH_NS_MAX < ns {
            return Err(format!("has context_switch with ns {ns}: it is at most {SWITCH_NS_MAX}"));
        }
        if REFILL_MAX < refill_bytes {
            return Err(format!(
                "has context_switch with refill_bytes {refill_bytes}: it is at most {REFILL_MAX}"
            ));
        }
    }
    match physics.prefetch_loss_permille.filter(|loss| 1000 < loss.value) {
        Some(loss) => Err(format!("has prefetch_loss {}: it is at most 1000", loss.value)),
        None => Ok(()),
    }
}

/// The largest accepted time of a context switch: a millisecond.
const SWITCH_NS_MAX: u64 = 1_000_000;
/// The largest accepted size of private caches: 64 MiB.
const REFILL_MAX: u64 = 64 << 20;
/// The largest accepted number of open streams.
const STREAMS_MAX: u64 = 1 << 20;

/// Checks the attributes of a core kind. The error is the problem.
fn check_kind(kind: &str, known: &CoreKindAttributes, parts: &MachineParts) -> Result<(), String> {
    let cores = || parts.cores.iter().filter(|core| core.kind == kind);
    if cores().next().is_none() {
        return Err("has attributes, but no core is of this kind".to_owned());
    }
    if known.max_outstanding_misses.is_some_and(|count| OUTSTANDING_MAX < count.value) {
        return Err(format!("has more than {OUTSTANDING_MAX} max_outstanding_misses"));
    }
    let is_invalid = |share: SourcedValue| !CORE_CYCLES_PERMILLE.contains(&share.value);
    if known.core_cycles_permille.is_some_and(is_invalid) {
        let (min, max) = CORE_CYCLES_PERMILLE.into_inner();
        return Err(format!("has core_cycles outside {min} to {max} permille"));
    }
    if let Some(size) = known.private_cache_bytes {
        let of_kind = |llc: &&Llc| cores().any(|core| core.cpus.intersects(&llc.cpus));
        check_upper_cache(size.value, parts.llcs.iter().filter(of_kind).map(|llc| llc.size))?;
    }
    let Some(list) = &known.smt_throughput_permille else { return Ok(()) };
    if list.values.is_empty() {
        return Err(
            "has an empty smt_throughput: write the throughput with two busy siblings".to_owned()
        );
    }
    let mut share = 1000;
    for (n_siblings, &value) in (2..).zip(&list.values) {
        let (value_min, value_max) = (SMT_THROUGHPUT_MIN, share * n_siblings);
        if !(value_min..=value_max).contains(&value) {
            return Err(format!(
                "has smt_throughput {value} with {n_siblings} busy siblings: possible are {value_min} to {value_max}, because no sibling becomes faster when another becomes busy"
            ));
        }
        share = value / n_siblings;
    }
    Ok(())
}

/// The smallest accepted throughput of a core with several busy siblings, in permille of one.
const SMT_THROUGHPUT_MIN: u64 = 500;
/// The largest accepted number of outstanding misses of a core.
const OUTSTANDING_MAX: u64 = 1024;
