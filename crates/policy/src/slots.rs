//! Slots of domains, for policies that map jobs to domains.
//!
//! ```text
//!   node 0   [a][b][ ][ ]      a core is a slot, and a job needs one for each of its threads
//!   node 1   [c][c][c][d]      with more threads than cores in total, each core has as many slots as
//!                              needed, in layers
//! ```
//!
//! First a policy maps jobs to domains by counting slots ([`DomainSlots`]). Then [`assign_cpus`] selects CPUs. A job
//! that stays on its domain keeps its CPUs, unless it shares a core while another core of the domain is idle. CPUs are
//! selected by three criteria, in this order: fewest jobs on the core, fewest jobs on the CPU, lowest number. A job
//! with more threads than its domain has slots gets the whole domain and, if domains are caches or cores, further CPUs
//! of the node. Such a job stays on its domain, because no other domain has enough slots either.
//!
//! Unmanaged jobs keep their slots and their CPUs.

use std::cmp::Ordering;

use base::{CoreId, CpuId, CpuSet};
use sched::{JobState, JobView, Snapshot};
use topology::{Level, Machine};

use crate::placement;

/// A job that the policy maps to a domain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MovableJob<'s> {
    pub job: &'s JobView<'s>,
    /// Number of slots that the job needs.
    pub threads: u32,
    /// The domain of the job; `None`: the job is due, lost its CPUs, or its domain is unknown.
    pub now: Option<usize>,
    /// Whether the job is bound to usable CPUs of the domain.
    pub is_bound: bool,
}

