//! Animal classes: turtles, sheep, rabbits and devils, and their penalties for each other on one cache.
//!
//! The policy is the predecessor of DINO in Clavis 6.5.5, and a baseline for DINO. Threads are not sorted: each pair of
//! classes has a penalty, and two rules keep the sum of penalties low.
//!
//! ```text
//!   a thread starts    on the cache with the lowest penalty for it, of the caches with the fewest threads
//!   once a second      a random pair on two caches swaps its CPUs if that lowers the sum of both penalties
//! ```
//!
//! [`classes`] defines the classes. A thread with an unknown class counts as a devil. Pages never migrate.
//! [`crate::memory_intensity`] describes the placement of jobs instead of threads, and the selection of the scheduled
//! jobs.

mod classes;
mod declaration;
mod swap;

use base::{CpuSet, Rng};
use sched::{Action, Cause, CounterDeltas, CounterEvent, JobView, PerJob, Plan, Reason, Snapshot};

use crate::memory_intensity::cache_slots::CacheSlots;
use crate::memory_intensity::parameters::Common;
use crate::memory_intensity::rates::{misses_of, rate_of};
use crate::memory_intensity::{Utilization, release, utilizations, with_slots};
use crate::notes::{MachineNotes, RateFailures};
use crate::placement;
use crate::{Params, Rules};
use classes::{Animal, AnimalCounts, RateHistory};
pub(crate) use declaration::INFO;
use declaration::{ANIMAL_PLACED, Config};

/// State of the policy.
#[derive(Debug)]
struct Animals {
    config: Config,
    common: Common,
    rng: Rng,
    notes: MachineNotes,
    failures: RateFailures,
    history: PerJob<RateHistory>,
}

/// Change of the slots of a job in this turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotChange {
    /// The job gets slots.
    Assign,
    /// The job keeps its slots, or swaps one slot.
    MaySwap,
    /// The job keeps its slots.
    Keep,
    /// The job has no slots.
    NoSlots,
}

/// Returns whether a job has fewer slots than possible: it has no slots yet, or CPUs became usable again.
fn lacks_slots(slots: &CacheSlots, job: &JobView<'_>) -> bool {
    job.placed.is_none_or(|placed| placed.len() < slots.n_for(job))
}

impl Rules for Animals {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        self.notes.add_for_caches(snapshot, plan);
        placement::remove_old_state(&mut self.history, snapshot);
        if !placement::can_place(snapshot) {
            return;
        }
        let is_interval = snapshot.turn.causes.contains(&Cause::Interval);
        let slots = CacheSlots::of(snapshot);
        let of_jobs = utilizations(snapshot, &slots, &self.common);
        if is_interval {
            self.failures.check(snapshot, plan);
            self.sample(snapshot, &of_jobs, plan);
        }
        let change = |job: &JobView<'_>, utilization: Utilization| match utilization {
            Utilization::New => SlotChange::Assign,
            Utilization::Busy if is_interval && lacks_slots(&slots, job) => SlotChange::Assign,
            Utilization::Busy => SlotChange::MaySwap,
            Utilization::Idle(_) if is_interval => SlotChange::NoSlots, // Released in this turn.
            Utilization::Idle(_) | Utilization::Unmanaged => SlotChange::Keep,
        };
        let changes: Vec<(&JobView<'_>, SlotChange)> =
            of_jobs.iter().map(|(job, utilization)| (*job, change(job, *utilization))).collect();
        self.act(snapshot, slots, &changes, plan);
    }
}

impl Animals {
    fn new(params: &Params<'_>, rng: Rng) -> Self {
        let (config, common) = (Config::new(params), Common::new(params));
        let (notes, history) = Default::default();
        Animals { config, common, rng, notes, failures: RateFailures::new(params), history }
    }

