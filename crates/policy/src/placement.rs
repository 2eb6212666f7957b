//! Queries on snapshots and CPU counts that several policies need.

use base::{CpuId, CpuSet, NodeId};
use program::MemoryPolicy;
use sched::{JobState, JobView, Snapshot};

/// Number of jobs on each CPU.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    on: Vec<u32>,
}

impl Crowd {
    /// Counts the running jobs with an affinity, of this process or set by others.
    pub fn count(&mut self, jobs: &[JobView<'_>]) {
        self.on.clear();
        let running = jobs.iter().filter(|seen| seen.state == JobState::Running);
        running.filter_map(|seen| seen.placed).for_each(|cpus| self.add(cpus));
    }

    /// Adds a job.
    pub fn add(&mut self, cpus: &CpuSet) {
        let Some(last) = cpus.last() else { return };
        if self.on.len() <= last.index() {
            self.on.resize(last.index() + 1, 0);
        }
        cpus.iter().for_each(|cpu| self.on[cpu.index()] += 1);
    }

    /// Removes a job.
    pub fn remove(&mut self, cpus: &CpuSet) {
        for cpu in cpus.iter() {
            if let Some(n_jobs) = self.on.get_mut(cpu.index()) {
                *n_jobs = n_jobs.saturating_sub(1);
            }
        }
    }

    fn on(&self, cpu: CpuId) -> u32 {
        self.on.get(cpu.index()).copied().unwrap_or(0)
    }

    /// The `n` of these CPUs with the fewest jobs, ties by number; all if there are at most `n`.
    pub fn emptiest(&self, cpus: &CpuSet, n: u32) -> CpuSet {
        let key = |&cpu: &CpuId| (self.on(cpu), cpu);
        if n <= 1 {
            return cpus.iter().min_by_key(key).into_iter().collect();
        }
        let mut by_crowd: Vec<CpuId> = cpus.iter().collect();
        by_crowd.sort_unstable_by_key(key);
        by_crowd.into_iter().take(n as usize).collect()
    }
}

/// Whether a placed job lost CPUs that it needs, and must be placed again.
///
/// A job that keeps as many CPUs as it has threads stays: it had more CPUs than it needs.
pub(crate) fn has_lost_cpus(seen: &JobView<'_>, usable: &CpuSet) -> bool {
    let Some(placed) = seen.placed.filter(|_| seen.state == JobState::Running && seen.movable)
    else {
        return false;
    };
    if placed.is_subset(usable) {
        return false;
    }
    let n_left = placed.iter().filter(|&cpu| usable.contains(cpu)).count();
    n_left < placed.len().min(seen.job.threads as usize)
}

/// Whether a job is placed on several domains because it has more threads than one has CPUs. It loads all of
/// them, and no migration changes that.
pub(crate) fn spans_domains(seen: &Snapshot<'_>, job: &JobView<'_>) -> bool {
    let Some(placed) = job.placed else { return false };
    // Called for every job in every turn; nearly always it returns here.
    if job.domain.is_some_and(|idx| placed.is_subset(&seen.domains.get(idx).cpus)) {
        return false;
    }
    let left = placed.and(seen.usable_cpus);
    !left.is_empty() && seen.domains.of_set(&left).is_none()
}

/// The other CPUs of the node of some CPUs, for a job that needs more than these; without a node, all others that
/// the job may use.
pub(crate) fn other_cpus_of_node(seen: &Snapshot<'_>, job: &JobView<'_>, cpus: &CpuSet) -> CpuSet {
    let node = cpus.first().and_then(|cpu| seen.machine.cpu(cpu)?.node);
    let all = match node.and_then(|id| seen.machine.node(id)) {
        Some(node) => node.cpus.and(job.allowed),
        None => job.allowed.clone(),
    };
    all.and(seen.usable_cpus).minus(cpus)
}

/// Whether there are at least two CPUs, and domains.
pub(crate) fn can_place(seen: &Snapshot<'_>) -> bool {
    1 < seen.usable_cpus.len() && !seen.domains.is_empty()
}

/// The first of some names, and the number of the others.
pub(crate) fn some_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const N_NAMES: usize = 8;
    let names: Vec<&str> = names.collect();
    let mut list = names[..names.len().min(N_NAMES)].join(", ");
    if N_NAMES < names.len() {
        list.push_str(&format!(" and {} more", names.len() - N_NAMES));
    }
    list
}

/// A value in permille as a decimal number: `0.250`.
pub(crate) fn permille_text(permille: u64) -> String {
    format!("{}.{:03}", permille / 1000, permille % 1000)
}

/// The label of a set of CPUs: `cpu 3`, `cpus 0-3`.
pub(crate) fn cpus_label(cpus: &CpuSet) -> String {
    match cpus.first().filter(|first| cpus.last() == Some(*first)) {
        Some(only) => format!("cpu {}", only.0),
        None => format!("cpus {cpus}"),
    }
}

/// Number of usable nodes with memory.
pub(crate) fn n_nodes_with_memory(seen: &Snapshot<'_>) -> usize {
    seen.machine.nodes_with_memory().len()
}

/// The node that a job's memory policy names, if it is a single one.
pub(crate) fn declared_node(job: &JobView<'_>) -> Option<NodeId> {
    let nodes = match job.job.memory.as_ref()? {
        MemoryPolicy::Bind(nodes) | MemoryPolicy::Preferred(nodes) => nodes,
        MemoryPolicy::Interleave(_) | MemoryPolicy::WeightedInterleave(_) => return None,
    };
    nodes.first().filter(|_| nodes.len() == 1)
}
