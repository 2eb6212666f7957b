//! The CPUs of a job: selection and comparison.
//!
//! ```text
//!   processors=home   home │ nearest cluster │ next …           ties: more free CPUs, number
//!   processors=free   most free │ next …                        ties: number
//! ```
//!
//! Free CPUs are selected in this order of clusters: in each cluster first the current CPUs of the job, then CPUs on
//! the cores with the fewest jobs. If there are fewer free CPUs than threads, CPUs with the fewest jobs are shared
//! first.

use std::cmp::Reverse;

use base::{CpuId, CpuSet};
use sched::{JobView, Snapshot};

use super::declaration::{Config, Processors};
use crate::slots::CpuOccupancy;

/// SLIT distance of the local node.
const DISTANCE_LOCAL: u32 = 10;
/// Assumed distance to another node if the kernel reports none.
const DISTANCE_UNKNOWN: u32 = 20;

/// CPUs of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CpuGroup {
    pub cpus: CpuSet,
    /// Number of threads without a CPU of their own.
    pub n_shared: usize,
    /// Number of CPUs outside home.
    pub n_outside: usize,
}

impl CpuGroup {
    /// Creates the group of the current CPUs of a job; `occupancy` counts the job.
    pub fn of(
        snapshot: &Snapshot<'_>,
        job: &JobView<'_>,
        home: usize,
        occupancy: &CpuOccupancy,
    ) -> CpuGroup {
        let cpus = job.placed.map(|cpus| cpus.and(snapshot.usable_cpus)).unwrap_or_default();
        let n_own = cpus.iter().filter(|&cpu| occupancy.n_jobs_on(cpu).1 <= 1).count();
        CpuGroup::with(snapshot, job, home, n_own, cpus)
    }

    /// Selects CPUs for a job. `occupancy` does not count the job; `current` are the current CPUs of the job.
    pub fn allocate(
        config: &Config,
        snapshot: &Snapshot<'_>,
        job: &JobView<'_>,
        home: usize,
        occupancy: &CpuOccupancy,
        current: &CpuSet,
    ) -> CpuGroup {
        let n_threads = job.job.threads.max(1) as usize;
        let order = order(config, snapshot, job, home, occupancy);
        let possible = |idx: usize| snapshot.domains.get(idx).cpus.and(job.allowed);
        let mut cpus = CpuSet::new();
        for &idx in &order {
            if n_threads <= cpus.len() {
                break;
            }
            let free: CpuSet = possible(idx).iter().filter(|&cpu| occupancy.is_free(cpu)).collect();
            for part in [free.and(current), free.minus(current)] {
                let n_missing = n_threads - cpus.len();
                cpus = cpus.or(&occupancy.least_occupied(&part, n_missing));
            }
        }
        if cpus.len() < n_threads {
            cpus = share(occupancy, &order, possible, current, cpus, n_threads);
        }
        let n_own = cpus.iter().filter(|&cpu| occupancy.is_free(cpu)).count();
        CpuGroup::with(snapshot, job, home, n_own, cpus)
    }

    fn with(
        snapshot: &Snapshot<'_>,
        job: &JobView<'_>,
        home: usize,
        n_own: usize,
        cpus: CpuSet,
    ) -> CpuGroup {
        let n_shared = (job.job.threads.max(1) as usize).saturating_sub(n_own);
        let n_outside = cpus.minus(&snapshot.domains.get(home).cpus).len();
        CpuGroup { cpus, n_shared, n_outside }
    }

    /// Returns whether these CPUs are better than other CPUs: fewer threads share a CPU or, if as many threads share a
    /// CPU, fewer CPUs are outside home.
    pub fn is_better(&self, config: &Config, than: &CpuGroup) -> bool {
        let outside = |group: &CpuGroup| match config.processors {
            Processors::Home => group.n_outside,
            Processors::Free => 0,
        };
        (self.n_shared, outside(self)) < (than.n_shared, outside(than))
    }

    /// Returns whether no other CPUs can be better.
    pub fn is_optimal(&self, config: &Config) -> bool {
        self.n_shared == 0 && (self.n_outside == 0 || config.processors == Processors::Free)
    }

    /// Returns the clusters of the CPUs.
    pub fn clusters(&self, snapshot: &Snapshot<'_>) -> Vec<usize> {
        let is_on = |(_, domain): &(usize, &topology::Domain)| domain.cpus.intersects(&self.cpus);
        snapshot.domains.iter().filter(is_on).map(|(idx, _)| idx).collect()
    }
}

/// Adds CPUs that other jobs use too; CPUs with the fewest jobs are added first.
fn share(
    occupancy: &CpuOccupancy,
    order: &[usize],
    possible: impl Fn(usize) -> CpuSet,
    current: &CpuSet,
    mut cpus: CpuSet,
    n_threads: usize,
) -> CpuSet {
    let ranked = order.iter().enumerate().flat_map(|(rank, &idx)| {
        let shareable: Vec<CpuId> = possible(idx).minus(&cpus).iter().collect();
        shareable.into_iter().map(move |cpu| (rank, cpu))
    });
    let mut shareable: Vec<(usize, CpuId)> = ranked.collect();
    shareable.sort_by_key(|&(rank, cpu)| {
        let (on_core, on_cpu) = occupancy.n_jobs_on(cpu);
        (on_cpu, on_core, rank, !current.contains(cpu), cpu)
    });
    let n_missing = n_threads - cpus.len();
    shareable.into_iter().take(n_missing).for_each(|(_, cpu)| {
        cpus.insert(cpu);
    });
    cpus
}

/// Returns the clusters in the order in which CPUs come from them.
fn order(
    config: &Config,
    snapshot: &Snapshot<'_>,
    job: &JobView<'_>,
    home: usize,
    occupancy: &CpuOccupancy,
) -> Vec<usize> {
    let free = |idx: usize| {
        let possible = snapshot.domains.get(idx).cpus.and(job.allowed);
        possible.iter().filter(|&cpu| occupancy.is_free(cpu)).count()
    };
    let mut order: Vec<usize> = (0..snapshot.domains.len()).collect();
    order.sort_by_key(|&idx| {
        let distance = match config.processors {
            Processors::Home => (idx != home, distance(snapshot, home, idx)),
            Processors::Free => (false, 0),
        };
        (distance, Reverse(free(idx)), idx)
    });
    order
}

/// Returns the SLIT distance of the nodes of two clusters.
fn distance(snapshot: &Snapshot<'_>, from: usize, to: usize) -> u32 {
    let (from, to) = (snapshot.domains.get(from).node, snapshot.domains.get(to).node);
    if from == to {
        return DISTANCE_LOCAL;
    }
    let known = from.and_then(|from| snapshot.machine.node(from)?.distances.get(&to?).copied());
    known.unwrap_or(DISTANCE_UNKNOWN)
}
