//! Last-level caches.
//!
//! The last-level cache of a CPU is its data or unified cache with the highest level. The level can differ between
//! CPUs: some processors have a third level for performance cores only. A cache of size `0K`, which some many-core
//! processors list, is ignored.

use std::collections::BTreeMap;

use ::topology::{Llc, Node};
use base::{Bytes, CpuId, CpuSet, LlcId, NodeId};

use super::cpus::{CpuPartition, group};
use super::tree::Tree;

/// The last-level cache of one CPU, as sysfs describes it for this CPU.
#[derive(Clone, Debug)]
struct CpuCache {
    level: u32,
    index: u32,
    cpus: CpuSet,
}

/// Reads the last-level caches, numbered by their lowest CPU.
pub(super) fn read(
    tree: &Tree,
    cores: &CpuPartition,
    nodes: &[Node],
    online: &CpuSet,
    warnings: &mut Vec<String>,
) -> Vec<Llc> {
    let caches = cpu_caches(tree, cores, online);
    let cached: CpuSet = caches.keys().copied().collect();
    let sharers = |cpu: CpuId| same_level(&caches, cpu);
    let (groups, doubted) = group(&cached, sharers);
    if !doubted.is_empty() {
        warnings.push(format!(
            "the lists of CPUs that share the last-level cache of CPUs {doubted} are inconsistent; \
             CPUs that list each other share a cache"
        ));
    }
    let groups = whole_cores(groups, cores, warnings);
    let numbered = groups.into_iter().enumerate();
    numbered.map(|(idx, cpus)| llc(tree, idx, cpus, &caches, nodes)).collect()
}

/// Assigns all SMT siblings of a core to the cache of the lowest sibling, because siblings share every cache. Virtual
/// machines often list separate caches for each CPU.
fn whole_cores(
    mut groups: CpuPartition,
    cores: &CpuPartition,
    warnings: &mut Vec<String>,
) -> CpuPartition {
    let mut moved = CpuSet::new();
    for core in cores {
        let mut sharing_groups = groups.iter_mut().filter(|cpus| cpus.intersects(core));
        let Some(first) = sharing_groups.next() else { continue };
        for other in sharing_groups {
            let moving = other.and(core);
            *other = other.minus(&moving);
            *first = first.or(&moving);
            moved.extend(moving.iter());
        }
    }
    if !moved.is_empty() {
        warnings.push(format!(
            "CPUs {moved} have another last-level cache than their SMT siblings; \
             they are assigned to the cache of the lowest sibling"
        ));
    }
    groups.retain(|cpus| !cpus.is_empty());
    groups.sort_by_key(CpuSet::first);
    groups
}

/// Reads the last-level cache of every CPU. On most machines this cache has the same index for each CPU. The index of
/// the previous CPU is therefore tried first, which avoids most of the reads.
fn cpu_caches(tree: &Tree, cores: &CpuPartition, online: &CpuSet) -> BTreeMap<CpuId, CpuCache> {
    let mut caches = BTreeMap::new();
    let mut level_and_index = None;
    for cpu in online.iter() {
        let from_previous =
            level_and_index.and_then(|level_and_index| at_same_level(tree, cpu, level_and_index));
        let Some((level, index)) = from_previous.or_else(|| search(tree, cpu)) else { continue };
        let Some(cpus) = sharers(tree, cores, cpu, index) else { continue };
        level_and_index = Some((level, index));
        caches.insert(cpu, CpuCache { level, index, cpus });
    }
    caches
}

/// Returns the CPUs that share the cache of a CPU and have the same last level.
fn same_level(caches: &BTreeMap<CpuId, CpuCache>, cpu: CpuId) -> CpuSet {
    let llc = &caches[&cpu];
    let is_peer = |other: &CpuId| caches.get(other).is_some_and(|cache| cache.level == llc.level);
    llc.cpus.iter().filter(is_peer).collect()
}

fn llc(
    tree: &Tree,
    idx: usize,
    cpus: CpuSet,
    caches: &BTreeMap<CpuId, CpuCache>,
    nodes: &[Node],
) -> Llc {
    let first = cpus.first().and_then(|cpu| Some((cpu, caches.get(&cpu)?)));
    Llc {
        id: LlcId(idx as u32),
        node: node_of(&cpus, nodes),
        size: first.and_then(|(cpu, cache)| size(tree, &dir(cpu, cache.index))),
        level: first.map_or(0, |(_, cache)| cache.level),
        cpus,
    }
}

fn node_of(cpus: &CpuSet, nodes: &[Node]) -> Option<NodeId> {
    nodes.iter().find(|node| cpus.is_subset(&node.cpus)).map(|node| node.id)
}

fn dir(cpu: CpuId, index: u32) -> String {
    format!("sys/devices/system/cpu/cpu{}/cache/index{index}", cpu.0)
}

/// Returns level and index of the last-level cache if they are the same as for the previous CPU.
fn at_same_level(tree: &Tree, cpu: CpuId, level_and_index: (u32, u32)) -> Option<(u32, u32)> {
    let (before, index) = level_and_index;
    let follows = level(tree, &dir(cpu, index + 1)).is_some();
    let cache_dir = dir(cpu, index);
    let is_same_level =
        || level(tree, &cache_dir) == Some(before) && size(tree, &cache_dir) != NO_CACHE;
    (!follows && is_same_level()).then_some(level_and_index)
}

/// Finds the highest level with a data or unified cache that has a size. If a level has several caches, the last one is
/// used.
fn search(tree: &Tree, cpu: CpuId) -> Option<(u32, u32)> {
    let indexes = tree.numbered(&format!("sys/devices/system/cpu/cpu{}/cache", cpu.0), "index");
    let holds_data = |dir: &str| {
        let kind = tree.text(&format!("{dir}/type"));
        !kind.is_some_and(|kind| kind.starts_with("Instruction")) && size(tree, dir) != NO_CACHE
    };
    let levels = indexes.into_iter().filter_map(|index| {
        let dir = dir(cpu, index);
        Some((level(tree, &dir).filter(|_| holds_data(&dir))?, index))
    });
    levels.max()
}

const NO_CACHE: Option<Bytes> = Some(Bytes::ZERO);

fn level(tree: &Tree, dir: &str) -> Option<u32> {
    let level = tree.number(&format!("{dir}/level"))?;
    u32::try_from(level).ok().filter(|level| (1..=9).contains(level))
}

fn size(tree: &Tree, dir: &str) -> Option<Bytes> {
    tree.size(&format!("{dir}/size"))
}

fn sharers(tree: &Tree, cores: &CpuPartition, cpu: CpuId, index: u32) -> Option<CpuSet> {
    let dir = dir(cpu, index);
    let map = format!("{dir}/shared_cpu_map");
    let cpus = tree.mask_or_list(&map, &format!("{dir}/shared_cpu_list"))?;
    // On Itanium the map of the last-level cache is empty. The cache belongs to the core.
    let own_core = || cores.iter().find(|core| core.contains(cpu)).cloned().unwrap_or_default();
    Some(if cpus.is_empty() { own_core() } else { cpus })
}
