//! Animals: turtles, sheep, rabbits and devils, and what they cost each other on one cache.
//!
//! What came before DINO in the same scheduler, and a baseline for it. Threads are not sorted: each pair of
//! kinds has a penalty, and two small rules try to keep the sum of penalties low.
//!
//! ```text
//!   a thread comes     of the caches with the fewest threads to the one with the smallest penalty for it
//!   once a second      a random pair on two caches changes places if the sum of both penalties gets smaller
//! ```
//!
//! Which animal a thread is: [`classes`]. One that has shown nothing yet counts as a devil. How threads are
//! jobs here, and who is scheduled at all: [`crate::intensity`]. Memory stays where it is.

mod classes;
mod params;
mod swap;

use base::{CpuSet, Nanos, Rng};
use sched::{
    Action, Cause, CounterDeltas, CounterEvent, JobState, JobView, PerJob, Plan, Policy, Reason,
    ReasonCode, Snapshot,
};
use topology::DomainChoice;

use crate::PolicyError;
use crate::common;
use crate::intensity::busy::{Stand, let_go, stand};
use crate::intensity::notes::Notes;
use crate::intensity::rates::{misses_of, rate_of};
use crate::intensity::seats::Seats;
use crate::intensity::with_seats;
use crate::spec::Given;
use classes::{Animal, Company, Shown};
use params::Config;
pub(crate) use params::INFO;

/// The policy and what it remembers.
#[derive(Debug)]
struct Animals {
    config: Config,
    rng: Rng,
    notes: Notes,
    shown: PerJob<Shown>,
}

/// What a job does in this turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// It gets seats.
    Comes,
    /// It has seats, and may change one of them.
    Sits,
    /// It keeps what it has.
    Stays,
    /// It has no seat.
    Floats,
}

/// Whether a job has fewer seats than it could have: none yet, or CPUs that were gone came back.
fn lacks_seats(seats: &Seats, job: &JobView<'_>) -> bool {
    job.placed.is_none_or(|placed| placed.len() < seats.n_for(job))
}

pub(crate) fn build(given: &Given<'_>, seed: u64) -> Result<Box<dyn Policy>, PolicyError> {
    let (config, rng) = (Config::read(given)?, Rng::new(seed));
    Ok(Box::new(Animals { config, rng, notes: Notes::default(), shown: PerJob::default() }))
}

impl Policy for Animals {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        self.notes.say(seen, plan);
        self.remember(seen);
        if !common::can_place(seen) {
            return;
        }
        let is_interval = seen.turn.causes.contains(&Cause::Interval);
        let seats = Seats::of(seen);
        let of_jobs: Vec<(&JobView<'_>, Stand)> = (seen.jobs.iter())
            .map(|job| (job, stand(seen, &seats, job, &self.config.common)))
            .collect();
        if is_interval {
            self.notes.check_readable(self.config.common.failures, seen, plan);
            self.look(seen, &of_jobs, plan);
        }
        let part = |job: &JobView<'_>, stand: Stand| match stand {
            Stand::New => Part::Comes,
            Stand::Busy if is_interval && lacks_seats(&seats, job) => Part::Comes,
            Stand::Busy => Part::Sits,
            Stand::Idle(_) if is_interval => Part::Floats, // It has just been let go.
            Stand::Idle(_) | Stand::NotOurs => Part::Stays,
        };
        let parts: Vec<(&JobView<'_>, Part)> =
            of_jobs.iter().map(|(job, stand)| (*job, part(job, *stand))).collect();
        self.act(seen, seats, &parts, plan);
    }

    fn name(&self) -> &str {
        INFO.name
    }

    fn interval(&self) -> Option<Nanos> {
        Some(self.config.common.interval)
    }

    fn domains(&self) -> DomainChoice {
        self.config.common.domains
    }
}

impl Animals {
    /// Forgets who ended, and what a job did in an earlier life.
    fn remember(&mut self, seen: &Snapshot<'_>) {
        if seen.turn.causes.contains(&Cause::Ended) {
            self.shown.forget_ended(seen);
        }
        for job in seen.jobs.iter().filter(|job| job.state == JobState::Due) {
            *self.shown.of(job.job.id) = Shown::default();
        }
    }

