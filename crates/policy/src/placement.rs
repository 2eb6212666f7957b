//! Functions on snapshots, and numbers of jobs per CPU, for several policies.

use base::{CpuId, CpuSet, NodeId};
use program::MemoryPolicy;
use sched::{Cause, JobState, JobView, PerJob, Snapshot};

use crate::declaration::names;

names! {
    /// CPUs that a job is bound to.
    pub(crate) enum Bind {
        /// A CPU for each thread.
        Cpu = "cpu",
        /// All CPUs of the domain.
        Domain = "domain",
    }
}

/// Number of jobs on each CPU.
#[derive(Debug, Default)]
pub(crate) struct JobsPerCpu {
    n_jobs: Vec<u32>,
}

impl JobsPerCpu {
    /// Counts the running jobs with an affinity, set by evenkeel or by other processes.
    pub fn count(&mut self, jobs: &[JobView<'_>]) {
        self.n_jobs.clear();
        let running = jobs.iter().filter(|job| job.state == JobState::Running);
        running.filter_map(|job| job.placed).for_each(|cpus| self.add(cpus));
    }

    pub fn add(&mut self, cpus: &CpuSet) {
        let Some(last) = cpus.last() else { return };
        if self.n_jobs.len() <= last.index() {
            self.n_jobs.resize(last.index() + 1, 0);
        }
        match cpus.only() {
            // Fast path: called for every job in every turn, and with `bind=cpu` most jobs have one CPU.
            Some(only) => self.n_jobs[only.index()] += 1,
            None => cpus.iter().for_each(|cpu| self.n_jobs[cpu.index()] += 1),
        }
    }

    pub fn remove(&mut self, cpus: &CpuSet) {
        for cpu in cpus.iter() {
            if let Some(n_jobs) = self.n_jobs.get_mut(cpu.index()) {
                *n_jobs = n_jobs.saturating_sub(1);
            }
        }
    }

    /// Returns the `n` CPUs of a set with the fewest jobs; ties: the lowest number. Returns the whole set if it has at
    /// most `n` CPUs.
    pub fn least_loaded(&self, cpus: &CpuSet, n: u32) -> CpuSet {
        let key = |&cpu: &CpuId| (self.n_jobs.get(cpu.index()).copied().unwrap_or(0), cpu);
        if n <= 1 {
            return cpus.iter().min_by_key(key).into_iter().collect();
        }
        let mut by_n_jobs: Vec<CpuId> = cpus.iter().collect();
        by_n_jobs.sort_unstable_by_key(key);
        by_n_jobs.into_iter().take(n as usize).collect()
    }
}

/// Returns whether a placed job lost CPUs that it needs, and must be placed again.
///
/// A job with at least as many usable CPUs as threads is not placed again.
pub(crate) fn has_lost_cpus(job: &JobView<'_>, usable: &CpuSet) -> bool {
    let Some(placed) = job.placed.filter(|_| job.state == JobState::Running && job.movable) else {
        return false;
    };
    if placed.is_subset(usable) {
        return false;
    }
    let n_left = placed.iter().filter(|&cpu| usable.contains(cpu)).count();
    n_left < placed.len().min(job.job.threads as usize)
}

/// Returns whether a job is placed on several domains, because it has more threads than a domain has CPUs. Such a job
/// loads all of these domains, also after a migration.
pub(crate) fn spans_domains(snapshot: &Snapshot<'_>, job: &JobView<'_>) -> bool {
    let Some(placed) = job.placed else { return false };
    // Fast path: called for every job in every turn.
    if job.domain.is_some_and(|idx| placed.is_subset(&snapshot.domains.get(idx).cpus)) {
        return false;
    }
    let usable = placed.and(snapshot.usable_cpus);
    !usable.is_empty() && snapshot.domains.of_set(&usable).is_none()
}

/// Returns the other usable CPUs of the node of `cpus`, for a job that needs more CPUs. If the CPUs have no node: all
/// other CPUs that the job may use.
pub(crate) fn other_cpus_of_node(
    snapshot: &Snapshot<'_>,
    job: &JobView<'_>,
    cpus: &CpuSet,
) -> CpuSet {
    let node = cpus.first().and_then(|cpu| snapshot.machine.cpu(cpu)?.node);
    let all = match node.and_then(|id| snapshot.machine.node(id)) {
        Some(node) => node.cpus.and(job.allowed),
        None => job.allowed.clone(),
    };
    all.and(snapshot.usable_cpus).minus(cpus)
}

/// Discards the state of ended jobs, and of earlier runs of jobs that start.
pub(crate) fn remove_old_state<T: Default>(state: &mut PerJob<T>, snapshot: &Snapshot<'_>) {
    if snapshot.turn.causes.contains(&Cause::Ended) {
        state.forget_ended(snapshot);
    }
    for job in snapshot.jobs.iter().filter(|job| job.state == JobState::Due) {
        *state.get_or_default(job.job.id) = T::default();
    }
}

/// Returns whether there are at least two usable CPUs and at least one domain.
pub(crate) fn can_place(snapshot: &Snapshot<'_>) -> bool {
    1 < snapshot.usable_cpus.len() && !snapshot.domains.is_empty()
}

/// Returns the first names of a list, and the number of further names.
pub(crate) fn some_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const N_NAMES: usize = 8;
    let names: Vec<&str> = names.collect();
    let mut list = names[..names.len().min(N_NAMES)].join(", ");
    if N_NAMES < names.len() {
        list.push_str(&format!(" and {} more", names.len() - N_NAMES));
    }
    list
}

/// Returns a value in permille as a decimal number: `0.250`.
pub(crate) fn permille_text(permille: u64) -> String {
    format!("{}.{:03}", permille / 1000, permille % 1000)
}

/// Returns the label of a set of CPUs: `cpu 3`, `cpus 0-3`.
pub(crate) fn cpus_label(cpus: &CpuSet) -> String {
    match cpus.only() {
        Some(only) => format!("cpu {}", only.0),
        None => format!("cpus {cpus}"),
    }
}

/// Returns the number of usable nodes with memory.
pub(crate) fn n_nodes_with_memory(snapshot: &Snapshot<'_>) -> usize {
    snapshot.machine.nodes_with_memory().len()
}

/// Returns the node of a job's declared memory policy, if the policy names exactly one node.
pub(crate) fn declared_node(job: &JobView<'_>) -> Option<NodeId> {
    let nodes = match job.job.memory.as_ref()? {
        MemoryPolicy::Bind(nodes) | MemoryPolicy::Preferred(nodes) => nodes,
        MemoryPolicy::Interleave(_) | MemoryPolicy::WeightedInterleave(_) => return None,
    };
    nodes.only()
}
