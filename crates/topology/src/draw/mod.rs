//! Text drawings of a machine, 80 columns wide and without colour.
//!
//! ```text
//!   ┌─ node 0 ──────────────────────────────────────── 16.0 GiB, 8.0 GiB free ─┐
//!   │ llc 0  L3 32.0 MiB   [0-1] [2-3] [4-5] [6-7]                              │
//!   └───────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Brackets contain the SMT siblings of one core. A number without brackets is a core with one CPU. Up to eight nodes
//! are drawn as boxes, more nodes as a table. Lists that do not fit are abbreviated; `--json` prints everything.

mod boxes;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use base::CpuSet;

use crate::{CoreKind, Domain, DomainChoice, Domains, Machine, Node};

/// Columns of the terminal.
pub const WIDTH: usize = 80;
/// Maximum number of nodes that are drawn as boxes. More nodes are drawn as a table.
const BOXES_MAX: usize = 8;

/// Draws a machine. Every line ends with a newline and is at most [`WIDTH`] columns wide.
pub fn draw(machine: &Machine) -> String {
    let mut text = overview(machine);
    if machine.nodes().len() <= BOXES_MAX {
        machine.nodes().iter().for_each(|node| text.push_str(&boxes::node(machine, node)));
        text.push_str(&boxes::without_node(machine));
    } else {
        text.push_str(&table(machine));
    }
    text.push_str(&distances(machine));
    text.push_str(&notes(machine));
    // Names come from files and can contain control characters and long lines.
    text.lines().map(|line| cut(line) + "\n").collect()
}

fn overview(machine: &Machine) -> String {
    let known = machine.nodes().iter().filter_map(|node| node.memory);
    let memory = base::Bytes(known.fold(0, |sum: u64, memory| sum.saturating_add(memory.0)));
    let counts = [
        count(machine.online().len(), "CPU"),
        count(machine.cores().len(), "core"),
        count(machine.llcs().len(), "last-level cache"),
        count(machine.nodes().len(), "node"),
    ];
    let mut line = counts.join(", ");
    if memory.0 != 0 {
        let _ = write!(line, ", {memory}");
    }
    format!("{}\n{line}\n", cut(machine.name()))
}

fn count(n: usize, noun: &str) -> String {
    match n {
        0 => format!("no known {noun}"),
        n => base::counted_noun(n, noun),
    }
}

fn table(machine: &Machine) -> String {
    let mut text = format!(
        "{:>5}  {:<30} {:>5} {:>5} {:>11} {:>11}\n",
        "node", "CPUs", "cores", "llcs", "memory", "free"
    );
    for node in machine.nodes() {
        let n_cores =
            machine.cores().iter().filter(|core| core.cpus.intersects(&node.cpus)).count();
        let n_llcs = machine.llcs().iter().filter(|llc| llc.cpus.intersects(&node.cpus)).count();
        let size = |bytes: Option<base::Bytes>| bytes.map_or("?".to_owned(), |b| b.to_string());
        let _ = writeln!(
            text,
            "{:>5}  {:<30} {n_cores:>5} {n_llcs:>5} {:>11} {:>11}",
            node.id.0,
            shorten(&node.cpus, 30),
            size(node.memory),
            size(node.memory_free),
        );
    }
    text
}

/// Maximum number of nodes in the distance table: 16 columns of four characters and the row header fit into 80 columns.
const DISTANCE_TABLE_MAX: usize = 16;

/// Describes the distances between nodes: one sentence if all distances are equal, otherwise a table if it fits.
fn distances(machine: &Machine) -> String {
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
    if DISTANCE_TABLE_MAX < machine.nodes().len() {
        return format!("distances between nodes: {near} to {far} (10 is local; see --json)\n");
    }
    distance_table(machine)
}

