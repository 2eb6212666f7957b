//! What programs here may use who have nothing of their own, and what they may be placed on.
//!
//! ```text
//!   ordinary   what process 1 may use: CPUs, and nodes for memory. Who has anything else has it from
//!              somebody, and is left alone
//!   targets    what we ourselves may use, less what is isolated. Who starts us with taskset means the
//!              programs too; so that nobody wonders, it is said
//! ```
//!
//! All of it changes while we watch: CPUs go offline, partitions of cpusets are isolated, somebody binds
//! us. Masks are asked for in every turn (two calls); the lists in `/sys` when a mask has changed, and
//! every ten seconds besides. What cannot be read now is as it was.

use std::path::Path;
use std::sync::Arc;

use base::{CpuSet, Nanos, NodeSet};
use linux::glance::{self, ProcFolder};
use linux::{affinity, system};

/// Lists in `/sys` are read at least this often.
const LISTS_EVERY: Nanos = Nanos::from_secs(10);

/// What is known of it now.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Here {
    /// The CPUs that we may use ourselves.
    pub own: Arc<CpuSet>,
    /// Those that processes have who have no affinity of their own.
    pub ordinary: CpuSet,
    /// The first process has told them once.
    can_ask_first: bool,
    /// Both: masks of strangers are compared among these. Whoever was bound to a CPU that nobody may use
    /// any more has others from the kernel, which is nobody's wish.
    pub compared: Arc<CpuSet>,
    /// All that are online.
    online: CpuSet,
    /// Those that are kept for somebody.
    pub isolated: CpuSet,
    /// Where the memory of processes may come from who have no cpuset of their own; `None` where
    /// there are no cpusets.
    nodes: Option<NodeSet>,
    /// Nodes that have memory: what a cpuset says of others does not matter.
    with_memory: NodeSet,
    lists_at: Nanos,
}

impl Here {
    /// Looks for the first time.
    pub fn new(root: &Path, proc: &ProcFolder, own: CpuSet, with_memory: NodeSet) -> Self {
        let mut here = Here {
            own: Arc::new(own.clone()),
            ordinary: own.clone(),
            can_ask_first: false,
            compared: Arc::new(own.clone()),
            online: own,
            isolated: CpuSet::new(),
            nodes: None,
            with_memory,
            lists_at: Nanos::ZERO,
        };
        here.look_at_masks();
        here.look_at_lists(root, proc);
        here
    }

    /// Looks again; tells what people should know if what may be a target is something else now.
    pub fn look(&mut self, root: &Path, proc: &ProcFolder, now: Nanos) -> Option<Vec<String>> {
        let before = self.clone();
        self.look_at_masks();
        let have_masks_changed = (&self.own, &self.ordinary) != (&before.own, &before.ordinary);
        if have_masks_changed || self.lists_at <= now {
            self.lists_at = now + LISTS_EVERY;
            self.look_at_lists(root, proc);
        }
        let said = self.news_since(&before);
        (self.targets() != before.targets() || !said.is_empty()).then_some(said)
    }

    fn look_at_masks(&mut self) {
        if let Ok(own) = affinity::get(0)
            && own != *self.own
        {
            self.own = Arc::new(own);
        }
        match affinity::get(1) {
            Ok(ordinary) => (self.ordinary, self.can_ask_first) = (ordinary, true),
            // Where the first process can never be asked, we have what processes have.
            Err(_) if !self.can_ask_first => self.ordinary = (*self.own).clone(),
            Err(_) => {}
        }
        let compared = self.own.or(&self.ordinary);
        if compared != *self.compared {
            self.compared = Arc::new(compared);
        }
    }

    fn look_at_lists(&mut self, root: &Path, proc: &ProcFolder) {
        if let Ok(isolated) = glance::isolated(root) {
            self.isolated = isolated;
        }
        if let Ok(online) = system::online_cpus(root) {
            // A container may be shown other CPUs than those that it has.
            self.online = online.or(&self.compared);
        }
        let standing = proc.status(1).or_else(|_| proc.status(std::process::id()));
        if let Ok(standing) = standing {
            self.nodes = standing.nodes;
        }
    }

    /// The CPUs that programs may be placed on.
    pub fn targets(&self) -> CpuSet {
        self.own.minus(&self.isolated)
    }

    /// What they might be placed on if nobody had bound us.
    pub fn whole(&self) -> CpuSet {
        self.online.minus(&self.isolated)
    }

    /// Whether a process of these CPUs, offline ones too, has none of its own.
    pub fn is_ordinary(&self, cpus: &CpuSet) -> bool {
        self.are_same(cpus, &self.ordinary)
    }

    /// Whether two masks are the same among the CPUs that are online.
    pub fn are_same(&self, one: &CpuSet, other: &CpuSet) -> bool {
        one.and(&self.online) == other.and(&self.online)
    }

    /// Whether a process with these nodes has a cpuset that says where its memory may come from.
    pub fn keeps_memory(&self, nodes: Option<&NodeSet>) -> bool {
        let (Some(its), Some(ordinary)) = (nodes, &self.nodes) else { return false };
        its.and(&self.with_memory) != ordinary.and(&self.with_memory)
    }

    /// What is to be said at the beginning.
    pub fn first_news(&self) -> Vec<String> {
        [self.isolated_words(), self.narrow_words()].into_iter().flatten().collect()
    }

