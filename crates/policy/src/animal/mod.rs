//! Animal classes: turtles, sheep, rabbits and devils, and their penalties for each other on one cache.
//!
//! The predecessor of DINO in the same scheduler, and a baseline for it. Threads are not sorted: each pair of
//! classes has a penalty, and two simple rules keep the sum of penalties low.
//!
//! ```text
//!   a thread starts    on the cache with the lowest penalty for it, of the caches with the fewest threads
//!   once a second      a random pair on two caches swaps its CPUs if that lowers the sum of both penalties
//! ```
//!
//! Classes: [`classes`]. A thread with an unknown class counts as a devil. Threads and jobs, and which jobs are
//! scheduled: [`crate::memory_intensity`]. Pages never migrate.

mod classes;
mod declaration;
mod swap;

use base::{CpuSet, Nanos, Rng};
use sched::{
    Action, Cause, CounterDeltas, CounterEvent, JobState, JobView, PerJob, Plan, Policy, Reason,
    ReasonCode, Snapshot,
};
use topology::DomainChoice;

use crate::memory_intensity::activity::{Activity, activity, release};
use crate::memory_intensity::cache_slots::CacheSlots;
use crate::memory_intensity::rates::{misses_of, rate_of};
use crate::memory_intensity::with_slots;
use crate::notes::{MachineNotes, RateFailures};
use crate::placement;
use classes::{Animal, AnimalCounts, RateHistory};
pub(crate) use declaration::INFO;
use declaration::{ANIMAL_PLACED, Config};

/// State of the policy.
#[derive(Debug)]
struct Animals {
    config: Config,
    rng: Rng,
    notes: MachineNotes,
    failures: RateFailures,
    history: PerJob<RateHistory>,
}

/// The slots of a job in this turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotChange {
    /// It gets slots.
    Assign,
    /// It keeps its slots, or swaps one of them.
    MaySwap,
    /// It keeps its slots.
    Keep,
    /// It has no slots.
    Without,
}

/// Whether a job has fewer slots than it could have: none yet, or CPUs became usable again.
fn lacks_slots(slots: &CacheSlots, job: &JobView<'_>) -> bool {
    job.placed.is_none_or(|placed| placed.len() < slots.n_for(job))
}

impl Policy for Animals {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        self.notes.add_for_caches(seen, plan);
        self.forget(seen);
        if !placement::can_place(seen) {
            return;
        }
        let is_interval = seen.turn.causes.contains(&Cause::Interval);
        let slots = CacheSlots::of(seen);
        let of_jobs: Vec<(&JobView<'_>, Activity)> = (seen.jobs.iter())
            .map(|job| (job, activity(seen, &slots, job, &self.config.common)))
            .collect();
        if is_interval {
            self.failures.check(self.config.failures, seen, plan);
            self.sample(seen, &of_jobs, plan);
        }
        let change = |job: &JobView<'_>, activity: Activity| match activity {
            Activity::New => SlotChange::Assign,
            Activity::Busy if is_interval && lacks_slots(&slots, job) => SlotChange::Assign,
            Activity::Busy => SlotChange::MaySwap,
            Activity::Idle(_) if is_interval => SlotChange::Without, // It was released in this turn.
            Activity::Idle(_) | Activity::Unmanaged => SlotChange::Keep,
        };
        let changes: Vec<(&JobView<'_>, SlotChange)> =
            of_jobs.iter().map(|(job, activity)| (*job, change(job, *activity))).collect();
        self.act(seen, slots, &changes, plan);
    }

    fn name(&self) -> &str {
        INFO.name
    }

    fn reasons(&self) -> Vec<ReasonCode> {
        INFO.reasons.concat()
    }

    fn interval(&self) -> Option<Nanos> {
        Some(self.config.common.interval)
    }

    fn domains(&self) -> DomainChoice {
        self.config.common.domains
    }
}

impl Animals {
    fn new(config: Config, rng: Rng) -> Self {
        let (notes, failures, history) = Default::default();
        Animals { config, rng, notes, failures, history }
    }

    /// Discards the rates of ended jobs, and of earlier runs of a job.
    fn forget(&mut self, seen: &Snapshot<'_>) {
        if seen.turn.causes.contains(&Cause::Ended) {
            self.history.forget_ended(seen);
        }
        for job in seen.jobs.iter().filter(|job| job.state == JobState::Due) {
            *self.history.of(job.job.id) = RateHistory::default();
        }
    }

    /// Adds an interval, and releases jobs that used too little CPU time in it.
    fn sample(
        &mut self,
        seen: &Snapshot<'_>,
        of_jobs: &[(&JobView<'_>, Activity)],
        plan: &mut Plan,
    ) {
        for (job, activity) in of_jobs {
            match activity {
                Activity::Idle(used) => release(job, *used, plan),
                Activity::Busy => {
                    let accesses =
                        |counted: &CounterDeltas| counted.get(CounterEvent::LlcReferences);
                    if let Some(misses) = misses_of(seen, job) {
                        let accesses = rate_of(seen, job, accesses);
                        self.history.of(job.job.id).add(misses, accesses);
                    }
                }
                Activity::New | Activity::Unmanaged => {}
            }
        }
    }

    /// Swaps pairs at the end of an interval, and assigns slots to unplaced jobs.
    fn act(
        &mut self,
        seen: &Snapshot<'_>,
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
        if seen.turn.causes.contains(&Cause::Interval) {
            let threads =
                swap::slots_of_threads(&slots, jobs_that(|change| change == SlotChange::MaySwap));
            self.swap_pairs(seen, &threads, &mut counts, plan);
        }
        let mut unplaced: Vec<&JobView<'_>> =
            jobs_that(|change| change == SlotChange::Assign).collect();
        // Jobs that may use few CPUs first: otherwise others would take these.
        unplaced.sort_by_key(|job| (job.allowed.len(), job.job.id));
        for job in unplaced {
            self.assign(seen, job, (&mut slots, &mut counts), plan);
        }
    }

    fn animal(&self, job: &JobView<'_>) -> Animal {
        let history = self.history.get(job.job.id);
        history.map_or(Animal::Devil, |history| history.animal(self.config.limits))
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
        seen: &Snapshot<'_>,
        job: &JobView<'_>,
        (slots, counts): (&mut CacheSlots, &mut AnimalCounts),
        plan: &mut Plan,
    ) {
        let animal = self.animal(job);
        let mut own = CpuSet::new();
        let (mut penalty, mut n_there) = (0, None);
        for _ in 0..slots.n_for(job) {
            let caches = slots.possible(job.allowed, &own);
            let best = caches
                .map(|(cache, cpu, _)| {
                    (slots.n_in(cache), counts.penalty(cache, animal), cache, cpu)
                })
                .min();
            let Some((n_in, of_cache, cache, cpu)) = best else { break };
            n_there.get_or_insert(n_in);
            penalty += of_cache;
            slots.take(cpu);
            counts.add(cache, animal);
            own.insert(cpu);
        }
        if own.is_empty() {
            return;
        }
        let history = self.history.of(job.job.id);
        let reason = Reason::new(ANIMAL_PLACED)
            .with("animal", animal.name().to_owned())
            .with("basis", history.basis())
            .with("n_there", n_there.unwrap_or(0).to_string())
            .with("penalty", penalty.to_string());
        let tier = history.is_known().then(|| seen.tiers.get(CounterEvent::LlcMisses).name());
        let reason = with_slots(reason.with_some("tier", tier), seen, job, &own);
        plan.request(job.job.id, Action::Place(own), reason);
    }
}
