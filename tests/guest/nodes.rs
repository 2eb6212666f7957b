//! Where CPUs and pages are, read here by other code than evenkeel's own.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use base::CpuSet;

/// A page table's figures come at once, a busy guest's processes do not, and where a watch finds by
/// chance that a move did harm it rests for a minute before it tries again.
const PATIENCE: Duration = Duration::from_secs(200);

/// The nodes that have CPUs.
pub fn all() -> Vec<u32> {
    let text = fs::read_to_string("/sys/devices/system/node/has_cpu").unwrap_or_default();
    let set: CpuSet = text.trim().parse().unwrap_or_default();
    set.iter().map(|node| node.0).collect()
}

/// The CPUs of a node.
pub fn cpus(node: u32) -> CpuSet {
    let path = format!("/sys/devices/system/node/node{node}/cpulist");
    fs::read_to_string(path).expect("a node").trim().parse().expect("a list")
}

/// The node whose CPUs hold all of these.
pub fn node_of(mask: &CpuSet) -> Option<u32> {
    all().into_iter().find(|&node| mask.iter().all(|cpu| cpus(node).contains(cpu)))
}

/// Anonymous memory of a process in KiB, by node, as the kernel's `numa_maps` tells it.
pub fn anonymous_kib(pid: u32) -> BTreeMap<u32, u64> {
    let mut by_node = BTreeMap::new();
    let text = fs::read_to_string(format!("/proc/{pid}/numa_maps")).unwrap_or_default();
    for line in text.lines().filter(|line| line.contains(" anon=") && !line.contains("file=")) {
        let words = || line.split_ascii_whitespace().filter_map(|word| word.split_once('='));
        let kib = words()
            .find(|(key, _)| *key == "kernelpagesize_kB")
            .map_or(4, |(_, n)| n.parse::<u64>().expect("a size"));
        for (key, count) in words() {
            let Some(Ok(node)) = key.strip_prefix('N').map(str::parse::<u32>) else { continue };
            *by_node.entry(node).or_default() += count.parse::<u64>().expect("a count") * kib;
        }
    }
    by_node
}

/// Its anonymous memory once that is at least so much.
pub fn anonymous_from(pid: u32, kib: u64) -> BTreeMap<u32, u64> {
    let mut seen = BTreeMap::new();
    until("memory in use", || {
        seen = anonymous_kib(pid);
        kib <= seen.values().sum::<u64>()
    });
    seen
}

/// How much of some memory lies on a node, in thousandths.
pub fn permille_on(memory: &BTreeMap<u32, u64>, node: u32) -> u64 {
    let all: u64 = memory.values().sum();
    memory.get(&node).copied().unwrap_or(0) * 1000 / all.max(1)
}

/// Asks again and again until something holds.
pub fn until(what: &str, holds: impl FnMut() -> bool) {
    until_or(what, holds, String::new);
}

/// As [`until`]; what is known of why it did not come to it is told then.
pub fn until_or(what: &str, mut holds: impl FnMut() -> bool, known: impl Fn() -> String) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "it never came to: {what}\n{}", known());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Writes a file of the kernel's; what it held before is written again at the end.
pub struct Knob {
    path: &'static str,
    before: String,
}

impl Knob {
    pub fn set(path: &'static str, value: &str) -> Self {
        let before = fs::read_to_string(path).expect(path).trim().to_owned();
        fs::write(path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
        Knob { path, before }
    }
}

impl Drop for Knob {
    fn drop(&mut self) {
        let _ = fs::write(self.path, &self.before);
    }
}
