//! `evenkeel machine --measure`: latency and bandwidth between the nodes of this machine.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use base::{Bytes, Nanos};
use linux::memory::NodeMeminfo;
use linux::node_memory::has_huge_pages;
use profiler::measure::memory_speed::{MeasuredAccess, MeasuredNode, measure};
use report::format::bandwidth;
use report::table::Align::Right;
use report::table::ReportTable;
use topology::{AttributeSource, Machine, MemoryAccess, Node, SourcedValue, draw};

/// Returns the machine with measured accesses between its nodes. Values of pairs that were not measured are kept.
pub(super) fn measured(machine: &Machine, time: Nanos) -> anyhow::Result<Machine> {
    ensure!(
        !machine.nodes().is_empty(),
        "the kernel reports no NUMA nodes, so that there is no pair of nodes to measure"
    );
    let nodes: Vec<MeasuredNode> =
        machine.nodes().iter().map(|node| measured_node(machine, node)).collect();
    for node in nodes.iter().filter(|node| node.cpus.is_empty() || node.available.is_none()) {
        crate::print::note(format_args!("{}", partly_excluded(node)));
    }
    if !has_huge_pages(Path::new("/")) {
        crate::print::note("the kernel has no huge pages: latencies include TLB misses");
    }
    let measured = measure(&nodes, Duration::from_nanos(time.0))?;
    let mut parts = machine.parts().clone();
    let accesses = &mut parts.perf_attributes.accesses;
    accesses.retain(|old| !measured.iter().any(|new| (new.from, new.to) == (old.from, old.to)));
    accesses.extend(measured.iter().map(access));
    accesses.sort_by_key(|access| (access.from, access.to));
    Machine::new(parts)
        .context("the measured values contradict each other; measure an idle machine")
}

fn partly_excluded(node: &MeasuredNode) -> String {
    match (node.cpus.is_empty(), node.available.is_none()) {
        (true, true) => format!(
            "{} is not measured: this process may use neither its CPUs nor its memory",
            node.id
        ),
        (true, false) => {
            format!("{} has no CPU that this process may use: only its memory is measured", node.id)
        }
        _ => format!(
            "{} has no memory that this process may allocate: only its CPUs are measured",
            node.id
        ),
    }
}

fn measured_node(machine: &Machine, node: &Node) -> MeasuredNode {
    let cpus = node.cpus.and(machine.allowed());
    let is_allowed = machine.nodes_allowed().contains(node.id);
    let has_memory = machine.nodes_with_memory().contains(node.id) && is_allowed;
    let llc = machine.llcs().iter().find(|llc| llc.cpus.intersects(&cpus));
    let size = llc.and_then(|llc| llc.size).unwrap_or_default();
    let n_cpus = llc.map_or(1, |llc| llc.cpus.len().max(1));
    let meminfo = linux::system::open_node_meminfo("/".as_ref(), node.id).ok();
    let now = meminfo.and_then(linux::memory::node_meminfo);
    MeasuredNode {
        id: node.id,
        cpus,
        available: has_memory.then(|| available(node, now)),
        cache_per_cpu: Bytes(size.0 / n_cpus as u64),
        cache: size,
    }
}

/// Returns the memory that is free or reclaimable at low cost: after a build, most memory has pages of files. `now` is
/// the current memory of the node, if the kernel reports it.
fn available(node: &Node, now: Option<NodeMeminfo>) -> Bytes {
    let known = node.memory_free.or(node.memory).unwrap_or_default();
    now.map_or(known, |now| Bytes(now.free.saturating_add(now.reclaimable)))
}

fn access(measured: &MeasuredAccess) -> MemoryAccess {
    let sourced = |value| Some(SourcedValue { value, source: AttributeSource::Measured });
    MemoryAccess {
        latency_ns: sourced(measured.latency_ns),
        bandwidth_bytes_per_s: sourced(measured.bandwidth_bytes_per_s),
        ..MemoryAccess::unknown(measured.from, measured.to)
    }
}

/// Returns the table of the accesses with their sources.
pub(super) fn draw_accesses(machine: &Machine) -> String {
    let heads = ["CPUs", "memory", "latency ns", "bandwidth", "source"];
    let mut table = ReportTable::new(heads.map(|head| (head, Right))).indented(2);
    for access in &machine.perf_attributes().accesses {
        let MemoryAccess { latency_ns, bandwidth_bytes_per_s, .. } = access;
        let source = latency_ns.or(*bandwidth_bytes_per_s).map(|value| value.source.to_string());
        table.row([
            access.from.to_string(),
            access.to.to_string(),
            latency_ns.map_or("-".to_owned(), |latency| latency.value.to_string()),
            bandwidth_bytes_per_s.map_or("-".to_owned(), |value| bandwidth(value.value as f64)),
            source.unwrap_or_default(),
        ]);
    }
    format!(
        "access from the CPUs of a node to the memory of a node:\n{}",
        table.to_text(draw::WIDTH)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reclaimable_memory_is_available_for_a_measurement() {
        let machine = Machine::synthetic("nodes=1 cores=2 mem=8G").expect("a machine");
        let node = &machine.nodes()[0];
        let now = NodeMeminfo { free: 1 << 30, reclaimable: 2 << 30, ..NodeMeminfo::default() };
        assert_eq!(available(node, Some(now)), Bytes(3 << 30));
        assert_eq!(Some(available(node, None)), node.memory_free, "without meminfo in /sys");
    }
}
