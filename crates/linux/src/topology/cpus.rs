//! Present and online CPUs, and SMT siblings: the CPUs of each core.
//!
//! Each CPU lists its siblings, so a core is described once per CPU. If the descriptions differ, two CPUs count as
//! siblings if each CPU lists the other CPU.

use std::collections::BTreeMap;

use ::topology::{Core, Node};
use base::{CoreId, CpuId, CpuSet};

use super::cpuinfo::CpuInfo;
use super::kinds::Kinds;
use super::tree::Tree;

/// The CPUs of a machine.
#[derive(Debug)]
pub(super) struct Cpus {
    pub(super) present: CpuSet,
    pub(super) online: CpuSet,
}

/// Reads the CPUs. A CPU is present if sysfs has its directory. If sysfs has no directories of CPUs, `cpu/present` or
/// `/proc/cpuinfo` is used. A CPU is online if `cpu/online` lists it. If this list is missing, the file `online` of
/// each CPU is read; a CPU without this file cannot go offline.
pub(super) fn read(tree: &Tree, info: &CpuInfo, warnings: &mut Vec<String>) -> Cpus {
    let dirs = tree.numbered("sys/devices/system/cpu", "cpu");
    let mut present: CpuSet = dirs.into_iter().map(CpuId).collect();
    if present.is_empty() {
        present = tree.list("sys/devices/system/cpu/present").unwrap_or_default();
    }
    if present.is_empty() {
        present = info.cpus.iter().copied().collect();
    }
    let listed = tree.list_or_warn::<CpuId>(ONLINE, "the file of each CPU is read", warnings);
    let online = match listed {
        Some(listed) => known(&listed, &present, warnings),
        None => one_by_one(tree, &present),
    };
    Cpus { present, online }
}

const ONLINE: &str = "sys/devices/system/cpu/online";

fn known(listed: &CpuSet, present: &CpuSet, warnings: &mut Vec<String>) -> CpuSet {
    let missing = listed.minus(present);
    if !missing.is_empty() {
        warnings.push(format!(
            "CPUs {missing} are listed in /sys/devices/system/cpu/online but do not exist; ignored"
        ));
    }
    listed.and(present)
}

fn one_by_one(tree: &Tree, present: &CpuSet) -> CpuSet {
    let is_online = |cpu: &CpuId| {
        tree.number(&format!("sys/devices/system/cpu/cpu{}/online", cpu.0)) != Some(0)
    };
    present.iter().filter(is_online).collect()
}

/// A partition of the CPUs, sorted by the lowest CPU of each group.
pub(super) type CpuPartition = Vec<CpuSet>;

/// Returns the cores as sets of online CPUs, sorted by their lowest CPU.
pub(super) fn siblings(
    tree: &Tree,
    info: &CpuInfo,
    online: &CpuSet,
    warnings: &mut Vec<String>,
) -> CpuPartition {
    let listed = listed_siblings(tree, info, online);
    let listed = if listed.is_empty() { from_cpuinfo(info) } else { listed };
    let siblings = |cpu: CpuId| listed.get(&cpu).cloned().unwrap_or_default();
    let (cores, doubted) = group(online, siblings);
    if !doubted.is_empty() {
        warnings.push(format!(
            "the lists of SMT siblings of CPUs {doubted} are inconsistent; \
             CPUs that list each other are siblings"
        ));
    }
    cores
}

/// Splits cores that span several nodes: CPUs on different nodes are not siblings (as in `topology_sane` of the
/// kernel).
pub(super) fn within_nodes(
    siblings: CpuPartition,
    nodes: &[Node],
    warnings: &mut Vec<String>,
) -> CpuPartition {
    let mut cores = CpuPartition::new();
    for core in siblings {
        let mut parts: Vec<CpuSet> = nodes.iter().map(|node| core.and(&node.cpus)).collect();
        parts.retain(|part| !part.is_empty());
        if parts.len() < 2 {
            cores.push(core);
            continue;
        }
        warnings.push(format!(
            "CPUs {core} are SMT siblings on several nodes; \
             the siblings on each node are one core"
        ));
        let placed = parts.iter().fold(CpuSet::new(), |all, part| all.or(part));
        cores.extend(parts);
        cores.extend(Some(core.minus(&placed)).filter(|rest| !rest.is_empty()));
    }
    cores.sort_by_key(CpuSet::first);
    cores
}

