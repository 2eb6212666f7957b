//! The engine computes an approved plan from samples: rates, snapshot, policy, guard. It does no I/O and reads no
//! clock.
//!
//! ```text
//!   Host::wait ─► Turn ─► Host::sample ─► Sample ─► Engine::step ─► Approved ─► Host::apply ─► Outcomes
//!                                            ▲                                            │
//!                                            └──────── Engine::record_outcomes ◄──────────┘
//! ```
//!
//! Live, simulated and replayed runs use the same [`Engine`] and differ only in the [`Host`].

mod derive;
mod engine;
mod guard;
mod jobs;
mod page_migrations;
mod run;
mod task_affinities;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use derive::{deltas_between, deltas_since_opened, deltas_since_start};
pub use engine::{Engine, Step};
pub use page_migrations::PageMigrationLimits;
pub use run::{LoadBasisChanges, RunError, RunSummary, run};

use base::{JobId, Nanos};
use sched::{
    Action, DomainLoads, Outcome, Plan, Rejection, Request, Sample, SignalTier, TaskView, Tiers,
    Turn,
};
use topology::Level;

/// A machine that can be observed and changed: live, simulated or recorded.
pub trait Host {
    /// An error that ends the run.
    type Error;

    /// Waits for the next turn. Returns `None` at the end of the run.
    fn wait(&mut self) -> Result<Option<Turn>, Self::Error>;

    /// Samples changes. A turn without [`sched::Cause::Interval`] samples only the changes that belong to the causes
    /// of the turn.
    fn sample(&mut self, turn: &Turn) -> Result<Sample, Self::Error>;

    /// Applies a plan and starts every job that the last sample reported as due. The affinity and the memory policy
    /// of a due job are set before its program executes. Returns one outcome per action and per start.
    fn apply(&mut self, plan: &Approved) -> Vec<Outcome>;

    /// Terminates all jobs, for example after a signal. Later turns report the exits of the jobs.
    fn stop(&mut self);
}

/// A consumer of turn records: a journal, a progress view, a report.
pub trait Sink {
    /// Records a turn after its outcomes are available. An error ends the run.
    fn record(&mut self, record: &TurnRecord<'_>) -> std::io::Result<()>;
}

/// Input, decision and outcomes of one turn.
#[derive(Clone, Copy, Debug)]
pub struct TurnRecord<'a> {
    /// Time and causes of the turn.
    pub turn: &'a Turn,
    /// The sample of the host.
    pub sample: &'a Sample,
    /// Tasks with their deltas of the last interval, as in the snapshot of the policy. Empty in a turn that was read
    /// from a journal and not replayed.
    pub tasks: &'a [TaskView],
    /// Load of each domain, in interval turns. CPU time of each domain without loads, in the turn in which the last
    /// running job ended.
    pub loads: Option<&'a LoadSample>,
    /// Level and tier of the loads, in the first turn and in turns in which one of them changed but no loads were
    /// computed.
    pub load_basis: Option<LoadBasis>,
    /// Tiers of the values of tasks and loads, in turns in which at least one tier changed.
    pub signals: Option<Tiers>,
    /// All requests of the policy, including rejected requests. Notes of earlier turns are not repeated.
    pub plan: &'a Plan,
    /// Requests that the guard rejected.
    pub rejected: &'a [Rejection],
    /// Outcomes of the approved requests and of the starts of due jobs.
    pub outcomes: &'a [Outcome],
}

/// Level and source of loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadBasis {
    /// Level of the domains.
    pub level: Level,
    /// Source of the loads of these domains.
    pub tier: SignalTier,
}

/// Loads of one interval with the numbers of their domains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadSample {
    /// Level of the domains.
    pub level: Level,
    /// Number of each domain, such as the id of the node.
    pub numbers: Vec<u32>,
    /// Loads, in the order of `numbers`.
    pub loads: DomainLoads,
    /// CPU time of managed jobs in each domain since the last turn with loads, in the order of `numbers`: at most this
    /// time multiplied by the number of CPUs.
    pub cpu_time: Vec<Nanos>,
    /// CPU time of managed jobs that is not attributed to a domain and an interval.
    pub unattributed: Nanos,
    /// Length of the interval of `loads` if it is shorter than the time since the last turn with loads, because turns
    /// were skipped.
    pub interval: Option<Nanos>,
}

impl LoadSample {
    /// Returns level and source of the loads.
    pub fn load_basis(&self) -> LoadBasis {
        LoadBasis { level: self.level, tier: self.loads.tier }
    }
}

impl TurnRecord<'_> {
    /// Returns level and source of the loads in a turn that records them.
    pub fn current_load_basis(&self) -> Option<LoadBasis> {
        self.loads.map(LoadSample::load_basis).or(self.load_basis)
    }
}

/// Approved requests of a plan. Only [`Engine::step`] creates this type.
#[derive(Clone, Debug)]
pub struct Approved {
    requests: Vec<Request>,
    quiescent: bool,
}

impl Approved {
    /// Returns the approved requests in the order of the plan.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Returns whether the host may skip interval turns until jobs or CPUs change ([`Plan::quiescent`]).
    pub fn is_quiescent(&self) -> bool {
        self.quiescent
    }

    /// Returns the actions for a due job, which are applied before the job starts.
    pub fn for_job(&self, job: JobId) -> impl Iterator<Item = &Action> {
        let targets_job = move |request: &&Request| request.target == sched::Target::Job(job);
        self.requests.iter().filter(targets_job).map(|request| &request.action)
    }
}
