//! Slots: the CPUs of each cache with the number of threads on them.
//!
//! ```text
//!   cache 0            cache 1            the next thread gets one of the CPUs with the fewest threads:
//!   ┌────┬────┐        ┌────┬────┐        of the cache with the fewest threads, ties by number,
//!   │ 1st│ 3rd│        │ 2nd│ 4th│        the first CPU there; cores before their SMT siblings
//!   └────┴────┘        └────┴────┘
//!     5th  7th           6th  8th         more threads than CPUs: a further layer
//! ```
//!
//! If caches have equal sizes and no other threads, threads are assigned to caches 0, 1, … n-1, 0, 1, …, always in the
//! same direction, as published. With threads of unmanaged jobs, or jobs with a restricted affinity, the cache with the
//! fewest threads is filled first.

use base::{CpuId, CpuSet, JobId};
use sched::{JobState, JobView, PerJob, Snapshot};

use super::orders::{CacheOrder, CpuOrder};

/// The slots of the machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct CacheSlots {
    /// CPUs of each cache, in the order of assignment.
    caches: Vec<Vec<CpuId>>,
    all: CpuSet,
    cache_of: Vec<Option<u32>>,
    n_on: Vec<u32>,
    n_in: Vec<u32>,
    /// Index of each CPU in the list of its cache.
    nth: Vec<u32>,
    /// CPUs of each cache, sorted by number of threads.
    by_threads: Vec<CpuOrder>,
    /// The next cache for a thread without restrictions.
    by_key: CacheOrder,
}

/// The CPUs of each job: one for each thread.
pub(crate) type SlotsByJob = PerJob<CpuSet>;

impl CacheSlots {
    /// Creates the slots of all caches, without threads.
    pub fn of(snapshot: &Snapshot<'_>) -> Self {
        let n_cpus =
            snapshot.machine.cpus().iter().map(|cpu| cpu.id.index() + 1).max().unwrap_or(0);
        let mut rank = vec![0u32; n_cpus];
        for core in snapshot.machine.cores() {
            let usable = core.cpus.iter().filter(|&cpu| snapshot.usable_cpus.contains(cpu));
            usable.enumerate().for_each(|(nth, cpu)| rank[cpu.index()] = nth as u32);
        }
        let mut slots = CacheSlots {
            cache_of: vec![None; n_cpus],
            n_on: vec![0; n_cpus],
            n_in: vec![0; snapshot.domains.len()],
            nth: vec![0; n_cpus],
            ..CacheSlots::default()
        };
        for (idx, domain) in snapshot.domains.iter() {
            slots.all.extend(domain.cpus.iter());
            let mut cpus: Vec<CpuId> = domain.cpus.iter().collect();
            cpus.sort_by_key(|cpu| (rank[cpu.index()], *cpu));
            cpus.iter().for_each(|cpu| slots.cache_of[cpu.index()] = Some(idx as u32));
            for (nth, cpu) in (0..).zip(&cpus) {
                slots.nth[cpu.index()] = nth;
            }
            slots.by_threads.push(CpuOrder::empty(cpus.len()));
            slots.caches.push(cpus);
        }
        slots.by_key = CacheOrder::of((0..slots.n_caches()).map(|cache| slots.key(cache)));
        slots
    }

    pub fn n_caches(&self) -> usize {
        self.caches.len()
    }

    /// Returns the CPUs of a cache, in the order of assignment.
    pub fn cpus_of(&self, cache: usize) -> &[CpuId] {
        &self.caches[cache]
    }

    pub fn n_in(&self, cache: usize) -> u64 {
        u64::from(self.n_in[cache])
    }

    pub fn n_on(&self, cpu: CpuId) -> u32 {
        self.n_on.get(cpu.index()).copied().unwrap_or(0)
    }

    pub fn cache_of(&self, cpu: CpuId) -> Option<usize> {
        self.cache_of.get(cpu.index()).copied().flatten().map(|idx| idx as usize)
    }

    /// Returns the number of slots for a job: one for each thread, at most the CPUs that it may use.
    pub fn n_for(&self, job: &JobView<'_>) -> usize {
        match job.job.threads {
            1 => usize::from(self.all.intersects(job.allowed)),
            n => (n as usize).min(self.all.and(job.allowed).len()),
        }
    }

    pub fn take(&mut self, cpu: CpuId) {
        self.change(cpu, |n| n + 1);
    }

