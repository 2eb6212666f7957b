//! The types that hosts, the engine and policies exchange.
//!
//! ```text
//!   host: Turn, Sample (raw) ─► engine: rates ─► Snapshot ─► Policy ─► Plan ─► engine: guard
//!   host ◄── approved plan ; host ─► Outcome of each action
//! ```
//!
//! Hosts and policies do not depend on each other; both depend on this crate.

mod counters;
mod measured;
mod memory;
mod outcome;
mod per;
mod plan;
mod reason;
mod sample;
mod snapshot;
mod system_metrics;
mod tiers;
mod wake;

pub use counters::{CounterDeltas, CounterEvent, CounterReading, Counters, EventKind, EventSet};
pub use measured::{Measured, SignalTier};
pub use memory::{
    ActivePageMove, CompletedPageMove, FailedPages, JobMemory, NodeMemory, PageMoveEnd,
    ProcessMemory,
};
pub use outcome::{Outcome, OutcomeResult, RejectCause, Rejection};
pub use per::{PerJob, PerTask};
pub use plan::{Action, ActionKind, Plan, Request, Target};
pub use reason::{Reason, ReasonCode, ReasonValue};
pub use sample::{
    Cause, DetachCause, ExitStatus, JobEvent, JobExit, NodeSample, NumaSettings, Sample,
    TaskSample, Turn, UnmanagedCause,
};
pub use snapshot::{DomainLoads, JobState, JobView, NodeView, Snapshot, TaskView};
pub use system_metrics::{
    CpuTimes, LlcSample, LlcView, MonGroupSample, MonGroupView, Pressure, StallTimes, Traffic,
    TrafficDelta,
};
pub use tiers::{LoadPreference, TierOverride, TierOverrideError, Tiers};
pub use wake::Wake;

/// Decides where tasks run and where their memory is: from a snapshot to a plan, with state of its own.
///
/// It reads no clock, no file, and no random source other than the one it was built with.
/// The same snapshots in the same order give the same plans.
pub trait Policy {
    /// Adds requests and notes to an empty plan. An empty plan is the commonest good plan.
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan);

    /// The name in `--policy` and in every record.
    fn name(&self) -> &str;

    /// Every kind of reason that the policy gives. The header of a journal stores their templates.
    fn reasons(&self) -> Vec<ReasonCode> {
        Vec::new()
    }

    /// Time between two turns without any other cause; `None`: a turn needs another cause.
    fn interval(&self) -> Option<base::Nanos>;

    /// The cause of those turns: each interval, or only intervals in which a counter overflowed.
    fn wake(&self) -> Wake {
        Wake::Poll
    }

    /// The level of the placement domains whose loads the snapshot holds.
    fn domains(&self) -> topology::DomainChoice {
        topology::DomainChoice::Auto
    }

    /// The source of those loads.
    fn load_source(&self) -> LoadSource {
        LoadSource::Best
    }
}

/// Source of the loads of domains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadSource {
    /// The best available source.
    #[default]
    Best,
    /// Counters of the domain itself (tier `bandwidth`). Where these cannot be read, the loads are
    /// reported as unreadable.
    Places,
    /// Sums over the tasks of the domain: counted, else declared.
    Tasks,
}
