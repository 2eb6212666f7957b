//! Distributed Intensity (DI), DIO and DI-Migrate: threads with many cache misses are distributed over caches.
//!
//! Misses per instruction are the best single estimate of a thread's pressure on caches, memory controllers and
//! interconnects. Threads are sorted by this rate and assigned to caches round robin:
//!
//! ```text
//!   sorted   20  18   9   4   1  0.1         misses per 1000 instructions, once a second
//!   cache 0  20       9       1
//!   cache 1      18       4      0.1         always in the same direction: cache 0 has slightly more
//! ```
//!
//! `di` takes the rates from profiles, at the size of the machine's smallest last-level cache. `dio` counts the rates
//! and damps their changes ([`damping`]). `di-migrate` is `dio` with page migration. Every change of the order migrates
//! threads and their pages; DINO avoids these migrations.
//!
//! Jobs that start between two intervals get slots on the cache with the fewest threads, jobs with the highest rate
//! first, and no other job migrates. If all jobs start together, the result is the assignment shown above.
//!
//! [`crate::memory_intensity`] describes the placement of jobs instead of threads, and the selection of the scheduled
//! jobs.

mod damping;
mod declaration;
mod pages;

use std::cmp::Reverse;

use base::Bytes;
use sched::{
    Action, Cause, CounterEvent, JobState, JobView, PerJob, Plan, Reason, ReasonCode, Snapshot,
};

use crate::memory_intensity::cache_slots::{CacheSlots, SlotsByJob};
use crate::memory_intensity::parameters::Common;
use crate::memory_intensity::rates::{Rate, misses_of};
use crate::memory_intensity::{Utilization, release, utilizations, with_slots};
use crate::notes::{MachineNotes, RateFailures};
use crate::placement;
use crate::{Params, Rules};
use damping::DampedRate;
use declaration::{
    ASSIGNED_BY_MISSES, Config, FEWEST_THREADS, KeepCpu, NO_MISS_CURVE, Oversubscribed,
};
pub(crate) use declaration::{DI, DI_MIGRATE, DIO};
use pages::WaitingPages;

/// State of the policies.
#[derive(Debug)]
struct Di {
    variant: DiVariant,
    config: Config,
    common: Common,
    notes: MachineNotes,
    /// Counter of intervals without rates; `None` for DI, which uses no counters.
    failures: Option<RateFailures>,
    rates: PerJob<DampedRate>,
    pages: WaitingPages,
    /// Whether the note about jobs without a miss-ratio curve was added.
    noted_no_curve: bool,
}

/// Source of miss rates, and page migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DiVariant {
    /// Rates from profiles.
    Offline,
    /// Counted rates.
    Online,
    /// Counted rates; pages migrate with jobs.
    Migrate,
}

/// A job that gets slots, and its miss rate.
#[derive(Clone, Copy)]
struct Ranked<'s> {
    job: &'s JobView<'s>,
    rate: Option<Rate>,
    /// The rounded rate, by which jobs are sorted.
    key: Rate,
}

impl Rules for Di {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        self.notes.add_for_caches(snapshot, plan);
        placement::remove_old_state(&mut self.rates, snapshot);
        self.pages.remove_old(snapshot);
        if !placement::can_place(snapshot) {
            return;
        }
        self.note_no_curve(snapshot, plan);
        let is_interval = snapshot.turn.causes.contains(&Cause::Interval);
        if let Some(failures) = self.failures.as_mut().filter(|_| is_interval) {
            failures.check(snapshot, plan);
        }
        let empty = CacheSlots::of(snapshot);
        let of_jobs = utilizations(snapshot, &empty, &self.common);
        if is_interval {
            for (job, _) in of_jobs.iter().filter(|(_, one)| *one == Utilization::Busy) {
                self.add_sample(snapshot, job);
            }
            self.assign_all(snapshot, empty, &of_jobs, plan);
        } else {
            self.assign_new(snapshot, empty, &of_jobs, plan);
        }
        self.pages.request_waiting(snapshot, plan);
    }
}