    /// Adds the rates of an interval, and releases jobs that used too little CPU time in the interval.
    fn sample(
        &mut self,
        snapshot: &Snapshot<'_>,
        of_jobs: &[(&JobView<'_>, Utilization)],
        plan: &mut Plan,
    ) {
        for (job, utilization) in of_jobs {
            match utilization {
                Utilization::Idle(used) => release(job, *used, plan),
                Utilization::Busy => {
                    let accesses =
                        |counted: &CounterDeltas| counted.get(CounterEvent::LlcReferences);
                    if let Some(misses) = misses_of(snapshot, job) {
                        let accesses = rate_of(snapshot, job, accesses);
                        self.history.get_or_default(job.job.id).add(misses, accesses);
                    }
                }
                Utilization::New | Utilization::Unmanaged => {}
            }
        }
    }

    /// Swaps pairs at the end of an interval, and assigns slots to unplaced jobs.
    fn act(
        &mut self,
        snapshot: &Snapshot<'_>,
        mut slots: CacheSlots,
        changes: &[(&JobView<'_>, SlotChange)],
        plan: &mut Plan,
    ) {
        let jobs_that = |is: fn(SlotChange) -> bool| {
            changes.iter().filter(move |(_, change)| is(*change)).map(|(job, _)| *job)
        };
        let keeping =
            || jobs_that(|change| matches!(change, SlotChange::MaySwap | SlotChange::Keep));
        keeping().for_each(|job| slots.keep(job));
        let mut counts = self.counts(&slots, keeping());
        if snapshot.turn.causes.contains(&Cause::Interval) {
            let threads =
                swap::slots_of_threads(&slots, jobs_that(|change| change == SlotChange::MaySwap));
            self.swap_pairs(snapshot, &threads, &mut counts, plan);
        }
        let mut unplaced: Vec<&JobView<'_>> =
            jobs_that(|change| change == SlotChange::Assign).collect();
        // Jobs that may use few CPUs come first: otherwise other jobs get these CPUs.
        unplaced.sort_by_key(|job| (job.allowed.len(), job.job.id));
        for job in unplaced {
            self.assign(snapshot, job, (&mut slots, &mut counts), plan);
        }
    }

    fn animal(&self, job: &JobView<'_>) -> Animal {
        let history = self.history.get(job.job.id);
        history.map_or(Animal::Devil, |history| history.animal(&self.config))
    }

    fn counts<'s>(
        &self,
        slots: &CacheSlots,
        jobs: impl Iterator<Item = &'s JobView<'s>>,
    ) -> AnimalCounts {
        let mut counts = AnimalCounts::new(slots.n_caches());
        for thread in swap::slots_of_threads(slots, jobs) {
            counts.add(thread.cache, self.animal(thread.job));
        }
        counts
    }

    /// Assigns slots to a job, thread by thread.
    fn assign(
        &mut self,
        snapshot: &Snapshot<'_>,
        job: &JobView<'_>,
        (slots, counts): (&mut CacheSlots, &mut AnimalCounts),
        plan: &mut Plan,
    ) {
        let animal = self.animal(job);
        let mut job_cpus = CpuSet::new();
        let (mut penalty, mut n_in_cache) = (0, None);
        for _ in 0..slots.n_for(job) {
            let caches = slots.possible(job.allowed, &job_cpus);
            let best = caches
                .map(|(cache, cpu, _)| {
                    (slots.n_in(cache), counts.penalty(cache, animal), cache, cpu)
                })
                .min();
            let Some((n_in, of_cache, cache, cpu)) = best else { break };
            n_in_cache.get_or_insert(n_in);
            penalty += of_cache;
            slots.take(cpu);
            counts.add(cache, animal);
            job_cpus.insert(cpu);
        }
        if job_cpus.is_empty() {
            return;
        }
        let history = self.history.get_or_default(job.job.id);
        let reason = history
            .with_basis(Reason::new(ANIMAL_PLACED))
            .with("animal", animal.name())
            .with("n_threads", n_in_cache.unwrap_or(0).to_string())
            .with("penalty", penalty.to_string());
        let tier = history.is_known().then(|| snapshot.tiers.get(CounterEvent::LlcMisses).name());
        let reason = with_slots(reason.with_some("tier", tier), snapshot, job, &job_cpus);
        plan.request(job.job.id, Action::Place(job_cpus), reason);
    }
}