/// Numbers the cores and sets their kinds.
pub(super) fn number(siblings: &CpuPartition, kinds: &Kinds) -> Vec<Core> {
    let numbered = siblings.iter().enumerate().map(|(idx, cpus)| {
        let (kind, capacity) = kinds.kind_of_core(cpus);
        Core { id: CoreId(idx as u32), cpus: cpus.clone(), kind, capacity }
    });
    numbered.collect()
}

/// Partitions CPUs: two CPUs are in one group if each CPU lists the other CPU. Also returns the CPUs with an
/// inconsistent list.
pub(super) fn group(
    online: &CpuSet,
    listed_by: impl Fn(CpuId) -> CpuSet,
) -> (CpuPartition, CpuSet) {
    let listed: BTreeMap<CpuId, CpuSet> =
        online.iter().map(|cpu| (cpu, listed_by(cpu).and(online))).collect();
    let mut ungrouped = online.clone();
    let (mut groups, mut doubted) = (Vec::new(), CpuSet::new());
    while let Some(first) = ungrouped.first() {
        let lists_first = |cpu: &CpuId| listed[cpu].contains(first);
        let mut cpus: CpuSet = listed[&first].and(&ungrouped).iter().filter(lists_first).collect();
        cpus.insert(first);
        // An empty list, or a list without the CPU itself, is ignored.
        doubted.extend(cpus.iter().filter(|cpu| !listed[cpu].is_subset(&cpus)));
        ungrouped = ungrouped.minus(&cpus);
        groups.push(cpus);
    }
    (groups, doubted)
}

/// Names of the file with the siblings: since Linux 5.4, and in older kernels.
const NAMES: [&str; 2] = ["core_cpus", "thread_siblings"];

fn listed_siblings(tree: &Tree, info: &CpuInfo, online: &CpuSet) -> BTreeMap<CpuId, CpuSet> {
    let mut names = NAMES;
    let mut listed = BTreeMap::new();
    for cpu in online.iter() {
        let read = |name: &str| {
            let path = format!("sys/devices/system/cpu/cpu{}/topology/{name}", cpu.0);
            tree.mask_or_list(&path, &format!("{path}_list"))
        };
        let found = names.iter().enumerate().find_map(|(idx, name)| Some((idx, read(name)?)));
        let Some((idx, cpus)) = found else { continue };
        listed.insert(cpu, cpus);
        names.swap(0, idx); // The file of the next CPU has the same name.
    }
    if info.has_amd_modules {
        listed.iter_mut().for_each(|(&cpu, cpus)| *cpus = same_core_id(tree, cpu, cpus));
    }
    listed
}

/// Removes the siblings with another core id. The two cores of an AMD module share a front end and list each other as
/// siblings, but have separate core ids and integer units, so they count as two cores.
fn same_core_id(tree: &Tree, cpu: CpuId, siblings: &CpuSet) -> CpuSet {
    let core_id =
        |cpu: CpuId| tree.number(&format!("sys/devices/system/cpu/cpu{}/topology/core_id", cpu.0));
    let own_core_id = core_id(cpu);
    siblings.iter().filter(|&other| core_id(other) == own_core_id).collect()
}

/// Returns for each CPU the CPUs with the same package and core id.
fn from_cpuinfo(info: &CpuInfo) -> BTreeMap<CpuId, CpuSet> {
    let mut cpus_of_core: BTreeMap<(u64, u64), CpuSet> = BTreeMap::new();
    for (&cpu, &core) in &info.core_ids {
        cpus_of_core.entry(core).or_default().insert(cpu);
    }
    info.core_ids.iter().map(|(&cpu, core)| (cpu, cpus_of_core[core].clone())).collect()
}
