//! DI, DIO and DI-Migrate: programs that miss much are kept apart (Distributed Intensity).
//!
//! Misses per instruction tell best who presses on caches, controllers and buses, whichever of them is
//! scarce: that is the finding. So threads are sorted by it and dealt out to caches like cards:
//!
//! ```text
//!   sorted   20  18   9   4   1  0.1         misses per 1000 instructions, once a second
//!   cache 0  20       9       1
//!   cache 1      18       4      0.1         always the same direction, so cache 0 has a little more
//! ```
//!
//! `di` knows the rates beforehand, from profiles, at the size of this machine's smallest last-level cache;
//! `dio` counts them and damps them ([`damping`]). `di-migrate` is `dio` with memory that goes along to
//! another node: what DINO was made to mend, since the deal moves threads for any change of their
//! order.
//!
//! A job that starts between two deals goes to the cache with the fewest threads, the one with the
//! highest rate first: where all start together that is the deal itself. Nobody else is moved then.
//!
//! How threads are jobs here, and who is scheduled at all: [`crate::intensity`].

mod damping;
mod params;

use std::cmp::Reverse;

use base::{Bytes, Nanos};
use sched::{
    Action, Cause, CounterEvent, JobState, JobView, PerJob, Plan, Policy, Reason, ReasonCode,
    Snapshot,
};
use topology::DomainChoice;

use crate::PolicyError;
use crate::common;
use crate::intensity::busy::{Stand, let_go, stand};
use crate::intensity::notes::Notes;
use crate::intensity::rates::{Rate, misses_of};
use crate::intensity::seats::{Seating, Seats};
use crate::intensity::{memory, with_seats};
use crate::spec::Given;
use damping::Damped;
use params::{Config, Kind};
pub(crate) use params::{DI, DI_MIGRATE, DIO};

/// The policy and what it remembers.
#[derive(Debug)]
struct Di {
    config: Config,
    notes: Notes,
    shown: PerJob<Damped>,
    /// Whether it was said that jobs have no profile.
    said_unknown: bool,
}

/// A job that is to have seats, and its miss rate.
#[derive(Clone, Copy)]
struct Ranked<'s> {
    job: &'s JobView<'s>,
    rate: Option<Rate>,
    /// What it is sorted by.
    key: Rate,
}

pub(crate) fn build_di(given: &Given<'_>, _seed: u64) -> Result<Box<dyn Policy>, PolicyError> {
    build(given, Kind::Offline)
}

pub(crate) fn build_dio(given: &Given<'_>, _seed: u64) -> Result<Box<dyn Policy>, PolicyError> {
    build(given, Kind::Online)
}

pub(crate) fn build_di_migrate(
    given: &Given<'_>,
    _seed: u64,
) -> Result<Box<dyn Policy>, PolicyError> {
    build(given, Kind::Migrate)
}

fn build(given: &Given<'_>, kind: Kind) -> Result<Box<dyn Policy>, PolicyError> {
    let config = Config::read(given, kind)?;
    let (notes, shown) = (Notes::default(), PerJob::default());
    Ok(Box::new(Di { config, notes, shown, said_unknown: false }))
}

impl Policy for Di {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        self.notes.say(seen, plan);
        self.remember(seen);
        if !common::can_place(seen) {
            return;
        }
        self.say_unknown(seen, plan);
        let is_interval = seen.turn.causes.contains(&Cause::Interval);
        if is_interval && self.config.kind != Kind::Offline {
            self.notes.check_readable(self.config.common.failures, seen, plan);
        }
        let empty = Seats::of(seen);
        let stands = |job: &JobView<'_>| stand(seen, &empty, job, &self.config.common);
        let of_jobs: Vec<(&JobView<'_>, Stand)> =
            seen.jobs.iter().map(|job| (job, stands(job))).collect();
        if is_interval {
            let busy = of_jobs.iter().filter(|(_, stand)| *stand == Stand::Busy);
            let busy: Vec<&JobView<'_>> = busy.map(|(job, _)| *job).collect();
            busy.into_iter().for_each(|job| self.learn(seen, job));
            self.deal_all(seen, empty, &of_jobs, plan);
        } else {
            self.seat_new(seen, empty, &of_jobs, plan);
        }
    }

