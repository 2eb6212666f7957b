//! The default affinity of processes on this machine, and the CPUs that programs are placed on.
//!
//! ```text
//!   ordinary   CPUs and memory nodes of the init process. A process with other CPUs or nodes was restricted
//!              on purpose and is excluded
//!   targets    affinity of evenkeel without isolated CPUs. If evenkeel was started with taskset, its mask also
//!              applies to the programs; a warning reports this
//! ```
//!
//! All of these values may change during a watch: CPUs go offline, cpuset partitions are isolated, the affinity of
//! evenkeel changes. Masks are read in every turn (two system calls), the lists in /sys after a change of a mask and
//! every ten seconds. If a value is unreadable, the previous value remains in use.

use std::path::Path;

use base::{CpuSet, Nanos, NodeSet};
use linux::proc_dir::ProcDir;
use linux::{affinity, system};

/// Period of the reads of the lists in /sys.
const LISTS_EVERY: Nanos = Nanos::from_secs(10);

/// The current CPUs and nodes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlacementCpus {
    /// The affinity of evenkeel.
    pub own: CpuSet,
    /// The affinity of a process that has not set its affinity.
    pub ordinary: CpuSet,
    /// Whether the affinity of the init process is readable.
    can_read_init: bool,
    online: CpuSet,
    isolated: CpuSet,
    /// Memory nodes of the init process, or of evenkeel if the init process cannot be read. `None` without cpusets.
    nodes: Option<NodeSet>,
    /// Nodes with memory. Other nodes of a cpuset have no effect.
    with_memory: NodeSet,
    lists_at: Nanos,
}

impl PlacementCpus {
    /// Reads all values.
    pub fn new(root: &Path, proc: &ProcDir, own: CpuSet, with_memory: NodeSet) -> Self {
        let mut cpus = PlacementCpus {
            ordinary: own.clone(),
            can_read_init: false,
            online: own.clone(),
            own,
            isolated: CpuSet::new(),
            nodes: None,
            with_memory,
            lists_at: Nanos::ZERO,
        };
        cpus.read_masks();
        cpus.read_lists(root, proc);
        cpus
    }

    /// Reads all values again. Returns warnings if the targets or the isolated CPUs have changed; otherwise `None`.
    pub fn update(&mut self, root: &Path, proc: &ProcDir, now: Nanos) -> Option<Vec<String>> {
        let before = self.clone();
        self.read_masks();
        let have_masks_changed = (&self.own, &self.ordinary) != (&before.own, &before.ordinary);
        if have_masks_changed || self.lists_at <= now {
            self.lists_at = now + LISTS_EVERY;
            self.read_lists(root, proc);
        }
        let warnings = self.warnings_since(&before);
        (self.targets() != before.targets() || !warnings.is_empty()).then_some(warnings)
    }

    fn read_masks(&mut self) {
        if let Ok(own) = affinity::get(0) {
            self.own = own;
        }
        match affinity::get(1) {
            Ok(ordinary) => (self.ordinary, self.can_read_init) = (ordinary, true),
            // If the mask of the init process is never readable, the affinity of evenkeel counts as the default.
            Err(_) if !self.can_read_init => self.ordinary = self.own.clone(),
            Err(_) => {}
        }
    }

    fn read_lists(&mut self, root: &Path, proc: &ProcDir) {
        if let Ok(isolated) = system::isolated_cpus(root) {
            self.isolated = isolated;
        }
        if let Ok(online) = system::online_cpus(root) {
            // In a container this file may lack CPUs that are in use.
            self.online = online.or(&self.compared());
        }
        let status = proc.status(1).or_else(|_| proc.status(std::process::id()));
        if let Ok(status) = status {
            self.nodes = status.nodes;
        }
    }

    /// Returns the CPUs among which masks of processes are compared. Other CPUs of a mask are not usable.
    pub fn compared(&self) -> CpuSet {
        self.own.or(&self.ordinary)
    }

    /// Returns the CPUs on which programs are placed.
    pub fn targets(&self) -> CpuSet {
        self.own.minus(&self.isolated)
    }

    /// Returns the CPUs on which programs would be placed if evenkeel could use all CPUs.
    pub fn all_targets(&self) -> CpuSet {
        self.online.minus(&self.isolated)
    }

    /// Returns whether a process with this mask, which may contain offline CPUs, has the ordinary affinity.
    pub fn is_ordinary(&self, cpus: &CpuSet) -> bool {
        self.are_same(cpus, &self.ordinary)
    }

    /// Returns whether two masks contain the same online CPUs.
    pub fn are_same(&self, one: &CpuSet, other: &CpuSet) -> bool {
        one.and(&self.online) == other.and(&self.online)
    }

    /// Returns whether these memory nodes of a process differ from the nodes of the init process.
    pub fn restricts_memory(&self, nodes: Option<&NodeSet>) -> bool {
        let (Some(nodes), Some(ordinary)) = (nodes, &self.nodes) else { return false };
        nodes.and(&self.with_memory) != ordinary.and(&self.with_memory)
    }

    /// Returns the warnings for the start of a watch.
    pub fn first_warnings(&self) -> Vec<String> {
        [self.isolated_warning(), self.targets_warning()].into_iter().flatten().collect()
    }

