//! Tests of whole drawings. An input is a synthetic machine, which ` with ` and the name of a [`change`] may follow.

use super::*;
use crate::{Machine, MachineParts};

#[test]
fn drawings() {
    let drawing = |input: &str| {
        let (shape, name) = input.split_once(" with ").unwrap_or((input, ""));
        let mut parts = Machine::synthetic(shape).expect("a machine").parts().clone();
        change(name, &mut parts);
        let drawn = draw(&Machine::new(parts).expect("still a machine"));
        for line in drawn.lines() {
            assert!(line.chars().count() <= WIDTH, "{} columns: {line}", line.chars().count());
        }
        drawn
    };
    let cases = expect_test::expect_file!["../../cases/drawings.txt"];
    cases.assert_eq(&base::transcript(&cases.data(), drawing));
}

fn change(name: &str, parts: &mut MachineParts) {
    match name {
        "a distance of 12" => {
            parts.nodes[0].distances.insert(base::NodeId(1), 12);
        }
        "restricted parts" => restrict(parts),
        "incomplete nodes" => {
            parts.nodes[2].cpus = CpuSet::new();
            parts.nodes[1].distances.insert(base::NodeId(2), 40);
            parts.cpus.iter_mut().for_each(|cpu| cpu.node = None);
        }
        _ => assert_eq!(name, "", "unknown change"),
    }
}

/// Restricts a machine: CPUs 0 to 2 and node 0 are allowed, CPU 7 is offline, node 1 has no memory, and the core kinds
/// differ.
fn restrict(parts: &mut MachineParts) {
    parts.cpus.iter_mut().for_each(|cpu| cpu.allowed = cpu.id.0 < 3);
    parts.cpus[7].online = false;
    (parts.cpus[7].core, parts.cpus[7].llc, parts.cpus[7].node) = (None, None, None);
    for cpus in [&mut parts.nodes[1].cpus, &mut parts.llcs[1].cpus] {
        cpus.remove(base::CpuId(7));
    }
    parts.cores.pop();
    parts.nodes_allowed.remove(base::NodeId(1));
    parts.cores[0].kind = "performance".to_owned();
    parts.cores[1].capacity = 512;
    parts.nodes[1].memory = Some(base::Bytes::ZERO);
    parts.nodes[1].memory_free = None;
    parts.warnings.push(
        "node7 claims CPUs 4-7 of another node; node7 is ignored, and so is all of its memory"
            .to_owned(),
    );
}
