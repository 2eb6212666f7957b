//! The same machine with one memory: what is left of a result there is owed to caches alone.

use base::NodeSet;
use topology::{Machine, MemoryAccess};

/// All nodes as one, which is as near to every CPU as its own was and carries what all carried together.
pub(super) fn one_memory(machine: &Machine) -> Machine {
    let mut parts = machine.parts().clone();
    let Some(mut only) = parts.nodes.first().cloned() else { return machine.clone() };
    for other in &parts.nodes[1..] {
        only.cpus = only.cpus.or(&other.cpus);
        only.memory = only.memory.zip(other.memory).map(|(one, other)| one.saturating_add(other));
        only.memory_free =
            only.memory_free.zip(other.memory_free).map(|(one, other)| one.saturating_add(other));
    }
    only.distances.retain(|node, _| *node == only.id);
    let own: Vec<MemoryAccess> =
        parts.perf_attributes.accesses.iter().filter(|way| way.from == way.to).cloned().collect();
    let sum = own.iter().filter_map(|way| way.bandwidth_bytes_per_s).map(|f| f.value).sum::<u64>();
    if let Some(mut way) = own.into_iter().find(|way| way.from == only.id) {
        if let Some(bandwidth) = way.bandwidth_bytes_per_s.as_mut() {
            bandwidth.value = sum;
        }
        parts.perf_attributes.accesses = vec![way];
    }
    parts.llcs.iter_mut().for_each(|llc| llc.node = Some(only.id));
    parts.cpus.iter_mut().for_each(|cpu| cpu.node = Some(only.id));
    parts.nodes_allowed = NodeSet::from_iter([only.id]);
    parts.nodes = vec![only];
    Machine::new(parts).expect("nodes of a sound machine were put together")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_nodes_become_one_with_the_bandwidth_of_both_and_the_caches_stay() {
        let two = crate::shipped::machine("opteron-8356-2x4").expect("ships");
        let one = one_memory(&two);
        assert_eq!((one.nodes().len(), one.llcs().len(), one.cpus().len()), (1, 2, 8));
        let ways = &one.perf_attributes().accesses;
        let bandwidth = ways[0].bandwidth_bytes_per_s.map(|figure| figure.value);
        assert_eq!((ways.len(), bandwidth), (1, Some(21_400_000_000)));
    }
}