    fn warnings_since(&self, before: &PlacementCpus) -> Vec<String> {
        let isolated = (self.isolated != before.isolated).then(|| {
            let none = || "no CPU is isolated any more".to_owned();
            self.isolated_warning().unwrap_or_else(none)
        });
        let is_new = self.targets_warning() != before.targets_warning();
        let targets = self.targets_warning().filter(|_| is_new);
        [isolated, targets].into_iter().flatten().collect()
    }

    fn isolated_warning(&self) -> Option<String> {
        let isolated = &self.isolated;
        (!isolated.is_empty())
            .then(|| format!("the CPUs {isolated} are isolated: nothing is placed on them"))
    }

    fn targets_warning(&self) -> Option<String> {
        let (targets, all) = (self.targets(), self.all_targets());
        (targets != all).then(|| {
            let targets = match targets.is_empty() {
                true => "none".to_owned(),
                false => targets.to_string(),
            };
            format!(
                "programs are placed on {targets} of the CPUs {all}, because evenkeel itself may use no \
                 others: start it without taskset, CPUAffinity= or a cpuset to use all"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> CpuSet {
        text.parse().expect("a list")
    }

    fn cpus(own: &str, ordinary: &str, online: &str, isolated: &str) -> PlacementCpus {
        PlacementCpus {
            own: set(own),
            ordinary: set(ordinary),
            can_read_init: true,
            online: set(online),
            isolated: set(isolated),
            nodes: Some("0-1".parse().expect("a list")),
            with_memory: "0-1".parse().expect("a list"),
            lists_at: Nanos::ZERO,
        }
    }

    #[test]
    fn a_restricted_affinity_of_evenkeel_is_reported_with_a_remedy() {
        let warnings =
            |own, isolated| cpus(own, "0-7", "0-7", isolated).first_warnings().join("; ");
        assert_eq!(warnings("0-7", ""), "");
        assert_eq!(warnings("0-3", "4-7"), "the CPUs 4-7 are isolated: nothing is placed on them");
        assert_eq!(
            warnings("0-3", "7"),
            "the CPUs 7 are isolated: nothing is placed on them; programs are placed on 0-3 of the \
             CPUs 0-6, because evenkeel itself may use no others: start it without taskset, \
             CPUAffinity= or a cpuset to use all"
        );
        assert!(warnings("7", "7").contains("placed on none of the CPUs 0-6"));
    }

    #[test]
    fn a_change_is_reported_once_with_the_current_values() {
        let before = cpus("0-7", "0-7", "0-7", "");
        let warnings = |own, isolated| cpus(own, "0-7", "0-7", isolated).warnings_since(&before);
        assert_eq!(warnings("0-7", ""), Vec::<String>::new());
        assert_eq!(
            warnings("0-7", "6-7"),
            ["the CPUs 6-7 are isolated: nothing is placed on them"]
        );
        assert_eq!(warnings("0-1", "").len(), 1);
        let back = before.warnings_since(&cpus("0-1", "0-7", "0-7", "6-7"));
        assert_eq!(back, ["no CPU is isolated any more"]);
    }

    #[test]
    fn lists_are_read_again_within_ten_seconds() {
        let dir = tempfile::tempdir().expect("a directory");
        let cpu = dir.path().join("sys/devices/system/cpu");
        std::fs::create_dir_all(&cpu).expect("a temporary directory of the test");
        let proc = ProcDir::open("/".as_ref()).expect("proc");
        let own = affinity::get(0).expect("own");
        let online = own.or(&affinity::get(1).unwrap_or_default());
        std::fs::write(cpu.join("online"), online.to_string())
            .expect("a temporary directory of the test");
        let mut cpus = PlacementCpus::new(dir.path(), &proc, own.clone(), NodeSet::new());
        assert_eq!(cpus.targets(), own);
        let mut update = |secs| cpus.update(dir.path(), &proc, Nanos::from_secs(secs));
        assert_eq!(update(1), None);
        let last: CpuSet = own.last().into_iter().collect();
        std::fs::write(cpu.join("isolated"), last.to_string())
            .expect("a temporary directory of the test");
        assert_eq!(update(10), None, "the next read is at 11 s");
        let warning = format!("the CPUs {last} are isolated: nothing is placed on them");
        assert_eq!(update(11), Some(vec![warning]));
        assert_eq!(update(30), None, "it is reported once");
        // If a value is unreadable, the previous value remains in use.
        std::fs::remove_file(cpu.join("isolated")).expect("a temporary directory of the test");
        std::fs::create_dir(cpu.join("isolated")).expect("a temporary directory of the test");
        assert_eq!(update(50), None);
        assert_eq!(cpus.targets(), own.minus(&last));
    }

    #[test]
    fn a_restricted_mask_is_not_ordinary_and_offline_cpus_do_not_count() {
        let cpus = cpus("0-3", "0-6", "0-6", "");
        assert!(cpus.is_ordinary(&set("0-6")) && cpus.is_ordinary(&set("0-7")));
        assert!(!cpus.is_ordinary(&set("0-5")) && !cpus.is_ordinary(&set("0-3")));
    }

    #[test]
    fn a_cpuset_with_other_nodes_than_the_init_process_restricts_memory() {
        let cpus = cpus("0-3", "0-3", "0-3", "");
        let restricts = |nodes: &str| cpus.restricts_memory(Some(&nodes.parse().expect("a list")));
        assert!(restricts("0") && restricts("1"));
        assert!(!restricts("0-1"));
        assert!(!restricts("0-7"), "nodes without memory do not count");
        assert!(!cpus.restricts_memory(None));
    }
}
