//! A run of hogs under one policy: the affinity masks of the jobs, and the nodes of their pages.
//!
//! ```text
//!   workload ── evenkeel run --policy X ──► masks (sched_getaffinity), pages (numa_maps)
//!                     └ SIGKILL at the end ── evenkeel restore ──► every mask restored, no undo record left
//! ```
//!
//! The guest has no hardware counters, so each job declares a profile. The three profiles belong to different
//! classes of every policy.

use std::collections::BTreeMap;

use base::CpuSet;
use rustix::process::Signal;
use tests::dir::Dir;
use tests::evenkeel::EvenkeelRun;
use tests::process::{all_cpus, is_running, mask, until_or};

use crate::nodes::{self, KernelSetting, hog};

/// Name, LLC misses per 1000 instructions, and LLC accesses per 1000 instructions. At 10^9 instructions per second the
/// first program has a memory traffic of 2.6 GB/s: this program is a devil, and belongs to Group 1 of the policy
/// `divided`. The second program is cache-sensitive and causes no contention.
const PROFILES: [(&str, f64, f64); 3] =
    [("devil", 40.0, 60.0), ("rabbit", 0.5, 50.0), ("turtle", 0.1, 0.5)];

/// Memory of each hog.
pub const HOG_KIB: u64 = 2 * 1024;

/// A run with its started jobs.
pub struct PolicyRun {
    tool: EvenkeelRun,
    pids: Vec<u32>,
    all: CpuSet,
    _no_balancing: KernelSetting,
}

/// Returns one hog per class. The class `d`, `r` or `t` selects the profile.
pub fn hogs(classes: &str) -> String {
    let job = |(idx, class): (usize, char)| {
        let profile = PROFILES.iter().find(|(name, ..)| name.starts_with(class));
        let profile = profile.expect("a profile").0;
        hog(&format!("{profile}-{idx}"), "2M", &format!("profile = \"{profile}\""))
    };
    classes.chars().enumerate().map(job).collect()
}

pub fn dir_with_profiles() -> Dir {
    let dir = Dir::new();
    for (name, misses, accesses) in PROFILES {
        let text = format!(
            "version = 2\nname = \"{name}\"\ncpu_time_ns = 10000000000\n[[phase]]\nshare = 1.0\n\
             instructions = 1e10\ncycles_per_instruction = 2.0\nllc_accesses_per_1000 = {accesses:?}\n\
             [phase.curve]\ncache_bytes = [1048576, 1073741824]\n\
             misses_per_1000 = [{misses:?}, {misses:?}]\n"
        );
        dir.write(&format!("{name}.profile.toml"), text);
    }
    dir
}

impl PolicyRun {
    /// Starts `n_jobs` jobs under a policy and waits until all have allocated their memory.
    pub fn start(policy: &str, jobs: &str, n_jobs: usize) -> Self {
        let _no_balancing = KernelSetting::no_balancing();
        let options = ["--policy", policy, "--seed", "5"];
        let mut tool = EvenkeelRun::new(dir_with_profiles(), jobs, &options);
        tool.wait_for_start(n_jobs);
        let pids: Vec<u32> = tool.processes().into_values().collect();
        assert_eq!(pids.len(), n_jobs, "one process per job");
        let run = PolicyRun { tool, pids, all: all_cpus(), _no_balancing };
        for job in 0..n_jobs {
            run.until("all memory of a job", || HOG_KIB <= run.memory(job).values().sum());
        }
        run
    }

    /// Polls a condition until it is true. A failure prints the masks and the output of `evenkeel explain`.
    pub fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let are_running = || self.pids.iter().all(|&pid| is_running(pid));
        let details = || {
            let masks: Vec<_> = (0..self.pids.len()).map(|job| self.mask(job)).collect();
            format!("{masks:?}\n{}", self.tool.explain())
        };
        until_or(what, || !are_running() || holds(), details);
        assert!(are_running(), "a job exited before: {what}\n{}", details());
    }

    pub fn mask(&self, job: usize) -> CpuSet {
        mask(self.pids[job]).unwrap_or_default()
    }

    /// Returns the node that contains the mask of a job.
    pub fn node(&self, job: usize) -> Option<u32> {
        nodes::node_of(&self.mask(job))
    }

    /// Returns the jobs bound to each node. The key of a mask of several nodes is `u32::MAX`.
    pub fn by_node(&self) -> BTreeMap<u32, Vec<usize>> {
        let mut by_node: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for job in 0..self.pids.len() {
            by_node.entry(self.node(job).unwrap_or(u32::MAX)).or_default().push(job);
        }
        by_node
    }

    pub fn memory(&self, job: usize) -> BTreeMap<u32, u64> {
        nodes::anonymous_kib(self.pids[job])
    }

    /// Returns whether 98 % of the pages of a job are on a node.
    pub fn has_memory_on(&self, job: usize, node: u32) -> bool {
        980 <= nodes::permille_on(&self.memory(job), node)
    }

    pub fn explain(&self) -> String {
        self.tool.explain().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    pub fn journal(&self) -> String {
        self.tool.journal()
    }

    /// Kills evenkeel and restores the masks. Checks that the jobs continue with their former masks and that no undo
    /// record exists.
    pub fn kill_and_restore(mut self) {
        self.tool.end_by(Signal::KILL);
        let output = self.tool.restore(None);
        for &pid in &self.pids {
            assert!(is_running(pid), "a job outlives evenkeel: {output}");
            assert_eq!(mask(pid).as_ref(), Some(&self.all), "{pid}: {output}");
        }
        assert!(self.tool.records().is_empty(), "{:?}: {output}", self.tool.records());
    }
}