/// All jobs of a turn.
#[derive(Debug, Default)]
pub(crate) struct PlacementJobs<'s> {
    /// Jobs that the policy maps, by id.
    pub movable: Vec<MovableJob<'s>>,
    /// Jobs that the policy does not move.
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
    /// Divides the jobs of a snapshot into movable and fixed jobs. A movable job that may use no CPU of a domain is in
    /// neither list.
    pub fn of(snapshot: &'s Snapshot<'_>) -> Self {
        let mut jobs = PlacementJobs::default();
        for job in snapshot.jobs {
            let stays = !job.movable || placement::spans_domains(snapshot, job);
            let has_domain = snapshot.domains.iter().any(|(_, d)| d.cpus.intersects(job.allowed));
            let is_lost = placement::has_lost_cpus(job, snapshot.usable_cpus);
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
    /// Returns whether a job has these CPUs already.
    pub fn keeps(&self, cpus: &CpuSet) -> bool {
        self.is_bound && self.job.placed.is_some_and(|placed| placed == cpus)
    }

    /// Returns the CPUs of the job, if they became unusable.
    pub fn lost_cpus(&self) -> Option<&CpuSet> {
        let is_lost = self.job.state == JobState::Running && self.now.is_none();
        self.job.placed.filter(|_| is_lost)
    }
}

impl DomainSlots {
    /// Creates the slots of all domains, occupied only by the fixed jobs.
    pub fn of(snapshot: &Snapshot<'_>, jobs: &PlacementJobs<'_>) -> Self {
        let cores: Vec<u32> =
            snapshot.domains.iter().map(|(_, d)| n_cores(snapshot.machine, &d.cpus)).collect();
        let n_cores = cores.iter().sum::<u32>().max(1);
        let layers = jobs.n_threads(snapshot.domains).div_ceil(n_cores).max(1);
        let count = |cores: u32| SlotCount { slots: cores.saturating_mul(layers), taken: 0 };
        let mut slots = DomainSlots { list: cores.into_iter().map(count).collect(), layers };
        for cpus in jobs.fixed.iter().filter_map(|job| job.placed) {
            for idx in cpus.iter().filter_map(|cpu| snapshot.domains.of_cpu(cpu)) {
                slots.list[idx].taken += 1;
            }
        }
        slots
    }

    pub fn total(&self, idx: usize) -> u32 {
        self.list[idx].slots
    }

    /// Returns the number of taken slots; larger than the number of slots if the domain is overcommitted.
    pub fn taken(&self, idx: usize) -> u32 {
        self.list[idx].taken
    }

    pub fn free(&self, idx: usize) -> u32 {
        let SlotCount { slots, taken } = self.list[idx];
        slots.saturating_sub(taken)
    }

    /// Returns the number of slots that a job would take in a domain; 0 if it may not run there.
    pub fn needed(&self, snapshot: &Snapshot<'_>, job_slot: &MovableJob<'_>, idx: usize) -> u32 {
        let cpus = &snapshot.domains.get(idx).cpus;
        // Fast path: most jobs may use all CPUs.
        if cpus.is_subset(job_slot.job.allowed) {
            return job_slot.threads.min(self.total(idx));
        }
        let possible = cpus.and(job_slot.job.allowed);
        job_slot.threads.min(n_cores(snapshot.machine, &possible).saturating_mul(self.layers))
    }

    /// Returns whether a job may run on a domain.
    pub fn allows(snapshot: &Snapshot<'_>, job_slot: &MovableJob<'_>, idx: usize) -> bool {
        snapshot.domains.get(idx).cpus.intersects(job_slot.job.allowed)
    }

    /// Returns whether a domain has enough free slots for a job.
    pub fn fits(&self, snapshot: &Snapshot<'_>, job_slot: &MovableJob<'_>, idx: usize) -> bool {
        DomainSlots::allows(snapshot, job_slot, idx)
            && self.needed(snapshot, job_slot, idx) <= self.free(idx)
    }

    pub fn add(&mut self, snapshot: &Snapshot<'_>, job_slot: &MovableJob<'_>, idx: usize) {
        self.list[idx].taken += self.needed(snapshot, job_slot, idx);
    }

    pub fn remove(&mut self, snapshot: &Snapshot<'_>, job_slot: &MovableJob<'_>, idx: usize) {
        let need = self.needed(snapshot, job_slot, idx);
        self.list[idx].taken = self.list[idx].taken.saturating_sub(need);
    }

    /// Compares the shares of taken slots of two domains.
    pub fn compare(&self, a: usize, b: usize) -> Ordering {
        let (a, b) = (self.list[a], self.list[b]);
        let scaled =
            |one: SlotCount, other: SlotCount| u64::from(one.taken) * u64::from(other.slots);
        scaled(a, b).cmp(&scaled(b, a))
    }

    /// Returns the domain with the smallest share of taken slots; ties: the current domain of the job, then the lowest
    /// number.
    pub fn least_occupied(
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

/// Returns the CPUs of each movable job in the domain that it is mapped to.
pub(crate) fn assign_cpus(
    snapshot: &Snapshot<'_>,
    jobs: &PlacementJobs<'_>,
    domains: &[usize],
) -> Vec<CpuSet> {
    let mut occupancy = CpuOccupancy::new(snapshot.machine);
    jobs.fixed.iter().filter_map(|job| job.placed).for_each(|cpus| occupancy.add(cpus));
    let limits = limits(snapshot, jobs, domains);
    let mut chosen: Vec<CpuSet> = vec![CpuSet::new(); domains.len()];
    let mut unassigned = Vec::new();
    for (job_idx, job_slot) in jobs.movable.iter().enumerate() {
        match current_cpus(snapshot, job_slot, domains[job_idx])
            .filter(|cpus| occupancy.stays_within_limit(cpus, limits[domains[job_idx]]))
        {
            Some(cpus) => {
                occupancy.add(&cpus);
                chosen[job_idx] = cpus;
            }
            None => unassigned.push(job_idx),
        }
    }
    // Jobs with the fewest possible CPUs get their CPUs first.
    let n_possible =
        |job_idx: usize| possible(snapshot, &jobs.movable[job_idx], domains[job_idx]).len();
    unassigned.sort_by_cached_key(|&job_idx| (n_possible(job_idx), job_idx));
    for job_idx in unassigned {
        chosen[job_idx] = occupancy.choose(snapshot, &jobs.movable[job_idx], domains[job_idx]);
        occupancy.add(&chosen[job_idx]);
    }
    chosen
}

/// Returns the number of jobs per core of each domain if all jobs are spread evenly over its cores.
fn limits(snapshot: &Snapshot<'_>, jobs: &PlacementJobs<'_>, domains: &[usize]) -> Vec<u32> {
    let mut full = DomainSlots::of(snapshot, jobs);
    for (job_slot, &idx) in jobs.movable.iter().zip(domains) {
        full.add(snapshot, job_slot, idx);
    }
    let cores = |idx: usize| (full.total(idx) / full.layers).max(1);
    (0..full.list.len()).map(|idx| full.taken(idx).div_ceil(cores(idx)).max(1)).collect()
}

fn possible(snapshot: &Snapshot<'_>, job_slot: &MovableJob<'_>, idx: usize) -> CpuSet {
    snapshot.domains.get(idx).cpus.and(job_slot.job.allowed)
}

/// Returns the CPUs that a job already has in a domain, if their number is enough for its threads.
fn current_cpus(snapshot: &Snapshot<'_>, job_slot: &MovableJob<'_>, idx: usize) -> Option<CpuSet> {
    let is_there = job_slot.is_bound && job_slot.now == Some(idx);
    let cpus = job_slot.job.placed.filter(|_| is_there)?.and(snapshot.usable_cpus);
    let possible = possible(snapshot, job_slot, idx);
    let enough = possible.len().min(job_slot.threads as usize) <= cpus.len();
    (enough && cpus.is_subset(&possible)).then_some(cpus)
}

impl CpuOccupancy {
    pub fn new(machine: &Machine) -> Self {
        let n_cpus = machine.cpus().last().map_or(0, |cpu| cpu.id.index() + 1);
        let n_cores = machine.cores().last().map_or(0, |core| core.id.index() + 1);
        let mut core_of = vec![None; n_cpus];
        machine.cpus().iter().for_each(|cpu| core_of[cpu.id.index()] = cpu.core);
        CpuOccupancy { core_of, on_cpu: vec![0; n_cpus], on_core: vec![0; n_cores] }
    }

    /// Returns whether a CPU has no job.
    pub fn is_free(&self, cpu: CpuId) -> bool {
        self.n_jobs_on(cpu).1 == 0
    }

    pub fn add(&mut self, cpus: &CpuSet) {
        self.change(cpus, |n| *n += 1);
    }

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

    /// Returns the number of jobs on the core of a CPU, and on the CPU.
    pub fn n_jobs_on(&self, cpu: CpuId) -> (u32, u32) {
        let on_cpu = self.on_cpu.get(cpu.index()).copied().unwrap_or(0);
        let on_core = self.core(cpu).and_then(|core| self.on_core.get(core.index()).copied());
        (on_core.unwrap_or(on_cpu), on_cpu)
    }

    /// Returns whether no core would have more jobs than the limit with one more job on these CPUs.
    fn stays_within_limit(&mut self, cpus: &CpuSet, limit: u32) -> bool {
        self.occupancy_with(cpus).0 <= limit
    }

    /// Returns the CPUs of a domain for a job: its current CPUs, unless other CPUs have fewer jobs.
    fn choose(&mut self, snapshot: &Snapshot<'_>, job_slot: &MovableJob<'_>, idx: usize) -> CpuSet {
        let possible = possible(snapshot, job_slot, idx);
        let n_required = job_slot.threads as usize;
        let best = self.least_occupied(&possible, n_required);
        if let Some(current) = current_cpus(snapshot, job_slot, idx)
            && self.occupancy_with(&current) <= self.occupancy_with(&best)
        {
            return current;
        }
        let n_missing = n_required.saturating_sub(possible.len());
        if n_missing == 0 || snapshot.domains.level() == Level::Node {
            return best;
        }
        best.or(&self.least_occupied(
            &placement::other_cpus_of_node(snapshot, job_slot.job, &possible),
            n_missing,
        ))
    }

    /// Returns the occupancy of some CPUs if one more job uses them: the largest number of jobs on a core, and the sum
    /// of the numbers over the CPUs.
    fn occupancy_with(&mut self, cpus: &CpuSet) -> (u32, u32) {
        self.add(cpus);
        let n_jobs = || cpus.iter().map(|cpu| self.n_jobs_on(cpu).0);
        let occupancy = (n_jobs().max().unwrap_or(0), n_jobs().sum());
        self.remove(cpus);
        occupancy
    }

    /// Selects the `n` CPUs of a set with the fewest jobs, one by one: each selected CPU counts as a job on its core.
    pub fn least_occupied(&self, cpus: &CpuSet, n: usize) -> CpuSet {
        if n <= 1 {
            let best = cpus.iter().min_by_key(|&cpu| (self.n_jobs_on(cpu), cpu));
            return best.filter(|_| n == 1).into_iter().collect();
        }
        let mut occupancy = self.clone();
        let (mut remaining, mut taken) = (cpus.clone(), CpuSet::new());
        while taken.len() < n
            && let Some(best) = remaining.iter().min_by_key(|&cpu| (occupancy.n_jobs_on(cpu), cpu))
        {
            remaining.remove(best);
            taken.insert(best);
            occupancy.add(&CpuSet::from_iter([best]));
        }
        taken
    }
}

/// Returns the number of cores of some CPUs; a CPU with an unknown core counts as one.
pub(crate) fn n_cores(machine: &Machine, cpus: &CpuSet) -> u32 {
    let is_first = |cpu: &CpuId| {
        let core = machine.cpu(*cpu).and_then(|cpu| machine.core(cpu.core?));
        core.is_none_or(|core| core.cpus.and(cpus).first() == Some(*cpu))
    };
    u32::try_from(cpus.iter().filter(is_first).count()).unwrap_or(u32::MAX)
}
