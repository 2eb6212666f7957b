//! Slots of domains, for policies that map jobs to domains.
//!
//! ```text
//!   node 0   [a][b][ ][ ]      a core is a slot, and a job needs one for each of its threads
//!   node 1   [c][c][c][d]      with more threads than cores in total, each core has as many slots as
//!                              needed, in layers
//! ```
//!
//! First a policy maps jobs to domains by counting slots ([`DomainSlots`]); then [`assign_cpus`] selects CPUs. A job
//! that stays on its domain keeps its CPUs, unless it shares a core there while another core is idle. Cores with
//! the fewest jobs come first, of their SMT siblings the emptiest, then the lowest number. A job with more threads
//! than its domain has slots takes the whole domain and, where domains are caches or cores, further CPUs of the
//! node. It stays there: no other domain would fit it better.
//!
//! Unmanaged jobs keep their slots and stay where they are.

use std::cmp::Ordering;

use base::{CoreId, CpuId, CpuSet};
use sched::{JobState, JobView, Snapshot};
use topology::{Level, Machine};

use crate::placement;

/// A job that the policy maps to a domain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MovableJob<'s> {
    pub job: &'s JobView<'s>,
    /// Number of slots that it needs.
    pub threads: u32,
    /// Its domain; `None`: it is due, lost its CPUs, or its domain is unknown.
    pub now: Option<usize>,
    /// Whether it is bound to usable CPUs of the domain.
    pub is_bound: bool,
}

/// All jobs of a turn.
#[derive(Debug, Default)]
pub(crate) struct PlacementJobs<'s> {
    /// Jobs that the policy maps, by id.
    pub movable: Vec<MovableJob<'s>>,
    /// Jobs that stay where they are.
    pub fixed: Vec<&'s JobView<'s>>,
}

/// Total and taken slots of each domain.
#[derive(Clone, Debug)]
pub(crate) struct DomainSlots {
    list: Vec<SlotCount>,
    layers: u32,
}

#[derive(Clone, Copy, Debug)]
struct SlotCount {
    slots: u32,
    taken: u32,
}

impl<'s> PlacementJobs<'s> {
    /// Divides the jobs of a snapshot. A job that may use no usable CPU is in neither list.
    pub fn of(seen: &'s Snapshot<'_>) -> Self {
        let mut jobs = PlacementJobs::default();
        for job in seen.jobs {
            let stays = !job.movable || placement::spans_domains(seen, job);
            let has_domain = seen.domains.iter().any(|(_, d)| d.cpus.intersects(job.allowed));
            let is_lost = placement::has_lost_cpus(job, seen.usable_cpus);
            if job.state == JobState::Running && stays && !is_lost {
                jobs.fixed.push(job);
            } else if job.movable && has_domain {
                jobs.movable.push(job_slot(job, is_lost));
            }
        }
        jobs
    }

    fn n_threads(&self, domains: &topology::Domains) -> u32 {
        let of_movable: u32 = self.movable.iter().map(|job_slot| job_slot.threads).sum();
        let in_domains = |cpu: &CpuId| domains.of_cpu(*cpu).is_some();
        let placed = self.fixed.iter().filter_map(|job| job.placed);
        let of_fixed: usize = placed.map(|cpus| cpus.iter().filter(in_domains).count()).sum();
        of_movable.saturating_add(u32::try_from(of_fixed).unwrap_or(u32::MAX))
    }
}

fn job_slot<'s>(job: &'s JobView<'s>, is_lost: bool) -> MovableJob<'s> {
    let now = job.domain.filter(|_| job.state == JobState::Running && !is_lost);
    let is_bound = now.is_some() && job.placed.is_some();
    MovableJob { job, threads: job.job.threads.max(1), now, is_bound }
}

