//! DINO: threads move only when they change their class, and memory moves with them.
//!
//! DI deals threads out by their exact order, so any change of it moves some, and on a machine with several
//! nodes a thread away from its memory loses more than a calmer cache gains. DINO asks two questions less often:
//!
//! ```text
//!   which class?     turtle, devil, super-devil; 7 of 10 intervals must agree       [`classes`]
//!   which seat?      classes to and fro over the caches; who can stay stays         [`map`]
//!   and its memory?  goes to the node that the thread comes to                      [`memory`]
//! ```
//!
//! Where all are turtles nothing is done at all: there is nobody to keep apart. Nor for one thread alone.
//!
//! A job that starts between two intervals counts as a devil and takes a seat that the map has left for one;
//! nobody else is moved for it. How threads are jobs here, and who is scheduled at all: [`crate::intensity`].
//! Memory of a job whose threads lie on several nodes stays: no single move would be right for it.

mod classes;
mod map;
mod memory;
mod params;

use base::{CpuSet, Nanos};
use sched::{
    Action, Cause, CounterEvent, JobState, JobView, PerJob, Plan, Policy, Reason, ReasonCode,
    Snapshot,
};
use topology::DomainChoice;

use crate::PolicyError;
use crate::common;
use crate::intensity::busy::{Stand, let_go, stand};
use crate::intensity::notes::Notes;
use crate::intensity::rates::misses_of;
use crate::intensity::seats::{Seating, Seats};
use crate::intensity::with_seats;
use crate::spec::Given;
use classes::{Class, Shown};
use map::Map;
use memory::Moved;
pub(crate) use params::INFO;
use params::{Config, Keep, Memory};

/// The policy and what it remembers.
#[derive(Debug)]
struct Dino {
    config: Config,
    notes: Notes,
    shown: PerJob<Shown>,
    /// What a job counted as when seats were last given; for `keep=core`.
    class_before: PerJob<Option<Class>>,
    moved: PerJob<Option<Moved>>,
    said_partial: bool,
}

pub(crate) fn build(given: &Given<'_>, _seed: u64) -> Result<Box<dyn Policy>, PolicyError> {
    Ok(Box::new(Dino {
        config: Config::read(given)?,
        notes: Notes::default(),
        shown: PerJob::default(),
        class_before: PerJob::default(),
        moved: PerJob::default(),
        said_partial: false,
    }))
}

