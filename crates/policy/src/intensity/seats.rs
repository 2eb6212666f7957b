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

use base::{CpuId, CpuSet, JobId};
use sched::{JobState, JobView, PerJob, Snapshot};

use super::ranks::{Need, Ranks};

/// All seats of the machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seats {
    /// CPUs of each cache, in the order in which they are taken.
    caches: Vec<Vec<CpuId>>,
    all: CpuSet,
    cache_of: Vec<Option<u32>>,
    n_on: Vec<u32>,
    n_in: Vec<u32>,
    /// The place of each CPU in its cache's list.
    nth: Vec<u32>,
    /// CPUs of each cache, the emptiest first: threads on it, and its place in the list.
    by_threads: Vec<Ranks>,
    /// Which cache a thread that may sit anywhere would take.
    by_need: Need,
}

/// Where jobs sit: a CPU for each thread.
pub(crate) type Seating = PerJob<CpuSet>;

impl Seats {
    /// Nobody sits anywhere.
    pub fn of(seen: &Snapshot<'_>) -> Self {
        let n_cpus = seen.machine.cpus().iter().map(|cpu| cpu.id.index() + 1).max().unwrap_or(0);
        let mut rank = vec![0u32; n_cpus];
        for core in seen.machine.cores() {
            let usable = core.cpus.iter().filter(|&cpu| seen.usable_cpus.contains(cpu));
            usable.enumerate().for_each(|(at, cpu)| rank[cpu.index()] = at as u32);
        }
        let mut seats = Seats {
            cache_of: vec![None; n_cpus],
            n_on: vec![0; n_cpus],
            n_in: vec![0; seen.domains.len()],
            nth: vec![0; n_cpus],
            ..Seats::default()
        };
        for (idx, domain) in seen.domains.iter() {
            seats.all.extend(domain.cpus.iter());
            let mut cpus: Vec<CpuId> = domain.cpus.iter().collect();
            cpus.sort_by_key(|cpu| (rank[cpu.index()], *cpu));
            cpus.iter().for_each(|cpu| seats.cache_of[cpu.index()] = Some(idx as u32));
            for (nth, cpu) in (0..).zip(&cpus) {
                seats.nth[cpu.index()] = nth;
            }
            seats.by_threads.push(Ranks::empty(cpus.len()));
            seats.caches.push(cpus);
        }
        seats.by_need = Need::of((0..seats.n_caches()).map(|cache| seats.need(cache)));
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
    pub fn n_for(&self, job: &JobView<'_>) -> usize {
        match job.job.threads {
            1 => usize::from(self.all.intersects(job.allowed)),
            n => (n as usize).min(self.all.and(job.allowed).len()),
        }
    }

    /// A thread sits down.
    pub fn take(&mut self, cpu: CpuId) {
        self.change(cpu, |n| n + 1);
    }

    /// A thread gets up.
    pub fn leave(&mut self, cpu: CpuId) {
        self.change(cpu, |n| n.saturating_sub(1));
    }

    fn change(&mut self, cpu: CpuId, to: fn(u32) -> u32) {
        let Some(cache) = self.cache_of(cpu) else { return };
        let (n_on, nth) = (self.n_on[cpu.index()], self.nth[cpu.index()]);
        self.by_threads[cache].change((n_on, nth), to(n_on));
        self.n_on[cpu.index()] = to(n_on);
        self.n_in[cache] = to(self.n_in[cache]);
        self.by_need.set(cache, self.need(cache));
    }

    /// What a thread that may sit anywhere takes a cache by: threads on its emptiest CPU, threads in all.
    /// `None` where there is no CPU.
    fn need(&self, cache: usize) -> Option<(u32, u32)> {
        let (least, _) = self.by_threads[cache].first()?;
        Some((least, self.n_in[cache]))
    }

    /// A job that runs keeps the seats that it has. One that somebody bound to more CPUs than it has
    /// threads floats over them, and takes none.
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

    /// Caches that have one of the emptiest CPUs for a thread, with the first of these, and how many
    /// threads are on it.
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

    /// Seats the next thread of a job that has some seats already.
    pub fn seat(&mut self, allowed: &CpuSet, own: &CpuSet) -> Option<CpuId> {
        let (cpu, _) = self.next(allowed, own)?;
        self.take(cpu);
        Some(cpu)
    }

    /// Where it would go, and how many threads are there.
    fn next(&self, allowed: &CpuSet, own: &CpuSet) -> Option<(CpuId, u32)> {
        if own.is_empty() && self.all.is_subset(allowed) {
            let cache = self.by_need.first()?;
            let (n_on, nth) = self.by_threads[cache].first()?;
            return Some((self.caches[cache][nth as usize], n_on));
        }
        let caches = self.possible(allowed, own);
        let best = caches.min_by_key(|&(cache, _, _)| (self.n_in[cache], cache));
        best.map(|(_, cpu, n_on)| (cpu, n_on))
    }

    /// Deals out seats to jobs in this order. `shares`: where all CPUs are taken threads share them;
    /// else who gets no CPU of its own gets no seat at all.
    pub fn deal<'a>(
        &mut self,
        jobs: impl IntoIterator<Item = &'a JobView<'a>>,
        shares: bool,
    ) -> Seating {
        let mut seating = Seating::default();
        for job in jobs {
            let mut own = CpuSet::new();
            let n_seats = self.n_for(job);
            for _ in 0..n_seats {
                let next = self.next(job.allowed, &own);
                let Some((cpu, _)) = next.filter(|&(_, n_on)| shares || n_on == 0) else { break };
                self.take(cpu);
                own.insert(cpu);
            }
            if own.len() < n_seats {
                own.iter().for_each(|cpu| self.leave(cpu));
            } else {
                *seating.of(job.job.id) = own;
            }
        }
        seating
    }