impl MovableJob<'_> {
    /// Whether a job has these CPUs already.
    pub fn keeps(&self, cpus: &CpuSet) -> bool {
        self.is_bound && self.job.placed.is_some_and(|placed| placed == cpus)
    }

    /// Its CPUs that became unusable.
    pub fn lost_cpus(&self) -> Option<&CpuSet> {
        let is_lost = self.job.state == JobState::Running && self.now.is_none();
        self.job.placed.filter(|_| is_lost)
    }
}

impl DomainSlots {
    /// Slots in which only the fixed jobs are.
    pub fn of(seen: &Snapshot<'_>, jobs: &PlacementJobs<'_>) -> Self {
        let cores: Vec<u32> =
            seen.domains.iter().map(|(_, d)| n_cores(seen.machine, &d.cpus)).collect();
        let n_cores = cores.iter().sum::<u32>().max(1);
        let layers = jobs.n_threads(seen.domains).div_ceil(n_cores).max(1);
        let count = |cores: u32| SlotCount { slots: cores.saturating_mul(layers), taken: 0 };
        let mut slots = DomainSlots { list: cores.into_iter().map(count).collect(), layers };
        for cpus in jobs.fixed.iter().filter_map(|job| job.placed) {
            for idx in cpus.iter().filter_map(|cpu| seen.domains.of_cpu(cpu)) {
                slots.list[idx].taken += 1;
            }
        }
        slots
    }

    /// Number of slots of a domain.
    pub fn total(&self, idx: usize) -> u32 {
        self.list[idx].slots
    }

    /// Number of taken slots; larger than the number of slots if the domain is overcommitted.
    pub fn taken(&self, idx: usize) -> u32 {
        self.list[idx].taken
    }

    /// Number of free slots.
    pub fn free(&self, idx: usize) -> u32 {
        let SlotCount { slots, taken } = self.list[idx];
        slots.saturating_sub(taken)
    }

    /// Number of slots that a job would take in a domain; 0 if it may not run there.
    pub fn needed(&self, seen: &Snapshot<'_>, job_slot: &MovableJob<'_>, idx: usize) -> u32 {
        let cpus = &seen.domains.get(idx).cpus;
        // Nearly every job may use all CPUs.
        if cpus.is_subset(job_slot.job.allowed) {
            return job_slot.threads.min(self.total(idx));
        }
        let possible = cpus.and(job_slot.job.allowed);
        job_slot.threads.min(n_cores(seen.machine, &possible).saturating_mul(self.layers))
    }

    /// Whether a job may run on a domain.
    pub fn allows(seen: &Snapshot<'_>, job_slot: &MovableJob<'_>, idx: usize) -> bool {
        seen.domains.get(idx).cpus.intersects(job_slot.job.allowed)
    }

    /// Whether a domain has enough free slots for a job.
    pub fn fits(&self, seen: &Snapshot<'_>, job_slot: &MovableJob<'_>, idx: usize) -> bool {
        DomainSlots::allows(seen, job_slot, idx)
            && self.needed(seen, job_slot, idx) <= self.free(idx)
    }

    /// Adds a job to a domain.
    pub fn add(&mut self, seen: &Snapshot<'_>, job_slot: &MovableJob<'_>, idx: usize) {
        self.list[idx].taken += self.needed(seen, job_slot, idx);
    }

    /// Removes a job from a domain.
    pub fn remove(&mut self, seen: &Snapshot<'_>, job_slot: &MovableJob<'_>, idx: usize) {
        let need = self.needed(seen, job_slot, idx);
        self.list[idx].taken = self.list[idx].taken.saturating_sub(need);
    }

    /// Compares the shares of taken slots of two domains.
    pub fn compare(&self, a: usize, b: usize) -> Ordering {
        let (a, b) = (self.list[a], self.list[b]);
        let of = |one: SlotCount, other: SlotCount| u64::from(one.taken) * u64::from(other.slots);
        of(a, b).cmp(&of(b, a))
    }

