//! CPUs as seats: how many threads are on each, cache by cache.
//!
//! ```text
//!   cache 0            cache 1            the next thread goes, of the CPUs with the fewest threads,
//!   ┌────┬────┐        ┌────┬────┐        to the cache with the fewest threads, ties: number,
//!   │ 1st│ 3rd│        │ 2nd│ 4th│        and there to the first CPU: cores before their siblings
//!   └────┴────┘        └────┴────┘
//!     5th  7th           6th  8th         more threads than CPUs: a further layer
//! ```
//!
//! With caches of one size and nobody else on them that deals threads out to caches 0, 1, … n-1, 0, 1, …,
//! always in the same direction, as published. With other jobs' threads in the way, or jobs that may not run
//! everywhere, it still fills the emptiest cache first.

use std::collections::BTreeMap;

use base::{CpuId, CpuSet, JobId};
use sched::{JobSeen, JobState, Snapshot};

/// All seats of the machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seats {
    /// CPUs of each cache, in the order in which they are taken.
    caches: Vec<Vec<CpuId>>,
    all: CpuSet,
    cache_of: Vec<Option<u32>>,
    n_on: Vec<u32>,
    n_in: Vec<u32>,
}

/// Where jobs sit: a CPU for each thread.
pub(crate) type Seating = BTreeMap<JobId, CpuSet>;

impl Seats {
    /// Nobody sits anywhere.
    pub fn of(seen: &Snapshot<'_>) -> Self {
        let n_cpus = seen.machine.cpus().iter().map(|cpu| cpu.id.index() + 1).max().unwrap_or(0);
        let mut rank = vec![0u32; n_cpus];
        for core in seen.machine.cores() {
            let usable = core.cpus.iter().filter(|&cpu| seen.usable.contains(cpu));
            usable.enumerate().for_each(|(at, cpu)| rank[cpu.index()] = at as u32);
        }
        let mut seats = Seats {
            cache_of: vec![None; n_cpus],
            n_on: vec![0; n_cpus],
            n_in: vec![0; seen.domains.len()],
            ..Seats::default()
        };
        for (idx, domain) in seen.domains.iter() {
            let mut cpus: Vec<CpuId> = domain.cpus.iter().collect();
            cpus.sort_by_key(|cpu| (rank[cpu.index()], *cpu));
            cpus.iter().for_each(|cpu| seats.cache_of[cpu.index()] = Some(idx as u32));
            seats.all = seats.all.or(&domain.cpus);
            seats.caches.push(cpus);
        }
        seats
    }

    /// How many caches there are.
    pub fn n_caches(&self) -> usize {
        self.caches.len()
    }

    /// The CPUs of a cache, in the order in which they are taken.
    pub fn cpus_of(&self, cache: usize) -> &[CpuId] {
        &self.caches[cache]
    }

    /// How many threads sit in a cache.
    pub fn n_in(&self, cache: usize) -> u64 {
        u64::from(self.n_in[cache])
    }

    /// How many threads sit on a CPU.
    pub fn n_on(&self, cpu: CpuId) -> u32 {
        self.n_on.get(cpu.index()).copied().unwrap_or(0)
    }

    /// The cache that a CPU belongs to.
    pub fn cache_of(&self, cpu: CpuId) -> Option<usize> {
        self.cache_of.get(cpu.index()).copied().flatten().map(|idx| idx as usize)
    }

    /// How many seats a job wants: one for each thread, as far as there are CPUs that it may use.
    pub fn n_for(&self, job: &JobSeen<'_>) -> usize {
        (job.job.threads as usize).min(self.all.and(job.allowed).len())
    }

    /// A thread sits down.
    pub fn take(&mut self, cpu: CpuId) {
        if let Some(cache) = self.cache_of(cpu) {
            self.n_on[cpu.index()] += 1;
            self.n_in[cache] += 1;
        }
    }

    /// A thread gets up.
    pub fn leave(&mut self, cpu: CpuId) {
        if let Some(cache) = self.cache_of(cpu) {
            self.n_on[cpu.index()] = self.n_on[cpu.index()].saturating_sub(1);
            self.n_in[cache] = self.n_in[cache].saturating_sub(1);
        }
    }

    /// A job that runs keeps the seats that it has. One that somebody bound to more CPUs than it has
    /// threads floats over them, and takes none.
    pub fn keep(&mut self, job: &JobSeen<'_>) {
        let Some(placed) = job.placed.filter(|_| job.state == JobState::Running) else { return };
        if placed.len() <= job.job.threads as usize {
            placed.iter().for_each(|cpu| self.take(cpu));
        }
    }

    /// The least threads on a CPU that a thread could sit on, with who may sit there.
    fn least(&self, allowed: &CpuSet, own: &CpuSet) -> Option<u32> {
        let possible = self.all.and(allowed).minus(own);
        possible.iter().map(|cpu| self.n_on(cpu)).min()
    }

