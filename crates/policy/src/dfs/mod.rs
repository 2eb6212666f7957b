//! DFS: keep the load of the memory controllers even.
//!
//! Two decisions, as published for the 64 tiles and four controllers of a TILEPro64:
//!
//! ```text
//!   a program starts    on the domain whose controllers had the least to do,
//!                       there on the CPU with the fewest programs
//!   four times a second when one domain carries far more than the mean, the program with the
//!                       highest class on it goes to the domain that carries least
//! ```
//!
//! A class says how hard a program uses memory (0 to 15, each twice the one before). The load of a
//! domain is what its controllers counted in the last interval or, where they cannot be read,
//! what stands in for it ([`sched::SignalTier`]).
//!
//! The published text leaves much open: the factor, what happens to programs that start together,
//! whether a program may be moved straight back. `reading=paper` does what is printed, and nothing
//! more; `reading=ours` mends what would go wrong. Each rule that differs has a key of its own,
//! which overrides what the reading implies.
//!
//! Units: loads are memory operations per interval (see the tier), times nanoseconds.
//! Memory moves with its program only where that is asked for (`memory=follow`), as do all the other
//! extensions that the text names and does not have (spec 1.10).

mod classes;
mod company;
mod config;
mod expected;
mod follow;
mod gain;
mod notes;
mod params;
mod poll;
mod shown;
mod start;
mod table;

use base::{JobId, Nanos};
use sched::{Cause, JobState, LoadSource, PerJob, Plan, Policy, Snapshot, Wake};
use topology::{DomainChoice, Level};

use crate::PolicyError;
use crate::common;
use crate::spec::Given;
use classes::Classes;
use company::Company;
use config::{Config, Loads, Placement};
use expected::Expected;
use follow::After;
use gain::PageTime;
use notes::Notes;
pub(crate) use params::INFO;
use shown::Shown;
use table::Table;

/// The policy and what it remembers.
#[derive(Debug)]
struct Dfs {
    config: Config,
    /// Interval turns so far.
    n_polls: u64,
    /// Polls in a row at which the counters could not be read.
    n_failures: u64,
    /// The poll at which a job was moved last.
    moved_at: PerJob<Option<u64>>,
    /// What loads will be that were measured at the last poll.
    expected: Expected,
    /// The domains that `expected` is about, by number, and how coarse they are.
    numbers: Vec<u32>,
    level: Option<Level>,
    shown: Shown,
    notes: Notes,
    /// Who is where, counted anew in every turn.
    table: Table,
    classes: Classes,
    /// Who suffers from whom, counted anew in every turn; with `placement=sens` only.
    company: Company,
    /// Jobs whose memory is to go after them.
    following: PerJob<Option<After>>,
    page_time: PageTime,
    /// When the last move of each job's memory ended that `page_time` knows of.
    told_at: PerJob<Option<Nanos>>,
}

pub(crate) fn build(given: &Given<'_>, _seed: u64) -> Result<Box<dyn Policy>, PolicyError> {
    Ok(Box::new(Dfs::new(Config::read(given)?)))
}

impl Dfs {
    fn new(config: Config) -> Self {
        Dfs {
            config,
            n_polls: 0,
            n_failures: 0,
            moved_at: PerJob::default(),
            expected: Expected::default(),
            numbers: Vec::new(),
            level: None,
            shown: Shown::default(),
            notes: Notes::default(),
            table: Table::default(),
            classes: Classes::new(&config),
            company: Company::default(),
            following: PerJob::default(),
            page_time: PageTime::default(),
            told_at: PerJob::default(),
        }
    }
}

impl Policy for Dfs {
    /// The poll comes first: programs that start in the same turn then see the new loads, and
    /// count those that have just been moved where they have gone.
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        self.notes.say(&self.config, seen, plan);
        if !common::can_place(seen) {
            return;
        }
        self.know_places(seen);
        self.expected.forget_missing(seen);
        if seen.turn.causes.contains(&Cause::Ended) {
            self.moved_at.forget_ended(seen);
            self.classes.forget_ended(seen);
            self.following.forget_ended(seen);
            self.told_at.forget_ended(seen);
        }
        if seen.turn.causes.contains(&Cause::Interval) {
            self.classes.learn(seen);
            self.learn_page_time(seen);
        }
        self.table.count(seen, &self.classes);
        if self.config.placement == Placement::Sens {
            self.company.count(seen, &self.classes);
        }
        if seen.turn.causes.contains(&Cause::Interval) {
            self.poll(seen, plan);
            // As long as there is no load at all a poll is for nothing.
            plan.quiescent = seen.loads.readable && seen.loads.loads.iter().all(|&load| load == 0);
        }
        let n_moves = plan.requests.len();
        for job in seen.jobs {
            let has_moved = plan.requests[..n_moves].iter().any(|a| a.target == job.job.id.into());
            if !has_moved && common::has_lost_its_place(job, seen.usable_cpus) {
                self.place_again(seen, job, plan);
            } else if job.state == JobState::Due {
                self.start(seen, job, plan);
            }
        }
        if seen.turn.causes.contains(&Cause::Interval) {
            self.move_memory(seen, plan);
        }
    }

    fn name(&self) -> &str {
        INFO.name
    }

    fn interval(&self) -> Option<Nanos> {
        Some(self.config.interval)
    }

    fn wake(&self) -> Wake {
        self.config.wake
    }

    fn domains(&self) -> DomainChoice {
        self.config.domains
    }

    fn load_source(&self) -> LoadSource {
        match self.config.loads {
            Loads::Auto => LoadSource::Best,
            Loads::Controller | Loads::Both => LoadSource::Places,
            Loads::PerCore => LoadSource::Tasks,
        }
    }
}

impl Dfs {
    /// When the domains are others than before, nothing is expected of any of them. At another level
    /// a number names another place, and what places have shown is no measure for these.
    fn know_places(&mut self, seen: &Snapshot<'_>) {
        let numbers = || seen.domains.iter().map(|(_, domain)| domain.number);
        let level = Some(seen.domains.level());
        if self.level != level {
            self.shown = Shown::default();
        }
        if self.level != level || !self.numbers.iter().copied().eq(numbers()) {
            self.level = level;
            self.numbers = numbers().collect();
            self.expected.reset(self.numbers.len());
        }
    }

    /// Whether a job was moved so lately that it rests.
    fn rests(&self, job: JobId) -> bool {
        let moved_at = self.moved_at.get(job).copied().flatten();
        moved_at.is_some_and(|poll| self.n_polls - poll < self.config.cooldown)
    }
}

#[cfg(test)]
mod tests;
