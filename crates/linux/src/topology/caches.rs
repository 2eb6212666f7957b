//! Last-level caches.
//!
//! The last level of a CPU is the highest one that covers it and holds data: a processor may have a
//! third level for its fast cores only, so that the level differs from CPU to CPU. A cache that the
//! kernel gives no size (`0K`) is none: some many-core processors list one so.

use std::collections::BTreeMap;

use ::topology::{Llc, Node};
use base::{Bytes, CpuId, CpuSet, LlcId, NodeId};

use super::cores::{Groups, group};
use super::tree::Tree;

/// What one CPU says of its last level.
#[derive(Clone, Debug)]
struct Told {
    level: u32,
    index: u32,
    cpus: CpuSet,
}

/// The last-level caches, numbered by their lowest CPU.
pub(super) fn read(
    tree: &Tree,
    cores: &Groups,
    nodes: &[Node],
    online: &CpuSet,
    warnings: &mut Vec<String>,
) -> Vec<Llc> {
    let told = tell_all(tree, cores, online);
    let cached: CpuSet = told.keys().copied().collect();
    let sharers = |cpu: CpuId| same_level(&told, cpu);
    let (groups, doubted) = group(&cached, sharers);
    if !doubted.is_empty() {
        warnings.push(format!(
            "CPUs {doubted} and others do not agree who shares their last-level cache; \
             it is shared by those that name each other"
        ));
    }
    let groups = whole_cores(groups, cores, warnings);
    let numbered = groups.into_iter().enumerate();
    numbered.map(|(idx, cpus)| llc(tree, idx, cpus, &told, nodes)).collect()
}

/// Siblings share every cache of their core, so they belong where the lowest of them does. Virtual
/// machines often give each CPU caches of its own.
fn whole_cores(mut groups: Groups, cores: &Groups, warnings: &mut Vec<String>) -> Groups {
    let mut moved = CpuSet::new();
    for core in cores {
        let mut holders = groups.iter_mut().filter(|cpus| cpus.intersects(core));
        let Some(first) = holders.next() else { continue };
        for other in holders {
            let strays = other.and(core);
            *other = other.minus(&strays);
            *first = first.or(&strays);
            moved.extend(strays.iter());
        }
    }
    if !moved.is_empty() {
        warnings.push(format!(
            "CPUs {moved} are called siblings of others but have another last-level cache; \
             they are counted to that of the lowest sibling"
        ));
    }
    groups.retain(|cpus| !cpus.is_empty());
    groups.sort_by_key(CpuSet::first);
    groups
}

/// Asks every CPU. Most machines list their caches alike for each, so the place of one CPU's last
/// level is where the next one's is looked for first; that saves most of the reading.
fn tell_all(tree: &Tree, cores: &Groups, online: &CpuSet) -> BTreeMap<CpuId, Told> {
    let mut told = BTreeMap::new();
    let mut place = None;
    for cpu in online.iter() {
        let at_place = place.and_then(|place| as_before(tree, cpu, place));
        let Some((level, index)) = at_place.or_else(|| search(tree, cpu)) else { continue };
        let Some(cpus) = sharers(tree, cores, cpu, index) else { continue };
        place = Some((level, index));
        told.insert(cpu, Told { level, index, cpus });
    }
    told
}

/// The CPUs that share a CPU's last level and have it as their last level too.
fn same_level(told: &BTreeMap<CpuId, Told>, cpu: CpuId) -> CpuSet {
    let own = &told[&cpu];
    let is_peer = |other: &CpuId| told.get(other).is_some_and(|told| told.level == own.level);
    own.cpus.iter().filter(is_peer).collect()
}

fn llc(tree: &Tree, idx: usize, cpus: CpuSet, told: &BTreeMap<CpuId, Told>, nodes: &[Node]) -> Llc {
    let first = cpus.first().and_then(|cpu| Some((cpu, told.get(&cpu)?)));
    Llc {
        id: LlcId(idx as u32),
        node: node_of(&cpus, nodes),
        size: first.and_then(|(cpu, told)| size(tree, &folder(cpu, told.index))),
        level: first.map_or(0, |(_, told)| told.level),
        cpus,
    }
}

fn node_of(cpus: &CpuSet, nodes: &[Node]) -> Option<NodeId> {
    nodes.iter().find(|node| cpus.is_subset(&node.cpus)).map(|node| node.id)
}

fn folder(cpu: CpuId, index: u32) -> String {
    format!("sys/devices/system/cpu/cpu{}/cache/index{index}", cpu.0)
}

/// Level and index of a CPU's last level, if it is where the CPU before had it and nothing follows.
fn as_before(tree: &Tree, cpu: CpuId, place: (u32, u32)) -> Option<(u32, u32)> {
    let (before, index) = place;
    let follows = level(tree, &folder(cpu, index + 1)).is_some();
    let here = folder(cpu, index);
    let is_there = || level(tree, &here) == Some(before) && size(tree, &here) != NO_CACHE;
    (!follows && is_there()).then_some(place)
}

/// The highest level that holds data and has a size, of several on one level the last.
fn search(tree: &Tree, cpu: CpuId) -> Option<(u32, u32)> {
    let indexes = tree.numbered(&format!("sys/devices/system/cpu/cpu{}/cache", cpu.0), "index");
    let holds_data = |folder: &str| {
        let kind = tree.text(&format!("{folder}/type"));
        !kind.is_some_and(|kind| kind.starts_with("Instruction")) && size(tree, folder) != NO_CACHE
    };
    let levels = indexes.into_iter().filter_map(|index| {
        let folder = folder(cpu, index);
        Some((level(tree, &folder).filter(|_| holds_data(&folder))?, index))
    });
    levels.max()
}

const NO_CACHE: Option<Bytes> = Some(Bytes::ZERO);

fn level(tree: &Tree, folder: &str) -> Option<u32> {
    let level = tree.number(&format!("{folder}/level"))?;
    u32::try_from(level).ok().filter(|level| (1..=9).contains(level))
}

fn size(tree: &Tree, folder: &str) -> Option<Bytes> {
    tree.size(&format!("{folder}/size"))
}

fn sharers(tree: &Tree, cores: &Groups, cpu: CpuId, index: u32) -> Option<CpuSet> {
    let folder = folder(cpu, index);
    let map = format!("{folder}/shared_cpu_map");
    let cpus = tree.mask_or_list(&map, &format!("{folder}/shared_cpu_list"))?;
    // Itanium leaves the map of its last level empty: it belongs to the core.
    let own_core = || cores.iter().find(|core| core.contains(cpu)).cloned().unwrap_or_default();
    Some(if cpus.is_empty() { own_core() } else { cpus })
}
