//! From samples to an approved plan: rates, snapshot, policy, guard. No I/O, no clock.
//!
//! ```text
//!   Host::wait ─► Turn ─► Host::sample ─► Sample ─► Engine::step ─► Approved ─► Host::apply ─► Outcomes
//!                                            ▲                                            │
//!                                            └───────────── Engine::settle ◄──────────────┘
//! ```
//!
//! Live, simulated and replayed runs go through the same [`Engine`]; only the [`Host`] differs.

mod derive;
mod engine;
mod guard;
mod jobs;
mod moves;
mod run;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use derive::{deltas_between, deltas_since_opened, deltas_since_start};
pub use engine::{Engine, Step};
pub use moves::MoveLimits;
pub use run::{Finish, LoadBasisChanges, RunError, run};

use base::{JobId, Nanos};
use sched::{
    Action, DomainLoads, Outcome, Plan, Rejection, Request, Sample, SignalTier, Tiers, Turn,
};
use topology::Level;

/// A machine that can be watched and changed.
pub trait Host {
    /// What can go wrong with it as a whole.
    type Error;

    /// Waits for the next turn; `None` when everything is over.
    fn wait(&mut self) -> Result<Option<Turn>, Self::Error>;

    /// What changed. A turn without [`sched::Cause::Interval`] samples only what its causes name.
    fn sample(&mut self, turn: &Turn) -> Result<Sample, Self::Error>;

    /// Carries a plan out, and starts every job that the last sample called due (bound as the plan
    /// says, before its program begins). One outcome for each action and for each start.
    fn apply(&mut self, plan: &Approved) -> Vec<Outcome>;

    /// Ends everything that runs, as after a signal; the turns that follow tell how it ended.
    fn stop(&mut self);
}

/// Takes part in every turn after the fact: a journal, a progress view, a report.
pub trait Sink {
    /// Told of a turn when everything about it is known. An error ends the run.
    fn record(&mut self, record: &TurnRecord<'_>) -> std::io::Result<()>;
}

/// Everything that was seen, wanted, refused and done in one turn.
#[derive(Clone, Copy, Debug)]
pub struct TurnRecord<'a> {
    /// When and why.
    pub turn: &'a Turn,
    /// What changed.
    pub sample: &'a Sample,
    /// The load of each domain, in turns where an interval went by.
    pub loads: Option<&'a LoadSample>,
    /// What loads will stand on: in the first turn, and where that is new in a turn without any.
    pub load_basis: Option<LoadBasis>,
    /// What the figures of tasks and loads stand on, in turns where that is new.
    pub signals: Option<Tiers>,
    /// What the policy wanted, with reasons; the refused wishes too. Its notes are those not said
    /// before in this run.
    pub plan: &'a Plan,
    /// What the guard did not let through.
    pub rejected: &'a [Rejection],
    /// What became of the rest, and of the jobs that were due.
    pub outcomes: &'a [Outcome],
}

/// For what places there are loads, and what they stand on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadBasis {
    /// How coarse the places are.
    pub level: Level,
    /// What tells of memory traffic.
    pub tier: SignalTier,
}

/// The loads of one interval with the names of the places they belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadSample {
    /// How coarse the places are.
    pub level: Level,
    /// Their numbers.
    pub numbers: Vec<u32>,
    /// Their loads, in the same order.
    pub loads: DomainLoads,
    /// CPU time that our jobs used in each, in the same order.
    pub cpu_time: Vec<Nanos>,
}

impl LoadSample {
    /// What they stand on.
    pub fn load_basis(&self) -> LoadBasis {
        LoadBasis { level: self.level, tier: self.loads.tier }
    }
}

impl TurnRecord<'_> {
    /// What loads stand on, in turns that tell it.
    pub fn current_load_basis(&self) -> Option<LoadBasis> {
        self.loads.map(LoadSample::load_basis).or(self.load_basis)
    }
}

/// A plan that the guard let through. Only [`Engine::step`] makes one.
#[derive(Clone, Debug)]
pub struct Approved {
    requests: Vec<Request>,
    quiescent: bool,
}

impl Approved {
    /// The approved wishes, in the order of asking.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Whether turns may be left out until something changes ([`Plan::rests`]).
    pub fn is_quiescent(&self) -> bool {
        self.quiescent
    }

    /// What a due job is to be started with.
    pub fn for_job(&self, job: JobId) -> impl Iterator<Item = &Action> {
        let about = move |ask: &&Request| ask.target == sched::Target::Job(job);
        self.requests.iter().filter(about).map(|ask| &ask.action)
    }
}