    /// The domain with the smallest share of taken slots; ties: the domain of the job, then the lowest number.
    pub fn emptiest(
        &self,
        job_slot: &MovableJob<'_>,
        among: impl Iterator<Item = usize>,
    ) -> Option<usize> {
        among.min_by(|&a, &b| {
            let is_elsewhere = |idx| job_slot.now != Some(idx);
            let by_load = self.compare(a, b);
            by_load.then(is_elsewhere(a).cmp(&is_elsewhere(b))).then(a.cmp(&b))
        })
    }
}

/// Number of jobs on each CPU and on each core.
#[derive(Clone, Debug)]
pub(crate) struct CpuOccupancy {
    core_of: Vec<Option<CoreId>>,
    on_cpu: Vec<u32>,
    on_core: Vec<u32>,
}

/// The CPUs of each movable job in the domain that it is mapped to.
pub(crate) fn assign_cpus(
    seen: &Snapshot<'_>,
    jobs: &PlacementJobs<'_>,
    domains: &[usize],
) -> Vec<CpuSet> {
    let mut occupancy = CpuOccupancy::new(seen.machine);
    jobs.fixed.iter().filter_map(|job| job.placed).for_each(|cpus| occupancy.add(cpus));
    let limits = limits(seen, jobs, domains);
    let mut chosen: Vec<CpuSet> = vec![CpuSet::new(); domains.len()];
    let mut unassigned = Vec::new();
    for (at, job_slot) in jobs.movable.iter().enumerate() {
        match kept(seen, job_slot, domains[at])
            .filter(|cpus| occupancy.fit(cpus, limits[domains[at]]))
        {
            Some(cpus) => {
                occupancy.add(&cpus);
                chosen[at] = cpus;
            }
            None => unassigned.push(at),
        }
    }
    // Jobs with the fewest possible CPUs first.
    let n_possible = |at: usize| possible(seen, &jobs.movable[at], domains[at]).len();
    unassigned.sort_by_cached_key(|&at| (n_possible(at), at));
    for at in unassigned {
        chosen[at] = occupancy.choose(seen, &jobs.movable[at], domains[at]);
        occupancy.add(&chosen[at]);
    }
    chosen
}

/// Number of jobs per core of each domain if all are spread evenly.
fn limits(seen: &Snapshot<'_>, jobs: &PlacementJobs<'_>, domains: &[usize]) -> Vec<u32> {
    let mut full = DomainSlots::of(seen, jobs);
    for (job_slot, &idx) in jobs.movable.iter().zip(domains) {
        full.add(seen, job_slot, idx);
    }
    let cores = |idx: usize| (full.total(idx) / full.layers).max(1);
    (0..full.list.len()).map(|idx| full.taken(idx).div_ceil(cores(idx)).max(1)).collect()
}

fn possible(seen: &Snapshot<'_>, job_slot: &MovableJob<'_>, idx: usize) -> CpuSet {
    seen.domains.get(idx).cpus.and(job_slot.job.allowed)
}

/// The CPUs that a job has in a domain already, if they suffice.
fn kept(seen: &Snapshot<'_>, job_slot: &MovableJob<'_>, idx: usize) -> Option<CpuSet> {
    let is_there = job_slot.is_bound && job_slot.now == Some(idx);
    let cpus = job_slot.job.placed.filter(|_| is_there)?.and(seen.usable_cpus);
    let possible = possible(seen, job_slot, idx);
    let enough = possible.len().min(job_slot.threads as usize) <= cpus.len();
    (enough && cpus.is_subset(&possible)).then_some(cpus)
}

impl CpuOccupancy {
    /// Without jobs.
    pub fn new(machine: &Machine) -> Self {
        let n_cpus = machine.cpus().last().map_or(0, |cpu| cpu.id.index() + 1);
        let n_cores = machine.cores().last().map_or(0, |core| core.id.index() + 1);
        let mut core_of = vec![None; n_cpus];
        machine.cpus().iter().for_each(|cpu| core_of[cpu.id.index()] = cpu.core);
        CpuOccupancy { core_of, on_cpu: vec![0; n_cpus], on_core: vec![0; n_cores] }
    }