    fn name(&self) -> &str {
        match self.config.kind {
            Kind::Offline => DI.name,
            Kind::Online => DIO.name,
            Kind::Migrate => DI_MIGRATE.name,
        }
    }

    fn interval(&self) -> Option<Nanos> {
        Some(self.config.common.interval)
    }

    fn domains(&self) -> DomainChoice {
        self.config.common.domains
    }
}

impl Di {
    /// Forgets who ended, and what a job did in an earlier life.
    fn remember(&mut self, seen: &Snapshot<'_>) {
        if seen.turn.causes.contains(&Cause::Ended) {
            self.shown.forget_ended(seen);
        }
        for job in seen.jobs.iter().filter(|job| job.state == JobState::Due) {
            *self.shown.of(job.job.id) = Damped::default();
        }
    }

    /// A job whose misses were not counted in this interval keeps the rate that it had.
    fn learn(&mut self, seen: &Snapshot<'_>, job: &JobView<'_>) {
        if self.config.kind != Kind::Offline
            && let Some(sample) = misses_of(seen, job)
        {
            self.shown.of(job.job.id).learn(sample, self.config.devil);
        }
    }

    fn rate(&self, seen: &Snapshot<'_>, job: &JobView<'_>) -> Option<Rate> {
        match self.config.kind {
            Kind::Offline => solo_rate(seen, job),
            Kind::Online | Kind::Migrate => self.shown.get(job.job.id).and_then(Damped::rate),
        }
    }

    /// Those of some jobs that are to have seats, highest rate first; equals as they come, by number.
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