impl Di {
    fn new(params: &Params<'_>, variant: DiVariant) -> Self {
        let (notes, rates, pages) = Default::default();
        let (config, common) = (Config::new(params), Common::new(params));
        let failures = (variant != DiVariant::Offline).then(|| RateFailures::new(params));
        Di { variant, config, common, notes, failures, rates, pages, noted_no_curve: false }
    }

    /// Adds the rate of an interval. A job whose misses were not counted in this interval keeps its rate.
    fn add_sample(&mut self, snapshot: &Snapshot<'_>, job: &JobView<'_>) {
        if self.variant != DiVariant::Offline
            && let Some(sample) = misses_of(snapshot, job)
        {
            self.rates.get_or_default(job.job.id).add(sample, self.config.devil);
        }
    }

    fn rate(&self, snapshot: &Snapshot<'_>, job: &JobView<'_>) -> Option<Rate> {
        match self.variant {
            DiVariant::Offline => solo_rate(snapshot, job),
            DiVariant::Online | DiVariant::Migrate => {
                self.rates.get(job.job.id).and_then(DampedRate::rate)
            }
        }
    }

    /// Returns the jobs that get slots, highest rate first; ties by number.
    fn ranked<'s>(
        &self,
        snapshot: &Snapshot<'_>,
        jobs: impl Iterator<Item = &'s JobView<'s>>,
    ) -> Vec<Ranked<'s>> {
        let rank = |job: &'s JobView<'s>| {
            let rate = self.rate(snapshot, job);
            Ranked { job, rate, key: rate.unwrap_or(self.config.devil).rounded() }
        };
        let mut ranked: Vec<Ranked<'s>> = jobs.map(rank).collect();
        ranked.sort_by_key(|ranked| Reverse(ranked.key));
        ranked
    }

    /// Assigns slots to all jobs, at the end of an interval.
    fn assign_all<'s>(
        &mut self,
        snapshot: &Snapshot<'_>,
        mut slots: CacheSlots,
        of_jobs: &[(&'s JobView<'s>, Utilization)],
        plan: &mut Plan,
    ) {
        for (job, utilization) in of_jobs {
            match utilization {
                Utilization::Idle(used) => release(job, *used, plan),
                Utilization::Unmanaged => slots.keep(job),
                Utilization::New | Utilization::Busy => {}
            }
        }
        let placed = of_jobs
            .iter()
            .filter(|(_, utilization)| matches!(utilization, Utilization::New | Utilization::Busy));
        let ranked = self.ranked(snapshot, placed.clone().map(|(job, _)| *job));
        // Two jobs are enough for the test below, because each job has at least one thread.
        let n_threads: usize = ranked.iter().take(2).map(|ranked| slots.n_for(ranked.job)).sum();
        let has_new = placed.clone().any(|(_, utilization)| *utilization == Utilization::New);
        if n_threads < 2 && !has_new {
            return;
        }
        let jobs: Vec<&JobView<'_>> = ranked.iter().map(|ranked| ranked.job).collect();
        let mut slots_of =
            slots.assign(jobs.iter().copied(), self.config.oversubscribed == Oversubscribed::Share);
        if self.config.keep == KeepCpu::Cpu {
            slots.rebalance(&mut slots_of, &jobs);
            slots.keep_cpus(&mut slots_of, &jobs);
        }
        self.request(snapshot, (&ranked, &slots_of), &ASSIGNED_BY_MISSES, plan);
    }

    /// Assigns slots to jobs without slots, between two intervals. All other jobs keep their slots.
    fn assign_new<'s>(
        &mut self,
        snapshot: &Snapshot<'_>,
        mut slots: CacheSlots,
        of_jobs: &[(&'s JobView<'s>, Utilization)],
        plan: &mut Plan,
    ) {
        let is_new =
            |(_, utilization): &&(&JobView<'_>, Utilization)| *utilization == Utilization::New;
        of_jobs.iter().filter(|one| !is_new(one)).for_each(|(job, _)| slots.keep(job));
        let ranked = self.ranked(snapshot, of_jobs.iter().filter(is_new).map(|(job, _)| *job));
        let jobs: Vec<&JobView<'_>> = ranked.iter().map(|ranked| ranked.job).collect();
        let mut slots_of =
            slots.assign(jobs.iter().copied(), self.config.oversubscribed == Oversubscribed::Share);
        slots.rebalance(&mut slots_of, &jobs);
        self.request(snapshot, (&ranked, &slots_of), &FEWEST_THREADS, plan);
    }

    /// Requests the placement of every job whose slots changed.
    fn request(
        &mut self,
        snapshot: &Snapshot<'_>,
        (ranked, slots_of): (&[Ranked<'_>], &SlotsByJob),
        code: &ReasonCode,
        plan: &mut Plan,
    ) {
        for (at, one) in ranked.iter().enumerate() {
            let job = one.job;
            let Some(cpus) = slots_of.get(job.job.id) else { continue };
            if job.placed == Some(cpus) {
                continue;
            }
            let reason = Reason::new(code.clone())
                .with("rank", at as u64 + 1)
                .with("n_jobs", ranked.len() as u64)
                .with("n_domains", snapshot.domains.len() as u64)
                .with("misses", one.key.0 / 1000)
                .with("basis", self.basis(one));
            let reason = with_slots(reason, snapshot, job, cpus);
            let is_counted = one.rate.is_some() && self.variant != DiVariant::Offline;
            let tier = is_counted.then(|| snapshot.tiers.get(CounterEvent::LlcMisses).name());
            let reason = reason.with_some("tier", tier);
            plan.request(job.job.id, Action::Place(cpus.clone()), reason);
            if self.variant == DiVariant::Migrate {
                self.pages.follow(snapshot, job, cpus, plan);
            }
        }
    }

    /// Returns the source of the rate, as a word of the sentence templates.
    fn basis(&self, ranked: &Ranked<'_>) -> &'static str {
        match (ranked.rate, self.variant) {
            (None, _) => "assumed",
            (Some(_), DiVariant::Offline) => "profile",
            (Some(_), DiVariant::Online | DiVariant::Migrate) => "counted",
        }
    }

    /// Adds a note, once per run, about jobs whose profiles have no miss-ratio curve.
    fn note_no_curve(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        let unknown =
            |job: &&JobView<'_>| job.state == JobState::Due && solo_rate(snapshot, job).is_none();
        if self.noted_no_curve || self.variant != DiVariant::Offline {
            return;
        }
        let names = snapshot.jobs.iter().filter(unknown).map(|job| job.job.name.as_str());
        let names = placement::some_names(names);
        if !names.is_empty() {
            self.noted_no_curve = true;
            let reason = Reason::new(NO_MISS_CURVE).with("jobs", names);
            plan.note(reason.with("devil", self.config.devil.to_string()));
        }
    }
}

/// Returns the miss rate of a job that runs alone, from its profile. The cache size is the size of the smallest
/// last-level cache. If this size is unknown, the cache size is the size for which the profile gives a class, else the
/// smallest size of the profile.
fn solo_rate(snapshot: &Snapshot<'_>, job: &JobView<'_>) -> Option<Rate> {
    let profile = job.job.found.as_deref()?;
    let smallest: Option<Bytes> = snapshot.machine.llcs().iter().filter_map(|llc| llc.size).min();
    let cache = smallest.or(profile.class_cache).unwrap_or(Bytes::ZERO);
    let per_1000 = profile.average(|phase| phase.curve.misses_at(cache))?;
    let per_million = (per_1000 * 1000.0).round();
    (per_million.is_finite() && 0.0 <= per_million).then_some(Rate(per_million as u64))
}
