//! The processors of one program, and which it would better have.
//!
//! ```text
//!   processors=home   home │ nearest cluster │ next …           of equally near ones: more free, number
//!   processors=free   most free │ next …                        ties: number
//! ```
//!
//! Free ones are taken in that order, in each cluster those first that the program has already, then those
//! on the emptiest cores. What is still lacking is shared, the emptiest first, in the same order.

use std::cmp::Reverse;

use base::{CpuId, CpuSet};
use sched::{JobView, Snapshot};

use super::config::{Config, Processors};
use crate::places::Seats;

/// Hops are told by the firmware; where it tells nothing, another node is twice as far as one's own.
const DISTANCE_LOCAL: u32 = 10;
const DISTANCE_UNTOLD: u32 = 20;

/// Processors, and what is to be known of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub cpus: CpuSet,
    /// How many others use too.
    pub n_shared: usize,
    /// How many lie outside home.
    pub n_outside: usize,
}

impl Group {
    /// What a job has, among `seats` that count it.
    pub fn of(seen: &Snapshot<'_>, job: &JobView<'_>, home: usize, seats: &Seats) -> Group {
        let cpus = job.placed.map(|cpus| cpus.and(seen.usable_cpus)).unwrap_or_default();
        let n_own = cpus.iter().filter(|&cpu| seats.on(cpu).1 <= 1).count();
        Group::with(seen, job, home, n_own, cpus)
    }

    /// What it should have, among `seats` that do not count it; `had` is what it has already.
    pub fn allocate(
        config: &Config,
        seen: &Snapshot<'_>,
        job: &JobView<'_>,
        home: usize,
        seats: &Seats,
        had: &CpuSet,
    ) -> Group {
        let wanted = job.job.threads.max(1) as usize;
        let order = order(config, seen, job, home, seats);
        let possible = |idx: usize| seen.domains.get(idx).cpus.and(job.allowed);
        let mut cpus = CpuSet::new();
        for &idx in &order {
            if wanted <= cpus.len() {
                break;
            }
            let free: CpuSet = possible(idx).iter().filter(|&cpu| seats.is_free(cpu)).collect();
            for part in [free.and(had), free.minus(had)] {
                let n_missing = wanted - cpus.len();
                cpus = cpus.or(&seats.emptiest(&part, n_missing));
            }
        }
        if cpus.len() < wanted {
            cpus = share(seats, &order, possible, had, cpus, wanted);
        }
        let n_own = cpus.iter().filter(|&cpu| seats.is_free(cpu)).count();
        Group::with(seen, job, home, n_own, cpus)
    }

    /// Threads without a CPU of their own count as shared, in whatever way they are.
    fn with(
        seen: &Snapshot<'_>,
        job: &JobView<'_>,
        home: usize,
        n_own: usize,
        cpus: CpuSet,
    ) -> Group {
        let n_shared = (job.job.threads.max(1) as usize).saturating_sub(n_own);
        let n_outside = cpus.minus(&seen.domains.get(home).cpus).len();
        Group { cpus, n_shared, n_outside }
    }

    /// Whether this is worth a move from what the program has: fewer shared, or more at home.
    pub fn is_better(&self, config: &Config, than: &Group) -> bool {
        let outside = |group: &Group| match config.processors {
            Processors::Home => group.n_outside,
            Processors::Free => 0,
        };
        (self.n_shared, outside(self)) < (than.n_shared, outside(than))
    }

    /// Whether there is nothing to be wished for.
    pub fn is_good(&self, config: &Config) -> bool {
        self.n_shared == 0 && (self.n_outside == 0 || config.processors == Processors::Free)
    }

    /// The clusters that it lies on.
    pub fn clusters(&self, seen: &Snapshot<'_>) -> Vec<usize> {
        let is_on = |(_, domain): &(usize, &topology::Domain)| domain.cpus.intersects(&self.cpus);
        seen.domains.iter().filter(is_on).map(|(idx, _)| idx).collect()
    }
}

/// As many of them as are lacking from those that others have too, the emptiest first.
fn share(
    seats: &Seats,
    order: &[usize],
    possible: impl Fn(usize) -> CpuSet,
    had: &CpuSet,
    mut cpus: CpuSet,
    wanted: usize,
) -> CpuSet {
    let ranked = order.iter().enumerate().flat_map(|(rank, &idx)| {
        let rest: Vec<CpuId> = possible(idx).minus(&cpus).iter().collect();
        rest.into_iter().map(move |cpu| (rank, cpu))
    });
    let mut rest: Vec<(usize, CpuId)> = ranked.collect();
    rest.sort_by_key(|&(rank, cpu)| {
        let (on_core, on_cpu) = seats.on(cpu);
        (on_cpu, on_core, rank, !had.contains(cpu), cpu)
    });
    let n_missing = wanted - cpus.len();
    rest.into_iter().take(n_missing).for_each(|(_, cpu)| {
        cpus.insert(cpu);
    });
    cpus
}

/// The clusters in the order in which processors are taken from them.
fn order(
    config: &Config,
    seen: &Snapshot<'_>,
    job: &JobView<'_>,
    home: usize,
    seats: &Seats,
) -> Vec<usize> {
    let free = |idx: usize| {
        let possible = seen.domains.get(idx).cpus.and(job.allowed);
        possible.iter().filter(|&cpu| seats.is_free(cpu)).count()
    };
    let mut order: Vec<usize> = (0..seen.domains.len()).collect();
    order.sort_by_key(|&idx| {
        let far = match config.processors {
            Processors::Home => (idx != home, distance(seen, home, idx)),
            Processors::Free => (false, 0),
        };
        (far, Reverse(free(idx)), idx)
    });
    order
}

/// How far a cluster is from another, as the firmware tells of their nodes.
fn distance(seen: &Snapshot<'_>, from: usize, to: usize) -> u32 {
    let (from, to) = (seen.domains.get(from).node, seen.domains.get(to).node);
    if from == to {
        return DISTANCE_LOCAL;
    }
    let known = from.and_then(|from| seen.machine.node(from)?.distances.get(&to?).copied());
    known.unwrap_or(DISTANCE_UNTOLD)
}
