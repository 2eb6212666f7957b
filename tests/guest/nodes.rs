//! CPUs and pages of nodes, read without the parsers of evenkeel.

use std::collections::BTreeMap;
use std::fs;

use base::CpuSet;
use tests::process::until;

/// Lists the nodes that have CPUs.
pub fn all() -> Vec<u32> {
    let text = fs::read_to_string("/sys/devices/system/node/has_cpu").unwrap_or_default();
    let set: CpuSet = text.trim().parse().unwrap_or_default();
    set.iter().map(|node| node.0).collect()
}

/// Reads the CPUs of a node.
pub fn cpus(node: u32) -> CpuSet {
    let path = format!("/sys/devices/system/node/node{node}/cpulist");
    fs::read_to_string(path).expect("a node").trim().parse().expect("a list")
}

/// Returns the node that contains all CPUs of a mask.
pub fn node_of(mask: &CpuSet) -> Option<u32> {
    all().into_iter().find(|&node| mask.iter().all(|cpu| cpus(node).contains(cpu)))
}

/// Reads the anonymous memory of a process in KiB, by node (`/proc/PID/numa_maps`).
pub fn anonymous_kib(pid: u32) -> BTreeMap<u32, u64> {
    let mut by_node = BTreeMap::new();
    let text = fs::read_to_string(format!("/proc/{pid}/numa_maps")).unwrap_or_default();
    for line in text.lines().filter(|line| line.contains(" anon=") && !line.contains("file=")) {
        let fields = || line.split_ascii_whitespace().filter_map(|field| field.split_once('='));
        let kib = fields()
            .find(|(key, _)| *key == "kernelpagesize_kB")
            .map_or(4, |(_, n)| n.parse::<u64>().expect("a size"));
        for (key, count) in fields() {
            let Some(Ok(node)) = key.strip_prefix('N').map(str::parse::<u32>) else { continue };
            *by_node.entry(node).or_default() += count.parse::<u64>().expect("a count") * kib;
        }
    }
    by_node
}

/// Waits until a process has at least `kib` KiB of anonymous memory. Returns the memory by node.
pub fn wait_for_anonymous(pid: u32, kib: u64) -> BTreeMap<u32, u64> {
    let mut by_node = BTreeMap::new();
    until("memory in use", || {
        by_node = anonymous_kib(pid);
        kib <= by_node.values().sum::<u64>()
    });
    by_node
}

/// Checks that at least this share of the memory is on a node.
pub fn check_share(memory: &BTreeMap<u32, u64>, node: u32, permille: u64) {
    assert!(permille <= permille_on(memory, node), "node {node}: {memory:?}");
}

/// Returns the share of the memory that is on a node, in permille.
pub fn permille_on(memory: &BTreeMap<u32, u64>, node: u32) -> u64 {
    let all: u64 = memory.values().sum();
    memory.get(&node).copied().unwrap_or(0) * 1000 / all.max(1)
}

/// A value written to a file of /proc or /sys. Drop restores the former value.
pub struct KernelSetting {
    path: String,
    before: String,
}

impl KernelSetting {
    /// Disables automatic NUMA balancing, so that only evenkeel migrates pages.
    pub fn no_balancing() -> Self {
        KernelSetting::set("/proc/sys/kernel/numa_balancing", "0")
    }

    pub fn no_huge_pages() -> Self {
        KernelSetting::set("/sys/kernel/mm/transparent_hugepage/enabled", "never")
    }

    pub fn offline(cpu: u32) -> Self {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/online");
        KernelSetting::set(path, "0")
    }

    pub fn set(path: impl Into<String>, value: &str) -> Self {
        let path = path.into();
        let before = fs::read_to_string(&path).expect(&path).trim().to_owned();
        fs::write(&path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
        KernelSetting { path, before }
    }
}

impl Drop for KernelSetting {
    fn drop(&mut self) {
        let _ = fs::write(&self.path, &self.before);
    }
}

/// Returns a job with a built-in program that uses this memory for 5 minutes, and further keys of its section.
pub fn hog(name: &str, size: &str, lines: &str) -> String {
    format!(
        "[[job]]\nname = \"{name}\"\nload = \"hog --size {size} --for 300s --no-self-check\"\n{lines}\n"
    )
}