    /// Once an interval: everybody gets up, and all are dealt out anew.
    fn deal_all<'s>(
        &self,
        seen: &Snapshot<'_>,
        mut seats: Seats,
        of_jobs: &[(&'s JobView<'s>, Stand)],
        plan: &mut Plan,
    ) {
        for (job, stand) in of_jobs {
            match stand {
                Stand::Idle(used) => let_go(job, *used, plan),
                Stand::NotOurs => seats.keep(job),
                Stand::New | Stand::Busy => {}
            }
        }
        let placed = of_jobs.iter().filter(|(_, stand)| matches!(stand, Stand::New | Stand::Busy));
        let ranked = self.ranked(seen, placed.clone().map(|(job, _)| *job));
        // Two jobs are two threads at least.
        let n_threads: usize = ranked.iter().take(2).map(|ranked| seats.n_for(ranked.job)).sum();
        let has_new = placed.clone().any(|(_, stand)| *stand == Stand::New);
        if n_threads < 2 && !has_new {
            return;
        }
        let jobs: Vec<&JobView<'_>> = ranked.iter().map(|ranked| ranked.job).collect();
        let mut seating = seats.deal(jobs.iter().copied(), self.config.shares);
        if self.config.keeps {
            seats.relieve(&mut seating, &jobs);
            seats.stay(&mut seating, &jobs);
        }
        self.ask(seen, (&ranked, &seating), ReasonCode::DealtByMisses, plan);
    }

    /// Between two deals only those are seated that have no seat; all others keep theirs.
    fn seat_new<'s>(
        &self,
        seen: &Snapshot<'_>,
        mut seats: Seats,
        of_jobs: &[(&'s JobView<'s>, Stand)],
        plan: &mut Plan,
    ) {
        let is_new = |(_, stand): &&(&JobView<'_>, Stand)| *stand == Stand::New;
        of_jobs.iter().filter(|one| !is_new(one)).for_each(|(job, _)| seats.keep(job));
        let ranked = self.ranked(seen, of_jobs.iter().filter(is_new).map(|(job, _)| *job));
        let jobs: Vec<&JobView<'_>> = ranked.iter().map(|ranked| ranked.job).collect();
        let mut seating = seats.deal(jobs.iter().copied(), self.config.shares);
        seats.relieve(&mut seating, &jobs);
        self.ask(seen, (&ranked, &seating), ReasonCode::FewestThreads, plan);
    }

    /// Asks for every seat that is another than before.
    fn ask(
        &self,
        seen: &Snapshot<'_>,
        (ranked, seating): (&[Ranked<'_>], &Seating),
        code: ReasonCode,
        plan: &mut Plan,
    ) {
        for (at, one) in ranked.iter().enumerate() {
            let job = one.job;
            let Some(cpus) = seating.get(job.job.id) else { continue };
            if job.placed == Some(cpus) {
                continue;
            }
            let reason = Reason::new(code)
                .with("rank", at as u64 + 1)
                .with("n_jobs", ranked.len() as u64)
                .with("n_places", seen.domains.len() as u64)
                .with("misses", one.key.0 / 1000)
                .with("basis", self.basis(one));
            let reason = with_seats(reason, seen, job, cpus);
            let reason = match one.rate {
                Some(_) if self.config.kind != Kind::Offline => {
                    reason.with("tier", seen.tiers.get(CounterEvent::LlcMisses).name())
                }
                _ => reason,
            };
            plan.request(job.job.id, Action::Place(cpus.clone()), reason);
            if self.config.kind == Kind::Migrate {
                take_memory_along(seen, job, cpus, plan);
            }
        }
    }

    fn basis(&self, ranked: &Ranked<'_>) -> &'static str {
        match (ranked.rate, self.config.kind) {
            (None, _) => "assumed, as nothing is known of it",
            (Some(_), Kind::Offline) => "by its profile",
            (Some(_), Kind::Online | Kind::Migrate) => "as it has shown",
        }
    }

    /// Once a run: jobs whose profiles do not tell what they are dealt by.
    fn say_unknown(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        let unknown =
            |job: &&JobView<'_>| job.state == JobState::Due && solo_rate(seen, job).is_none();
        if self.said_unknown || self.config.kind != Kind::Offline {
            return;
        }
        let names = seen.jobs.iter().filter(unknown).map(|job| job.job.name.as_str());
        let names = common::some_names(names);
        if !names.is_empty() {
            self.said_unknown = true;
            let reason = Reason::new(ReasonCode::NoMissCurve).with("jobs", names);
            plan.note(reason.with("devil", self.config.devil.to_string()));
        }
    }
}

/// Memory follows to the other node, in the same plan.
fn take_memory_along(seen: &Snapshot<'_>, job: &JobView<'_>, cpus: &base::CpuSet, plan: &mut Plan) {
    let Some(way) = memory::way(seen, job, cpus) else { return };
    if let Some(action) = memory::pages(seen, job, way) {
        plan.request(job.job.id, action, memory::reason(way, job));
    }
}

/// What a job misses when it runs alone with all of the cache: by its profile, at the size of the
/// smallest last-level cache. Where the machine does not tell that, at the size at which the
/// profile took its class, or else in the smallest cache that it tells of, as declared figures are.
fn solo_rate(seen: &Snapshot<'_>, job: &JobView<'_>) -> Option<Rate> {
    let profile = job.job.found.as_deref()?;
    let smallest: Option<Bytes> = seen.machine.llcs().iter().filter_map(|llc| llc.size).min();
    let cache = smallest.or(profile.class_cache).unwrap_or(Bytes::ZERO);
    let per_1000 = profile.average(|phase| phase.curve.misses_at(cache))?;
    let per_million = (per_1000 * 1000.0).round();
    (per_million.is_finite() && 0.0 <= per_million).then_some(Rate(per_million as u64))
}

#[cfg(test)]
mod tests;
