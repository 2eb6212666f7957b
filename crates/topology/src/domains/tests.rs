//! Tests of the level that `auto` selects on several machines.

use expect_test::expect;

use super::*;
use crate::{Machine, MachineParts};

fn changed(text: &str, change: impl FnOnce(&mut MachineParts)) -> Machine {
    let mut parts = Machine::synthetic(text).expect("a machine").parts().clone();
    change(&mut parts);
    parts.cpus.iter_mut().for_each(|cpu| (cpu.node, cpu.llc, cpu.core) = (None, None, None));
    Machine::new(parts).expect("still a machine")
}

fn synthetic(text: &str) -> Machine {
    Machine::synthetic(text).expect("a machine")
}

/// Returns the domains that `auto` selects, one per line.
fn selected(machine: &Machine, usable: &CpuSet) -> String {
    let domains = Domains::select(machine, DomainChoice::Auto, usable);
    let line = |(idx, domain): (usize, &Domain)| {
        let node = domain.node.map_or("no node".to_owned(), |node| node.to_string());
        format!("{}: {} on {node}\n", domains.label(idx), domain.cpus)
    };
    domains.iter().map(line).collect()
}

#[test]
fn auto_selects_the_coarsest_level_with_two_domains_and_otherwise_cores() {
    let expected = expect![[r#"
        > nodes=2 llcs=2 cores=1
        node 0: 0-1 on node0
        node 1: 2-3 on node1
        > llcs=2 cores=2
        llc 0: 0-1 on node0
        llc 1: 2-3 on node0
        > cores=2 smt=2
        core 0: 0-1 on node0
        core 1: 2-3 on node0
        >
        core 0: 0 on node0
    "#]];
    let among_all = |text: &str| {
        let machine = synthetic(text);
        selected(&machine, machine.allowed())
    };
    expected.assert_eq(&base::transcript(expected.data(), among_all));
}

#[test]
fn caches_fall_back_to_auto_if_there_are_fewer_than_two_llc_domains() {
    let level = |text: &str| {
        let machine = synthetic(text);
        Domains::select(&machine, DomainChoice::Caches, machine.allowed()).level()
    };
    assert_eq!(level("nodes=2 llcs=2 cores=2"), Level::Llc);
    assert_eq!(level("nodes=2 cores=2"), Level::Llc);
    assert_eq!(level("nodes=2 cores=2 llc=0"), Level::Node);
    assert_eq!(level("nodes=1 cores=2"), Level::Core);
}

#[test]
fn only_usable_cpus_count_for_the_level() {
    let machine = synthetic("nodes=2 llcs=2 cores=2");
    let two = "llc 0: 0 on node0\nllc 1: 2-3 on node0\n";
    assert_eq!(selected(&machine, &set("0,2-3")), two);
    assert_eq!(selected(&machine, &CpuSet::new()), "");
}

#[test]
fn a_node_without_cpus_or_without_memory_is_not_a_domain() {
    let machine = changed("nodes=3 cores=2", |parts| {
        parts.nodes[1].cpus = CpuSet::new();
        parts.llcs[1].node = None;
        parts.nodes[2].memory = Some(base::Bytes::ZERO);
        parts.nodes[2].memory_free = None;
    });
    let llcs = "llc 0: 0-1 on node0\nllc 1: 2-3 on no node\nllc 2: 4-5 on node2\n";
    assert_eq!(selected(&machine, machine.allowed()), llcs);
}

#[test]
fn a_node_with_unknown_memory_is_a_domain() {
    let machine = changed("nodes=2", |parts| {
        parts.nodes.iter_mut().for_each(|node| (node.memory, node.memory_free) = (None, None));
    });
    assert_eq!(selected(&machine, machine.allowed()), "node 0: 0 on node0\nnode 1: 1 on node1\n");
}

#[test]
fn a_set_of_cpus_is_in_one_domain_or_in_none() {
    let domains = Domains::select(&synthetic("nodes=2 cores=2"), DomainChoice::Auto, &set("0-3"));
    assert_eq!(domains.of_set(&set("2-3")), Some(1));
    assert_eq!(domains.of_set(&set("1-2")), None);
    assert_eq!(domains.of_set(&set("")), None);
    assert_eq!(domains.of_cpu(CpuId(900)), None);
}

#[test]
fn a_written_level_is_read_back() {
    for text in ["auto", "node", "llc", "core"] {
        assert_eq!(text.parse::<DomainChoice>().expect(text).to_string(), text);
    }
    let error = "socket".parse::<DomainChoice>().expect_err("no level").to_string();
    assert_eq!(error, "\"socket\" is not a placement domain; write auto, node, llc or core");
}

fn set(text: &str) -> CpuSet {
    text.parse().expect("a list")
}
