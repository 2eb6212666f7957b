//! The language that hosts and policies speak through the engine, and nothing but the language.
//!
//! ```text
//!   host: Turn, Sample (raw) ─► engine: rates ─► Snapshot ─► Policy ─► Plan ─► engine: guard
//!   host ◄── approved plan ; host ─► Outcome of each action
//! ```
//!
//! A policy never knows a host, a host never a policy; both know only what stands here.

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

pub use counters::{CounterDeltas, CounterEvent, Counters, EventKind};
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

/// Decides where things belong: a function from what was seen to a plan, with a memory of its own.
///
/// It reads no clock, no file and no source of chance that was not handed to it when it was built.
/// The same snapshots in the same order give the same plans.
pub trait Policy {
    /// Adds what it wants done to an empty plan. An empty plan is the commonest good plan.
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan);

    /// What it is called in `--policy` and in every record.
    fn name(&self) -> &str;

    /// How often it wants a turn when nothing else happens; `None`: only when something happens.
    fn interval(&self) -> Option<base::Nanos>;

    /// What brings those turns about: the interval alone, or a counter that overflowed in it.
    fn wake(&self) -> Wake {
        Wake::Poll
    }

    /// The level of placement domain whose loads it wants to see.
    fn domains(&self) -> topology::DomainChoice {
        topology::DomainChoice::Auto
    }

    /// What it wants those loads to stand on.
    fn load_source(&self) -> LoadSource {
        LoadSource::Best
    }
}

/// What loads of places are to stand on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadSource {
    /// The best that there is.
    #[default]
    Best,
    /// What is counted of a place (tier `bandwidth`). Where that cannot be read there are no loads:
    /// they show as unreadable.
    Places,
    /// What is known of the tasks in it: counted, or else declared.
    Tasks,
}
