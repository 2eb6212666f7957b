//! Memory of programs per node in the guest, sampled during a run.
//!
//! evenkeel samples memory at most every two seconds, within a budget of 1 % of a CPU. In an emulated guest this budget
//! suffices for one program in two seconds. The benchmark therefore samples all programs twice per second, and writes a
//! file in the directory of the journal with one line per process and sample.
//!
//! ```text
//!   12.480 1301 0:67108864 3:4096         seconds since boot, PID, bytes of private memory per node
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use anyhow::Context;
use base::{Bytes, NodeId};
use linux::numa_maps::{self, MappingKind};
use rustix::time::{ClockId, clock_gettime};
use sched::NodeMemory;

/// File name, in the directory of the journal.
pub const FILE: &str = "node_pages.txt";
/// Sampling interval.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);

/// One sample of a process.
#[derive(Clone, Debug, PartialEq)]
pub struct NodePagesSample {
    /// Seconds since boot.
    pub at_s: f64,
    /// PID.
    pub pid: u32,
    /// Private memory per node.
    pub nodes: Vec<NodeMemory>,
}

/// Samples the children of a process until the process exits. Returns its status and the samples as text.
pub fn sample_until_exit(mut parent: Child) -> anyhow::Result<(std::process::ExitStatus, String)> {
    let mut text = String::new();
    loop {
        if let Some(status) = parent.try_wait()? {
            return Ok((status, text));
        }
        let children = linux::procfs::all_children("/".as_ref(), parent.id()).unwrap_or_default();
        for pid in children {
            sample(pid, &mut text);
        }
        std::thread::sleep(SAMPLE_INTERVAL);
    }
}

/// Adds a line, unless the process has exited.
fn sample(pid: u32, text: &mut String) {
    let nodes = anonymous_by_node(pid);
    if nodes.is_empty() {
        return;
    }
    let now = clock_gettime(ClockId::Boottime);
    let _ = write!(text, "{:.3} {pid}", now.tv_sec as f64 + now.tv_nsec as f64 / 1e9);
    for (node, bytes) in nodes {
        let _ = write!(text, " {node}:{bytes}");
    }
    text.push('\n');
}

/// Returns the bytes of anonymous memory by node; empty if the process has exited.
pub fn anonymous_by_node(pid: u32) -> BTreeMap<u32, u64> {
    let maps = fs::read(format!("/proc/{pid}/numa_maps")).unwrap_or_default();
    let mappings = maps.split(|&byte| byte == b'\n').filter_map(numa_maps::parse_line);
    let mut nodes = BTreeMap::new();
    for mapping in mappings.filter(|mapping| mapping.kind == MappingKind::Anonymous) {
        for (node, n_pages) in mapping.nodes {
            *nodes.entry(node.0).or_insert(0) += n_pages * mapping.page_size;
        }
    }
    nodes
}

/// Reads a counter of `/proc/vmstat`, in pages since boot.
pub fn pages_of_vmstat(name: &str) -> anyhow::Result<u64> {
    let text = fs::read_to_string("/proc/vmstat")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|n| n.trim().parse().ok()).with_context(|| format!("/proc/vmstat has no {name}"))
}

/// Reads the file of a run. Returns an empty list if the file does not exist.
pub fn read(run: &Path) -> anyhow::Result<Vec<NodePagesSample>> {
    let file = run.join(FILE);
    match fs::read_to_string(&file) {
        Ok(text) => parse(&text).with_context(|| format!("{} is malformed", file.display())),
        Err(_) => Ok(Vec::new()),
    }
}

fn parse(text: &str) -> Option<Vec<NodePagesSample>> {
    let line = |line: &str| {
        let mut words = line.split(' ');
        let (at_s, pid) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let node = |word: &str| {
            let (node, bytes) = word.split_once(':')?;
            let (node, small) = (NodeId(node.parse().ok()?), Bytes(bytes.parse().ok()?));
            Some(NodeMemory { node, small, ..NodeMemory::default() })
        };
        Some(NodePagesSample { at_s, pid, nodes: words.map(node).collect::<Option<_>>()? })
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_time_a_pid_and_bytes_per_node() {
        let samples = parse("12.480 1301 0:4096 3:8192\n13.000 1302\n").expect("it is valid");
        assert_eq!((samples[0].at_s, samples[0].pid), (12.48, 1301));
        let on: Vec<_> = samples[0]
            .nodes
            .iter()
            .map(|memory| (memory.node.0, memory.private_bytes().0))
            .collect();
        assert_eq!(on, [(0, 4096), (3, 8192)]);
        assert_eq!(samples[1], NodePagesSample { at_s: 13.0, pid: 1302, nodes: Vec::new() });
        assert_eq!(parse("12.480 1301 0\n"), None);
    }
}