    /// Where threads share a CPU although one of the same cache is emptier, because it was taken before
    /// somebody came who may use no other: who may, goes there.
    pub fn relieve(&mut self, seating: &mut Seating, jobs: &[&JobView<'_>]) {
        // Nearly always nobody sits too tight in any cache.
        if self.by_threads.iter().all(Ranks::are_even) {
            return;
        }
        for job in jobs {
            let is_tight = |cpu| self.emptier(cpu, job.allowed, &CpuSet::new()).is_some();
            if !seating.get(job.job.id).is_some_and(|own| own.iter().any(is_tight)) {
                continue;
            }
            let own = seating.of(job.job.id);
            for cpu in own.clone().iter() {
                let Some(to) = self.emptier(cpu, job.allowed, own) else { continue };
                self.leave(cpu);
                self.take(to);
                own.remove(cpu);
                own.insert(to);
            }
        }
    }

    /// A CPU of the same cache on which a thread would have fewer neighbours.
    fn emptier(&self, cpu: CpuId, allowed: &CpuSet, own: &CpuSet) -> Option<CpuId> {
        let cache = self.cache_of(cpu)?;
        let is_fewer = |n_on: u32| n_on + 1 < self.n_on(cpu);
        // Asked of every thread in every turn, and nearly always answered here.
        self.by_threads[cache].first().filter(|(least, _)| is_fewer(*least))?;
        self.first_in(cache, allowed, own).filter(|&to| is_fewer(self.n_on(to)))
    }

    /// Who got another CPU in the cache where it has one already goes back to that one, and who sits
    /// there takes the other: within a cache a move gains nothing.
    pub fn stay(&mut self, seating: &mut Seating, jobs: &[&JobView<'_>]) {
        let mut on = Sitters::of(self.n_on.len(), seating, jobs);
        for (at, job) in jobs.iter().enumerate() {
            let Some(old) = job.placed.filter(|_| job.state == JobState::Running) else { continue };
            let Some(own) = seating.get(job.job.id).filter(|own| *own != old) else { continue };
            let is_near = |cpu| old.iter().any(|to| self.cache_of(to) == self.cache_of(cpu));
            if !own.iter().any(is_near) {
                continue; // It got nothing where it was.
            }
            for cpu in own.minus(old).iter() {
                let Some(own) = seating.get(job.job.id) else { continue };
                let back = old.minus(own).iter().find(|&to| {
                    self.cache_of(to).is_some()
                        && self.cache_of(to) == self.cache_of(cpu)
                        && job.allowed.contains(to)
                });
                if let Some(to) = back {
                    self.trade((seating, &mut on), jobs, (at, cpu, to));
                }
            }
        }
    }

    /// Puts one of the jobs from `cpu` on `to`, where it was, if nobody has a better right to that.
    fn trade(
        &mut self,
        (seating, on): (&mut Seating, &mut Sitters),
        jobs: &[&JobView<'_>],
        (at, cpu, to): (usize, CpuId, CpuId),
    ) {
        let is_emptier = self.n_on(to) < self.n_on(cpu);
        if !is_emptier {
            let could = |other: &usize| {
                let other = jobs[*other];
                let sits_there_too = seating.get(other.job.id).is_some_and(|own| own.contains(cpu));
                let was_there = other.placed.is_some_and(|old| old.contains(to));
                !sits_there_too && !was_there && other.allowed.contains(cpu)
            };
            let Some(other) = on.on(to).iter().copied().find(could) else { return };
            change(seating, jobs[other].job.id, to, cpu);
            on.go(other, to, cpu);
        } else {
            self.leave(cpu);
            self.take(to);
        }
        change(seating, jobs[at].job.id, cpu, to);
        on.go(at, cpu, to);
    }
}

/// A job's thread goes from one CPU to another.
fn change(seating: &mut Seating, job: JobId, from: CpuId, to: CpuId) {
    let own = seating.of(job);
    own.remove(from);
    own.insert(to);
}

/// Who sits on each CPU: places in a list of jobs, rising.
struct Sitters(Vec<Vec<usize>>);

impl Sitters {
    fn of(n_cpus: usize, seating: &Seating, jobs: &[&JobView<'_>]) -> Self {
        let mut on = vec![Vec::new(); n_cpus];
        for (at, job) in jobs.iter().enumerate() {
            let cpus = seating.get(job.job.id).into_iter().flat_map(CpuSet::iter);
            cpus.for_each(|cpu| on[cpu.index()].push(at));
        }
        Sitters(on)
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

    /// Three caches of four CPUs, numbers dealt out across them.
    fn seats() -> Seats {
        let caches: Vec<Vec<CpuId>> =
            (0..3).map(|cache| (0..4).map(|nth| CpuId(nth * 3 + cache)).collect()).collect();
        let mut seats = Seats {
            cache_of: (0..12).map(|cpu| Some(cpu % 3)).collect(),
            nth: (0..12).map(|cpu| cpu / 3).collect(),
            n_on: vec![0; 12],
            n_in: vec![0; 3],
            all: (0..12).map(CpuId).collect(),
            by_threads: vec![Ranks::empty(4); 3],
            ..Seats::default()
        };
        seats.by_need = Need::of((0..3).map(|cache| seats.need(cache)));
        seats.caches = caches;
        seats
    }

    /// Every CPU looked at: of the emptiest, in the cache with the fewest threads, the first.
    fn looked_for(seats: &Seats, allowed: &CpuSet, own: &CpuSet) -> Option<CpuId> {
        let open = |cpu: &CpuId| allowed.contains(*cpu) && !own.contains(*cpu);
        let least = seats.all.iter().filter(open).map(|cpu| seats.n_on(cpu)).min()?;
        let emptiest = |cpu: &CpuId| open(cpu) && seats.n_on(*cpu) == least;
        let caches = seats.caches.iter().enumerate();
        let firsts =
            caches.filter_map(|(at, cpus)| Some((at, *cpus.iter().find(|c| emptiest(c))?)));
        firsts.min_by_key(|(at, _)| (seats.n_in(*at), *at)).map(|(_, cpu)| cpu)
    }

    #[test]
    fn the_next_seat_is_the_one_that_looking_at_every_cpu_finds() {
        let mut rng = Rng::new(7);
        let mut seats = seats();
        for _ in 0..3000 {
            let some = |n: u64, rng: &mut Rng| -> CpuSet {
                (0..12).map(CpuId).filter(|_| rng.below(4) < n).collect()
            };
            let allowed = if rng.below(2) == 0 { seats.all.clone() } else { some(2, &mut rng) };
            let own = if rng.below(2) == 0 { CpuSet::new() } else { some(1, &mut rng) };
            let found = seats.next(&allowed, &own).map(|(cpu, _)| cpu);
            assert_eq!(found, looked_for(&seats, &allowed, &own), "{allowed} without {own}");
            match (found, rng.below(3)) {
                (Some(cpu), 0 | 1) => seats.take(cpu),
                _ => seats.leave(CpuId(rng.below(12) as u32)),
            }
        }
    }
}