    /// Whether a CPU has no job.
    pub fn is_free(&self, cpu: CpuId) -> bool {
        self.on(cpu).1 == 0
    }

    /// Adds a job to these CPUs.
    pub fn add(&mut self, cpus: &CpuSet) {
        self.change(cpus, |n| *n += 1);
    }

    /// Removes a job from these CPUs.
    pub fn remove(&mut self, cpus: &CpuSet) {
        self.change(cpus, |n| *n = n.saturating_sub(1));
    }

    fn change(&mut self, cpus: &CpuSet, change: fn(&mut u32)) {
        for cpu in cpus.iter() {
            let core = self.core(cpu);
            self.on_cpu.get_mut(cpu.index()).map(change);
            core.and_then(|core| self.on_core.get_mut(core.index())).map(change);
        }
    }

    fn core(&self, cpu: CpuId) -> Option<CoreId> {
        self.core_of.get(cpu.index()).copied().flatten()
    }

    /// Number of jobs on the core of a CPU, and on the CPU.
    pub fn on(&self, cpu: CpuId) -> (u32, u32) {
        let on_cpu = self.on_cpu.get(cpu.index()).copied().unwrap_or(0);
        let on_core = self.core(cpu).and_then(|core| self.on_core.get(core.index()).copied());
        (on_core.unwrap_or(on_cpu), on_cpu)
    }

    /// Whether no core of these would have more jobs than the limit.
    fn fit(&mut self, cpus: &CpuSet, limit: u32) -> bool {
        self.crowding(cpus).0 <= limit
    }

    /// CPUs of a domain for a job: those that it has, unless others are emptier.
    fn choose(&mut self, seen: &Snapshot<'_>, job_slot: &MovableJob<'_>, idx: usize) -> CpuSet {
        let possible = possible(seen, job_slot, idx);
        let n_required = job_slot.threads as usize;
        let best = self.emptiest(&possible, n_required);
        if let Some(kept) = kept(seen, job_slot, idx)
            && self.crowding(&kept) <= self.crowding(&best)
        {
            return kept;
        }
        let n_missing = n_required.saturating_sub(possible.len());
        if n_missing == 0 || seen.domains.level() == Level::Node {
            return best;
        }
        best.or(&self
            .emptiest(&placement::other_cpus_of_node(seen, job_slot.job, &possible), n_missing))
    }

    /// Occupancy of some CPUs with one more job: of the most occupied core, then the sum.
    fn crowding(&mut self, cpus: &CpuSet) -> (u32, u32) {
        self.add(cpus);
        let on = || cpus.iter().map(|cpu| self.on(cpu).0);
        let crowding = (on().max().unwrap_or(0), on().sum());
        self.remove(cpus);
        crowding
    }

    /// The `n` emptiest of some CPUs, one by one: each selected CPU occupies its core.
    pub fn emptiest(&self, cpus: &CpuSet, n: usize) -> CpuSet {
        if n <= 1 {
            let best = cpus.iter().min_by_key(|&cpu| (self.on(cpu), cpu));
            return best.filter(|_| n == 1).into_iter().collect();
        }
        let mut with = self.clone();
        let (mut left, mut taken) = (cpus.clone(), CpuSet::new());
        while taken.len() < n
            && let Some(best) = left.iter().min_by_key(|&cpu| (with.on(cpu), cpu))
        {
            left.remove(best);
            taken.insert(best);
            with.add(&CpuSet::from_iter([best]));
        }
        taken
    }
}

/// Number of cores of some CPUs; a CPU with an unknown core counts as one.
pub(crate) fn n_cores(machine: &Machine, cpus: &CpuSet) -> u32 {
    let is_first = |cpu: &CpuId| {
        let core = machine.cpu(*cpu).and_then(|cpu| machine.core(cpu.core?));
        core.is_none_or(|core| core.cpus.and(cpus).first() == Some(*cpu))
    };
    u32::try_from(cpus.iter().filter(is_first).count()).unwrap_or(u32::MAX)
}
