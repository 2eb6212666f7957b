//! Which CPUs are SMT siblings of one core.
//!
//! Each CPU names its siblings, so each core is told as often as it has CPUs. Where the tellings
//! differ, two CPUs are siblings when each names the other.

use std::collections::BTreeMap;

use ::topology::{Core, Node};
use base::{CoreId, CpuId, CpuSet};

use super::cpuinfo::CpuInfo;
use super::kinds::Kinds;
use super::tree::Tree;

/// Groups of CPUs that each CPU is in exactly one of, by the lowest CPU in each.
pub(super) type Groups = Vec<CpuSet>;

/// The cores, as sets of online CPUs, by their lowest CPU.
pub(super) fn siblings(
    tree: &Tree,
    info: &CpuInfo,
    online: &CpuSet,
    warnings: &mut Vec<String>,
) -> Groups {
    let told = tell_all(tree, info, online);
    let told = if told.is_empty() { from_cpuinfo(info) } else { told };
    let named = |cpu: CpuId| told.get(&cpu).cloned().unwrap_or_default();
    let (cores, doubted) = group(online, named);
    if !doubted.is_empty() {
        warnings.push(format!(
            "CPUs {doubted} and others do not agree who their SMT siblings are; \
             siblings are those that name each other"
        ));
    }
    cores
}

/// The cores, none of which lies on two nodes: as in the kernel's own domains (its `topology_sane`),
/// siblings on different nodes are none.
pub(super) fn within_nodes(siblings: Groups, nodes: &[Node], warnings: &mut Vec<String>) -> Groups {
    let mut cores = Groups::new();
    for core in siblings {
        let mut parts: Vec<CpuSet> = nodes.iter().map(|node| core.and(&node.cpus)).collect();
        parts.retain(|part| !part.is_empty());
        if parts.len() < 2 {
            cores.push(core);
            continue;
        }
        warnings.push(format!(
            "CPUs {core} are called siblings of one core but lie on several nodes; \
             those of each node are a core"
        ));
        let placed = parts.iter().fold(CpuSet::new(), |all, part| all.or(part));
        cores.extend(parts);
        cores.extend(Some(core.minus(&placed)).filter(|rest| !rest.is_empty()));
    }
    cores.sort_by_key(CpuSet::first);
    cores
}

/// Numbers the cores and gives each its kind.
pub(super) fn number(siblings: &Groups, kinds: &Kinds) -> Vec<Core> {
    let numbered = siblings.iter().enumerate().map(|(idx, cpus)| {
        let (kind, capacity) = kinds.of(cpus);
        Core { id: CoreId(idx as u32), cpus: cpus.clone(), kind, capacity }
    });
    numbered.collect()
}

/// Partitions CPUs: two are together when each names the other. Second, the CPUs whose word was not
/// followed.
pub(super) fn group(online: &CpuSet, named_by: impl Fn(CpuId) -> CpuSet) -> (Groups, CpuSet) {
    let named: BTreeMap<CpuId, CpuSet> =
        online.iter().map(|cpu| (cpu, named_by(cpu).and(online))).collect();
    let mut left = online.clone();
    let (mut groups, mut doubted) = (Vec::new(), CpuSet::new());
    while let Some(first) = left.first() {
        let names_first = |cpu: &CpuId| named[cpu].contains(first);
        let mut cpus: CpuSet = named[&first].and(&left).iter().filter(names_first).collect();
        cpus.insert(first);
        // Saying nothing, or naming the others only, is no disagreement.
        doubted.extend(cpus.iter().filter(|cpu| !named[cpu].is_subset(&cpus)));
        left = left.minus(&cpus);
        groups.push(cpus);
    }
    (groups, doubted)
}

/// Since Linux 5.4 the files are called after what they hold; the old names stay beside the new.
const NAMES: [&str; 2] = ["core_cpus", "thread_siblings"];

fn tell_all(tree: &Tree, info: &CpuInfo, online: &CpuSet) -> BTreeMap<CpuId, CpuSet> {
    let mut names = NAMES;
    let mut told = BTreeMap::new();
    for cpu in online.iter() {
        let read = |name: &str| {
            let path = format!("sys/devices/system/cpu/cpu{}/topology/{name}", cpu.0);
            tree.mask_or_list(&path, &format!("{path}_list"))
        };
        let Some(idx) = names.iter().position(|name| told_by(&mut told, cpu, read(name))) else {
            continue;
        };
        names.swap(0, idx); // What this CPU has, the next will have too.
    }
    if info.has_amd_modules {
        told.iter_mut().for_each(|(&cpu, cpus)| *cpus = same_core_id(tree, cpu, cpus));
    }
    told
}

fn told_by(told: &mut BTreeMap<CpuId, CpuSet>, cpu: CpuId, cpus: Option<CpuSet>) -> bool {
    cpus.map(|cpus| told.insert(cpu, cpus)).is_some()
}

/// Two cores of an AMD module share a front end and call themselves siblings, yet have a core number
/// each and their own integer units: they are cores.
fn same_core_id(tree: &Tree, cpu: CpuId, told: &CpuSet) -> CpuSet {
    let core_id =
        |cpu: CpuId| tree.number(&format!("sys/devices/system/cpu/cpu{}/topology/core_id", cpu.0));
    let own = core_id(cpu);
    told.iter().filter(|&other| core_id(other) == own).collect()
}

/// CPUs with the same package and core number.
fn from_cpuinfo(info: &CpuInfo) -> BTreeMap<CpuId, CpuSet> {
    let mut by_place: BTreeMap<(u64, u64), CpuSet> = BTreeMap::new();
    for (&cpu, &place) in &info.places {
        by_place.entry(place).or_default().insert(cpu);
    }
    info.places.iter().map(|(&cpu, place)| (cpu, by_place[place].clone())).collect()
}
