//! NUMA nodes: memory, CPUs and distances.
//!
//! The file `distance` of a node contains one number for each online node, in ascending order of the nodes. Node
//! numbers may have gaps.

use std::collections::BTreeMap;

use ::topology::{
    AttributeSource, DISTANCE_LOCAL, MemoryAccess, Node, PerfAttributes, SourcedValue,
};
use base::{Bytes, CpuSet, NodeId, NodeSet};

use super::tree::{Tree, VALUE_MAX};

/// The nodes of a machine.
#[derive(Debug)]
pub(super) struct Nodes {
    /// Nodes, sorted by id.
    pub(super) list: Vec<Node>,
    /// Latencies and bandwidths according to the firmware.
    pub(super) perf_attributes: PerfAttributes,
}

/// Reads all nodes. On a kernel without NUMA there is one node, 0.
pub(super) fn read(tree: &Tree, online: &CpuSet, warnings: &mut Vec<String>) -> Nodes {
    let ids = ids(tree, warnings);
    let rows = distances(tree, &ids, warnings);
    let mut list: Vec<Node> = Vec::new();
    let mut assigned = CpuSet::new();
    for id in ids.iter() {
        let Some(node) = node(tree, id, online) else {
            warnings.push(format!("{id} has no list of CPUs; {id} is ignored"));
            continue;
        };
        if node.cpus.intersects(&assigned) {
            let shared = node.cpus.and(&assigned);
            warnings.push(format!("{id} claims CPUs {shared} of another node; {id} is ignored"));
            continue;
        }
        assigned = assigned.or(&node.cpus);
        list.push(node);
    }
    let known: NodeSet = list.iter().map(|node| node.id).collect();
    for node in &mut list {
        node.distances = rows.get(&node.id).cloned().unwrap_or_default();
        node.distances.retain(|to, _| known.contains(*to));
    }
    let perf_attributes =
        PerfAttributes { accesses: accesses(tree, &list), ..PerfAttributes::default() };
    if list.is_empty() {
        list.push(whole_memory(tree, online));
    }
    Nodes { list, perf_attributes }
}

fn dir(id: NodeId) -> String {
    format!("sys/devices/system/node/node{}", id.0)
}

/// Returns the online nodes that have a directory.
fn ids(tree: &Tree, warnings: &mut Vec<String>) -> NodeSet {
    let dirs = tree.numbered("sys/devices/system/node", "node");
    let dirs: NodeSet = dirs.into_iter().map(NodeId).collect();
    if dirs.is_empty() {
        return dirs;
    }
    let instead = "every node with a directory is used";
    let path = "sys/devices/system/node/online";
    let Some(online) = tree.list_or_warn::<NodeId>(path, instead, warnings) else {
        return dirs;
    };
    let missing = online.minus(&dirs);
    if !missing.is_empty() {
        warnings.push(format!("nodes {missing} are listed in /sys/devices/system/node/online but do not exist; ignored"));
    }
    online.and(&dirs)
}

/// Reads a node. Returns `None` if the CPUs of the node are unknown, because no task could be placed on it.
fn node(tree: &Tree, id: NodeId, online: &CpuSet) -> Option<Node> {
    let dir = dir(id);
    let cpus = tree.mask_or_list(&format!("{dir}/cpumap"), &format!("{dir}/cpulist"))?;
    let (memory, memory_free) = memory(tree, &format!("{dir}/meminfo"));
    let distances = BTreeMap::new();
    Some(Node { id, cpus: online.and(&cpus), memory, memory_free, distances })
}

fn whole_memory(tree: &Tree, online: &CpuSet) -> Node {
    let (memory, memory_free) = memory(tree, "proc/meminfo");
    let distances = BTreeMap::new();
    Node { id: NodeId(0), cpus: online.clone(), memory, memory_free, distances }
}

