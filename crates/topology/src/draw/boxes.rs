//! Drawing of a node as a box, with one or two lines for each last-level cache.

use base::{CpuSet, LlcId};

use super::{WIDTH, cpus_of, shorten};
use crate::{Core, Llc, Machine, Node};

/// Columns inside the frame.
const INNER_WIDTH: usize = WIDTH - 4;
/// If a node has more caches than this, or each cache belongs to a single core, all caches are drawn on one line.
const CACHE_LINES_MAX: usize = 8;
/// Above this number of lines, the cores of a cache are abbreviated.
const LINES_MAX: usize = 3;

pub(super) fn node(machine: &Machine, node: &Node) -> String {
    let memory = match (node.memory, node.memory_free) {
        (Some(base::Bytes::ZERO), _) => "no memory".to_owned(),
        (Some(memory), Some(free)) => format!("{memory}, {free} free"),
        (Some(memory), None) => memory.to_string(),
        (None, _) => "memory unknown".to_owned(),
    };
    let title = format!("node {}", node.id.0);
    if node.cpus.is_empty() {
        return format!("── {title}: {}, {memory}\n", cpus_of(node));
    }
    frame(&title, &memory, &lines(machine, &node.cpus))
}

/// Draws the CPUs that no node lists: their node is offline, or the firmware omits them.
pub(super) fn without_node(machine: &Machine) -> String {
    let listed = machine.nodes().iter().fold(CpuSet::new(), |all, node| all.or(&node.cpus));
    let unlisted = machine.online().minus(&listed);
    if unlisted.is_empty() {
        String::new()
    } else {
        frame("no node", "", &lines(machine, &unlisted))
    }
}

fn frame(left: &str, right: &str, lines: &[String]) -> String {
    let (left, right) = (
        format!("┌─ {left} "),
        if right.is_empty() { "┐".to_owned() } else { format!(" {right} ─┐") },
    );
    let rule = "─".repeat(WIDTH.saturating_sub(left.chars().count() + right.chars().count()));
    let body: String =
        lines.iter().map(|line| format!("│ {line:<INNER_WIDTH$.INNER_WIDTH$} │\n")).collect();
    format!("{left}{rule}{right}\n{body}└{}┘\n", "─".repeat(WIDTH - 2))
}

fn lines(machine: &Machine, cpus: &CpuSet) -> Vec<String> {
    let is_in_node = |llc: &&Llc| llc.cpus.intersects(cpus);
    let llcs: Vec<&Llc> = machine.llcs().iter().filter(is_in_node).collect();
    let cached = llcs.iter().fold(CpuSet::new(), |all, llc| all.or(&llc.cpus));
    let mut cache_lines: Vec<(String, CpuSet)> = Vec::new();
    let one_core = |llc: &&Llc| machine.cores().iter().any(|core| llc.cpus.is_subset(&core.cpus));
    let is_many = CACHE_LINES_MAX < llcs.len() || (2 <= llcs.len() && llcs.iter().all(one_core));
    if !is_many {
        let cache_line = |llc: &&Llc| (label(&[llc], cpus), llc.cpus.and(cpus));
        cache_lines.extend(llcs.iter().map(cache_line));
    } else {
        cache_lines.push((label(&llcs, cpus), cached.and(cpus)));
    }
    let uncached = cpus.minus(&cached);
    if !uncached.is_empty() {
        cache_lines.push(("no known cache".to_owned(), uncached));
    }
    let indent = cache_lines.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0) + 2;
    cache_lines.iter().flat_map(|(label, cpus)| cache_line(machine, label, indent, cpus)).collect()
}

/// Returns the label of a cache, `llc 0  L3 32.0 MiB`, or of many caches, `16 llcs (0-15)  L3 32.0 MiB each`.
fn label(llcs: &[&Llc], cpus: &CpuSet) -> String {
    let sizes: Vec<_> = llcs.iter().map(|llc| (llc.level, llc.size)).collect();
    let (level, size) = sizes[0];
    let are_equal = sizes.iter().all(|other| *other == sizes[0]);
    let size = size.filter(|_| are_equal).map_or(String::new(), |size| format!(" {size}"));
    let numbers: CpuSet = llcs.iter().map(|llc| base::CpuId(number(llc.id))).collect();
    let split = if llcs.iter().any(|llc| !llc.cpus.is_subset(cpus)) { " (part)" } else { "" };
    match llcs.len() {
        1 => format!("llc {numbers}  L{level}{size}{split}"),
        n => format!("{n} llcs ({})  L{level}{size}{split}", shorten(&numbers, 20)),
    }
}

fn number(id: LlcId) -> u32 {
    id.0
}

fn cache_line(machine: &Machine, label: &str, indent: usize, cpus: &CpuSet) -> Vec<String> {
    let cores: Vec<&Core> =
        machine.cores().iter().filter(|core| core.cpus.intersects(cpus)).collect();
    let mut kinds: Vec<&str> = Vec::new();
    for core in &cores {
        if !kinds.contains(&core.kind.as_str()) {
            kinds.push(&core.kind);
        }
    }
    let mut lines = Vec::new();
    for kind in &kinds {
        let of_kind: Vec<&Core> = cores.iter().filter(|core| core.kind == *kind).copied().collect();
        let kind_label =
            if 1 < kinds.len() || *kind != "uniform" { format!("{kind}: ") } else { String::new() };
        lines.extend(cells(&kind_label, &of_kind, cpus, INNER_WIDTH - indent));
    }
    let starts = std::iter::once(label).chain(std::iter::repeat(""));
    starts.zip(lines).map(|(start, line)| format!("{start:<indent$}{line}")).collect()
}

/// Lists each core. If the cores need too many lines, returns an abbreviated list.
fn cells(kind_label: &str, cores: &[&Core], cpus: &CpuSet, width: usize) -> Vec<String> {
    let mut lines = vec![kind_label.to_owned()];
    for core in cores {
        let cell = match core.cpus.len() {
            1 => core.cpus.to_string(),
            _ => format!("[{}]", core.cpus),
        };
        let last = lines.last_mut().map_or(0, |line| line.chars().count());
        if width < last + cell.chars().count() {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(&cell);
            line.push(' ');
        }
    }
    if lines.len() <= LINES_MAX {
        return lines.iter().map(|line| line.trim_end().to_owned()).collect();
    }
    let all = cores.iter().fold(CpuSet::new(), |all, core| all.or(&core.cpus)).and(cpus);
    let start = format!("{kind_label}{} cores: ", cores.len());
    let list = shorten(&all, width.saturating_sub(start.chars().count()));
    vec![start + &list]
}
