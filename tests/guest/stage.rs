//! A run of hogs under a policy, and what a policy's promises are about: who is bound where, and on which
//! node the pages lie.
//!
//! ```text
//!   workload ── evenkeel run --policy X ──► masks (sched_getaffinity), pages (numa_maps)
//!                     └ killed in the end ── evenkeel restore ──► every mask as before, no record left
//! ```
//!
//! The guest counts no events of processors, so programs are what their profiles declare. There are three
//! of them, in figures that every policy tells apart.

use std::collections::BTreeMap;

use base::CpuSet;

use crate::nodes::{self, Knob};
use crate::play::{World, lives, mask};
use crate::undo::Tool;

const BALANCING: &str = "/proc/sys/kernel/numa_balancing";

/// Name, misses and last-level cache accesses per 1000 instructions. At 10^9 instructions a second the first
/// moves 2.6 GB/s: a devil, of Group 1 of the divided policy. The second is hurt and hurts nobody.
const PROFILES: [(&str, f64, f64); 3] =
    [("devil", 40.0, 60.0), ("rabbit", 0.5, 50.0), ("turtle", 0.1, 0.5)];

/// Memory that each hog takes.
pub const HOG_KIB: u64 = 2 * 1024;

/// A run with its jobs.
pub struct Stage {
    run: Tool,
    pids: Vec<u32>,
    all: CpuSet,
    _world: World,
    _still: Knob,
}

/// A hog with these further lines in its part of the workload file.
pub fn hog(name: &str, lines: &str) -> String {
    format!(
        "[[job]]\nname = \"{name}\"\nload = \"hog --size 2M --for 300s --no-self-check\"\n{lines}\n"
    )
}

/// Hogs one after the other, each with a letter for its profile: `d`, `r` or `t`.
pub fn cast(letters: &str) -> String {
    let one = |(idx, letter): (usize, char)| {
        let known = PROFILES.iter().find(|(name, ..)| name.starts_with(letter));
        let profile = known.expect("a profile").0;
        hog(&format!("{profile}-{idx}"), &format!("profile = \"{profile}\""))
    };
    letters.chars().enumerate().map(one).collect()
}

/// A world that holds the profiles.
pub fn world() -> World {
    let world = World::new();
    for (name, misses, accesses) in PROFILES {
        let text = format!(
            "version = 1\nname = \"{name}\"\ncpu_time_ns = 10000000000\n[[phase]]\nshare = 1.0\n\
             instructions = 1e10\ncycles_per_instruction = 2.0\nllc_accesses_per_1000 = {accesses:?}\n\
             [phase.curve]\ncache_bytes = [1048576, 1073741824]\n\
             misses_per_1000 = [{misses:?}, {misses:?}]\n"
        );
        std::fs::write(world.path(&format!("{name}.profile.toml")), text).expect("ours");
    }
    world
}

impl Stage {
    /// Starts so many jobs under a policy, and waits until all have taken their memory.
    pub fn begin(policy: &str, jobs: &str, n_jobs: usize) -> Self {
        let still = Knob::set(BALANCING, "0");
        let (world, all) = (world(), linux::affinity::get(0).expect("own mask"));
        let mut run = Tool::run(&world, jobs, &["--policy", policy, "--seed", "5"]);
        run.begin(n_jobs);
        let pids: Vec<u32> = run.processes().into_values().collect();
        assert_eq!(pids.len(), n_jobs, "one process a job");
        let stage = Stage { run, pids, all, _world: world, _still: still };
        for job in 0..n_jobs {
            stage.until("all of its memory", || HOG_KIB <= stage.memory(job).values().sum());
        }
        stage
    }

    /// Asks again and again until something holds; else tells what the run says of itself.
    pub fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let alive = || self.pids.iter().all(|&pid| lives(pid));
        let known = || {
            let masks: Vec<_> = (0..self.pids.len()).map(|job| self.mask(job)).collect();
            format!("{masks:?}\n{}", self.run.explain())
        };
        nodes::until_or(what, || !alive() || holds(), known);
        assert!(alive(), "a job ended before: {what}\n{}", known());
    }

    pub fn mask(&self, job: usize) -> CpuSet {
        mask(self.pids[job]).unwrap_or_default()
    }

    /// The node that holds all of a job's CPUs.
    pub fn node(&self, job: usize) -> Option<u32> {
        nodes::node_of(&self.mask(job))
    }

    /// The jobs that are bound within a node, by node.
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

    /// Whether nearly all pages of a job lie on a node.
    pub fn has_memory_on(&self, job: usize, node: u32) -> bool {
        980 <= nodes::permille_on(&self.memory(job), node)
    }

    pub fn explain(&self) -> String {
        self.run.explain().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    pub fn journal(&self) -> String {
        self.run.journal()
    }

    /// Kills evenkeel; its jobs live on with every mask put back, and the record is gone.
    pub fn put_back(mut self) {
        self.run.kill();
        let said = self.run.restore();
        for &pid in &self.pids {
            assert!(lives(pid), "a job outlives its evenkeel: {said}");
            assert_eq!(mask(pid).as_ref(), Some(&self.all), "{pid}: {said}");
        }
        assert!(self.run.records().is_empty(), "{:?}: {said}", self.run.records());
    }
}