    fn news_since(&self, before: &Here) -> Vec<String> {
        let isolated = (self.isolated != before.isolated).then(|| {
            let freed = || "no CPU is isolated any more".to_owned();
            self.isolated_words().unwrap_or_else(freed)
        });
        let is_news = self.narrow_words() != before.narrow_words();
        let narrow = self.narrow_words().filter(|_| is_news);
        [isolated, narrow].into_iter().flatten().collect()
    }

    fn isolated_words(&self) -> Option<String> {
        let isolated = &self.isolated;
        (!isolated.is_empty())
            .then(|| format!("the CPUs {isolated} are isolated: nothing is placed on them"))
    }

    fn narrow_words(&self) -> Option<String> {
        let (targets, whole) = (self.targets(), self.whole());
        (targets != whole).then(|| {
            let targets = match targets.is_empty() {
                true => "none".to_owned(),
                false => targets.to_string(),
            };
            format!(
                "programs are placed on {targets} of the CPUs {whole}, since this evenkeel may use no \
                 others itself: start it without taskset, CPUAffinity= or a cpuset to have all"
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

    fn here(own: &str, ordinary: &str, online: &str, isolated: &str) -> Here {
        Here {
            own: Arc::new(set(own)),
            ordinary: set(ordinary),
            can_ask_first: true,
            compared: Arc::new(set(own).or(&set(ordinary))),
            online: set(online),
            isolated: set(isolated),
            nodes: Some("0-1".parse().expect("a list")),
            with_memory: "0-1".parse().expect("a list"),
            lists_at: Nanos::ZERO,
        }
    }

    #[test]
    fn who_was_started_on_fewer_cpus_than_there_are_says_so_and_what_to_do() {
        let told = |own, isolated| here(own, "0-7", "0-7", isolated).first_news().join("; ");
        assert_eq!(told("0-7", ""), "");
        assert_eq!(told("0-3", "4-7"), "the CPUs 4-7 are isolated: nothing is placed on them");
        assert_eq!(
            told("0-3", "7"),
            "the CPUs 7 are isolated: nothing is placed on them; programs are placed on 0-3 of the \
             CPUs 0-6, since this evenkeel may use no others itself: start it without taskset, \
             CPUAffinity= or a cpuset to have all"
        );
        assert!(told("7", "7").contains("placed on none of the CPUs 0-6"));
    }

    #[test]
    fn what_changes_is_said_once_and_in_words_of_now() {
        let before = here("0-7", "0-7", "0-7", "");
        let news = |own, isolated| here(own, "0-7", "0-7", isolated).news_since(&before);
        assert_eq!(news("0-7", ""), Vec::<String>::new());
        assert_eq!(news("0-7", "6-7"), ["the CPUs 6-7 are isolated: nothing is placed on them"]);
        assert_eq!(news("0-1", "").len(), 1);
        let back = before.news_since(&here("0-1", "0-7", "0-7", "6-7"));
        assert_eq!(back, ["no CPU is isolated any more"]);
    }

    #[test]
    fn lists_are_read_again_within_ten_seconds_whatever_masks_do() {
        let world = tempfile::tempdir().expect("a folder");
        let cpu = world.path().join("sys/devices/system/cpu");
        std::fs::create_dir_all(&cpu).expect("ours");
        let proc = ProcFolder::open("/".as_ref()).expect("proc");
        let own = affinity::get(0).expect("own");
        let online = own.or(&affinity::get(1).unwrap_or_default());
        std::fs::write(cpu.join("online"), online.to_string()).expect("ours");
        let mut here = Here::new(world.path(), &proc, own.clone(), NodeSet::new());
        assert_eq!(here.targets(), own);
        let mut look = |secs| here.look(world.path(), &proc, Nanos::from_secs(secs));
        assert_eq!(look(1), None);
        let last: CpuSet = own.last().into_iter().collect();
        std::fs::write(cpu.join("isolated"), last.to_string()).expect("ours");
        assert_eq!(look(10), None, "not yet: reading costs");
        let said = format!("the CPUs {last} are isolated: nothing is placed on them");
        assert_eq!(look(11), Some(vec![said]));
        assert_eq!(look(30), None, "it is said once");
        // What cannot be read is as it was.
        std::fs::remove_file(cpu.join("isolated")).expect("ours");
        std::fs::create_dir(cpu.join("isolated")).expect("ours");
        assert_eq!(look(50), None);
        assert_eq!(here.targets(), own.minus(&last));
    }

    #[test]
    fn a_mask_of_somebody_elses_is_no_ordinary_one_and_cpus_that_are_offline_do_not_count() {
        let here = here("0-3", "0-6", "0-6", "");
        assert!(here.is_ordinary(&set("0-6")) && here.is_ordinary(&set("0-7")));
        assert!(!here.is_ordinary(&set("0-5")) && !here.is_ordinary(&set("0-3")));
    }

    #[test]
    fn a_cpuset_with_other_nodes_than_processes_have_keeps_memory() {
        let here = here("0-3", "0-3", "0-3", "");
        let keeps = |nodes: &str| here.keeps_memory(Some(&nodes.parse().expect("a list")));
        assert!(keeps("0") && keeps("1"));
        assert!(!keeps("0-1"));
        assert!(!keeps("0-7"), "nodes without memory do not matter");
        assert!(!here.keeps_memory(None));
    }
}
