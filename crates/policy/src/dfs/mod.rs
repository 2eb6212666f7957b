//! DFS: balances the load of the memory controllers.
//!
//! Two decisions, as published for the 64 tiles and four controllers of a TILEPro64:
//!
//! ```text
//!   a job starts         on the domain with the lowest load of its controllers,
//!                        there on the CPU with the fewest jobs
//!   four times a second  if one domain carries far more than the mean, the job with the highest class
//!                        on it migrates to the domain with the lowest load
//! ```
//!
//! A class is a coarse grade of a job's memory traffic (0 to 15, each twice the one before). The load of a domain
//! is what its controllers counted in the last interval; where they cannot be read, a substitute
//! ([`sched::SignalTier`]).
//!
//! The published text leaves much open: the factor, jobs that start together, whether a job may migrate straight
//! back. `reading=paper` does what is printed and no more; `reading=ours` corrects it. Each rule that differs is a
//! parameter of its own, which overrides the reading.
//!
//! Units: loads are memory operations per interval (the tier gives the kind), times nanoseconds. The extensions
//! that the published text names as future work are off by default; pages follow a job only with `memory=follow`.

mod class_loads;
mod classes;
mod corun_costs;
mod cost;
mod declaration;
mod expected_loads;
mod job_counts;
mod migration;
mod notes;
mod page_following;
mod start;

use base::{JobId, Nanos};
use sched::{Cause, JobState, LoadSource, PerJob, Plan, Policy, ReasonCode, Snapshot, Wake};
use topology::{DomainChoice, Level};

use crate::placement;
use class_loads::ClassLoads;
use classes::Classes;
use corun_costs::CorunCosts;
use cost::PageTime;
pub(crate) use declaration::INFO;
use declaration::{Config, Loads, Placement};
use expected_loads::ExpectedLoads;
use job_counts::JobCounts;
use notes::Notes;
use page_following::FollowTarget;

/// State of the policy.
#[derive(Debug)]
struct Dfs {
    config: Config,
    /// Interval turns so far.
    n_polls: u64,
    /// Polls in a row with unreadable counters.
    n_failures: u64,
    /// The poll at which a job migrated last.
    moved_at: PerJob<Option<u64>>,
    /// Changes of the loads since the last poll.
    expected: ExpectedLoads,
    /// The domains of `expected`, by number, and their level.
    numbers: Vec<u32>,
    level: Option<Level>,
    class_loads: ClassLoads,
    notes: Notes,
    /// Counted in every turn.
    counts: JobCounts,
    classes: Classes,
    /// Counted in every turn, with `placement=sens` only.
    corun_costs: CorunCosts,
    /// Jobs whose pages follow them.
    following: PerJob<Option<FollowTarget>>,
    page_time: PageTime,
    /// End of each job's last page migration in `page_time`.
    measured_move_at: PerJob<Option<Nanos>>,
}

impl Dfs {
    fn new(config: Config) -> Self {
        Dfs {
            config,
            n_polls: 0,
            n_failures: 0,
            moved_at: PerJob::default(),
            expected: ExpectedLoads::default(),
            numbers: Vec::new(),
            level: None,
            class_loads: ClassLoads::default(),
            notes: Notes::default(),
            counts: JobCounts::default(),
            classes: Classes::new(&config),
            corun_costs: CorunCosts::default(),
            following: PerJob::default(),
            page_time: PageTime::default(),
            measured_move_at: PerJob::default(),
        }
    }
}

impl Policy for Dfs {
    /// The poll comes first: jobs that start in the same turn then use the new loads, and count migrated jobs on
    /// their new domains.
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        self.notes.add(&self.config, seen, plan);
        if !placement::can_place(seen) {
            return;
        }
        self.update_domains(seen);
        self.expected.remove_missing(seen);
        if seen.turn.causes.contains(&Cause::Ended) {
            self.moved_at.forget_ended(seen);
            self.classes.forget_ended(seen);
            self.following.forget_ended(seen);
            self.measured_move_at.forget_ended(seen);
        }
        if seen.turn.causes.contains(&Cause::Interval) {
            self.classes.update(seen);
            self.measure_page_time(seen);
        }
        self.counts.count(seen, &self.classes);
        if self.config.placement == Placement::Sens {
            self.corun_costs.count(seen, &self.classes);
        }
        if seen.turn.causes.contains(&Cause::Interval) {
            self.poll(seen, plan);
            // Without any load a poll changes nothing.
            plan.quiescent = seen.loads.readable && seen.loads.loads.iter().all(|&load| load == 0);
        }
        let n_moves = plan.requests.len();
        for job in seen.jobs {
            let has_moved =
                plan.requests[..n_moves].iter().any(|request| request.target == job.job.id.into());
            if !has_moved && placement::has_lost_cpus(job, seen.usable_cpus) {
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

    fn reasons(&self) -> Vec<ReasonCode> {
        INFO.reasons.concat()
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
            Loads::Controller | Loads::Both => LoadSource::Domains,
            Loads::PerCore => LoadSource::Tasks,
        }
    }
}

impl Dfs {
    /// Discards expected loads if the domains changed. At another level a number names another domain, so the
    /// measured loads of classes are discarded too.
    fn update_domains(&mut self, seen: &Snapshot<'_>) {
        let numbers = || seen.domains.iter().map(|(_, domain)| domain.number);
        let level = Some(seen.domains.level());
        if self.level != level {
            self.class_loads = ClassLoads::default();
        }
        if self.level != level || !self.numbers.iter().copied().eq(numbers()) {
            self.level = level;
            self.numbers = numbers().collect();
            self.expected.reset(self.numbers.len());
        }
    }

    /// Whether a job migrated within the cool-down.
    fn is_cooling_down(&self, job: JobId) -> bool {
        let moved_at = self.moved_at.get(job).copied().flatten();
        moved_at.is_some_and(|poll| self.n_polls - poll < self.config.cooldown)
    }
}
