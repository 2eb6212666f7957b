//! DFS: balances the load of the memory controllers.
//!
//! The policy makes two decisions, as published for the 64 tiles and the four memory controllers of a TILEPro64:
//!
//! ```text
//!   a job starts         on the domain with the lowest load of its controllers,
//!                        on the CPU of that domain with the fewest jobs
//!   four times a second  if the load of a domain is far above the mean, the job with the highest class
//!                        on it migrates to the domain with the lowest load
//! ```
//!
//! A class is a coarse grade of a job's memory traffic, from 0 to 15; each class has about twice the traffic of the
//! previous class. The load of a domain is the count of its controllers in the last interval. If the controllers cannot
//! be read, another signal tier provides the loads ([`sched::SignalTier`]).
//!
//! The published text does not define the factor, the placement of jobs that start together, or whether a job may
//! migrate back immediately. `reading=paper` applies only the printed rules; `reading=corrected` adds rules. Each added
//! rule has a parameter. A parameter in the text of the policy overrides the reading.
//!
//! Units: loads are memory operations per interval (the signal tier defines the operation), times are nanoseconds. The
//! extensions that the published text names as future work are off by default; pages follow a job only with
//! `memory=follow`.

mod classes;
mod cost;
mod declaration;
mod loads;
mod migration;
mod page_following;
mod start;

use base::{JobId, Nanos};
use sched::{
    Cause, JobState, JobView, LoadSource, PerJob, Plan, Reason, SignalTier, Snapshot, Wake,
};
use topology::Level;

use crate::notes::{LOADS_UNKNOWN, LOADS_UNKNOWN_LOWEST, MachineNotes};
use crate::{Rules, placement};
use classes::Classes;
use cost::{CorunCosts, PageTime};
pub(crate) use declaration::INFO;
use declaration::{
    Config, LOADS_ARE_MISSES, LOADS_DECLARED, Loads, MEMORY_CANNOT_FOLLOW, NO_CLASS, PageFollowing,
    PlacementCriterion, Start,
};
use loads::{ClassLoads, ExpectedLoads, JobDistribution};
use page_following::FollowTarget;

/// State of the policy.
#[derive(Debug)]
struct Dfs {
    config: Config,
    /// Number of polls so far, including polls that the host skipped.
    n_polls: u64,
    /// Number of polls in a row with unreadable counters.
    n_failures: u64,
    /// Number of the poll in which each job migrated last.
    moved_at: PerJob<Option<u64>>,
    /// Changes of the loads since the last poll.
    expected: ExpectedLoads,
    /// Numbers of the domains of `expected`, and the level of these domains.
    numbers: Vec<u32>,
    level: Option<Level>,
    class_loads: ClassLoads,
    notes: Notes,
    /// Number of jobs per domain and CPU, counted in every turn.
    counts: JobDistribution,
    classes: Classes,
    /// Predicted slowdowns per domain, computed in every turn; only with `placement=sens`.
    corun_costs: CorunCosts,
    /// Target node of the pages of each job that migrated, with `memory=follow`.
    following: PerJob<Option<FollowTarget>>,
    page_time: PageTime,
    /// End of the last page migration of each job that `page_time` includes.
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
            counts: JobDistribution::default(),
            classes: Classes::new(&config),
            corun_costs: CorunCosts::default(),
            following: PerJob::default(),
            page_time: PageTime::default(),
            measured_move_at: PerJob::default(),
        }
    }
}

