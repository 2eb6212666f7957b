//! N-MASS: programs run where their memory is, unless too many that hunger for cache meet there.
//!
//! On a machine with several memories a program wants two things that may contradict each other: to be
//! near its memory, and not to share a cache with others that need it. Memory stays where it is here,
//! so only the programs can give way:
//!
//! ```text
//!   1  sort      by penalty for being away from home, the highest first
//!   2  map       each to its home if a core is free there, else to the least loaded other
//!                processor: the policy maximum-local ends here
//!   3  refine    while one processor's programs miss far more than another's: the one that suffers
//!                least from being away leaves, if its penalty is no more than 1 + k × difference
//!
//!      processor 0   a 20  b 18  c 15        processor 1   d 1
//!      pressure      53                      1              MPKI, difference 52
//!                          └── b, whose penalty is least, goes ──►
//! ```
//!
//! The home of a program is the node that holds most of its memory; before that is known, the node
//! that it started on. The penalty is its CPI away from home over its CPI at home, as counted, and
//! until both were seen what its sensitivity declares, or 1. A program whose pages are spread evenly has
//! no home to leave: its penalty is 1, and home is where it is.
//!
//! What is placed are jobs, whatever the source calls process: the placement of a job holds for all that
//! it starts later too. One of n threads needs n places and presses n times. Jobs that are not ours to
//! place, and those too wide for one place, stay where they are, take up room there ([`crate::places`])
//! and press there too.
//!
//! Units: pressure in thousandths of a miss per 1000 instructions, penalties in thousandths.
//! Never moved: memory.

mod config;
mod map;
mod params;
mod shown;
mod tell;

use base::Nanos;
use sched::{Action, Cause, JobState, Plan, Policy, Reason, ReasonCode, Snapshot};
use topology::DomainChoice;

use crate::PolicyError;
use crate::common;
use crate::ground::Ground;
use crate::intensity::notes::Readable;
use crate::places::{Company, Guest, seat};
use crate::spec::Given;
use config::Config;
use map::Process;
pub(crate) use params::{INFO, MAXIMUM_LOCAL};
use shown::Shown;
use tell::Tell;

/// The policy and what it remembers.
#[derive(Debug)]
struct NMass {
    config: Config,
    name: &'static str,
    shown: Shown,
    ground: Ground,
    readable: Readable,
    has_said_unknown: bool,
}

pub(crate) fn build(given: &Given<'_>, _seed: u64) -> Result<Box<dyn Policy>, PolicyError> {
    Ok(Box::new(NMass::new(Config::read(given)?, INFO.name)))
}

/// The same without its third step.
pub(crate) fn build_maximum_local(
    given: &Given<'_>,
    _seed: u64,
) -> Result<Box<dyn Policy>, PolicyError> {
    Ok(Box::new(NMass::new(Config::read_maximum_local(given)?, MAXIMUM_LOCAL.name)))
}

impl NMass {
    fn new(config: Config, name: &'static str) -> Self {
        let (shown, ground) = (Shown::new(&config), Ground::default());
        NMass {
            config,
            name,
            shown,
            ground,
            readable: Readable::default(),
            has_said_unknown: false,
        }
    }
}

impl Policy for NMass {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        self.ground.say(seen, plan);
        let is_interval = seen.turn.causes.contains(&Cause::Interval);
        if is_interval {
            self.shown.learn(seen);
        }
        self.shown.begin(seen);
        if common::can_place(seen) {
            if let Some(refine) = self.config.refine.filter(|_| is_interval) {
                self.readable.check(refine.failures, seen, plan);
            }
            self.place(seen, plan);
        }
        self.shown.end(seen, plan, is_interval);
        // A program that did nothing shows nothing new.
        plan.quiescent = is_interval && seen.jobs.iter().all(|job| job.cpu_time == Nanos::ZERO);
    }

    fn name(&self) -> &str {
        self.name
    }

    fn interval(&self) -> Option<Nanos> {
        Some(self.config.interval)
    }

    fn domains(&self) -> DomainChoice {
        self.config.domains
    }
}

impl NMass {
    fn place(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        let company = Company::of(seen);
        let processes: Vec<Process<'_>> =
            company.guests.iter().map(|guest| self.process(seen, guest)).collect();
        self.say_unknown(seen, &processes, plan);
        let pressure = self.fixed_pressure(seen, &company);
        let spots = map::map(&self.config, seen, &company, &processes, pressure);
        let rooms: Vec<usize> = spots.iter().map(|spot| spot.to).collect();
        let cpus = seat(seen, &company, &rooms);
        let tell = Tell { config: &self.config, seen, processes: &processes };
        for (at, (spot, cpus)) in spots.iter().zip(cpus).enumerate() {
            let guest = &processes[at].guest;
            if !guest.keeps(&cpus) {
                plan.request(
                    guest.job.job.id,
                    Action::Place(cpus.clone()),
                    tell.reason(at, spot, &cpus),
                );
            }
        }
    }

    /// What those press who stay where they are, on each CPU of theirs.
    fn fixed_pressure(&self, seen: &Snapshot<'_>, company: &Company<'_>) -> Vec<u64> {
        let mut pressure = vec![0u64; seen.domains.len()];
        for job in &company.fixed {
            let Some(mpki) = self.shown.mpki(seen, job) else { continue };
            let cpus = job.placed.into_iter().flat_map(|cpus| cpus.iter());
            for idx in cpus.filter_map(|cpu| seen.domains.of_cpu(cpu)) {
                pressure[idx] = pressure[idx].saturating_add(mpki);
            }
        }
        pressure
    }

    fn process<'s>(&self, seen: &Snapshot<'_>, guest: &Guest<'s>) -> Process<'s> {
        let home = self.shown.home(seen, guest.job);
        Process {
            guest: *guest,
            penalty: self.shown.penalty(guest.job, &home),
            mpki: self.shown.mpki(seen, guest.job),
            home,
        }
    }

    /// Once, when something ran and nobody's misses are known.
    fn say_unknown(&mut self, seen: &Snapshot<'_>, all: &[Process<'_>], plan: &mut Plan) {
        let has_run = |process: &&Process<'_>| {
            process.guest.job.state == JobState::Running
                && process.guest.job.cpu_time != Nanos::ZERO
        };
        let is_known = all.iter().any(|process| process.mpki.is_some());
        let could = self.config.refine.is_some() && seen.interval != Nanos::ZERO;
        if could && !self.has_said_unknown && !is_known && all.iter().any(|p| has_run(&p)) {
            self.has_said_unknown = true;
            plan.note(Reason::new(ReasonCode::PressureUnknown));
        }
    }
}

#[cfg(test)]
mod tests;