/// Reads total and free memory. The lines of a node begin with `Node 0`, the lines of the machine do not.
fn memory(tree: &Tree, path: &str) -> (Option<Bytes>, Option<Bytes>) {
    let text = tree.text(path).unwrap_or_default();
    let (total, free) = (kib(&text, "MemTotal:"), kib(&text, "MemFree:"));
    // If a damaged recording contains more free than total memory, the free memory is ignored.
    (total, free.filter(|free| total.is_some_and(|total| *free <= total)))
}

fn kib(text: &str, key: &str) -> Option<Bytes> {
    let line = text.lines().find(|line| line.contains(key))?;
    let number = line.split_once(key)?.1.split_whitespace().next()?;
    let bytes = number.parse::<u64>().ok()?.checked_mul(1024)?;
    (bytes <= VALUE_MAX).then_some(Bytes(bytes))
}

/// Reads the distances. Omits all distances if the length of a row differs from the number of nodes: policies would use
/// wrong distances.
fn distances(
    tree: &Tree,
    ids: &NodeSet,
    warnings: &mut Vec<String>,
) -> BTreeMap<NodeId, BTreeMap<NodeId, u32>> {
    let texts: BTreeMap<NodeId, String> = ids
        .iter()
        .filter_map(|id| Some((id, tree.text(&format!("{}/distance", dir(id)))?)))
        .collect();
    let rows: Option<BTreeMap<_, _>> =
        texts.iter().map(|(&id, text)| Some((id, row(id, text, ids)?))).collect();
    match rows {
        Some(rows) if rows.len() == ids.len() || rows.is_empty() => rows,
        _ => {
            warnings.push("the distances do not match the nodes; they are ignored".to_owned());
            BTreeMap::new()
        }
    }
}

/// Parses a row. Returns `None` if the row is malformed or contains a distance below 10, the distance of a node to
/// itself.
fn row(from: NodeId, text: &str, ids: &NodeSet) -> Option<BTreeMap<NodeId, u32>> {
    let numbers: Vec<u32> =
        text.split_whitespace().map(|n| n.parse().ok()).collect::<Option<_>>()?;
    if numbers.len() != ids.len() || numbers.iter().any(|&cost| cost < DISTANCE_LOCAL) {
        return None;
    }
    let row: BTreeMap<NodeId, u32> = ids.iter().zip(numbers).collect();
    (row.get(&from) == Some(&DISTANCE_LOCAL)).then_some(row)
}

/// Returns the latency and bandwidth of reads from the nearest CPUs to each memory, as reported by the firmware (class
/// 1; before Linux 5.7 only class 0, which includes devices). The units are nanoseconds and megabytes per second.
/// Writes and accesses from other CPUs are omitted.
fn accesses(tree: &Tree, nodes: &[Node]) -> Vec<MemoryAccess> {
    let with_cpus: NodeSet = nodes.iter().filter(|n| !n.cpus.is_empty()).map(|n| n.id).collect();
    let mut accesses = Vec::new();
    for to in nodes.iter().map(|node| node.id) {
        let classes = ["access1", "access0"].map(|class| format!("{}/{class}/initiators", dir(to)));
        let Some(dir) = classes.into_iter().find(|dir| tree.has(dir)) else { continue };
        let firmware = |value| SourcedValue { value, source: AttributeSource::Firmware };
        let positive = |name: &str| tree.number(&format!("{dir}/{name}")).filter(|&n| n != 0);
        let latency_ns = positive("read_latency").map(firmware);
        let bandwidth = positive("read_bandwidth").and_then(|n| n.checked_mul(1_000_000));
        let bandwidth = bandwidth.filter(|&rate| rate <= VALUE_MAX);
        let bandwidth_bytes_per_s = bandwidth.map(firmware);
        if latency_ns.is_none() && bandwidth_bytes_per_s.is_none() {
            continue;
        }
        let from = tree.numbered(&dir, "node").into_iter().map(NodeId);
        accesses.extend(from.filter(|from| with_cpus.contains(*from)).map(|from| MemoryAccess {
            latency_ns,
            bandwidth_bytes_per_s,
            ..MemoryAccess::unknown(from, to)
        }));
    }
    accesses
}
