//! Distributed Intensity (DI), DIO and DI-Migrate: threads with many cache misses are distributed over caches.
//!
//! Misses per instruction are the best single estimate of a thread's pressure on caches, memory controllers and
//! interconnects. So threads are sorted by it and assigned to caches in turn:
//!
//! ```text
//!   sorted   20  18   9   4   1  0.1         misses per 1000 instructions, once a second
//!   cache 0  20       9       1
//!   cache 1      18       4      0.1         always the same direction, so cache 0 has slightly more
//! ```
//!
//! `di` takes the rates from profiles, at the size of the machine's smallest last-level cache. `dio` counts and
//! damps them ([`damping`]). `di-migrate` is `dio` with page migration: any change of the order migrates threads
//! and their pages, the weakness that DINO corrects.
//!
//! A job that starts between two intervals gets slots on the cache with the fewest threads, jobs with the highest
//! rate first. If all jobs start together, that is the assignment itself. No other job migrates then.
//!
//! Threads and jobs, and which jobs are scheduled: [`crate::memory_intensity`].

mod damping;
mod declaration;

use std::cmp::Reverse;

use base::{Bytes, Nanos};
use sched::{
    Action, Cause, CounterEvent, JobState, JobView, PerJob, Plan, Policy, Reason, ReasonCode,
    Snapshot,
};
use topology::DomainChoice;

use crate::memory_intensity::activity::{Activity, activity, release};
use crate::memory_intensity::cache_slots::{CacheSlots, SlotsByJob};
use crate::memory_intensity::rates::{Rate, misses_of};
use crate::memory_intensity::{page_moves, with_slots};
use crate::notes::{MachineNotes, RateFailures};
use crate::placement;
use damping::DampedRate;
use declaration::{ASSIGNED_BY_MISSES, Config, FEWEST_THREADS, NO_MISS_CURVE, Variant};
pub(crate) use declaration::{DI, DI_MIGRATE, DIO};

/// State of the policies.
#[derive(Debug)]
struct Di {
    config: Config,
    notes: MachineNotes,
    failures: RateFailures,
    rates: PerJob<DampedRate>,
    /// Whether the note about jobs without a miss curve was given.
    noted_no_curve: bool,
}

/// A job that gets slots, and its miss rate.
#[derive(Clone, Copy)]
struct Ranked<'s> {
    job: &'s JobView<'s>,
    rate: Option<Rate>,
    /// The rounded rate, by which jobs are sorted.
    key: Rate,
}

impl Policy for Di {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        self.notes.add_for_caches(seen, plan);
        self.forget(seen);
        if !placement::can_place(seen) {
            return;
        }
        self.note_no_curve(seen, plan);
        let is_interval = seen.turn.causes.contains(&Cause::Interval);
        if let Some(limit) = self.config.failures.filter(|_| is_interval) {
            self.failures.check(limit, seen, plan);
        }
        let empty = CacheSlots::of(seen);
        let activity_of = |job: &JobView<'_>| activity(seen, &empty, job, &self.config.common);
        let of_jobs: Vec<(&JobView<'_>, Activity)> =
            seen.jobs.iter().map(|job| (job, activity_of(job))).collect();
        if is_interval {
            let busy = of_jobs.iter().filter(|(_, activity)| *activity == Activity::Busy);
            let busy: Vec<&JobView<'_>> = busy.map(|(job, _)| *job).collect();
            busy.into_iter().for_each(|job| self.learn(seen, job));
            self.assign_all(seen, empty, &of_jobs, plan);
        } else {
            self.assign_new(seen, empty, &of_jobs, plan);
        }
    }

    fn name(&self) -> &str {
        match self.config.variant {
            Variant::Offline => DI.name,
            Variant::Online => DIO.name,
            Variant::Migrate => DI_MIGRATE.name,
        }
    }

    fn reasons(&self) -> Vec<ReasonCode> {
        DI.reasons.concat()
    }

    fn interval(&self) -> Option<Nanos> {
        Some(self.config.common.interval)
    }

    fn domains(&self) -> DomainChoice {
        self.config.common.domains
    }
}

impl Di {
    fn new(config: Config) -> Self {
        let (notes, failures, rates) = Default::default();
        Di { config, notes, failures, rates, noted_no_curve: false }
    }

    /// Discards the rates of ended jobs, and of earlier runs of a job.
    fn forget(&mut self, seen: &Snapshot<'_>) {
        if seen.turn.causes.contains(&Cause::Ended) {
            self.rates.forget_ended(seen);
        }
        for job in seen.jobs.iter().filter(|job| job.state == JobState::Due) {
            *self.rates.of(job.job.id) = DampedRate::default();
        }
    }

    /// Adds a sample. A job whose misses were not counted in this interval keeps its rate.
    fn learn(&mut self, seen: &Snapshot<'_>, job: &JobView<'_>) {
        if self.config.variant != Variant::Offline
            && let Some(sample) = misses_of(seen, job)
        {
            self.rates.of(job.job.id).add(sample, self.config.devil);
        }
    }

    fn rate(&self, seen: &Snapshot<'_>, job: &JobView<'_>) -> Option<Rate> {
        match self.config.variant {
            Variant::Offline => solo_rate(seen, job),
            Variant::Online | Variant::Migrate => {
                self.rates.get(job.job.id).and_then(DampedRate::rate)
            }
        }
    }