fn distance_table(machine: &Machine) -> String {
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

/// Lists facts about the whole machine: core kinds, offline CPUs, allowed CPUs and memory, warnings.
fn notes(machine: &Machine) -> String {
    let mut lines = kinds(machine);
    let present: CpuSet = machine.cpus().iter().map(|cpu| cpu.id).collect();
    let offline = present.minus(machine.online());
    if !offline.is_empty() {
        lines.push(format!("offline: CPUs {offline}"));
    }
    lines.push(may_use(machine));
    lines.push(placement(machine));
    lines.extend(machine.warnings().iter().map(|warning| format!("warning: {warning}")));
    // Continuation lines are indented; the first line is not.
    lines.iter().map(|line| wrap(line, 2).split_off(2)).collect()
}

/// Returns a line with the number of cores of each kind and their capacities, fastest kind first.
fn kinds(machine: &Machine) -> Vec<String> {
    let kinds = machine.core_kinds();
    if kinds.len() < 2 {
        return Vec::new();
    }
    let count = |kind: &CoreKind<'_>| {
        let least = kind.cores.iter().map(|core| core.capacity).min();
        let capacity = match (least, kind.capacity()) {
            (Some(low), high) if low != high => format!("{low}-{high}"),
            (_, only) => only.to_string(),
        };
        format!("{} {} ({capacity})", kind.cores.len(), kind.name)
    };
    let counts: Vec<String> = kinds.iter().map(count).collect();
    let kinds = format!("core kinds, with capacity (1024 is the fastest): {}", counts.join(", "));
    let source = machine.core_kinds_source().map(ToString::to_string);
    std::iter::once(kinds).chain(source).collect()
}

fn may_use(machine: &Machine) -> String {
    let all_nodes = machine.nodes().iter().all(|node| machine.nodes_allowed().contains(node.id));
    let all_cpus = machine.allowed() == machine.online();
    if all_cpus && all_nodes {
        return "this process may use all CPUs and all memory".to_owned();
    }
    let cpus = match machine.allowed() {
        _ if all_cpus => "all CPUs".to_owned(),
        some if some.is_empty() => "no CPU".to_owned(),
        some => format!("CPUs {some}"),
    };
    let memory = match machine.nodes_allowed() {
        _ if all_nodes => "all memory".to_owned(),
        some if some.is_empty() => "no memory".to_owned(),
        some => format!("memory of nodes {some}"),
    };
    format!("this process may use {cpus} and {memory}")
}

fn placement(machine: &Machine) -> String {
    let domains = Domains::select(machine, DomainChoice::Auto, machine.allowed());
    match domains.len() {
        0 => "nothing can be placed: this process may use no CPU".to_owned(),
        1 => "nothing can be placed: there is one core to run on".to_owned(),
        n => format!("programs are placed on {n} {}s: {}", domains.level(), ids(&domains)),
    }
}

fn ids(domains: &Domains) -> String {
    let number = |(_, domain): (usize, &Domain)| base::CpuId(domain.number);
    domains.iter().map(number).collect::<CpuSet>().to_string()
}

fn cpus_of(node: &Node) -> String {
    if node.cpus.is_empty() { "no CPU".to_owned() } else { format!("CPUs {}", node.cpus) }
}

/// Formats a CPU set as a list. A list that is too long is truncated at a comma and followed by the number of CPUs.
fn shorten(cpus: &CpuSet, width: usize) -> String {
    let text = if cpus.is_empty() { "none".to_owned() } else { cpus.to_string() };
    if text.len() <= width {
        return text;
    }
    let end = format!(",… ({})", cpus.len());
    let width_left = width.saturating_sub(end.chars().count());
    let cut_at = text[..width_left].rfind(',').unwrap_or(width_left);
    format!("{}{end}", &text[..cut_at])
}

fn cut(line: &str) -> String {
    line.chars().filter(|c| !c.is_control()).take(WIDTH).collect()
}

/// Breaks a line at spaces and commas. Every line starts with `indent` spaces.
fn wrap(line: &str, indent: usize) -> String {
    let mut text = " ".repeat(indent);
    let mut column = indent;
    for piece in line.split_inclusive([' ', ',']) {
        let width = piece.trim_end().chars().count();
        if WIDTH < column + width && indent < column {
            text.truncate(text.trim_end().len());
            text.push('\n');
            text.push_str(&" ".repeat(indent));
            column = indent;
        }
        text.extend(piece.chars().filter(|c| !c.is_control()));
        column += piece.chars().count();
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

#[cfg(test)]
mod tests;
