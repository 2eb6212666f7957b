//! Whether the parts of a machine agree with each other.

use std::collections::{BTreeMap, BTreeSet};

use base::{Bytes, CoreId, CpuId, CpuSet, LlcId, NodeId, NodeSet};

use super::{Core, Cpu, MachineParts};
use crate::{Figure, Figures};

/// The highest level that a cache has. Four is the most that any machine has; sysfs itself would
/// tell more with a second digit.
const LEVEL_MAX: u32 = 9;

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
    /// Something that cannot be.
    #[error("{whose} {problem}")]
    Absurd {
        /// The part.
        whose: String,
        /// The field of it that is wrong, as it is called in a file.
        field: &'static str,
        /// What is wrong with it, as the rest of a sentence.
        problem: String,
    },
    /// Nothing to run on.
    #[error("the machine has no CPU online")]
    NoCpu,
}

/// Sorts the parts, fills in what each CPU belongs to, and says what contradicts what.
pub(super) fn check(parts: &mut MachineParts) -> Result<(), MachineError> {
    sort_and_find_twins(parts)?;
    let cpu_ids: CpuSet = parts.cpus.iter().map(|cpu| cpu.id).collect();
    let owners = Owners::collect(parts, &cpu_ids)?;
    for cpu in &mut parts.cpus {
        owners.tell(cpu)?;
        cpu.allowed &= cpu.online;
    }
    check_figures(parts)?;
    check_cores_are_whole(parts)
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

/// No CPU that runs may be without a core where there are cores.
fn check_cores_are_whole(parts: &MachineParts) -> Result<(), MachineError> {
    let is_left_out = |cpu: &&Cpu| cpu.online && cpu.core.is_none();
    if let Some(cpu) = parts.cpus.iter().find(is_left_out).filter(|_| !parts.cores.is_empty()) {
        return Err(absurd(cpu.id, "id", "is online and in no core, though cores are listed"));
    }
    for core in &parts.cores {
        if core.capacity == 0 || 1024 < core.capacity {
            let problem = format!("has capacity {}: 1 to 1024", core.capacity);
            return Err(absurd(core.id, "capacity", problem));
        }
        if core.cpus.is_empty() {
            return Err(absurd(core.id, "cpus", "has no CPU"));
        }
        check_one(core, parts.nodes.iter().map(|node| (node.id, &node.cpus)))?;
        check_one(core, parts.llcs.iter().map(|llc| (llc.id, &llc.cpus)))?;
    }
    Ok(())
}

/// A core lies in one node and one cache, as far as its CPUs lie in any.
fn check_one<'a, I: std::fmt::Display>(
    core: &Core,
    lists: impl Iterator<Item = (I, &'a CpuSet)>,
) -> Result<(), MachineError> {
    let mut holders = lists.filter(|(_, cpus)| cpus.intersects(&core.cpus));
    match (holders.next(), holders.next()) {
        (Some((first, _)), Some((second, _))) => {
            let problem = format!("lies in {first} and in {second}: a core lies in one");
            Err(absurd(core.id, "cpus", problem))
        }
        _ => Ok(()),
    }
}

fn absurd(
    whose: impl std::fmt::Display,
    field: &'static str,
    problem: impl Into<String>,
) -> MachineError {
    MachineError::Absurd { whose: whose.to_string(), field, problem: problem.into() }
}

fn check_figures(parts: &MachineParts) -> Result<(), MachineError> {
    let node_ids: NodeSet = parts.nodes.iter().map(|node| node.id).collect();
    for node in &parts.nodes {
        if let Some((&to, _)) = node.distances.iter().find(|(to, _)| !node_ids.contains(**to)) {
            return Err(MachineError::DistanceToNowhere { node: node.id, to });
        }
        if node.memory < node.memory_free {
            let problem = "has more memory free than it has";
            return Err(absurd(node.id, "memory_free_bytes", problem));
        }
    }
    for llc in &parts.llcs {
        let node = llc.node.and_then(|id| parts.nodes.iter().find(|node| node.id == id));
        if llc.node.is_some() && !node.is_some_and(|node| llc.cpus.is_subset(&node.cpus)) {
            return Err(absurd(llc.id, "node", "names a node that does not hold its CPUs"));
        }
        if llc.size == Some(Bytes::ZERO) {
            let problem = "has no size: leave it out if it is not known";
            return Err(absurd(llc.id, "size_bytes", problem));
        }
        if llc.cpus.is_empty() {
            return Err(absurd(llc.id, "cpus", "has no CPU: leave it out"));
        }
        if !(1..=LEVEL_MAX).contains(&llc.level) {
            let problem = format!("has level {}: caches have 1 to {LEVEL_MAX}", llc.level);
            return Err(absurd(llc.id, "level", problem));
        }
    }
    check_knowledge(&parts.figures, parts)?;
    check_sizes(parts)
}

/// The largest figure of a machine, an exbibyte: files and other languages hold it exactly.
const FIGURE_MAX: u64 = 1 << 60;

fn check_sizes(parts: &MachineParts) -> Result<(), MachineError> {
    let figures = &parts.figures;
    let of_nodes = parts.nodes.iter().flat_map(|node| {
        let sizes = [("memory_bytes", node.memory), ("memory_free_bytes", node.memory_free)];
        sizes.map(|(field, bytes)| (node.id.to_string(), field, bytes.map(|bytes| bytes.0)))
    });
    let of_llcs = parts
        .llcs
        .iter()
        .map(|llc| (llc.id.to_string(), "size_bytes", llc.size.map(|bytes| bytes.0)));
    let of_accesses = figures.accesses.iter().flat_map(|access| {
        let whose = format!("the access from {} to {}", access.from, access.to);
        known(whose, access.latency_ns, access.bandwidth_bytes_per_s)
    });
    let of_caches = figures
        .llcs
        .iter()
        .flat_map(|(id, of)| known(id.to_string(), of.latency_ns, of.bandwidth_bytes_per_s));
    let of_kinds = figures.kinds.iter().flat_map(|(kind, of)| {
        let whose = format!("the kind {kind:?}");
        let figures = [("core_kinds", of.frequency_mhz), ("core_kinds", of.smt_permille)];
        figures.map(|(field, figure)| (whose.clone(), field, figure.map(|figure| figure.value)))
    });
    let known: Vec<_> = of_accesses.chain(of_caches).chain(of_kinds).collect();
    if let Some((whose, field, _)) = known.iter().find(|(.., figure)| *figure == Some(0)) {
        return Err(absurd(whose, field, "has a figure of 0: leave it out if it is not known"));
    }
    let mut all = of_nodes.chain(of_llcs).chain(known);
    match all.find(|(.., figure)| Some(FIGURE_MAX) < *figure) {
        Some((whose, field, figure)) => {
            let figure = figure.unwrap_or_default();
            Err(absurd(whose, field, format!("has {figure}: no machine has so much")))
        }
        None => Ok(()),
    }
}

fn known(
    whose: String,
    latency: Option<Figure>,
    bandwidth: Option<Figure>,
) -> [(String, &'static str, Option<u64>); 2] {
    [("latency", latency), ("bandwidth", bandwidth)]
        .map(|(field, figure)| (whose.clone(), field, figure.map(|figure| figure.value)))
}

/// Measured latencies of neighbours within a package differ by so many thousandths and less from run to run.
const LATENCY_NOISE_PERMILLE: u64 = 100;

/// Another node's memory does not answer sooner than one's own, but for what measuring gets wrong.
fn check_own_nearest(figures: &Figures) -> Result<(), MachineError> {
    for own in figures.accesses.iter().filter(|access| access.from == access.to) {
        let Some(local) = own.latency_ns else { continue };
        let least = local.value.saturating_mul(1000 - LATENCY_NOISE_PERMILLE) / 1000;
        let from_here = figures.accesses.iter().filter(|access| access.from == own.from);
        for (to, latency) in from_here.filter_map(|access| Some((access.to, access.latency_ns?))) {
            if latency.value < least {
                let problem = format!(
                    "has a latency of {} ns, and the one to its own memory has {}: what is farther is not faster",
                    latency.value, local.value
                );
                let whose = format!("the access from {} to {to}", own.from);
                return Err(absurd(whose, "latency", problem));
            }
        }
    }
    Ok(())
}

fn check_knowledge(figures: &Figures, parts: &MachineParts) -> Result<(), MachineError> {
    let node_ids: NodeSet = parts.nodes.iter().map(|node| node.id).collect();
    let mut pairs = BTreeSet::new();
    for access in &figures.accesses {
        let (from, to) = (access.from, access.to);
        if let Some(nowhere) = [from, to].into_iter().find(|&id| !node_ids.contains(id)) {
            let problem = format!("names {nowhere}, which is not a node of this machine");
            return Err(absurd(format!("the access from {from} to {to}"), "accesses", problem));
        }
        if !pairs.insert((from, to)) {
            return Err(MachineError::Twice(format!("the access from {from} to {to}")));
        }
    }
    check_own_nearest(figures)?;
    for (kind, of) in &figures.kinds {
        let whose = format!("the kind {kind:?}");
        if parts.cores.iter().all(|core| core.kind != *kind) {
            return Err(absurd(whose, "core_kinds", "has figures, and no core is of it"));
        }
        if of.smt_permille.is_some_and(|share| 1000 < share.value) {
            let problem = "is faster beside a busy sibling than alone: smt goes up to 1000";
            return Err(absurd(whose, "core_kinds", problem));
        }
    }
    match figures.llcs.keys().find(|&&id| parts.llcs.iter().all(|llc| llc.id != id)) {
        Some(nowhere) => Err(absurd(nowhere, "latency", "has figures and is not there")),
        None => Ok(()),
    }
}