    /// Jobs that get slots, highest rate first; ties by number.
    fn ranked<'s>(
        &self,
        seen: &Snapshot<'_>,
        jobs: impl Iterator<Item = &'s JobView<'s>>,
    ) -> Vec<Ranked<'s>> {
        let rank = |job: &'s JobView<'s>| {
            let rate = self.rate(seen, job);
            Ranked { job, rate, key: rate.unwrap_or(self.config.devil).rounded() }
        };
        let mut ranked: Vec<Ranked<'s>> = jobs.map(rank).collect();
        ranked.sort_by_key(|ranked| Reverse(ranked.key));
        ranked
    }

    /// Assigns slots to all jobs, at the end of an interval.
    fn assign_all<'s>(
        &self,
        seen: &Snapshot<'_>,
        mut slots: CacheSlots,
        of_jobs: &[(&'s JobView<'s>, Activity)],
        plan: &mut Plan,
    ) {
        for (job, activity) in of_jobs {
            match activity {
                Activity::Idle(used) => release(job, *used, plan),
                Activity::Unmanaged => slots.keep(job),
                Activity::New | Activity::Busy => {}
            }
        }
        let placed = of_jobs
            .iter()
            .filter(|(_, activity)| matches!(activity, Activity::New | Activity::Busy));
        let ranked = self.ranked(seen, placed.clone().map(|(job, _)| *job));
        // Two jobs have at least two threads.
        let n_threads: usize = ranked.iter().take(2).map(|ranked| slots.n_for(ranked.job)).sum();
        let has_new = placed.clone().any(|(_, activity)| *activity == Activity::New);
        if n_threads < 2 && !has_new {
            return;
        }
        let jobs: Vec<&JobView<'_>> = ranked.iter().map(|ranked| ranked.job).collect();
        let mut slots_of = slots.assign(jobs.iter().copied(), self.config.shares_cpus);
        if self.config.keeps_cpu {
            slots.rebalance(&mut slots_of, &jobs);
            slots.keep_cpus(&mut slots_of, &jobs);
        }
        self.request(seen, (&ranked, &slots_of), &ASSIGNED_BY_MISSES, plan);
    }

    /// Assigns slots to jobs without slots, between two intervals. All others keep theirs.
    fn assign_new<'s>(
        &self,
        seen: &Snapshot<'_>,
        mut slots: CacheSlots,
        of_jobs: &[(&'s JobView<'s>, Activity)],
        plan: &mut Plan,
    ) {
        let is_new = |(_, activity): &&(&JobView<'_>, Activity)| *activity == Activity::New;
        of_jobs.iter().filter(|one| !is_new(one)).for_each(|(job, _)| slots.keep(job));
        let ranked = self.ranked(seen, of_jobs.iter().filter(is_new).map(|(job, _)| *job));
        let jobs: Vec<&JobView<'_>> = ranked.iter().map(|ranked| ranked.job).collect();
        let mut slots_of = slots.assign(jobs.iter().copied(), self.config.shares_cpus);
        slots.rebalance(&mut slots_of, &jobs);
        self.request(seen, (&ranked, &slots_of), &FEWEST_THREADS, plan);
    }

    /// Requests the placement of every job whose slots changed.
    fn request(
        &self,
        seen: &Snapshot<'_>,
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
                .with("n_domains", seen.domains.len() as u64)
                .with("misses", one.key.0 / 1000)
                .with("basis", self.basis(one));
            let reason = with_slots(reason, seen, job, cpus);
            let is_counted = one.rate.is_some() && self.config.variant != Variant::Offline;
            let tier = is_counted.then(|| seen.tiers.get(CounterEvent::LlcMisses).name());
            let reason = reason.with_some("tier", tier);
            plan.request(job.job.id, Action::Place(cpus.clone()), reason);
            if self.config.variant == Variant::Migrate {
                move_pages(seen, job, cpus, plan);
            }
        }
    }

    fn basis(&self, ranked: &Ranked<'_>) -> &'static str {
        match (ranked.rate, self.config.variant) {
            (None, _) => "assumed, since it is unknown",
            (Some(_), Variant::Offline) => "from its profile",
            (Some(_), Variant::Online | Variant::Migrate) => "as counted",
        }
    }

    /// Once a run: jobs whose profiles have no miss curve.
    fn note_no_curve(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        let unknown =
            |job: &&JobView<'_>| job.state == JobState::Due && solo_rate(seen, job).is_none();
        if self.noted_no_curve || self.config.variant != Variant::Offline {
            return;
        }
        let names = seen.jobs.iter().filter(unknown).map(|job| job.job.name.as_str());
        let names = placement::some_names(names);
        if !names.is_empty() {
            self.noted_no_curve = true;
            let reason = Reason::new(NO_MISS_CURVE).with("jobs", names);
            plan.note(reason.with("devil", self.config.devil.to_string()));
        }
    }
}

/// Requests the migration of the pages of a job that changes its node.
fn move_pages(seen: &Snapshot<'_>, job: &JobView<'_>, cpus: &base::CpuSet, plan: &mut Plan) {
    let Some(change) = page_moves::node_change(seen, job, cpus) else { return };
    if let Some(action) = page_moves::action(seen, job, change) {
        plan.request(job.job.id, action, page_moves::reason(change, job));
    }
}

/// Misses of a job that runs alone on a cache, from its profile, at the size of the smallest last-level cache. If
/// that size is unknown: at the size for which the profile gives a class, else at the smallest size of the profile.
fn solo_rate(seen: &Snapshot<'_>, job: &JobView<'_>) -> Option<Rate> {
    let profile = job.job.found.as_deref()?;
    let smallest: Option<Bytes> = seen.machine.llcs().iter().filter_map(|llc| llc.size).min();
    let cache = smallest.or(profile.class_cache).unwrap_or(Bytes::ZERO);
    let per_1000 = profile.average(|phase| phase.curve.misses_at(cache))?;
    let per_million = (per_1000 * 1000.0).round();
    (per_million.is_finite() && 0.0 <= per_million).then_some(Rate(per_million as u64))
}
