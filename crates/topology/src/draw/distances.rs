//! How far the nodes are apart: a sentence where one number says it, a table where it fits.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::Machine;

/// Sixteen columns of four, and the node at the left, fit into eighty.
const TABLE_MAX: usize = 16;

pub(super) fn draw(machine: &Machine) -> String {
    let told: Vec<_> = machine.nodes().iter().filter(|node| !node.distances.is_empty()).collect();
    if machine.nodes().len() < 2 {
        return String::new();
    }
    if told.is_empty() {
        return "distances between nodes are not told\n".to_owned();
    }
    let remote: BTreeSet<u32> = told
        .iter()
        .flat_map(|node| node.distances.iter().filter(|(to, _)| **to != node.id).map(|(_, d)| *d))
        .collect();
    let (Some(near), Some(far)) = (remote.first(), remote.last()) else { return String::new() };
    if near == far {
        return format!("distance from any node to any other: {near} (10 is local)\n");
    }
    if TABLE_MAX < machine.nodes().len() {
        return format!(
            "distances between nodes: {near} to {far} (10 is local; --json has them)\n"
        );
    }
    table(machine)
}

fn table(machine: &Machine) -> String {
    let mut text = "distance to".to_owned();
    machine.nodes().iter().for_each(|to| {
        let _ = write!(text, "{:>4}", to.id.0);
    });
    text.push('\n');
    for from in machine.nodes() {
        let _ = write!(text, "  from {:>4}", from.id.0);
        for to in machine.nodes() {
            let cost = from.distances.get(&to.id).map_or("-".to_owned(), u32::to_string);
            let _ = write!(text, "{cost:>4}");
        }
        text.push('\n');
    }
    text
}