    /// The first of the emptiest CPUs in a cache.
    pub fn first_in(&self, cache: usize, allowed: &CpuSet, own: &CpuSet) -> Option<CpuId> {
        let possible = |cpu: &&CpuId| allowed.contains(**cpu) && !own.contains(**cpu);
        self.caches[cache].iter().filter(possible).copied().min_by_key(|&cpu| self.n_on(cpu))
    }

    /// Caches that have one of the emptiest CPUs for a thread, with the first of these, and how many
    /// threads are on it.
    pub fn possible<'a>(
        &'a self,
        allowed: &'a CpuSet,
        own: &'a CpuSet,
    ) -> impl Iterator<Item = (usize, CpuId, u32)> + 'a {
        let least = self.least(allowed, own);
        (0..self.n_caches()).filter_map(move |cache| {
            let cpu = self.first_in(cache, allowed, own)?;
            (Some(self.n_on(cpu)) == least).then_some((cache, cpu, self.n_on(cpu)))
        })
    }

    /// Seats the next thread of a job that has some seats already.
    pub fn seat(&mut self, allowed: &CpuSet, own: &CpuSet) -> Option<CpuId> {
        let (cpu, _) = self.next(allowed, own)?;
        self.take(cpu);
        Some(cpu)
    }

    /// Where it would go, and how many threads are there.
    fn next(&self, allowed: &CpuSet, own: &CpuSet) -> Option<(CpuId, u32)> {
        let caches = self.possible(allowed, own);
        let best = caches.min_by_key(|&(cache, _, _)| (self.n_in[cache], cache));
        best.map(|(_, cpu, n_on)| (cpu, n_on))
    }

    /// Deals out seats to jobs in this order. `shares`: where all CPUs are taken threads share them;
    /// else who gets no CPU of its own gets no seat at all.
    pub fn deal<'a>(
        &mut self,
        jobs: impl IntoIterator<Item = &'a JobSeen<'a>>,
        shares: bool,
    ) -> Seating {
        let mut seating = Seating::new();
        for job in jobs {
            let mut own = CpuSet::new();
            for _ in 0..self.n_for(job) {
                let next = self.next(job.allowed, &own);
                let Some((cpu, _)) = next.filter(|&(_, n_on)| shares || n_on == 0) else { break };
                self.take(cpu);
                own.insert(cpu);
            }
            if own.len() < self.n_for(job) {
                own.iter().for_each(|cpu| self.leave(cpu));
            } else {
                seating.insert(job.job.id, own);
            }
        }
        seating
    }

    /// Where threads share a CPU although one of the same cache is emptier, because it was taken before
    /// somebody came who may use no other: who may, goes there.
    pub fn relieve(&mut self, seating: &mut Seating, jobs: &[&JobSeen<'_>]) {
        for job in jobs {
            let Some(own) = seating.get_mut(&job.job.id) else { continue };
            for cpu in own.clone().iter() {
                let emptier = self.cache_of(cpu).and_then(|c| self.first_in(c, job.allowed, own));
                let Some(to) = emptier.filter(|&to| self.n_on(to) + 1 < self.n_on(cpu)) else {
                    continue;
                };
                self.leave(cpu);
                self.take(to);
                own.remove(cpu);
                own.insert(to);
            }
        }
    }

    /// Who got another CPU in the cache where it has one already goes back to that one, and who sits
    /// there takes the other: within a cache a move gains nothing.
    pub fn stay(&mut self, seating: &mut Seating, jobs: &[&JobSeen<'_>]) {
        for (at, job) in jobs.iter().enumerate() {
            let Some(old) = job.placed.filter(|_| job.state == JobState::Running) else { continue };
            let Some(own) = seating.get(&job.job.id).cloned() else { continue };
            for cpu in own.minus(old).iter() {
                let own = seating.get(&job.job.id).cloned().unwrap_or_default();
                let back = old.minus(&own).iter().find(|&to| {
                    self.cache_of(to).is_some()
                        && self.cache_of(to) == self.cache_of(cpu)
                        && job.allowed.contains(to)
                });
                if let Some(to) = back {
                    self.trade(seating, jobs, (at, cpu, to));
                }
            }
        }
    }

    /// Puts one of the jobs from `cpu` on `to`, where it was, if nobody has a better right to that.
    fn trade(
        &mut self,
        seating: &mut Seating,
        jobs: &[&JobSeen<'_>],
        (at, cpu, to): (usize, CpuId, CpuId),
    ) {
        let is_emptier = self.n_on(to) < self.n_on(cpu);
        if !is_emptier {
            let could = |other: &&&JobSeen<'_>| {
                let seats = seating.get(&other.job.id);
                let sits = seats.is_some_and(|own| own.contains(to) && !own.contains(cpu));
                let was_there = other.placed.is_some_and(|old| old.contains(to));
                sits && !was_there && other.allowed.contains(cpu)
            };
            let Some(other) = jobs.iter().find(could) else { return };
            let seats = seating.entry(other.job.id).or_default();
            seats.remove(to);
            seats.insert(cpu);
        } else {
            self.leave(cpu);
            self.take(to);
        }
        let own = seating.entry(jobs[at].job.id).or_default();
        own.remove(cpu);
        own.insert(to);
    }
}
