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
//! With caches of equal size and no other threads, this assigns threads to caches 0, 1, … n-1, 0, 1, …, always in
//! the same direction, as published. With threads of unmanaged jobs, or jobs with a restricted affinity, the
//! emptiest cache is still filled first.

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
    /// CPUs of each cache, the emptiest first.
    by_threads: Vec<CpuOrder>,
    /// The next cache for a thread without restrictions.
    by_key: CacheOrder,
}

/// The CPUs of each job: one for each thread.
pub(crate) type SlotsByJob = PerJob<CpuSet>;

impl CacheSlots {
    /// All slots, without threads.
    pub fn of(seen: &Snapshot<'_>) -> Self {
        let n_cpus = seen.machine.cpus().iter().map(|cpu| cpu.id.index() + 1).max().unwrap_or(0);
        let mut rank = vec![0u32; n_cpus];
        for core in seen.machine.cores() {
            let usable = core.cpus.iter().filter(|&cpu| seen.usable_cpus.contains(cpu));
            usable.enumerate().for_each(|(at, cpu)| rank[cpu.index()] = at as u32);
        }
        let mut slots = CacheSlots {
            cache_of: vec![None; n_cpus],
            n_on: vec![0; n_cpus],
            n_in: vec![0; seen.domains.len()],
            nth: vec![0; n_cpus],
            ..CacheSlots::default()
        };
        for (idx, domain) in seen.domains.iter() {
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

    /// Number of caches.
    pub fn n_caches(&self) -> usize {
        self.caches.len()
    }

    /// The CPUs of a cache, in the order of assignment.
    pub fn cpus_of(&self, cache: usize) -> &[CpuId] {
        &self.caches[cache]
    }

    /// Number of threads in a cache.
    pub fn n_in(&self, cache: usize) -> u64 {
        u64::from(self.n_in[cache])
    }

    /// Number of threads on a CPU.
    pub fn n_on(&self, cpu: CpuId) -> u32 {
        self.n_on.get(cpu.index()).copied().unwrap_or(0)
    }

    /// The cache of a CPU.
    pub fn cache_of(&self, cpu: CpuId) -> Option<usize> {
        self.cache_of.get(cpu.index()).copied().flatten().map(|idx| idx as usize)
    }

    /// Number of slots for a job: one for each thread, at most the CPUs that it may use.
    pub fn n_for(&self, job: &JobView<'_>) -> usize {
        match job.job.threads {
            1 => usize::from(self.all.intersects(job.allowed)),
            n => (n as usize).min(self.all.and(job.allowed).len()),
        }
    }

    /// Adds a thread.
    pub fn take(&mut self, cpu: CpuId) {
        self.change(cpu, |n| n + 1);
    }

    /// Removes a thread.
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

    /// Order of caches for a thread without restrictions: threads on the emptiest CPU, threads in the cache.
    /// `None`: no CPU.
    fn key(&self, cache: usize) -> Option<(u32, u32)> {
        let (least, _) = self.by_threads[cache].first()?;
        Some((least, self.n_in[cache]))
    }

    /// A running job keeps its slots. A job bound to more CPUs than it has threads has no slots.
    pub fn keep(&mut self, job: &JobView<'_>) {
        let Some(placed) = job.placed.filter(|_| job.state == JobState::Running) else { return };
        if placed.len() <= job.job.threads as usize {
            placed.iter().for_each(|cpu| self.take(cpu));
        }
    }

    /// The first of the emptiest CPUs in a cache.
    pub fn first_in(&self, cache: usize, allowed: &CpuSet, own: &CpuSet) -> Option<CpuId> {
        let cpus = self.by_threads[cache].iter().map(|(_, nth)| self.caches[cache][nth as usize]);
        cpus.into_iter().find(|cpu| allowed.contains(*cpu) && !own.contains(*cpu))
    }

    /// Caches that have one of the emptiest CPUs for a thread, with the first of these CPUs and its number of
    /// threads.
    pub fn possible(
        &self,
        allowed: &CpuSet,
        own: &CpuSet,
    ) -> impl Iterator<Item = (usize, CpuId, u32)> + use<> {
        let first = |cache| {
            let cpu = self.first_in(cache, allowed, own)?;
            Some((cache, cpu, self.n_on(cpu)))
        };
        let firsts: Vec<(usize, CpuId, u32)> = (0..self.n_caches()).filter_map(first).collect();
        let least = firsts.iter().map(|(_, _, n_on)| *n_on).min();
        firsts.into_iter().filter(move |(_, _, n_on)| Some(*n_on) == least)
    }

    /// Assigns a slot to the next thread of a job, which has the slots `own` already.
    pub fn assign_next(&mut self, allowed: &CpuSet, own: &CpuSet) -> Option<CpuId> {
        let (cpu, _) = self.next(allowed, own)?;
        self.take(cpu);
        Some(cpu)
    }

    /// The next slot of a job, and the number of threads there.
    fn next(&self, allowed: &CpuSet, own: &CpuSet) -> Option<(CpuId, u32)> {
        if own.is_empty() && self.all.is_subset(allowed) {
            let cache = self.by_key.first()?;
            let (n_on, nth) = self.by_threads[cache].first()?;
            return Some((self.caches[cache][nth as usize], n_on));
        }
        let caches = self.possible(allowed, own);
        let best = caches.min_by_key(|&(cache, _, _)| (self.n_in[cache], cache));
        best.map(|(_, cpu, n_on)| (cpu, n_on))
    }

    /// Assigns slots to jobs in this order. `shares`: threads share CPUs when no CPU is free; otherwise a job
    /// gets no slot if not every thread gets a free CPU.
    pub fn assign<'a>(
        &mut self,
        jobs: impl IntoIterator<Item = &'a JobView<'a>>,
        shares: bool,
    ) -> SlotsByJob {
        let mut slots_of = SlotsByJob::default();
        for job in jobs {
            let mut own = CpuSet::new();
            let n_slots = self.n_for(job);
            for _ in 0..n_slots {
                let next = self.next(job.allowed, &own);
                let Some((cpu, _)) = next.filter(|&(_, n_on)| shares || n_on == 0) else { break };
                self.take(cpu);
                own.insert(cpu);
            }
            if own.len() < n_slots {
                own.iter().for_each(|cpu| self.leave(cpu));
            } else {
                *slots_of.of(job.job.id) = own;
            }
        }
        slots_of
    }

    /// Rebalances within caches: a thread on a CPU with at least two threads more than another CPU of the same
    /// cache gets that one. Such pairs result from jobs with a restricted affinity.
    pub fn rebalance(&mut self, slots_of: &mut SlotsByJob, jobs: &[&JobView<'_>]) {
        // Nearly always all caches are balanced.
        if self.by_threads.iter().all(CpuOrder::are_even) {
            return;
        }
        for job in jobs {
            let is_crowded = |cpu| self.emptier(cpu, job.allowed, &CpuSet::new()).is_some();
            if !slots_of.get(job.job.id).is_some_and(|own| own.iter().any(is_crowded)) {
                continue;
            }
            let own = slots_of.of(job.job.id);
            for cpu in own.clone().iter() {
                let Some(to) = self.emptier(cpu, job.allowed, own) else { continue };
                self.leave(cpu);
                self.take(to);
                own.remove(cpu);
                own.insert(to);
            }
        }
    }

    /// A CPU of the same cache on which a thread would share with fewer threads.
    fn emptier(&self, cpu: CpuId, allowed: &CpuSet, own: &CpuSet) -> Option<CpuId> {
        let cache = self.cache_of(cpu)?;
        let is_fewer = |n_on: u32| n_on + 1 < self.n_on(cpu);
        // Called for every thread in every turn; nearly always it returns here.
        self.by_threads[cache].first().filter(|(least, _)| is_fewer(*least))?;
        self.first_in(cache, allowed, own).filter(|&to| is_fewer(self.n_on(to)))
    }

    /// A job that got another CPU of a cache in which it has one already keeps that one, and the job assigned
    /// there gets the other: a migration within a cache gains nothing.
    pub fn keep_cpus(&mut self, slots_of: &mut SlotsByJob, jobs: &[&JobView<'_>]) {
        let mut on = JobsOnCpus::of(self.n_on.len(), slots_of, jobs);
        for (at, job) in jobs.iter().enumerate() {
            let Some(old) = job.placed.filter(|_| job.state == JobState::Running) else { continue };
            let Some(own) = slots_of.get(job.job.id).filter(|own| *own != old) else { continue };
            let is_near = |cpu| old.iter().any(|to| self.cache_of(to) == self.cache_of(cpu));
            if !own.iter().any(is_near) {
                continue; // It got no CPU of its caches.
            }
            for cpu in own.minus(old).iter() {
                let Some(own) = slots_of.get(job.job.id) else { continue };
                let back = old.minus(own).iter().find(|&to| {
                    self.cache_of(to).is_some()
                        && self.cache_of(to) == self.cache_of(cpu)
                        && job.allowed.contains(to)
                });
                if let Some(to) = back {
                    self.swap((slots_of, &mut on), jobs, (at, cpu, to));
                }
            }
        }
    }

    /// Assigns `to`, its earlier CPU, instead of `cpu` to a job, unless that harms a job that stays on `to`.
    fn swap(
        &mut self,
        (slots_of, on): (&mut SlotsByJob, &mut JobsOnCpus),
        jobs: &[&JobView<'_>],
        (at, cpu, to): (usize, CpuId, CpuId),
    ) {
        let is_emptier = self.n_on(to) < self.n_on(cpu);
        if !is_emptier {
            let could = |other: &usize| {
                let other = jobs[*other];
                let has_it_too = slots_of.get(other.job.id).is_some_and(|own| own.contains(cpu));
                let was_there = other.placed.is_some_and(|old| old.contains(to));
                !has_it_too && !was_there && other.allowed.contains(cpu)
            };
            let Some(other) = on.on(to).iter().copied().find(could) else { return };
            change(slots_of, jobs[other].job.id, to, cpu);
            on.go(other, to, cpu);
        } else {
            self.leave(cpu);
            self.take(to);
        }
        change(slots_of, jobs[at].job.id, cpu, to);
        on.go(at, cpu, to);
    }
}

/// Replaces a CPU of a job.
fn change(slots_of: &mut SlotsByJob, job: JobId, from: CpuId, to: CpuId) {
    let own = slots_of.of(job);
    own.remove(from);
    own.insert(to);
}

/// Jobs on each CPU: ascending indices into a list of jobs.
struct JobsOnCpus(Vec<Vec<usize>>);

impl JobsOnCpus {
    fn of(n_cpus: usize, slots_of: &SlotsByJob, jobs: &[&JobView<'_>]) -> Self {
        let mut on = vec![Vec::new(); n_cpus];
        for (at, job) in jobs.iter().enumerate() {
            let cpus = slots_of.get(job.job.id).into_iter().flat_map(CpuSet::iter);
            cpus.for_each(|cpu| on[cpu.index()].push(at));
        }
        JobsOnCpus(on)
    }

    fn on(&self, cpu: CpuId) -> &[usize] {
        &self.0[cpu.index()]
    }

    fn go(&mut self, at: usize, from: CpuId, to: CpuId) {
        self.0[from.index()].retain(|other| *other != at);
        let there = &mut self.0[to.index()];
        let place = there.partition_point(|other| *other < at);
        there.insert(place, at);
    }
}

#[cfg(test)]
mod tests {
    use base::Rng;

    use super::*;

    /// Three caches of four CPUs, numbered across the caches.
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

    /// The same by a search over all CPUs.
    fn by_search(slots: &CacheSlots, allowed: &CpuSet, own: &CpuSet) -> Option<CpuId> {
        let open = |cpu: &CpuId| allowed.contains(*cpu) && !own.contains(*cpu);
        let least = slots.all.iter().filter(open).map(|cpu| slots.n_on(cpu)).min()?;
        let emptiest = |cpu: &CpuId| open(cpu) && slots.n_on(*cpu) == least;
        let caches = slots.caches.iter().enumerate();
        let firsts =
            caches.filter_map(|(at, cpus)| Some((at, *cpus.iter().find(|c| emptiest(c))?)));
        firsts.min_by_key(|(at, _)| (slots.n_in(*at), *at)).map(|(_, cpu)| cpu)
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
            let own = if rng.below(2) == 0 { CpuSet::new() } else { some(1, &mut rng) };
            let found = slots.next(&allowed, &own).map(|(cpu, _)| cpu);
            assert_eq!(found, by_search(&slots, &allowed, &own), "{allowed} without {own}");
            match (found, rng.below(3)) {
                (Some(cpu), 0 | 1) => slots.take(cpu),
                _ => slots.leave(CpuId(rng.below(12) as u32)),
            }
        }
    }
}
