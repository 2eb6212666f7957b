//! The topology of a recorded machine in the XML of hwloc, limited to the properties that evenkeel reads.

use std::collections::{BTreeMap, BTreeSet};

use base::{Bytes, CpuId, CpuSet, NodeId};
use roxmltree::{Document, Node, ParsingOptions};

/// A machine from an XML file of hwloc.
pub struct HwlocMachine {
    /// Present CPUs, including offline ones.
    pub present: CpuSet,
    /// Online CPUs in the cpuset of the recording process.
    pub usable: CpuSet,
    /// Cores, including the CPUs of a core outside the cpuset.
    pub cores: BTreeSet<CpuSet>,
    /// The largest cache above each CPU, with its size.
    pub llcs: BTreeSet<(CpuSet, Option<Bytes>)>,
    /// CPUs and memory of each node.
    pub nodes: BTreeMap<NodeId, (CpuSet, Option<Bytes>)>,
    /// SLIT distance between two nodes; empty if unknown.
    pub distances: BTreeMap<(NodeId, NodeId), u32>,
    /// Core kinds, slowest first if hwloc ranks them.
    pub kinds: Vec<CpuSet>,
}

impl HwlocMachine {
    pub fn parse(xml: &str) -> Self {
        let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
        let document = Document::parse_with_options(xml, options).expect("hwloc writes XML");
        let root = document.root_element();
        let machine = of_type(root, "Machine").next().expect("a machine");
        HwlocMachine {
            present: cpus(machine, "complete_cpuset"),
            usable: cpus(machine, "cpuset").and(&cpus(machine, "allowed_cpuset")),
            cores: of_type(root, "Core").map(|core| cpus(core, "complete_cpuset")).collect(),
            llcs: of_type(root, "PU").filter_map(last_level).collect(),
            nodes: of_type(root, "NUMANode").map(node).collect(),
            distances: distances(root),
            kinds: kinds(root),
        }
    }
}

fn of_type<'a>(root: Node<'a, 'a>, kind: &'static str) -> impl Iterator<Item = Node<'a, 'a>> {
    root.descendants()
        .filter(move |node| node.attribute("type") == Some(kind) && node.has_tag_name("object"))
}

fn last_level(pu: Node<'_, '_>) -> Option<(CpuSet, Option<Bytes>)> {
    let is_cache = |node: &Node<'_, '_>| {
        matches!(
            node.attribute("type"),
            Some("L1Cache" | "L2Cache" | "L3Cache" | "L4Cache" | "L5Cache")
        )
    };
    let topmost = pu.ancestors().filter(is_cache).last()?;
    Some((cpus(topmost, "complete_cpuset"), size(topmost, "cache_size")))
}

fn node(node: Node<'_, '_>) -> (NodeId, (CpuSet, Option<Bytes>)) {
    let id = NodeId(number(node, "os_index"));
    (id, (cpus(node, "complete_cpuset"), size(node, "local_memory")))
}

fn distances(root: Node<'_, '_>) -> BTreeMap<(NodeId, NodeId), u32> {
    let is_latency = |node: &Node<'_, '_>| node.attribute("name") == Some("NUMALatency");
    let Some(matrix) = root.children().find(is_latency) else { return BTreeMap::new() };
    let numbers = |tag: &str| -> Vec<u32> {
        let texts =
            matrix.children().filter(|node| node.has_tag_name(tag)).filter_map(|n| n.text());
        texts.flat_map(str::split_whitespace).map(|n| n.parse().expect("a number")).collect()
    };
    let ids: Vec<NodeId> = numbers("indexes").into_iter().map(NodeId).collect();
    let pairs = ids.iter().flat_map(|&from| ids.iter().map(move |&to| (from, to)));
    pairs.zip(numbers("u64values")).collect()
}

fn kinds(root: Node<'_, '_>) -> Vec<CpuSet> {
    let kinds = root.children().filter(|node| node.has_tag_name("cpukind"));
    let rank = |node: &Node<'_, '_>| {
        node.attribute("forced_efficiency").and_then(|n| n.parse::<i32>().ok())
    };
    let mut ranked: Vec<_> = kinds.map(|node| (rank(&node), cpus(node, "cpuset"))).collect();
    ranked.sort();
    ranked.into_iter().map(|(_, cpus)| cpus).collect()
}

/// Parses a size. A size of 0 or without a value is unknown.
fn size(node: Node<'_, '_>, name: &str) -> Option<Bytes> {
    node.attribute(name).and_then(|text| text.parse().ok()).filter(|&size| size != 0).map(Bytes)
}

fn number(node: Node<'_, '_>, name: &str) -> u32 {
    node.attribute(name).expect(name).parse().expect("a number")
}

/// Parses a mask: words of 32 bits, highest word first, each with `0x`. A zero word may be empty.
fn cpus(node: Node<'_, '_>, name: &str) -> CpuSet {
    let text = node.attribute(name).unwrap_or("0x0");
    let mut set = CpuSet::new();
    for (word_idx, word) in text.split(',').rev().enumerate() {
        let digits = word.trim_start_matches("0x");
        let bits =
            if digits.is_empty() { 0 } else { u32::from_str_radix(digits, 16).expect("hex") };
        set.extend(
            (0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| CpuId(word_idx as u32 * 32 + bit)),
        );
    }
    set
}