    /// Takes an interval in, and lets go who did too little in it.
    fn look(&mut self, seen: &Snapshot<'_>, of_jobs: &[(&JobView<'_>, Stand)], plan: &mut Plan) {
        for (job, stand) in of_jobs {
            match stand {
                Stand::Idle(used) => let_go(job, *used, plan),
                Stand::Busy => {
                    let accesses =
                        |counted: &CounterDeltas| counted.get(CounterEvent::LlcReferences);
                    if let Some(misses) = misses_of(seen, job) {
                        let accesses = rate_of(seen, job, accesses);
                        self.shown.of(job.job.id).learn(misses, accesses);
                    }
                }
                Stand::New | Stand::NotOurs => {}
            }
        }
    }

    /// Changes pairs in an interval, and seats those that come.
    fn act(
        &mut self,
        seen: &Snapshot<'_>,
        mut seats: Seats,
        parts: &[(&JobView<'_>, Part)],
        plan: &mut Plan,
    ) {
        let jobs_that = |is: fn(Part) -> bool| {
            parts.iter().filter(move |(_, part)| is(*part)).map(|(job, _)| *job)
        };
        let stay = || jobs_that(|part| matches!(part, Part::Sits | Part::Stays));
        stay().for_each(|job| seats.keep(job));
        let mut company = self.company(&seats, stay());
        if seen.turn.causes.contains(&Cause::Interval) {
            let seated = swap::all_seated(&seats, jobs_that(|part| part == Part::Sits));
            self.swap_pairs(seen, &seated, &mut company, plan);
        }
        let mut coming: Vec<&JobView<'_>> = jobs_that(|part| part == Part::Comes).collect();
        // Who may run on few CPUs would find them taken.
        coming.sort_by_key(|job| (job.allowed.len(), job.job.id));
        for job in coming {
            self.seat(seen, job, (&mut seats, &mut company), plan);
        }
    }

    fn animal(&self, job: &JobView<'_>) -> Animal {
        let shown = self.shown.get(job.job.id);
        shown.map_or(Animal::Devil, |shown| shown.animal(self.config.limits))
    }

    fn company<'s>(&self, seats: &Seats, jobs: impl Iterator<Item = &'s JobView<'s>>) -> Company {
        let mut company = Company::new(seats.n_caches());
        for one in swap::all_seated(seats, jobs) {
            company.enter(one.cache, self.animal(one.job));
        }
        company
    }

    /// Gives a job its seats, thread by thread.
    fn seat(
        &mut self,
        seen: &Snapshot<'_>,
        job: &JobView<'_>,
        (seats, company): (&mut Seats, &mut Company),
        plan: &mut Plan,
    ) {
        let animal = self.animal(job);
        let mut own = CpuSet::new();
        let (mut penalty, mut n_there) = (0, None);
        for _ in 0..seats.n_for(job) {
            let caches = seats.possible(job.allowed, &own);
            let best = caches
                .map(|(cache, cpu, _)| {
                    (seats.n_in(cache), company.penalty(cache, animal), cache, cpu)
                })
                .min();
            let Some((n_in, of_cache, cache, cpu)) = best else { break };
            n_there.get_or_insert(n_in);
            penalty += of_cache;
            seats.take(cpu);
            company.enter(cache, animal);
            own.insert(cpu);
        }
        if own.is_empty() {
            return;
        }
        let shown = self.shown.of(job.job.id);
        let reason = Reason::new(ReasonCode::AnimalComes)
            .with("animal", animal.name().to_owned())
            .with("basis", shown.basis())
            .with("n_there", n_there.unwrap_or(0).to_string())
            .with("penalty", penalty.to_string());
        let reason = match shown.is_known() {
            true => reason.with("tier", seen.tiers.get(CounterEvent::LlcMisses).to_string()),
            false => reason,
        };
        let reason = with_seats(reason, seen, job, &own);
        plan.request(job.job.id, Action::Place(own), reason);
    }
}

#[cfg(test)]
mod tests;
