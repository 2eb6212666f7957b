//! The distances between nodes: one sentence if all are equal, else a table if it fits.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::Machine;

/// Sixteen columns of four characters and the row header fit into eighty columns.
const TABLE_MAX: usize = 16;

pub(super) fn draw(machine: &Machine) -> String {
    let known: Vec<_> = machine.nodes().iter().filter(|node| !node.distances.is_empty()).collect();
    if machine.nodes().len() < 2 {
        return String::new();
    }
    if known.is_empty() {
        return "distances between nodes are unknown\n".to_owned();
    }
    let remote: BTreeSet<u32> = known
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