impl Rules for Dfs {
    /// Migrates jobs before it starts jobs, so that starts in the same turn use the new loads and the new domains of
    /// migrated jobs.
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        self.notes.add(&self.config, snapshot, plan);
        if !placement::can_place(snapshot) {
            return;
        }
        self.update_domains(snapshot);
        self.expected.remove_missing(snapshot);
        if snapshot.turn.causes.contains(&Cause::Ended) {
            self.moved_at.forget_ended(snapshot);
            self.classes.remove_ended(snapshot);
            self.following.forget_ended(snapshot);
            self.measured_move_at.forget_ended(snapshot);
        }
        if snapshot.turn.causes.contains(&Cause::Interval) {
            self.classes.update(snapshot);
            self.measure_page_time(snapshot);
        }
        self.counts.count(snapshot, &self.classes);
        if self.config.placement == PlacementCriterion::Sens {
            self.corun_costs.count(snapshot, &self.classes);
        }
        if snapshot.turn.causes.contains(&Cause::Interval) {
            self.poll(snapshot, plan);
            // A poll changes nothing if all loads are 0.
            plan.quiescent =
                snapshot.loads.readable && snapshot.loads.loads.iter().all(|&load| load == 0);
        }
        let n_moves = plan.requests.len();
        for job in snapshot.jobs {
            let has_moved =
                plan.requests[..n_moves].iter().any(|request| request.target == job.job.id.into());
            if !has_moved && placement::has_lost_cpus(job, snapshot.usable_cpus) {
                self.place_after_cpu_loss(snapshot, job, plan);
            } else if job.state == JobState::Due {
                self.start(snapshot, job, plan);
            }
        }
        if snapshot.turn.causes.contains(&Cause::Interval) {
            self.move_memory(snapshot, plan);
        }
    }

    fn wake(&self) -> Wake {
        self.config.wake
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
    /// Discards expected loads if the domains changed. At another level a number identifies another domain, so the
    /// measured loads of classes are discarded too.
    fn update_domains(&mut self, snapshot: &Snapshot<'_>) {
        let numbers = || snapshot.domains.iter().map(|(_, domain)| domain.number);
        let level = Some(snapshot.domains.level());
        if self.level != level {
            self.class_loads = ClassLoads::default();
        }
        if self.level != level || !self.numbers.iter().copied().eq(numbers()) {
            self.level = level;
            self.numbers = numbers().collect();
            self.expected.reset(self.numbers.len());
        }
    }

    /// Returns whether a job migrated within the cool-down.
    fn is_cooling_down(&self, job: JobId) -> bool {
        let moved_at = self.moved_at.get(job).copied().flatten();
        moved_at.is_some_and(|poll| self.n_polls - poll < self.config.cooldown)
    }
}

/// Notes about the sources of loads and classes. A note about the machine or the signal tier is added when the
/// condition changes; the note about jobs without a class is added once per run.
#[derive(Debug, Default)]
struct Notes {
    machine: MachineNotes,
    tier: Option<SignalTier>,
    no_class: bool,
}

impl Notes {
    pub fn add(&mut self, config: &Config, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        let level = snapshot.domains.level();
        let cannot_follow = config.memory == PageFollowing::Follow && level != Level::Node;
        if self.machine.add(snapshot, plan) && placement::can_place(snapshot) && cannot_follow {
            plan.note(Reason::new(MEMORY_CANNOT_FOLLOW).with("level", level.to_string()));
        }
        // Before the first poll, and after a change of the domain level, the tier is the tier that the next interval is
        // expected to have. Before a job runs, no counter has a value.
        let has_tier = snapshot.turn.causes.contains(&Cause::Interval)
            && (snapshot.loads.tier == SignalTier::Bandwidth
                || snapshot.jobs.iter().any(|job| job.state == JobState::Running));
        if has_tier && self.tier != Some(snapshot.loads.tier) {
            self.tier = Some(snapshot.loads.tier);
            add_tier(config, snapshot.loads.tier, plan);
        }
        self.add_no_class(snapshot, plan);
    }

    /// Adds the note once per run, in the first turn with a due job without a class.
    fn add_no_class(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        let without = |job: &&JobView<'_>| job.state == JobState::Due && job.job.class.is_none();
        if self.no_class || !snapshot.jobs.iter().any(|job| without(&job)) {
            return;
        }
        self.no_class = true;
        let names = snapshot.jobs.iter().filter(without).map(|job| job.job.name.as_str());
        plan.note(Reason::new(NO_CLASS).with("jobs", placement::some_names(names)));
    }
}

fn add_tier(config: &Config, tier: SignalTier, plan: &mut Plan) {
    match tier {
        SignalTier::Bandwidth => {}
        SignalTier::Counters => plan.note(Reason::new(LOADS_ARE_MISSES)),
        SignalTier::None => plan.note(Reason::new(match config.start {
            Start::Estimate => LOADS_UNKNOWN,
            Start::Plain => LOADS_UNKNOWN_LOWEST,
        })),
        SignalTier::Declared => plan.note(Reason::new(LOADS_DECLARED)),
    }
}