impl Policy for Dino {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        self.notes.say(seen, plan);
        self.remember(seen);
        if !common::can_place(seen) {
            return;
        }
        if self.config.memory == Memory::Partial && !std::mem::replace(&mut self.said_partial, true)
        {
            plan.note(Reason::new(ReasonCode::NoAddressSampling));
        }
        let is_interval = seen.turn.causes.contains(&Cause::Interval);
        let seats = Seats::of(seen);
        let of_jobs: Vec<(&JobView<'_>, Stand)> = (seen.jobs.iter())
            .map(|job| (job, stand(seen, &seats, job, &self.config.common)))
            .collect();
        if !is_interval {
            return self.seat_new(seen, seats, &of_jobs, plan);
        }
        self.notes.check_readable(self.config.common.failures, seen, plan);
        for (job, _) in of_jobs.iter().filter(|(_, stand)| *stand == Stand::Busy) {
            self.learn(seen, job);
        }
        self.seat_all(seen, seats, &of_jobs, plan);
        self.call_again(seen, plan);
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

impl Dino {
    /// Forgets who ended, and what a job did in an earlier life.
    fn remember(&mut self, seen: &Snapshot<'_>) {
        if seen.turn.causes.contains(&Cause::Ended) {
            self.shown.forget_ended(seen);
            self.class_before.forget_ended(seen);
            self.moved.forget_ended(seen);
        }
        for job in seen.jobs.iter().filter(|job| job.state == JobState::Due) {
            *self.shown.of(job.job.id) = Shown::default();
            *self.class_before.of(job.job.id) = None;
            *self.moved.of(job.job.id) = None;
        }
    }

    /// A job whose misses were not counted in this interval keeps its class.
    fn learn(&mut self, seen: &Snapshot<'_>, job: &JobView<'_>) {
        if let Some(sample) = misses_of(seen, job) {
            let Config { limits, hysteresis, .. } = self.config;
            self.shown.of(job.job.id).learn(sample, limits, hysteresis);
        }
    }

    fn class(&self, job: &JobView<'_>) -> Class {
        self.shown.get(job.job.id).map_or(Class::Devil, Shown::class)
    }

    /// How many threads there are of each class, in the order of [`Class::ALL`].
    fn counts(&self, seats: &Seats, jobs: &[&JobView<'_>]) -> [usize; 3] {
        Class::ALL.map(|class| {
            let of_class = jobs.iter().filter(|job| self.class(job) == class);
            of_class.map(|job| seats.n_for(job)).sum()
        })
    }

    /// Once an interval: classes are laid out, who can stay stays, and the others fill up.
    fn seat_all(
        &mut self,
        seen: &Snapshot<'_>,
        mut seats: Seats,
        of_jobs: &[(&JobView<'_>, Stand)],
        plan: &mut Plan,
    ) {
        let ours = |stand: Stand| matches!(stand, Stand::New | Stand::Busy);
        let jobs: Vec<&JobView<'_>> =
            of_jobs.iter().filter(|(_, stand)| ours(*stand)).map(|(job, _)| *job).collect();
        let is_calm = |(job, stand): &(&JobView<'_>, Stand)| match stand {
            Stand::New => false,
            Stand::Busy => self.class(job) == Class::Turtle,
            Stand::Idle(_) | Stand::NotOurs => true,
        };
        let is_alone = jobs.iter().map(|job| seats.n_for(job)).sum::<usize>() < 2;
        let is_new = of_jobs.iter().any(|(_, stand)| *stand == Stand::New);
        if of_jobs.iter().all(is_calm) || is_alone && !is_new {
            return; // Turtles harm nobody wherever they are, and one alone has nobody to harm.
        }
        for (job, stand) in of_jobs {
            match stand {
                Stand::Idle(used) => let_go(job, *used, plan),
                Stand::NotOurs => seats.keep(job),
                Stand::New | Stand::Busy => {}
            }
        }
        let counts = self.counts(&seats, &jobs);
        let mut map = Map::new(&seats, counts);
        let mut seating = Seating::default();
        for job in &jobs {
            *seating.of(job.job.id) = self.kept(&mut map, &seats, job);
        }
        for own in jobs.iter().filter_map(|job| seating.get(job.job.id)) {
            own.iter().for_each(|cpu| seats.take(cpu));
        }
        self.fill(&mut seats, map, &jobs, &mut seating, |_| true);
        self.ask(seen, (&jobs, &seating, counts), plan);
        for job in &jobs {
            *self.class_before.of(job.job.id) = Some(self.class(job));
        }
    }

    /// The seats that a job keeps.
    fn kept(&self, map: &mut Map, seats: &Seats, job: &JobView<'_>) -> CpuSet {
        let class = self.class(job);
        let has_class = self.class_before.get(job.job.id).copied().flatten() == Some(class);
        let Some(placed) = job.placed.filter(|_| job.state == JobState::Running) else {
            return CpuSet::new();
        };
        let mine = placed.iter().filter(|&cpu| job.allowed.contains(cpu));
        let kept = mine.filter(|&cpu| match self.config.keep {
            Keep::Cache => map.keep_in_cache(seats, cpu, class),
            Keep::Core => has_class && map.keep_on_core(seats, cpu, class),
        });
        kept.take(seats.n_for(job)).collect()
    }

    /// Between two intervals: those that have no seat take one that the map has left for their class, or
    /// else go where the fewest threads are; all others keep theirs.
    fn seat_new(
        &mut self,
        seen: &Snapshot<'_>,
        mut seats: Seats,
        of_jobs: &[(&JobView<'_>, Stand)],
        plan: &mut Plan,
    ) {
        let is = |stand: Stand| move |one: &&(&JobView<'_>, Stand)| one.1 == stand;
        let jobs_that = |stand: Stand| of_jobs.iter().filter(is(stand)).map(|(job, _)| *job);
        let new: Vec<&JobView<'_>> = jobs_that(Stand::New).collect();
        if new.is_empty() {
            return;
        }
        jobs_that(Stand::NotOurs).for_each(|job| seats.keep(job));
        let busy: Vec<&JobView<'_>> = jobs_that(Stand::Busy).collect();
        let counts = self.counts(&seats, &[busy.as_slice(), new.as_slice()].concat());
        let mut map = Map::new(&seats, counts);
        for job in &busy {
            for cpu in job.placed.iter().flat_map(|placed| placed.iter()) {
                map.keep_in_cache(&seats, cpu, self.class(job));
            }
        }
        let still = of_jobs.iter().filter(|(_, s)| matches!(s, Stand::Busy | Stand::Idle(_)));
        still.for_each(|(job, _)| seats.keep(job));
        let taken = seats.clone();
        let mut seating = Seating::default();
        self.fill(&mut seats, map, &new, &mut seating, |cpu| taken.n_on(cpu) == 0);
        self.ask(seen, (&new, &seating, counts), plan);
    }

    /// Gives seats to all that lack some, in list order: of their class, else of any, else whichever CPU
    /// has the fewest threads.
    fn fill(
        &self,
        seats: &mut Seats,
        mut map: Map,
        jobs: &[&JobView<'_>],
        seating: &mut Seating,
        could: impl Fn(base::CpuId) -> bool,
    ) {
        for is_own_class in [true, false] {
            for job in jobs {
                let class = Some(self.class(job)).filter(|_| is_own_class);
                let own = seating.of(job.job.id);
                while own.len() < seats.n_for(job) {
                    let Some(cpu) = map.fill(class, (job.allowed, own), &could) else { break };
                    seats.take(cpu);
                    own.insert(cpu);
                }
            }
        }
        for job in jobs {
            let own = seating.of(job.job.id);
            while own.len() < seats.n_for(job) {
                let Some(cpu) = seats.seat(job.allowed, own) else { break };
                own.insert(cpu);
            }
        }
    }

    /// Asks for every seat that is another than before.
    fn ask(
        &mut self,
        seen: &Snapshot<'_>,
        (jobs, seating, counts): (&[&JobView<'_>], &Seating, [usize; 3]),
        plan: &mut Plan,
    ) {
        for job in jobs {
            let Some(cpus) = seating.get(job.job.id).filter(|cpus| !cpus.is_empty()) else {
                continue;
            };
            if job.placed == Some(cpus) {
                continue;
            }
            let shown = self.shown.of(job.job.id);
            let reason = Reason::new(ReasonCode::DealtByClass)
                .with("class", shown.class().name().to_owned())
                .with("basis", shown.basis(self.config.limits))
                .with("n_super_devils", counts[0].to_string())
                .with("n_devils", counts[1].to_string())
                .with("n_turtles", counts[2].to_string())
                .with("n_places", seen.domains.len() as u64);
            let reason = match shown.is_known() {
                true => reason.with("tier", seen.tiers.get(CounterEvent::LlcMisses).to_string()),
                false => reason,
            };
            let reason = with_seats(reason, seen, job, cpus);
            plan.request(job.job.id, Action::Place(cpus.clone()), reason);
            self.take_along(seen, job, cpus, plan);
        }
    }
}

#[cfg(test)]
mod tests;