    pub fn leave(&mut self, cpu: CpuId) {
        self.change(cpu, |n| n.saturating_sub(1));
    }

    fn change(&mut self, cpu: CpuId, to: fn(u32) -> u32) {
        let Some(cache) = self.cache_of(cpu) else { return };
        let (n_on, nth) = (self.n_on[cpu.index()], self.nth[cpu.index()]);
        self.by_threads[cache].change((n_on, nth), to(n_on));
        self.n_on[cpu.index()] = to(n_on);
        self.n_in[cache] = to(self.n_in[cache]);
        self.by_key.set(cache, self.key(cache));
    }

    /// Returns the sort key of a cache for a thread without restrictions: fewest threads on a CPU, threads in the
    /// cache. `None`: the cache has no CPU.
    fn key(&self, cache: usize) -> Option<(u32, u32)> {
        let (least, _) = self.by_threads[cache].first()?;
        Some((least, self.n_in[cache]))
    }

    /// Keeps the slots of a running job. A job bound to more CPUs than it has threads has no slots.
    pub fn keep(&mut self, job: &JobView<'_>) {
        let Some(placed) = job.placed.filter(|_| job.state == JobState::Running) else { return };
        if placed.len() <= job.job.threads as usize {
            placed.iter().for_each(|cpu| self.take(cpu));
        }
    }

    /// Returns the CPU with the fewest threads in a cache; ties: the first in the list.
    pub fn first_in(&self, cache: usize, allowed: &CpuSet, job_cpus: &CpuSet) -> Option<CpuId> {
        let cpus = self.by_threads[cache].iter().map(|(_, nth)| self.caches[cache][nth as usize]);
        cpus.into_iter().find(|cpu| allowed.contains(*cpu) && !job_cpus.contains(*cpu))
    }

    /// Returns the best CPU for a thread in each cache: the CPU with the fewest threads; ties: the first in the list.
    /// Caches in which this CPU has more threads than in another cache are omitted. Each entry has the cache, the CPU
    /// and the number of threads on the CPU.
    pub fn possible(
        &self,
        allowed: &CpuSet,
        job_cpus: &CpuSet,
    ) -> impl Iterator<Item = (usize, CpuId, u32)> + use<> {
        let first = |cache| {
            let cpu = self.first_in(cache, allowed, job_cpus)?;
            Some((cache, cpu, self.n_on(cpu)))
        };
        let firsts: Vec<(usize, CpuId, u32)> = (0..self.n_caches()).filter_map(first).collect();
        let least = firsts.iter().map(|(_, _, n_on)| *n_on).min();
        firsts.into_iter().filter(move |(_, _, n_on)| Some(*n_on) == least)
    }

    /// Assigns a slot to the next thread of a job. `job_cpus` are the slots that the job already has.
    pub fn assign_next(&mut self, allowed: &CpuSet, job_cpus: &CpuSet) -> Option<CpuId> {
        let (cpu, _) = self.next(allowed, job_cpus)?;
        self.take(cpu);
        Some(cpu)
    }

    /// Returns the next slot of a job, and the number of threads on its CPU.
    fn next(&self, allowed: &CpuSet, job_cpus: &CpuSet) -> Option<(CpuId, u32)> {
        if job_cpus.is_empty() && self.all.is_subset(allowed) {
            let cache = self.by_key.first()?;
            let (n_on, nth) = self.by_threads[cache].first()?;
            return Some((self.caches[cache][nth as usize], n_on));
        }
        let caches = self.possible(allowed, job_cpus);
        let best = caches.min_by_key(|&(cache, _, _)| (self.n_in[cache], cache));
        best.map(|(_, cpu, n_on)| (cpu, n_on))
    }

