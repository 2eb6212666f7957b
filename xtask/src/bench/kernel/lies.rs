//! Where the memory of programs lies in the guest, looked at beside the run.
//!
//! evenkeel looks at it every two seconds and more seldom while it stays, and only so often that it costs a
//! hundredth of a CPU, which in an emulated guest is one program in two seconds. So this program looks too:
//! twice a second, all of them, into a file beside the journal with a line for each process.
//!
//! ```text
//!   12.480 1301 0:67108864 3:4096         seconds since boot, process, bytes of its own by node
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

/// The file, beside the journal.
pub const FILE: &str = "lies.txt";
/// Between two looks at everybody.
const EVERY: Duration = Duration::from_millis(500);

/// One look at a process.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// Seconds since boot.
    pub at_s: f64,
    /// Which process.
    pub pid: u32,
    /// Its own memory by node.
    pub nodes: Vec<NodeMemory>,
}

/// Looks at the children of a process until that ends; its status, and a line for each look.
pub fn watch(mut parent: Child) -> anyhow::Result<(std::process::ExitStatus, String)> {
    let mut text = String::new();
    loop {
        if let Some(status) = parent.try_wait()? {
            return Ok((status, text));
        }
        let children = linux::procfs::all_children("/".as_ref(), parent.id()).unwrap_or_default();
        for pid in children {
            look(pid, &mut text);
        }
        std::thread::sleep(EVERY);
    }
}

/// Adds a line; none for a process that has ended.
fn look(pid: u32, text: &mut String) {
    let Ok(maps) = fs::read(format!("/proc/{pid}/numa_maps")) else { return };
    let now = clock_gettime(ClockId::Boottime);
    let mut nodes: BTreeMap<NodeId, u64> = BTreeMap::new();
    let mappings = maps.split(|&byte| byte == b'\n').filter_map(numa_maps::parse_line);
    for mapping in mappings.filter(|mapping| mapping.kind == MappingKind::Nothing) {
        for (node, n_pages) in mapping.nodes {
            *nodes.entry(node).or_insert(0) += n_pages * mapping.page_size;
        }
    }
    let at_s = now.tv_sec as f64 + now.tv_nsec as f64 / 1e9;
    let _ = write!(text, "{at_s:.3} {pid}");
    for (node, bytes) in nodes {
        let _ = write!(text, " {}:{bytes}", node.0);
    }
    text.push('\n');
}

/// What is in the file of a run, if it has one.
pub fn read(run: &Path) -> anyhow::Result<Vec<Look>> {
    let file = run.join(FILE);
    match fs::read_to_string(&file) {
        Ok(text) => parse(&text).with_context(|| format!("{} is not sound", file.display())),
        Err(_) => Ok(Vec::new()),
    }
}

fn parse(text: &str) -> Option<Vec<Look>> {
    let line = |line: &str| {
        let mut words = line.split(' ');
        let (at_s, pid) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let node = |word: &str| {
            let (node, bytes) = word.split_once(':')?;
            let (node, small) = (NodeId(node.parse().ok()?), Bytes(bytes.parse().ok()?));
            Some(NodeMemory { node, small, ..NodeMemory::default() })
        };
        Some(Look { at_s, pid, nodes: words.map(node).collect::<Option<_>>()? })
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_time_a_process_and_what_lies_where() {
        let looks = parse("12.480 1301 0:4096 3:8192\n13.000 1302\n").expect("sound");
        assert_eq!((looks[0].at_s, looks[0].pid), (12.48, 1301));
        let on: Vec<_> = looks[0].nodes.iter().map(|lies| (lies.node.0, lies.own().0)).collect();
        assert_eq!(on, [(0, 4096), (3, 8192)]);
        assert_eq!(looks[1], Look { at_s: 13.0, pid: 1302, nodes: Vec::new() });
        assert_eq!(parse("12.480 1301 0\n"), None);
    }
}