    /// Assigns slots to jobs in this order. With `shares`, threads share CPUs if no CPU is free. Without `shares`, a
    /// job gets slots only if each of its threads gets a free CPU.
    pub fn assign<'a>(
        &mut self,
        jobs: impl IntoIterator<Item = &'a JobView<'a>>,
        shares: bool,
    ) -> SlotsByJob {
        let mut slots_of = SlotsByJob::default();
        for job in jobs {
            let mut job_cpus = CpuSet::new();
            let n_slots = self.n_for(job);
            for _ in 0..n_slots {
                let next = self.next(job.allowed, &job_cpus);
                let Some((cpu, _)) = next.filter(|&(_, n_on)| shares || n_on == 0) else { break };
                self.take(cpu);
                job_cpus.insert(cpu);
            }
            if job_cpus.len() < n_slots {
                job_cpus.iter().for_each(|cpu| self.leave(cpu));
            } else {
                *slots_of.get_or_default(job.job.id) = job_cpus;
            }
        }
        slots_of
    }

    /// Rebalances within caches: a thread moves to another CPU of its cache that has at least two fewer threads. Such
    /// differences result from jobs with a restricted affinity.
    pub fn rebalance(&mut self, slots_of: &mut SlotsByJob, jobs: &[&JobView<'_>]) {
        // Fast path: caches are balanced unless jobs have a restricted affinity.
        if self.by_threads.iter().all(CpuOrder::are_even) {
            return;
        }
        for job in jobs {
            let is_shared_more =
                |cpu| self.less_occupied_cpu(cpu, job.allowed, &CpuSet::new()).is_some();
            if !slots_of.get(job.job.id).is_some_and(|job_cpus| job_cpus.iter().any(is_shared_more))
            {
                continue;
            }
            let job_cpus = slots_of.get_or_default(job.job.id);
            for cpu in job_cpus.clone().iter() {
                let Some(to) = self.less_occupied_cpu(cpu, job.allowed, job_cpus) else { continue };
                self.leave(cpu);
                self.take(to);
                job_cpus.remove(cpu);
                job_cpus.insert(to);
            }
        }
    }

    /// Returns a CPU with fewer other threads in the same cache.
    fn less_occupied_cpu(&self, cpu: CpuId, allowed: &CpuSet, job_cpus: &CpuSet) -> Option<CpuId> {
        let cache = self.cache_of(cpu)?;
        let is_fewer = |n_on: u32| n_on + 1 < self.n_on(cpu);
        // Fast path: called for every thread in every turn.
        self.by_threads[cache].first().filter(|(least, _)| is_fewer(*least))?;
        self.first_in(cache, allowed, job_cpus).filter(|&to| is_fewer(self.n_on(to)))
    }

    /// Avoids migrations within a cache, which have no benefit: if a job is assigned another CPU of its current cache,
    /// the job keeps its CPU, and the job that was assigned this CPU gets the other CPU.
    pub fn keep_cpus(&mut self, slots_of: &mut SlotsByJob, jobs: &[&JobView<'_>]) {
        let mut jobs_on = JobsOnCpus::of(self.n_on.len(), slots_of, jobs);
        for (job_idx, job) in jobs.iter().enumerate() {
            let Some(old) = job.placed.filter(|_| job.state == JobState::Running) else { continue };
            let Some(job_cpus) = slots_of.get(job.job.id).filter(|job_cpus| *job_cpus != old)
            else {
                continue;
            };
            let is_same_cache = |cpu| old.iter().any(|to| self.cache_of(to) == self.cache_of(cpu));
            if !job_cpus.iter().any(is_same_cache) {
                continue; // No assigned CPU is in a current cache of the job.
            }
            for cpu in job_cpus.minus(old).iter() {
                let Some(job_cpus) = slots_of.get(job.job.id) else { continue };
                let back = old.minus(job_cpus).iter().find(|&to| {
                    self.cache_of(to).is_some()
                        && self.cache_of(to) == self.cache_of(cpu)
                        && job.allowed.contains(to)
                });
                if let Some(to) = back {
                    self.swap((slots_of, &mut jobs_on), jobs, (job_idx, cpu, to));
                }
            }
        }
    }

    /// Assigns to a job its earlier CPU `to` instead of `cpu`, unless a job that stays on `to` would then share `to`
    /// with more threads.
    fn swap(
        &mut self,
        (slots_of, jobs_on): (&mut SlotsByJob, &mut JobsOnCpus),
        jobs: &[&JobView<'_>],
        (job_idx, cpu, to): (usize, CpuId, CpuId),
    ) {
        let is_less_occupied = self.n_on(to) < self.n_on(cpu);
        if !is_less_occupied {
            let may_swap = |other: &usize| {
                let other = jobs[*other];
                let has_cpu_too =
                    slots_of.get(other.job.id).is_some_and(|job_cpus| job_cpus.contains(cpu));
                let was_on_cpu = other.placed.is_some_and(|old| old.contains(to));
                !has_cpu_too && !was_on_cpu && other.allowed.contains(cpu)
            };
            let Some(other) = jobs_on.on_cpu(to).iter().copied().find(may_swap) else { return };
            change(slots_of, jobs[other].job.id, to, cpu);
            jobs_on.change(other, to, cpu);
        } else {
            self.leave(cpu);
            self.take(to);
        }
        change(slots_of, jobs[job_idx].job.id, cpu, to);
        jobs_on.change(job_idx, cpu, to);
    }
}

/// Replaces a CPU of a job.
fn change(slots_of: &mut SlotsByJob, job: JobId, from: CpuId, to: CpuId) {
    let job_cpus = slots_of.get_or_default(job);
    job_cpus.remove(from);
    job_cpus.insert(to);
}

/// Jobs on each CPU: ascending indices into a list of jobs.
struct JobsOnCpus(Vec<Vec<usize>>);

impl JobsOnCpus {
    fn of(n_cpus: usize, slots_of: &SlotsByJob, jobs: &[&JobView<'_>]) -> Self {
        let mut jobs_on = vec![Vec::new(); n_cpus];
        for (job_idx, job) in jobs.iter().enumerate() {
            let cpus = slots_of.get(job.job.id).into_iter().flat_map(CpuSet::iter);
            cpus.for_each(|cpu| jobs_on[cpu.index()].push(job_idx));
        }
        JobsOnCpus(jobs_on)
    }

    fn on_cpu(&self, cpu: CpuId) -> &[usize] {
        &self.0[cpu.index()]
    }

    fn change(&mut self, job_idx: usize, from: CpuId, to: CpuId) {
        self.0[from.index()].retain(|other| *other != job_idx);
        let jobs = &mut self.0[to.index()];
        jobs.insert(jobs.partition_point(|other| *other < job_idx), job_idx);
    }
}

#[cfg(test)]
mod tests {
    use base::Rng;

    use super::*;

    /// Returns the slots of three caches of four CPUs, numbered across the caches.
    fn empty_slots() -> CacheSlots {
        let caches: Vec<Vec<CpuId>> =
            (0..3).map(|cache| (0..4).map(|nth| CpuId(nth * 3 + cache)).collect()).collect();
        let mut slots = CacheSlots {
            cache_of: (0..12).map(|cpu| Some(cpu % 3)).collect(),
            nth: (0..12).map(|cpu| cpu / 3).collect(),
            n_on: vec![0; 12],
            n_in: vec![0; 3],
            all: (0..12).map(CpuId).collect(),
            by_threads: vec![CpuOrder::empty(4); 3],
            ..CacheSlots::default()
        };
        slots.by_key = CacheOrder::of((0..3).map(|cache| slots.key(cache)));
        slots.caches = caches;
        slots
    }

    /// Returns the next slot according to a search over all CPUs.
    fn by_search(slots: &CacheSlots, allowed: &CpuSet, job_cpus: &CpuSet) -> Option<CpuId> {
        let open = |cpu: &CpuId| allowed.contains(*cpu) && !job_cpus.contains(*cpu);
        let least = slots.all.iter().filter(open).map(|cpu| slots.n_on(cpu)).min()?;
        let has_fewest = |cpu: &CpuId| open(cpu) && slots.n_on(*cpu) == least;
        let caches = slots.caches.iter().enumerate();
        let firsts =
            caches.filter_map(|(cache, cpus)| Some((cache, *cpus.iter().find(|c| has_fewest(c))?)));
        firsts.min_by_key(|(cache, _)| (slots.n_in(*cache), *cache)).map(|(_, cpu)| cpu)
    }

    #[test]
    fn the_next_slot_is_the_one_that_a_search_over_all_cpus_finds() {
        let mut rng = Rng::new(7);
        let mut slots = empty_slots();
        for _ in 0..3000 {
            let some = |n: u64, rng: &mut Rng| -> CpuSet {
                (0..12).map(CpuId).filter(|_| rng.below(4) < n).collect()
            };
            let allowed = if rng.below(2) == 0 { slots.all.clone() } else { some(2, &mut rng) };
            let job_cpus = if rng.below(2) == 0 { CpuSet::new() } else { some(1, &mut rng) };
            let found = slots.next(&allowed, &job_cpus).map(|(cpu, _)| cpu);
            assert_eq!(
                found,
                by_search(&slots, &allowed, &job_cpus),
                "{allowed} without {job_cpus}"
            );
            match (found, rng.below(3)) {
                (Some(cpu), 0 | 1) => slots.take(cpu),
                _ => slots.leave(CpuId(rng.below(12) as u32)),
            }
        }
    }
}
